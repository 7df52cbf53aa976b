"""C017: what forgets takes what is named and nothing else; a mix of selectors, or one that is misspelt, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, NotFound
from hybridmem.cli import main

OpenMemory = Callable[..., Memory]
OTHER = ("acme", "李四")


@pytest.fixture
def two(memory: OpenMemory) -> tuple[Memory, Memory]:
    """Two users of one store, each with thirty memories; the same ids and contents but for one of the second."""
    made = memory(namespace=("acme", "张三")), memory(namespace=OTHER)
    for m in made:
        m.add_many(
            {
                "content": ("发票 {0}", "invoice {0}", "会议 meeting {0}")[n % 3].format(n),
                "parent": "root",
                "id": f"id{n}",
            }
            for n in range(30)
        )
        m.add("分支 branch", parent="root", id="top")
        m.add("下面 below", parent="top", id="below")
        m.add("末 last", parent="root")
    made[1].add("别人的 theirs", parent="root", id="theirs")
    made[1].add("末 last again", parent="root")
    return made


def everything(*memories: Memory) -> list[tuple[str, str, int]]:
    return [(node.id, node.state, node.version) for m in memories for node in m.walk()]


MIXES: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception]]] = {
    "an id and a policy": (("id1",), {"policy": {"policy": "newest", "max_nodes": 0}}, InvalidInput),
    "an id and a branch": (("id1",), {"within": "top"}, InvalidInput),
    "an id and a limit": (("id1",), {"limit": 3}, InvalidInput),
    "a policy and subtree": ((), {"policy": {"policy": "newest", "max_nodes": 0}, "subtree": True}, InvalidInput),
    "a policy with a branch and another branch": (
        (), {"policy": {"policy": "newest", "max_nodes": 0, "within": "top"}, "within": "id1"}, InvalidInput,
    ),
    "nothing at all": ((), {}, InvalidInput),
    "an id that is empty": (("",), {}, NotFound),
    "an id of another user": (("theirs",), {}, NotFound),
    "a branch of another user": ((), {"policy": {"policy": "newest", "max_nodes": 0}, "within": "theirs"}, NotFound),
    "an id and a user": (("id1",), {"user": "张三"}, TypeError),
    "an id and a namespace": (("id1",), {"namespace": OTHER}, TypeError),
    "a query and an id": (("id1",), {"query": "发票 invoice"}, TypeError),
    "a misspelt id": ((), {"ids": ["id1"]}, TypeError),
    "several ids": ((["id1", "id2"],), {}, InvalidInput),
    "a misspelt parameter of a policy": ((), {"policy": {"policy": "newest", "max_node": 0}}, InvalidInput),
    "a word for yes": (("top",), {"subtree": "yes"}, InvalidInput),
    "a branch without saying so": (("top",), {}, InvalidInput),
}  # fmt: skip


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("dry", [False, True], ids=["", "dry run"])
def test_a_mix_is_refused_and_nothing_goes(two: tuple[Memory, Memory], mix: str, dry: bool) -> None:
    given, named, error = MIXES[mix]
    before = everything(*two)
    call: Any = two[0].forget
    with pytest.raises(error):
        call(*given, **named, dry_run=dry)
    assert everything(*two) == before


def test_the_narrowest_is_what_goes_and_the_reply_lists_it(two: tuple[Memory, Memory]) -> None:
    mine, theirs = two
    before, other = everything(mine), everything(theirs)
    replies = [
        mine.forget("id1").ids,
        mine.forget("top", subtree=True).ids,
        mine.forget(policy={"policy": "newest", "max_nodes": 27, "within": mine.root().id}).ids,
    ]
    assert replies == [("id1",), ("top", "below"), ("id0", "id2", "id3")]
    changed = {id for id, state, _ in everything(mine) if (id, state) not in {one[:2] for one in before}}
    assert changed == {id for ids in replies for id in ids}
    assert everything(theirs) == other


def test_a_purge_takes_only_what_is_forgotten_here(two: tuple[Memory, Memory], refused: Any) -> None:
    """It has no selector by which it could take anything else, and none is passed over."""
    mine, theirs = two
    mine.forget("id1")
    theirs.forget("id1")
    theirs.forget("id2")
    call: Any = mine.purge_forgotten
    for wrong in ({"id": "id1"}, {"namespace": OTHER}, {"older": 0}, {"within": "top"}):
        with pytest.raises(TypeError):
            call(**wrong)
    for wrong_age in ("id1", True, [0]):
        with refused(mine, InvalidInput, "older_than"):
            call(wrong_age)
    assert mine.purge_forgotten(0).ids == ("id1",)
    assert [node.id for node in mine.walk() if node.is_purged] == ["id1"]
    assert not any(node.is_purged for node in theirs.walk())
    assert theirs.restore_forgotten("id1").ids == ("id1",)


@pytest.mark.parametrize(
    "arguments",
    [
        ("forget", "id1", "id2"), ("forget", "id1", "--user", "张三"), ("forget", "--id", "id1"),
        ("forget", "id1", "--query", "发票"), ("purge-forgotten", "id1"), ("purge-forgotten", "--id", "id1"),
        ("forget", "theirs"), ("forget", "id1", "--policy", "newest", "--set", "max_nodes=0"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_the_commands_refuse_it_too(two: tuple[Memory, Memory], arguments: tuple[str, ...], capsys: Any) -> None:
    before = everything(*two)
    where = ("--store", str(two[0].path), "--namespace", "acme/张三", "--set", "embedding.provider=hashing")
    assert main([*arguments, *where, "--json"]) in (2, 4)
    capsys.readouterr()
    assert everything(*two) == before
