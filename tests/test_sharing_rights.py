"""Which right opens which verb on what another shares, and what none opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sharers import GUEST, OWNER, Three

from hybridmem import AccessDenied, InvalidInput, Memory, NotFound, Principal, verify
from hybridmem.embed.hashing import HashingEmbedder


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(tmp_path / "store")
    yield made
    for one in (made.owner, made.guest, made.other):
        one.close()


Verb = Callable[[Memory, Three], Any]
WRITE: dict[str, Verb] = {
    "history": lambda m, t: m.history(t.fact.id),
    "add": lambda m, t: m.add("新的 new", parent=t.fact.id),
    "add node": lambda m, t: m.add("新的 new", parent=t.fact),
    "add_many": lambda m, t: m.add_many(iter([{"content": "一", "parent": t.top.id}, {"content": "二", "parent": 0}])),
    "observe": lambda m, t: m.observe(iter([{"role": "user", "content": "请记住我偏好红色"}]), parent=t.top.id),
    "update": lambda m, t: m.update(t.fact.id, content="改了 changed"),
    "supersede": lambda m, t: m.supersede(t.fact.id, "现在 now"),
    "feedback": lambda m, t: m.feedback(t.fact.id, confirmed_by=t.leaf.id, note="对"),
    "pin": lambda m, t: m.pin(t.leaf.id),
}
ADMIN: dict[str, Verb] = {
    "move": lambda m, t: m.move(t.leaf.id, t.top.id),
    "forget": lambda m, t: m.forget(t.leaf.id),
    "restore_forgotten": lambda m, t: m.restore_forgotten(t.leaf.id),
    "archive": lambda m, t: m.archive(t.leaf.id),
    "unarchive": lambda m, t: m.unarchive(t.top.id),
    "share": lambda m, t: m.share(t.fact.id, "user:acme/王五"),
}
#: What no right of a guest opens.
NEVER: dict[str, Verb] = {
    "start_task": lambda m, t: m.start_task("x", parent=t.top.id),
    "finish_task": lambda m, t: m.finish_task(t.top.id),
    "claim_task": lambda m, t: m.claim_task(t.top.id),
    "consolidate": lambda m, t: m.consolidate(t.top.id),
    "near_duplicates": lambda m, t: m.near_duplicates(t.top.id),
    "merge_duplicates": lambda m, t: m.merge_duplicates(t.fact.id, [t.leaf.id]),
    "policy": lambda m, t: m.forget(policy="least_weight", within=t.top.id),
    "as_of": lambda m, t: m.get(t.fact.id, as_of=t.clock.at),
    "beside": lambda m, t: m.update(t.beside.id, content="x"),
    "above": lambda m, t: m.update(t.above.id, content="x"),
    "reason": lambda m, t: m.feedback(t.fact.id, confirmed_by=t.beside.id),
    "out": lambda m, t: m.move(t.leaf.id, t.above.id),
    "bring": lambda m, t: m.move(m.add("own", parent="root").id, t.top.id),
}


@pytest.mark.parametrize("rights", ["read", "write", "admin"])
@pytest.mark.parametrize("name", [*WRITE, *ADMIN])
def test_each_verb_needs_its_right(three: Three, rights: str, name: str) -> None:
    """What is refused changes nothing; what is done is in the owner's log, under a name that says who did it."""
    three.owner.share(three.top.id, "user:acme/li-si", rights)
    before = three.owner.operations()
    allowed = rights == "admin" or (rights == "write" and name in WRITE)
    call = (WRITE | ADMIN)[name]
    if not allowed:
        with pytest.raises(AccessDenied, match=f"for {rights}.* needs (write|admin).*acme/张三"):
            call(three.guest, three)
        assert three.owner.operations() == before
        return
    call(three.guest, three)
    written = three.owner.operations()[len(before) :]
    assert {one.agent for one in written} <= {"agent:acme/li-si:bot"}
    assert bool(written) == (name not in ("history", "restore_forgotten"))
    assert three.owner.verify(replay=True).ok
    assert three.guest.verify(replay=True).ok
    assert len(three.guest.operations()) == 1


@pytest.mark.parametrize("name", NEVER)
def test_what_no_right_opens(three: Three, name: str) -> None:
    three.owner.share(three.top.id, "user:acme/li-si", "admin")
    before = [node.to_dict() for node in three.owner.walk()]
    with pytest.raises((NotFound, InvalidInput)) as refused:
        NEVER[name](three.guest, three)
    assert "secret" not in str(refused.value)
    assert [node.to_dict() for node in three.owner.walk()] == before


def test_the_top_itself_is_moved_and_superseded_by_its_owner_alone(three: Three) -> None:
    three.owner.share(three.top.id, "user:acme/li-si", "admin")
    for call in (
        lambda: three.guest.supersede(three.top.id, "x"),
        lambda: three.guest.move(three.top.id, three.fact.id),
    ):
        with pytest.raises(AccessDenied, match="top of what is shared"):
            call()


def test_what_supersedes_the_top_is_shared_in_its_place(three: Three) -> None:
    """The children go there as well; what was said before stays with the owner."""
    three.owner.share(three.top.id, "user:acme/li-si", "read")
    three.owner.share(three.top.id, "user:acme/王五", "write")
    new = three.owner.supersede(three.top.id, "报销项目改名了 the project has another name")
    for other in (three.guest, three.other):
        assert [one.root.id for one in other.shared()] == [new.id]
        assert other.get(three.leaf.id).content == three.leaf.content
        assert other.search("报销项目改名了", 1)[0].id == new.id
        with pytest.raises(NotFound):
            other.get(three.top.id)
    assert {one.node_id for one in three.owner.grants()} == {new.id}


def test_what_is_erased_is_shared_no_more(three: Three) -> None:
    """Not as an empty memory either; what hung below it and stays is not shared by moving up."""
    three.owner.share(three.fact.id, "user:acme/li-si", "admin")
    three.owner.share(three.leaf.id, "user:acme/王五", "read")
    three.owner.move(three.leaf.id, three.top.id)
    three.owner.erase(three.fact.id)
    assert three.guest.shared() == []
    assert [one.node_id for one in three.owner.grants()] == [three.leaf.id]
    assert three.other.get(three.leaf.id).content == three.leaf.content
    assert three.owner.verify(replay=True).ok


def test_what_was_there_before_is_not_shared_by_being_found_again(three: Three) -> None:
    """Its own children are none of what was shared."""
    other = three.owner.add("已经有了 there already", type="fact", parent=three.above)
    secret = three.owner.add("不共享 not shared", parent=other)
    top = three.owner.add("旧的说法 the old words", type="fact", parent=three.above)
    three.owner.share(top.id, "user:acme/li-si", "write")
    found = three.owner.supersede(top.id, "已经有了 there already")
    assert found.id == other.id
    assert not found.created
    for id in (other.id, secret.id):
        with pytest.raises(NotFound):
            three.guest.get(id)


def test_an_id_cannot_be_chosen_in_anothers_namespace(three: Three) -> None:
    """Whether it is taken would tell what is there."""
    three.owner.share(three.top.id, "user:acme/li-si", "write")
    for id in (three.beside.id, "free"):
        with pytest.raises(InvalidInput, match="cannot be chosen"):
            three.guest.add("x", parent=three.top.id, id=id)


def test_a_guest_at_work_does_not_hold_what_the_owner_wants_to_forget(three: Three) -> None:
    three.owner.share(three.top.id, "user:acme/li-si", "write")
    three.guest.add("新的 new", parent=three.leaf.id)
    three.owner.add("elsewhere 别处", parent="root")
    three.owner.forget(three.top.id, subtree=True)
    with pytest.raises(InvalidInput, match="forgotten"):
        three.guest.add("x", parent=three.top.id)


def test_the_audit_trails_of_both_tell_of_what_a_guest_reads_and_writes(three: Three) -> None:
    """One entry for a call in the guest's own trail, saying how it ended by whichever way; and one in the owner's,
    under a name that says who it was, if it read or wrote there, or was refused. What it asked is not told there."""
    three.owner.share(three.top.id, "user:acme/li-si", "write")
    three.guest.get(three.fact.id)
    list(three.guest.walk(three.top.id))
    three.guest.update(three.fact.id, content="改了 changed")
    with pytest.raises(AccessDenied):
        three.guest.forget(three.fact.id)
    own = [(one.verb, one.node_id, one.outcome) for one in three.guest.audit()][1:]
    assert own == [
        ("get", three.fact.id, "ok"), ("walk", three.top.id, "ok"), ("update", three.fact.id, "ok"),
        ("forget", three.fact.id, "AccessDenied"),
    ]  # fmt: skip
    found = three.guest.search("改了 changed", 5)
    assert three.guest.search("nobody knows 没人", scope=three.fact.id).hits
    three.guest.context("改了 changed", token_budget=500)
    three.guest.flush()
    theirs = [one for one in three.owner.audit() if one.agent != "bot"]
    assert {one.agent for one in theirs} == {"agent:acme/li-si:bot"}
    assert [(one.verb, one.node_id, one.outcome) for one in theirs] == [
        ("update", three.fact.id, "ok"),  # at once; the others when the guest's own entries are written
        ("get", three.fact.id, "ok"), ("walk", three.top.id, "ok"), ("forget", three.fact.id, "AccessDenied"),
        ("search", None, "ok"), ("search", None, "ok"), ("context", None, "ok"),
    ]  # fmt: skip
    assert theirs[4].detail == {"hits": sum(hit.node.owner is not None for hit in found)}
    assert three.owner.verify().ok
    assert three.guest.verify().ok


def test_an_owner_that_a_guests_reading_tells_of_may_be_gone_meanwhile(three: Three) -> None:
    """What waits for its trail keeps nothing else from being written; the trail of what was erased stays whole."""
    three.owner.share(three.top.id, "user:acme/li-si", "read")
    three.guest.get(three.fact.id)
    three.owner.erase_namespace(everything=True)
    three.guest.add("后来 later", parent="root")
    assert [one.verb for one in three.guest.audit()][1:] == ["get", "add"]
    assert verify(three.store, replay=True).ok


def test_without_reads_in_the_trail_a_guest_tells_of_none(three: Three) -> None:
    three.owner.share(three.top.id, "user:acme/li-si", "read")
    with three.open(GUEST, audit={"reads": False}) as guest:
        guest.get(three.fact.id)
        guest.search("发票", 3)
    assert {one.agent for one in three.owner.audit()} == {"bot"}


def test_what_is_shared_is_found_in_an_encrypted_store_too(tmp_path: Path) -> None:
    """Where the vectors of each namespace are turned by a secret of its own, the question is turned for each owner."""
    settings = {"index": {"background": False}, "encryption": {"enabled": True}}
    embedder = HashingEmbedder()

    def opened(names: tuple[str, ...]) -> Memory:
        return Memory.open(tmp_path / "s", namespace=names, config=settings, embedder=embedder, master_key=b"k" * 32)

    with opened(OWNER) as owner, opened(GUEST) as guest:
        top = owner.add("报销项目 claims project", parent="root")
        fact = owner.add("发票被财务退回 the invoice was returned", type="fact", parent=top)
        owner.flush()
        owner.share(top.id, Principal.user(GUEST), "write")
        (mine,) = owner.search("财务 invoice", 1)
        (found,) = guest.search("财务 invoice", 1)
        assert found.id == mine.id == fact.id
        assert found.path == ("报销项目 claims project",)
        assert found.score_details.cosine == pytest.approx(mine.score_details.cosine, abs=1e-6)
        added = guest.add("客人写的 by a guest", parent=top.id)
        assert owner.get(added.id).content == "客人写的 by a guest"
