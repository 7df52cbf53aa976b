"""For tests of anything: at the end, is the store what it should be?"""

from __future__ import annotations

from hybridmem import Memory, verify


def assert_verified(memory: Memory, *, replay: bool = False) -> None:
    """Everything that can be recomputed about a memory, and about the whole store that it is in, agrees.

    :param replay: also with what the log says.
    """
    for report in (memory.verify(replay=replay), verify(memory.path)):
        assert report.ok, [one.message for one in report.findings]
