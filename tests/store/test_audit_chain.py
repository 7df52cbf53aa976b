"""verify tells of entries of the audit trail that somebody has edited, deleted, inserted or reordered in the file; a
backup does not take the trail back in time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hybridmem import Memory, verify
from hybridmem.store import audit
from hybridmem.store.points import setting

CONFIG = {"embedding": {"provider": "hashing"}, "index": {"background": False}}
NAMESPACE = ("企业", "张三")


def opened(store: Path, agent: str = "助手") -> Memory:
    return Memory.open(store, namespace=NAMESPACE, agent=agent, config=CONFIG)


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    """A store with ten entries in one namespace, and some in another, closed."""
    store = tmp_path / "trail"
    with opened(store) as m:
        for number in range(6):
            m.add(f"发票 INV-{number} 退回 returned")
        m.search("发票 invoice")
        m.pending()
    with Memory.open(store, namespace=("企业",), config=CONFIG) as m:
        m.add("别人的 somebody else's")
    assert verify(store).ok
    return store


def tampered(store: Path, *statements: str) -> list[str]:
    """What verify says of the namespace after these statements; of the others it says nothing."""
    with closing(sqlite3.connect(store / "tree.db", isolation_level=None)) as conn:
        (space,) = conn.execute('SELECT id FROM namespace WHERE key = \'["企业","张三"]\'').fetchone()
        for statement in statements:
            assert conn.execute(statement.replace("{n}", f"namespace_id = {space}")).rowcount, statement
    report = verify(store)
    assert {one.kind for one in report.findings} <= {"audit"}
    assert {one.namespace for one in report.findings} <= {NAMESPACE}
    return [one.message for one in report.findings]


#: Each column of an entry, with another value that could stand there.
EDITS = {
    "at": "at + 1", "agent": "'别人'", "verb": "'get'", "node_uid": "'aaaaaaaaaaaaaaaa'", "outcome": "'NotFound'",
    "detail": "'{}'", "hash": "'sha256:' || substr(hash, 9) || '0'",
}  # fmt: skip


@pytest.mark.parametrize("column", EDITS)
@pytest.mark.parametrize("number", [2, 5, 7])
def test_an_edited_field_is_seen(trail: Path, column: str, number: int) -> None:
    (said,) = tampered(trail, f"UPDATE audit SET {column} = {EDITS[column]} WHERE {{n}} AND sequence = {number}")
    assert f"entry {number} was edited" in said


@pytest.mark.parametrize(("condition", "expected"), [
    ("sequence = 1", "entry 1 is missing"),
    ("sequence = 4", "entry 4 is missing"),
    ("sequence IN (4, 5)", "entries 4 to 5 are missing"),
    ("sequence = 10", "the newest are missing: from entry 10 to 10"),
    ("sequence > 6", "the newest are missing: from entry 7 to 10"),
    ("sequence > 0", "the newest are missing: from entry 1 to 10"),
])  # fmt: skip
def test_a_deleted_entry_is_seen(trail: Path, condition: str, expected: str) -> None:
    (said,) = tampered(trail, f"DELETE FROM audit WHERE {{n}} AND {condition}")
    assert expected in said


@pytest.mark.parametrize(("first", "second"), [(3, 4), (2, 7), (9, 10)])
def test_reordered_entries_are_seen(trail: Path, first: int, second: int) -> None:
    (said,) = tampered(
        trail,
        f"UPDATE audit SET sequence = -1 WHERE {{n}} AND sequence = {first}",
        f"UPDATE audit SET sequence = {first} WHERE {{n}} AND sequence = {second}",
        f"UPDATE audit SET sequence = {second} WHERE {{n}} AND sequence = -1",
    )
    assert f"entry {first} was edited, or another stands in its place" in said


def test_a_gap_that_is_closed_by_renumbering_is_seen(trail: Path) -> None:
    (said,) = tampered(
        trail,
        "DELETE FROM audit WHERE {n} AND sequence = 4",
        *(f"UPDATE audit SET sequence = {n - 1} WHERE {{n}} AND sequence = {n}" for n in range(5, 11)),
        "UPDATE audit_head SET sequence = 9 WHERE {n}",
    )
    assert "entry 4 was edited" in said


def test_an_entry_that_nobody_made_is_seen(trail: Path) -> None:
    (said,) = tampered(
        trail,
        """INSERT INTO audit SELECT namespace_id, 11, at, agent, verb, node_uid, outcome, detail, hash FROM audit
        WHERE {n} AND sequence = 5""",
    )
    assert "entry 11 was edited" in said


@pytest.mark.parametrize(("statement", "expected"), [
    ("UPDATE audit_head SET sequence = 12 WHERE {n}", "the newest are missing: from entry 11 to 12"),
    ("UPDATE audit_head SET sequence = 9 WHERE {n}", "the note of the newest entry was edited"),
    ("UPDATE audit_head SET hash = 'sha256:0' WHERE {n}", "the note of the newest entry was edited"),
    ("DELETE FROM audit_head WHERE {n}", "the note of the newest entry is missing"),
])  # fmt: skip
def test_a_note_that_is_changed_is_seen(trail: Path, statement: str, expected: str) -> None:
    (said,) = tampered(trail, statement)
    assert expected in said


def test_the_newest_are_missed_also_when_the_note_is_set_back(trail: Path) -> None:
    """The hash of the entry that is the newest then cannot be known without reading it; whoever reads it and writes it
    into the note has made a trail that holds: only a number and hash kept elsewhere tell of it, as documented."""
    (said,) = tampered(
        trail, "DELETE FROM audit WHERE {n} AND sequence > 6", "UPDATE audit_head SET sequence = 6 WHERE {n}"
    )
    assert "the note of the newest entry was edited" in said


def test_the_oldest_cannot_be_removed_by_moving_the_anchor(trail: Path) -> None:
    """Retention leaves an entry that says to where it removed; nobody else can do it unseen."""
    (said,) = tampered(
        trail,
        """UPDATE audit_head SET anchor_sequence = 4,
            anchor_hash = (SELECT hash FROM audit a WHERE a.namespace_id = audit_head.namespace_id AND a.sequence = 4)
        WHERE {n}""",
        "DELETE FROM audit WHERE {n} AND sequence <= 4",
    )
    assert "the oldest are missing, up to entry 4" in said


def test_a_break_stays_told_whatever_is_done_after_it(trail: Path) -> None:
    """New entries go on, calls work, and repair() notes the break without closing the chain over it."""
    (before,) = tampered(trail, "DELETE FROM audit WHERE {n} AND sequence = 4")
    with opened(trail) as m:
        m.add("继续 carry on")
        report = m.repair()
        assert [one.kind for one in report.findings] == ["audit"]
        assert not report.findings[0].repairable
        noted = m.audit(verb="repair")[0]
        assert noted.detail["found"] == {"audit": 1}
    assert [one.message for one in verify(trail).findings] == [before]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM audit WHERE {n} AND sequence = 4",
        "UPDATE audit SET agent = '别人 somebody' WHERE {n} AND sequence = 4",
        "DELETE FROM audit WHERE {n} AND sequence = (SELECT sequence FROM audit_head WHERE {n})",
    ],
)
def test_a_break_stays_told_when_retention_removes_the_entries_that_show_it(trail: Path, statement: str) -> None:
    """Else whoever has denied something would only have to remove old entries, or to wait until they are."""
    assert len(tampered(trail, statement)) == 1
    for _ in range(2):
        with opened(trail) as m:
            m.add("继续 carry on")
            assert m.prune_audit(0).removed > 3
        (after,) = verify(trail).findings
        assert "tampered with" in after.message


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_head SET sequence = 3, hash = 'sha256:0' WHERE {n}", "DELETE FROM audit_head WHERE {n}"]
)
def test_a_note_that_is_wrong_stops_no_call_and_stays_told(trail: Path, statement: str) -> None:
    tampered(trail, statement)
    with opened(trail) as m:
        assert m.get(m.add("继续 carry on").id).content == "继续 carry on"
    assert [one.kind for one in verify(trail).findings] == ["audit"]


# Restoring backups


def trail_of(store: Path) -> list[tuple[int, str, str]]:
    with opened(store, "prüfer 审计员") as m:
        return [(one.sequence, one.verb, one.hash) for one in m.audit(limit=None)]


Connect = Callable[[Path], sqlite3.Connection]


def carried(old: Path, new: Path) -> None:
    with closing(sqlite3.connect(old / "tree.db")) as one, closing(sqlite3.connect(new / "tree.db")) as other:
        audit.carry(one, other)


def copied(store: Path, target: Path) -> Path:
    """The store as it is now, as a backup of it restores it."""
    from hybridmem import restore_backup

    with opened(store) as m:
        m.backup(target.with_suffix(".db"))
    restore_backup(target.with_suffix(".db"), target)
    return target


def test_a_restored_backup_goes_on_with_the_trail_of_the_store_it_replaces(trail: Path, tmp_path: Path) -> None:
    earlier = copied(trail, tmp_path / "earlier")
    with opened(trail) as m:
        m.forget(m.add("后来的秘密 later secret").id)
    with closing(sqlite3.connect(trail / "tree.db")) as conn:
        secret = setting(conn, audit.SECRET)
    known = trail_of(trail)
    carried(trail, earlier)
    assert verify(earlier).ok
    found = trail_of(earlier)
    assert found[: len(known)] == known
    assert "restore_backup" in {verb for _, verb, _ in found}
    with closing(sqlite3.connect(earlier / "tree.db")) as conn:
        assert setting(conn, audit.SECRET) == secret


def test_of_two_trails_of_one_store_the_longer_wins(trail: Path, tmp_path: Path) -> None:
    """A backup that is newer than what is in the directory, which was itself set back, keeps its own."""
    earlier = copied(trail, tmp_path / "earlier")
    with opened(trail) as m:
        m.add("后来 later")
    longer = trail_of(trail)
    with closing(sqlite3.connect(earlier / "tree.db")) as conn:  # as it was in the backup, before it was opened
        assert conn.execute("SELECT max(sequence) FROM audit").fetchone()[0] < len(longer)
    carried(earlier, trail)
    assert verify(trail).ok
    assert trail_of(trail)[: len(longer)] == longer


def test_a_store_of_before_the_trail_carries_nothing(trail: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, closing(sqlite3.connect(trail / "tree.db")) as new:
        before = new.execute("SELECT * FROM audit").fetchall()
        audit.carry(old, new)
        assert new.execute("SELECT * FROM audit").fetchall() == before
