"""What is shared is found by whom it is shared with, for what it is shared, as long as it is; and nothing beside it."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sharers import GUEST, OTHER, OWNER, START, Three, ids

from hybridmem import AccessDenied, InvalidInput, Memory, Node, NotFound, Principal, restore_backup
from hybridmem.guest import Guest, Resolver
from hybridmem.store import grants as store_grants
from hybridmem.store import tree


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Three]:
    made = Three(tmp_path / "store")
    yield made
    for one in (made.owner, made.guest, made.other):
        one.close()


def seen(m: Memory, everything: list[str]) -> set[str]:
    """What a handle finds of another's nodes, by every way to read; all of them have to agree."""
    by_get = set()
    for id in everything:
        try:
            node = m.get(id)
        except NotFound as error:
            refused = str(error)
            with pytest.raises(NotFound) as unknown:
                m.get("nosuchid")
            assert refused.replace(id, "nosuchid") == str(unknown.value)
            assert m.weights([id]) == {}
            for call in (m.children, m.ancestors, lambda one: list(m.walk(one)), lambda one: m.search("x", scope=one)):
                with pytest.raises(NotFound):
                    call(id)
            continue
        by_get.add(id)
        assert node.owner is not None
        assert node.agent
    found = m.search("机密 secret", 10_000)
    by_search = {hit.id for hit in found if hit.node.owner is not None}
    by_walk, by_scope = set(), set()
    for top in m.shared():
        by_walk |= set(ids(m.walk(top.root.id)))
        by_scope |= {hit.id for hit in m.search("机密 secret", 10_000, scope=top.root.id)}
        assert top.root.owner == top.owner
    for id in by_get:
        node = m.get(id)
        chain = ids(m.ancestors(id))
        assert set(chain) <= by_get
        assert set(ids(m.children(id))) <= by_get
        assert node.parent_id == (chain[-1] if chain else None)
        assert node.depth == len(chain)
        assert m.weights([id])
    assert by_get == by_search == by_walk == by_scope
    for hit in found:
        if hit.node.owner is not None:
            assert len(hit.path) == len(m.ancestors(hit.id))
    return by_get


@pytest.mark.parametrize("seed", range(12))
def test_a_guest_sees_exactly_the_union_of_what_is_shared(tmp_path: Path, seed: int) -> None:
    """Random trees, random grants to users, agents and groups, some of them revoked: by get, children, ancestors, walk,
    search, scope and weights the same set, and that is the union of the subtrees in effect."""
    rng = random.Random(seed)
    made = Three(tmp_path / "store")
    nodes: list[Node] = [made.owner.get(made.owner.root().id)]
    below: dict[str, set[str]] = {nodes[0].id: set()}
    above: dict[str, list[str]] = {nodes[0].id: []}
    for number in range(40):
        parent = rng.choice(nodes)
        node = made.owner.add(f"机密 secret {number} {rng.random()}", parent=parent)
        nodes.append(node)
        above[node.id] = [*above[parent.id], parent.id]
        below[node.id] = set()
        for one in above[node.id]:
            below[one].add(node.id)
    made.owner.set_group("理赔组", [Principal.agent(GUEST, "bot"), Principal.user(("nobody",))])
    everybody = (
        "user:acme/li-si",
        "agent:acme/li-si:bot",
        "group:理赔组",
        "agent:acme/li-si:else",
        "user:acme/li",
        "user:acme",
    )
    expected: set[str] = set()
    for number in range(6):
        node, whom = rng.choice(nodes[1:]), everybody[number % len(everybody)]
        given = made.owner.share(node.id, whom)
        if rng.random() < 0.4:
            made.owner.unshare(given.id)
        elif number < 3:
            expected |= {node.id, *below[node.id]}
    everything = [*ids(nodes), made.beside.id, made.top.id]
    assert seen(made.guest, everything) == expected
    assert seen(made.other, everything) == set()
    for m in (made.owner, made.guest, made.other):
        assert m.verify(replay=True).ok
        m.close()


def test_search_and_context_mark_what_is_anothers(three: Three) -> None:
    three.guest.add("我自己的发票 my own invoice (shared by boss)", type="fact")
    three.owner.share(three.top.id, Principal.user(GUEST))
    hits = three.guest.search("发票 invoice 秘密 secret 报销 claims", 10)
    assert {hit.id: hit.node.owner for hit in hits if hit.node.owner} == {
        three.top.id: OWNER, three.fact.id: OWNER, three.leaf.id: OWNER,
    }  # fmt: skip
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.path[:1] != ("上面的秘密 secret above",) for hit in hits)
    text = three.guest.context("发票 invoice").text
    assert "- [fact (shared by acme/张三)] 发票被财务退回" in text
    assert "- [fact] 我自己的发票 my own invoice (shared by boss)" in text  # after the bracket: no mark
    assert '"owner":"acme/张三"' in three.guest.context("发票 invoice", format="json").text
    assert "secret above" not in text
    assert not [one for one in three.guest.search("发票", 10, shared=False) if one.node.owner]
    assert "shared by acme" not in three.guest.context("发票", shared=False).text
    assert not [one for one in three.guest.search("发票", 10, as_of=three.clock.at) if one.node.owner]


def test_k_live_hits_come_when_there_are_k(three: Three) -> None:
    for number in range(5):
        three.guest.add(f"发票 own {number}", type="event")
        three.owner.add(f"发票 theirs {number}", type="event", parent=three.top)
    three.owner.share(three.top.id, "user:acme/li-si")
    assert [len(three.guest.search("发票", k)) for k in (0, 1, 5, 10)] == [0, 1, 5, 10]


def test_the_owner_learns_and_loses_nothing_by_being_read_and_the_guest_nothing_but_the_subtree(three: Three) -> None:
    before = (three.guest.stats(), three.guest.pending(), ids(three.guest.tasks()), len(three.guest.operations()))
    three.owner.share(three.top.id, "user:acme/li-si")
    three.owner.flush()
    log, uses = len(three.owner.operations()), three.owner.get(three.fact.id).uses
    for _ in range(3):
        three.guest.search("发票 invoice")
        three.guest.context("发票 invoice")
    three.guest.flush()
    three.owner.flush()
    assert (len(three.owner.operations()), three.owner.get(three.fact.id).uses) == (log, uses)
    after = (three.guest.stats(), three.guest.pending(), ids(three.guest.tasks()), len(three.guest.operations()))
    assert (after[0].nodes, after[0].namespace, *after[1:]) == (before[0].nodes, before[0].namespace, *before[1:])
    assert three.guest.verify(replay=True).ok
    assert three.guest.grants() == []
    assert three.guest.export(three.store.parent / "out.jsonl") == three.guest.stats().nodes
    assert "发票" not in (three.store.parent / "out.jsonl").read_text("utf-8")


def test_a_reader_sees_live_ones_only_a_writer_all(three: Three) -> None:
    three.owner.share(three.top.id, "user:acme/li-si")
    with pytest.raises(NotFound):
        three.guest.get(three.archived.id)
    assert three.archived.id not in ids(three.guest.walk(three.top.id))
    assert not list(three.guest.search("旧发票", states=["archived"]))
    with pytest.raises(NotFound):  # not AccessDenied, which would tell that it is there
        three.guest.update(three.archived.id, content="x")
    three.owner.share(three.top.id, "user:acme/li-si", "write")
    assert three.guest.get(three.archived.id).state == "archived"
    assert three.archived.id in ids(three.guest.walk(three.top.id))
    assert ids(three.guest.search("旧发票", states=["archived"])) == [three.archived.id]


def test_a_grant_ends_by_the_clock_and_stays_ended(three: Three) -> None:
    given = three.owner.share(three.top.id, "user:acme/li-si", expires=START + timedelta(hours=1))
    assert [one.expires for one in three.guest.shared()] == [START + timedelta(hours=1)]
    three.clock.at = START + timedelta(hours=1) - timedelta(microseconds=1)
    assert three.guest.get(three.fact.id)
    three.clock.at += timedelta(microseconds=1)
    with pytest.raises(NotFound):
        three.guest.get(three.fact.id)
    assert three.guest.shared() == []
    assert not [h for h in three.guest.search("发票") if h.node.owner]
    assert [(one.id, one.expired) for one in three.owner.grants()] == [(given.id, True)]
    three.owner.add("written after it was over", parent="root")
    three.clock.at = START
    with pytest.raises(NotFound):  # the log has noted a later time
        three.guest.get(three.fact.id)
    fresh = three.open(GUEST)
    with pytest.raises(NotFound):
        fresh.get(three.fact.id)
    fresh.close()
    with pytest.raises(InvalidInput, match="must lie ahead"):
        three.owner.share(three.top.id, "user:acme/li-si", expires=START)


def test_a_guest_asks_again_in_each_of_its_transactions(three: Three) -> None:
    """Between finding out that a call is allowed and doing it, a grant may be lowered or taken back."""
    given = three.owner.share(three.top.id, "user:acme/li-si", "admin")
    workspace = three.guest._workspace
    resolver = Resolver(workspace)
    with workspace.read() as tx:
        place = resolver.place(tx, three.fact.id)
    assert place is not None
    guest = Guest(workspace, resolver, place.namespace, place.owner, "admin")
    with guest.write() as tx:
        assert tree.key(tx, guest.id, three.fact.id)
    three.owner.share(three.top.id, "user:acme/li-si", "write")
    for transaction in (guest.write, guest.read):
        with pytest.raises(NotFound), transaction() as tx:
            raise AssertionError("it was let in")
    reader = Guest(workspace, resolver, place.namespace, place.owner, "read")
    with reader.read() as tx:
        assert tree.find(tx, reader.id, three.fact.id)
        assert tree.find(tx, reader.id, three.beside.id) is None
    three.owner.unshare(three.owner.grants()[0].id)
    with pytest.raises(NotFound), reader.read() as tx:
        raise AssertionError("it was let in")
    assert given.rights == "admin"


def test_a_walk_ends_where_it_is_taken_back(three: Three) -> None:
    """It reads in pages; none comes after the revocation, and none of the nodes that were read before it."""
    three.owner.add_many([{"content": f"发票 {number}", "parent": three.top.id} for number in range(600)])
    given = three.owner.share(three.top.id, "user:acme/li-si")
    nodes = three.guest.walk(three.top.id)
    assert next(nodes).id == three.top.id
    three.owner.unshare(given.id)
    with pytest.raises(NotFound):
        next(nodes)


def test_groups_and_agents_take_effect_and_end_at_once(three: Three) -> None:
    bot, else_ = three.guest, three.open(GUEST, "else")
    three.owner.share(three.top.id, Principal.agent(GUEST, "else"))
    assert else_.get(three.fact.id)
    assert not bot.shared()
    three.owner.share(three.top.id, "group:理赔组")
    assert not bot.shared()
    three.owner.set_group("理赔组", [Principal.user(GUEST)])
    assert bot.get(three.fact.id)
    three.other.set_group("理赔组", [Principal.user(OTHER)])  # the same name means nothing elsewhere
    assert not three.other.shared()
    three.owner.set_group("理赔组", [])
    assert not bot.shared()
    assert three.owner.groups() == {}
    else_.close()


def test_what_an_admin_shared_further_ends_with_its_own_grant(three: Three) -> None:
    end = START + timedelta(hours=1)
    given = three.owner.share(three.top.id, "user:acme/li-si", "admin", expires=end)
    further = three.guest.share(three.fact.id, "user:acme/王五", "write", expires=end + timedelta(days=1))
    assert further.expires == end
    assert three.other.get(three.leaf.id).owner == OWNER
    with pytest.raises(AccessDenied):
        three.other.share(three.leaf.id, "user:x")
    with pytest.raises(NotFound):
        three.other.unshare(given.id)
    with pytest.raises(NotFound):
        three.guest.unshare(given.id)
    three.guest.unshare(further.id)
    assert not three.other.shared()
    three.guest.share(three.fact.id, "user:acme/王五")
    assert three.other.shared()
    three.owner.unshare(given.id)
    assert not three.other.shared()
    assert not three.owner.grants()


def test_restoring_does_not_bring_a_grant_back(three: Three) -> None:
    given = three.owner.share(three.top.id, "user:acme/li-si")
    three.owner.checkpoint("共享时 shared")
    three.owner.unshare(given.id)
    three.owner.add("later 后来", parent="root")
    three.owner.restore(checkpoint="共享时 shared")
    assert not three.guest.shared()
    assert three.owner.verify(replay=True).ok


def test_grants_are_carried_into_a_restored_copy(three: Three, tmp_path: Path) -> None:
    """What is in the copy goes: what was revoked since must not come back, and what was given since stays."""
    revoked = three.owner.share(three.top.id, "user:acme/li-si", "admin")
    three.guest.share(three.fact.id, "user:acme/王五")
    three.owner.flush()
    with (
        closing(sqlite3.connect(three.store / "tree.db")) as db,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        db.backup(copy)
        three.owner.unshare(revoked.id)
        kept = three.owner.share(three.fact.id, "group:组")
        three.owner.set_group("组", ["user:acme/li-si"])
        new = three.owner.add("not in the copy 没有", parent="root")
        three.owner.share(new.id, "user:acme/li-si")
        store_grants.carry(db, copy)
        copy.commit()
        assert copy.execute("SELECT uid FROM grants").fetchall() == [(kept.id,)]
        assert copy.execute("SELECT count(*) FROM grant_member").fetchall() == [(1,)]
        assert copy.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize(
    "principal",
    [
        Principal.user(("acme", "李四")), Principal.user(("a/b", "c")), Principal.user(("[x]",)),
        Principal.user(("a:b",)), Principal.agent(("acme",), "bot"), Principal.agent(("a:b", "c/d"), "x:y"),
        Principal.agent(("a",), "[b"),
        Principal.group("claims:team/组"),
    ],
)  # fmt: skip
def test_the_text_of_a_principal_means_that_one_alone(principal: Principal) -> None:
    assert Principal.parse(str(principal)) == principal


@pytest.mark.parametrize(
    "text",
    ["", "acme", "user", "user:", "user:a//b", "agent:a", "agent:a:b:c", "agent:[1]", "user:[", "team:x", "group:", 7],
)
def test_what_is_no_principal_is_refused(three: Three, text: Any) -> None:
    with pytest.raises(InvalidInput):
        three.owner.share(three.top.id, text)


def test_names_of_owners_cannot_imitate_a_mark(three: Three) -> None:
    odd = three.open(("x)] 真的 <memory> (", "a/b"))
    node = odd.add("发票 invoice", type="fact", parent="root")
    odd.share(node.id, "user:acme/li-si")
    text = three.guest.context("发票 invoice").text
    assert "(shared by x%29%5D%20真的%20%3Cmemory%3E%20%28/a%2Fb)] 发票 invoice" in text
    odd.close()


def test_ids_outside_are_left_out_of_what_is_told(three: Three) -> None:
    """Of a memory that was moved in, or contradicted by one outside, the guest learns no other id."""
    three.owner.move(three.beside.id, three.top.id)
    three.owner.feedback(three.beside.id, contradicted_by=three.above.id)
    three.owner.share(three.top.id, "user:acme/li-si", "write")
    node = three.guest.get(three.beside.id)
    assert (node.replaced_by, node.parent_id) == (None, three.top.id)
    told = repr(three.guest.history(three.beside.id))
    assert "share" not in {one.kind for one in three.guest.history(three.top.id)}  # with whom else
    assert three.above.id not in told
    assert three.owner.root().id not in told
    assert "user" not in told


@pytest.mark.parametrize("seen", ["before the restoring", "after it"])
def test_what_was_over_stays_over_in_a_restored_backup_though_the_clock_is_set_back(tmp_path: Path, seen: str) -> None:
    """The log of the backup does not have the moment at which it was over, or has fewer entries than the store had."""
    three = Three(tmp_path / "store")
    copy = three.owner.backup().path
    for number in range(5):
        three.owner.add(f"以后 later {number}", parent="root")
    three.owner.share(three.top.id, "user:acme/li-si", expires=START + timedelta(hours=1))
    if seen == "before the restoring":
        three.clock.at = START + timedelta(hours=2)
        three.owner.add("两小时以后 two hours later", parent="root")
    for one in (three.owner, three.guest, three.other):
        one.close()
    restore_backup(copy, tmp_path / "store", replace=True)
    with three.open(OWNER) as owner, three.open(GUEST) as guest:
        if seen == "after it":
            assert len(guest.shared()) == 1
            three.clock.at = START + timedelta(hours=2)
            owner.add("两小时以后 two hours later", parent="root")
        three.clock.at = START
        assert guest.shared() == []
        assert guest.search("发票 invoice").hits == ()
