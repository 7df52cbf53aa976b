"""Some examples of each kind, the same at every run, and all that has been found before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .arena import Arenas
from .corpus import CORPUS
from .guarded import KINDS

#: Examples of each kind.
EXAMPLES = {"command": 40, "file": 20, "messages": 20, "query": 25, "value": 25, "sealed": 10}
#: Of each of the others.
OTHERS = 6
FOUND = [(kind, example) for kind, examples in CORPUS.items() for example in examples]


@pytest.fixture(scope="module")
def arenas(tmp_path_factory: pytest.TempPathFactory) -> Arenas:
    return Arenas(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_comes_in_breaks_anything(arenas: Arenas, kind: str) -> None:
    """No traceback, no partial write, and the next call works: see kinds.py."""

    @settings(
        derandomize=True, max_examples=EXAMPLES.get(kind, OTHERS), deadline=None, database=None, print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # the smallest form may take minutes: python -m tests.fuzz looks for it
    )  # fmt: skip
    @given(KINDS[kind].examples)
    def check(example: Any) -> None:
        KINDS[kind].check(arenas[KINDS[kind].world], example)

    check()


@pytest.mark.parametrize(("kind", "example"), FOUND, ids=[f"{kind} {n}" for n, (kind, _) in enumerate(FOUND)])
def test_what_was_found_is_mended(arenas: Arenas, kind: str, example: Any) -> None:
    KINDS[kind].check(arenas[KINDS[kind].world], example)
