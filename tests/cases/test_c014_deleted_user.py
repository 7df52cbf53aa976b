"""C014: deleting one user's memories takes none of the others', and nothing is deleted by leaving a name out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from crash.helpers import QUIET
from erasing import found

from hybridmem import InvalidInput, Memory, erase_user, export_user, verify, verify_erasure

USERS = ("甲 Alice", "乙 Bob", "丙 Carol")


def texts(user: str) -> list[str]:
    return [f"{user} 的第 {n} 件事 thing zq{USERS.index(user)}mark{n}" for n in range(10)]


def fill(store: Path) -> None:
    """Each user has 10 memories in an own namespace, below a root of the same organisation, and 10 in a shared one."""
    for user in USERS:
        with Memory.open(store, namespace=("acme 公司", user), config=QUIET) as m:
            m.start_task(f"任务 task of {user}", parent="root")
            for text in texts(user):
                m.add(text, type="event")
            m.flush()
    with Memory.open(store, namespace=("acme 公司", "一起 shared"), config=QUIET) as m:
        for user in USERS:
            for text in texts(user):
                m.add(text, type="event", parent="root", metadata={"speaker": user})
        m.flush()


def said(store: Path, user: str, *, names: tuple[str, ...] | None = None) -> int:
    with Memory.open(store, namespace=names or ("acme 公司", user), config=QUIET, create=False) as m:
        m.flush()
        assert m.verify(replay=True).ok
        wanted = texts(user)
        for text in wanted:
            hits = m.search(text, 3).hits
            assert (text in [hit.node.content for hit in hits]) == (text in [node.content for node in m.walk()])
        return sum(node.content in wanted for node in m.walk())


def erase_a_handle(store: Path, user: str) -> None:
    with Memory.open(store, namespace=("acme 公司", user), config=QUIET) as m:
        assert m.erase_namespace(everything=True).complete


def erase_as_operator(store: Path, user: str) -> None:
    assert erase_user(store, user, config=QUIET).complete


@pytest.mark.parametrize("erase", [erase_a_handle, erase_as_operator])
def test_one_user_is_erased_and_the_others_are_as_they_were(tmp_path: Path, erase: Callable[[Path, str], None]) -> None:
    store = tmp_path / "store"
    fill(store)
    first, *others = USERS
    erase(store, first)
    shared = ("acme 公司", "一起 shared")
    with Memory.open(store, namespace=("acme 公司", first), config=QUIET) as m:  # a fresh one
        assert [node.type for node in m.walk()] == ["root"]
        assert m.stats().nodes == 0
    assert said(store, first, names=shared) == (0 if erase is erase_as_operator else 10)
    for user in others:
        assert said(store, user) == 10
        assert said(store, user, names=shared) == 10
    assert verify(store, replay=True).ok
    assert verify_erasure(store).ok


def test_nobody_is_deleted_by_leaving_the_name_out(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store)
    with Memory.open(store, namespace=("acme 公司", USERS[0]), config=QUIET) as m:
        with pytest.raises(InvalidInput, match="everything=True"):
            m.erase_namespace()
        for wrong in (None, 1, "yes"):
            with pytest.raises(InvalidInput):
                m.erase_namespace(everything=wrong)  # type: ignore[arg-type]
    for wrong in ("", " ", None):
        with pytest.raises(InvalidInput):
            erase_user(store, wrong, config=QUIET)  # type: ignore[arg-type]
    assert [said(store, user) for user in USERS] == [10, 10, 10]


def test_what_is_exported_of_a_user_is_what_is_erased(tmp_path: Path) -> None:
    """The same choice: as many memories, and every text of the user is in the file and then nowhere in the store."""
    store, file = tmp_path / "store", tmp_path / "user.json"
    fill(store)
    user = USERS[0]
    assert export_user(store, user, file) == 21
    exported = file.read_text("utf-8")
    assert all(text in exported for text in texts(user))
    assert not any(text in exported for other in USERS[1:] for text in texts(other))
    dry = erase_user(store, user, dry_run=True, config=QUIET)
    assert said(store, user) == 10
    real = erase_user(store, user, config=QUIET)
    assert dry.counts["memories"] == real.counts["memories"] == 21
    assert dry.counts["revisions"] == real.counts["revisions"]
    assert found(store, texts=("zq0mark",)) == []
    assert found(store, texts=("zq1mark",)) != []
    assert found(store, texts=(user,)) == [], "not even the name"
    assert export_user(store, user, file) == 0


def test_a_user_is_named_whole_and_by_case(tmp_path: Path) -> None:
    store = tmp_path / "store"
    names = ("alice", "Alice", "alice2", "a")
    for name in names:
        with Memory.open(store, namespace=("x", name), config=QUIET) as m:
            m.add(f"{name} 说 says", parent="root")
    erase_user(store, "alice", config=QUIET)
    left = {}
    for name in names:
        with Memory.open(store, namespace=("x", name), config=QUIET) as m:
            left[name] = m.stats().nodes
    assert left == {"alice": 0, "Alice": 1, "alice2": 1, "a": 1}
