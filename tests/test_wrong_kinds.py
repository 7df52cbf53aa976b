"""Whatever kind of thing an argument is given: a result, or an error of ours that leaves every row as it was.

The methods and their parameters come from the public surface itself, so that new ones are tried too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from surface import NOT_CALLS

from hybridmem import HybridMemError, Memory

OpenMemory = Callable[..., Memory]
Rows = Callable[[Memory], Any]

#: Not tried: those that call what they are given, or embed anew.
NO_ARGUMENTS = {"progress"}
METHODS = sorted(name for name in dir(Memory) if not name.startswith("_") and name not in NOT_CALLS | {"reembed"})
#: Things of a wrong kind for most arguments, or beyond what they may be.
WRONG: dict[str, Callable[[], Any]] = {
    "object": object,
    "function": lambda: len,
    "bytes": lambda: b"fact",
    "mapping": lambda: {"fact": 1},
    "list": lambda: ["fact", 1],
    "nested": lambda: [[["fact"]]],
    "generator": lambda: (one for one in ("fact",)),
    "complex": lambda: 1j,
    "nothing": lambda: float("nan"),
    "infinity": lambda: math.inf,
    "huge": lambda: 10**400,
    "endless": lambda: 10**5_000,  # Python refuses to write it out
    "below": lambda: -1,
    "half": lambda: "\ud83d",
    "empty": lambda: "",
}


@pytest.fixture
def m(memory: OpenMemory) -> Memory:
    m = memory(audit={"flush_seconds": 0.0}, store={"durability": "process"})
    m.start_task("报销 claim", next_step="提交 submit")
    for id in ("fact", "event", "twin"):
        m.add(f"内容 content {id}", type="event", id=id)
    m.checkpoint("标签 label")  # vectors wait: what is refused has not computed them
    return m


def good(name: str, folder: Path) -> Any:
    """What a parameter without a default is given while another is tried."""
    known: dict[str, Any] = {
        "content": "新的 new", "query": "内容 content", "title": "任务 task", "messages": ["请记住 remember"],
        "items": [{"content": "一 one"}], "file": folder / "out.jsonl", "others": ["twin"], "ids": ["fact"],
        "principal": "user:acme/li-si", "parent": "root", "name": "team", "members": ["user:acme/li-si"],
        "grant_id": "none", "new": b"\x01" * 32,
    }  # fmt: skip
    return known.get(name, "fact")


def parameters(method: str) -> Iterator[str]:
    for one in list(inspect.signature(getattr(Memory, method)).parameters)[1:]:
        if one not in NO_ARGUMENTS:
            yield one


@pytest.mark.parametrize("method", METHODS)
def test_a_wrong_kind_of_thing_is_refused_by_an_error_of_ours(
    m: Memory, rows: Rows, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a name of a file that is taken leads to
    required = {
        name: good(name, tmp_path)
        for name, one in inspect.signature(getattr(Memory, method)).parameters.items()
        if one.default is inspect.Parameter.empty and name != "self"
    }
    for parameter in parameters(method):
        for name, make in WRONG.items():
            before = rows(m)
            try:
                found = getattr(m, method)(**{**required, parameter: make()})
                if inspect.isgenerator(found):
                    list(found)
            except HybridMemError as error:
                said = str(error)
                assert said.strip(), (parameter, name)
                assert len(said) < 5_000, (parameter, name)
                assert rows(m) == before, (parameter, name, said)
            except Exception as error:  # says which, since there are many
                raise AssertionError(f"{method}({parameter}={name}): {error!r}") from error
    again = m.add("继续 carry on", parent="root")
    assert m.get(again.id) == again
    assert m.verify().ok
