"""A namespace sees, lists, counts and changes its own, whatever the names of the others, by every public call.

The calls come from tests/surface.py, which is held against the public surface itself: a method that is not there fails.
"""

from __future__ import annotations

import inspect
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from isolated import CANARY, NAMESPACES, filled, opened, told
from surface import BY_ID, NOT_CALLS, OF_THE_STORE, READS, WRITES, Own, number_of, others

from hybridmem import InvalidInput, Memory, NotFound, Principal
from hybridmem.types import STATES

Made = tuple[Path, tuple[Own, ...]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Own, ...]]:
    """A store with all the namespaces; not to be written to."""
    folder = tmp_path_factory.mktemp("isolation")
    store = folder / "store"
    return store, tuple(filled(store, number, folder) for number in range(len(NAMESPACES)))


@pytest.fixture
def copied(made: Made, tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path / "store")
    return tmp_path / "store"


def public() -> set[str]:
    return {name for name in dir(Memory) if not name.startswith("_")}


def test_every_public_method_is_tried() -> None:
    """A new method comes with its line in tests/surface.py, or this fails."""
    assert public() == NOT_CALLS | OF_THE_STORE | set(READS) | set(WRITES)


def test_every_method_that_takes_an_id_is_tried_with_a_foreign_one() -> None:
    """By the names of the parameters, so that a new one cannot be left out."""
    taking = set()
    for name in public() - NOT_CALLS:
        parameters = set(inspect.signature(getattr(Memory, name)).parameters)
        if parameters & {"id", "parent", "new_parent", "within", "scope", "keep", "confirmed_by"}:
            taking.add(name)
    assert taking - {"add_many"} <= set(BY_ID), taking - set(BY_ID)


@pytest.mark.parametrize("number", range(len(NAMESPACES)))
def test_every_reading_call_tells_of_its_own_alone(made: Made, number: int) -> None:
    store, everybody = made
    own = everybody[number]
    foreign = {value for one in everybody if one is not own for value in asdict(one).values() if isinstance(value, str)}
    with opened(store, NAMESPACES[number]) as m:
        for name, call in READS.items():
            text = told(call(m, own))
            assert set(CANARY.findall(text)) <= {own.canary}, name
            assert not [one for one in foreign if one in text], name
        assert m.stats().namespace == NAMESPACES[number]
        # As many as were written, counted by each call that counts.
        assert m.stats().nodes == len(list(m.walk())) - 1 == 17
        assert {node.id for node in m.walk()} >= {own.task, own.fact, own.purged, own.summary}
        assert len(m.tasks()) == 2
        assert {hit.id for hit in m.search("机密 secret", 500)} == {
            node.id for node in m.walk() if node.state == "live" and node.depth > 0 and own.canary in node.content
        }


@pytest.mark.parametrize("number", [0, 1, 4, 9, 13, 18, 21, 26, 27, 30])
def test_every_writing_call_changes_its_own_alone(made: Made, copied: Path, tmp_path: Path, number: int) -> None:
    """Row by row: nothing of any other namespace is touched, whatever is done in this one."""
    own = Own(**{**asdict(made[1][number]), "folder": tmp_path})
    with opened(copied, NAMESPACES[number]) as m:
        mine = number_of(copied, m)
        before = others(copied, mine)
        assert all(before[table] for table in ("node", "operation", "revision", "embedding", "lexical", "active"))
        for name, call in WRITES.items():
            told_of = told(call(m, own))
            assert set(CANARY.findall(told_of)) <= {own.canary}, name
            assert others(copied, mine) == before, name
        exported = (tmp_path / "out.jsonl").read_text("utf-8")
    assert set(CANARY.findall(exported)) == {own.canary}


@pytest.mark.parametrize(("number", "other"), [(0, 1), (1, 0), (9, 0), (18, 17), (7, 0), (22, 0)])
def test_an_id_of_another_namespace_leads_nowhere(made: Made, copied: Path, number: int, other: int) -> None:
    """It is answered like an id that there never was, but for the id itself; and nothing is changed anywhere."""
    theirs = made[1][other]
    with opened(copied, NAMESPACES[number]) as m:
        mine = number_of(copied, m)
        before, kept = others(copied, mine), [node.to_dict() for node in m.walk()]
        for id in (theirs.task, theirs.fact, theirs.forgotten, theirs.archived, theirs.purged, theirs.summary):
            for name, call in BY_ID.items():
                with pytest.raises((NotFound, InvalidInput)) as refused:
                    call(m, id)
                with pytest.raises(type(refused.value)) as unknown:
                    call(m, "nosuchid")
                assert str(refused.value).replace(id, "nosuchid") == str(unknown.value), name
                assert not CANARY.findall(str(refused.value)), name
        assert m.weights([theirs.fact]) == {}
        assert others(copied, mine) == before
        assert [node.to_dict() for node in m.walk()] == kept


def test_what_one_namespace_exports_another_imports_as_its_own(made: Made, copied: Path) -> None:
    """The file brings contents, and no way back to where they came from: the twins are independent."""
    own = made[1][3]
    file = copied.parent / "moved.jsonl"
    with opened(copied, NAMESPACES[3]) as m:
        m.export(file)
        before = [node.to_dict() for node in m.walk()]
    with opened(copied, NAMESPACES[20]) as m:
        m.import_(file)
        m.forget(own.fact)
        m.update(own.event, content="changed 改了")
    with opened(copied, NAMESPACES[3]) as m:
        assert [node.to_dict() for node in m.walk()] == before
        assert m.verify(replay=True).ok


def test_backups_tell_no_names_of_others(made: Made, copied: Path) -> None:
    """A backup holds the whole store, but what is said of it is about the namespace that made it."""
    with opened(copied, NAMESPACES[0]) as m:
        m.backup(label=f"标签 {made[1][0].canary}")
    with opened(copied, NAMESPACES[17]) as m:
        assert not CANARY.findall(told(m.backups()))


def test_a_grant_opens_its_subtree_and_nothing_beside_or_above(made: Made, copied: Path) -> None:
    """With the highest right on one branch: every other id of that namespace still leads nowhere by any call, and no
    call that lists or counts tells anything of it."""
    theirs, own = made[1][0], made[1][1]
    with opened(copied, NAMESPACES[0]) as m:
        m.share(theirs.task, Principal.user(NAMESPACES[1]), "admin")
        inside = {node.id for node in m.walk(theirs.task)}
        outside = {node.id for node in m.walk()} - inside
    with opened(copied, NAMESPACES[1]) as m:
        mine = number_of(copied, m)
        for name, call in READS.items():
            text = told(call(m, own))
            assert not [one for one in outside if one in text], name
            if name not in ("search", "context", "shared"):
                assert set(CANARY.findall(text)) <= {own.canary}, name
        found = {hit.id for hit in m.search("机密 secret", 500, states=list(STATES)) if hit.node.owner is not None}
        assert found == inside - {theirs.purged}  # which says nothing any more
        assert {node.id for node in m.walk(theirs.task)} == inside
        m.flush()  # so that the owner's trail has what was read
        before = others(copied, mine)
        for id in outside:
            for name, call_by in BY_ID.items():
                with pytest.raises((NotFound, InvalidInput)) as refused:
                    call_by(m, id)
                with pytest.raises(type(refused.value)) as unknown:
                    call_by(m, "nosuchid")
                assert str(refused.value).replace(id, "nosuchid") == str(unknown.value), name
        m.flush()
        assert others(copied, mine) == before
