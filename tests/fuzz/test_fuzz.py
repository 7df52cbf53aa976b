"""A few hundred examples of each kind, the same at every run, and all that has been found before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from .arena import Arena
from .corpus import CORPUS
from .kinds import KINDS

#: Examples of each kind.
EXAMPLES = {"command": 90, "file": 60, "messages": 60, "query": 80, "value": 80}
FOUND = [(kind, example) for kind, examples in CORPUS.items() for example in examples]


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return Arena(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_comes_in_breaks_anything(arena: Arena, kind: str) -> None:
    """No traceback, no partial write, and the next call works: see kinds.py."""

    @settings(
        derandomize=True, max_examples=EXAMPLES[kind], deadline=None, database=None, print_blob=False,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(KINDS[kind].examples)
    def check(example: Any) -> None:
        KINDS[kind].check(arena, example)

    check()


@pytest.mark.parametrize(("kind", "example"), FOUND, ids=[f"{kind} {n}" for n, (kind, _) in enumerate(FOUND)])
def test_what_was_found_is_mended(arena: Arena, kind: str, example: Any) -> None:
    KINDS[kind].check(arena, example)
