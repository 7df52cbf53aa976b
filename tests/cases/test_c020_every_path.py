"""C020: there is no way of reading that isolation has left out, and none that shuts the owner out.

The ways come from tests/surface.py and from the program itself, so that a new one without a line fails. Beside this,
tests/test_isolation.py and tests/cli/test_documents.py try every call and every command, with hostile names.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from isolated import NAMESPACES, filled, opened, told
from surface import BY_ID, READS, Own

from hybridmem import Memory, NotFound
from hybridmem.cli import main
from hybridmem.cli.app import build
from hybridmem.types import Stats
from tests.conftest import SteerableClock

#: The owner's name is a prefix of the other's, and in the third pair the other way round.
PAIRS = [(0, 1), (18, 19), (1, 0)]
QUIET = {"weights": {"count_uses": False}}  # else a second reading would tell of the first
#: What tells the owner of the memories without naming one.
OTHERWISE: dict[str, Callable[[Memory, Any], bool]] = {
    "grants": lambda m, answer: bool(answer == []),  # of what is shared see tests/test_sharing.py
    "groups": lambda m, answer: bool(answer == {}),
    "shared": lambda m, answer: bool(answer == []),
    "pending": lambda m, answer: bool(answer == 0),  # see the test of what waits
    "root": lambda m, answer: bool(answer.content == "/".join(m.namespace)),
    "stats": lambda m, answer: bool(answer.nodes == 17),
    "verify": lambda m, answer: bool(answer.counts["nodes"] == 17 and answer.ok),
}
#: Reading by an id; the rest of BY_ID changes something.
READING_BY_ID = ("ancestors", "children", "context", "get", "history", "near_duplicates", "search", "walk")


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"{NAMESPACES[pair[0]]} and {NAMESPACES[pair[1]]}")
def two(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, ...]]:
    """(owner, other, what the owner has, what the other's calls said before the owner wrote, what they say after)."""
    mine, theirs = request.param
    folder, clock = tmp_path_factory.mktemp("paths"), SteerableClock()
    other = filled(folder / "store", theirs, folder, clock=clock, **QUIET)
    with opened(folder / "store", NAMESPACES[theirs], clock=clock, **QUIET) as m:
        before = answers(m, other)
        owner = filled(folder / "store", mine, folder, clock=clock, **QUIET)
        after = answers(m, other)
        with opened(folder / "store", NAMESPACES[mine], clock=clock, **QUIET) as own:
            yield own, m, owner, before, after


def answers(m: Memory, own: Own) -> dict[str, str]:
    """What every reading call says, and the file of an export."""
    said = {name: told(without_size(call(m, own))) for name, call in READS.items()}
    m.export(own.folder / "read.jsonl")
    said["export"] = (own.folder / "read.jsonl").read_text("utf-8")
    return said


def without_size(answer: Any) -> Any:
    """The size of the files is that of the whole store, and said to be."""
    return replace(answer, size_bytes=0) if isinstance(answer, Stats) else answer


@pytest.mark.parametrize("way", [*READS, "export"])
def test_the_other_gets_the_same_answer_whether_the_owner_is_there_or_not(two: Any, way: str) -> None:
    """No marker, no id, no count, no rank and no score of anybody else's."""
    _, _, owner, before, after = two
    if way != "audit":  # the other's own calls are in it
        assert after[way] == before[way]
    for value in asdict(owner).values():
        assert str(value) not in after[way]


@pytest.mark.parametrize("way", [*READS, "export"])
def test_the_owner_sees_it_on_every_path(two: Any, way: str) -> None:
    m, _, owner, _, _ = two
    if way == "export":
        assert m.export(owner.folder / "own.jsonl") >= 17
        assert owner.canary in (owner.folder / "own.jsonl").read_text("utf-8")
    elif way in OTHERWISE:
        assert OTHERWISE[way](m, READS[way](m, owner))
    else:
        answer = told(READS[way](m, owner))
        assert owner.canary in answer or any(id in answer for id in (owner.task, owner.fact, owner.checkpoint)), way


def test_every_reading_by_an_id_is_tried() -> None:
    taking = {"id", "scope", "within"}
    reading = {name for name in READS if taking & set(inspect.signature(getattr(Memory, name)).parameters)}
    assert reading == set(READING_BY_ID)


@pytest.mark.parametrize("way", READING_BY_ID)
def test_the_owners_id_leads_the_other_nowhere_and_the_owner_to_it(two: Any, way: str) -> None:
    mine, other, owner, _, _ = two
    for id in (owner.fact, owner.task, owner.forgotten, owner.archived, owner.summary):
        with pytest.raises(NotFound) as refused:
            BY_ID[way](other, id)
        assert str(refused.value).replace(id, "?") == str(unknown(other, way)).replace("nosuchid", "?")
        assert BY_ID[way](mine, id) is not None


def unknown(m: Memory, way: str) -> NotFound:
    """What is said of an id that there never was."""
    with pytest.raises(NotFound) as refused:
        BY_ID[way](m, "nosuchid")
    return refused.value


def test_agents_of_one_namespace_share_its_memories_but_not_their_place(memory: Callable[..., Memory]) -> None:
    """A namespace is what isolates; an agent is who writes, and has a task of its own."""
    first, second = (memory(agent=name) for name in ("bot", "bot2"))
    task = first.start_task("机密 qmarkerq")
    assert second.get(task.id) == task
    assert second.active_task() is None
    assert second.resume().active_task is None
    assert second.resume().interrupted is False
    assert first.resume().active_task == task


def test_what_waits_for_its_vector_is_counted_for_its_owner_alone(memory: Callable[..., Memory]) -> None:
    mine, other = memory(namespace=("acme",)), memory(namespace=("acme", "zhang"))
    mine.add("机密 qmarkerq")
    assert (mine.pending(), mine.stats().pending) == (1, 1)
    assert (other.pending(), other.stats().pending, other.stats().nodes) == (0, 0, 0)


#: Every command that reads: the arguments, and what the owner finds in the answer of each.
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "audit": (("audit",), "add"),
    "checkpoint": (("checkpoint", "--list"), "{canary}"),
    "consolidate": (("consolidate", "--dry-run"), "branches"),
    "context": (("context", "机密 secret", "--budget", "4000"), "{canary}"),
    "doctor": (("doctor",), "nodes"),
    "duplicates": (("duplicates", "--threshold", "0.1"), "{note}"),
    "export": (("export", "out.jsonl"), "out.jsonl"),
    "history": (("history", "{fact}"), "{canary}"),
    "resume": (("resume",), "{canary}"),
    "search": (("search", "机密 secret", "-k", "50", "--explain"), "{canary}"),
    "show": (("show", "{fact}"), "{canary}"),
    "stats": (("stats",), "nodes"),
    "task list": (("task", "list"), "{canary}"),
    "task show": (("task", "show", "{task}"), "{canary}"),
    "tree": (("tree", "--all", "--forgotten"), "{canary}"),
    "tree of it": (("tree", "{task}", "--depth", "9"), "{canary}"),
}
#: Those that change something, of which tests/cli/test_documents.py says that they touch nobody else's; and those that
#: read nothing in a namespace: "namespaces" tells names to who has the whole store in hand.
OTHERS = {
    "add", "archive", "backup", "backups", "config", "decrypt", "demo", "encrypt", "erase", "feedback", "forget",
    "grants", "group", "import", "index", "merge", "move", "namespaces", "new-key", "observe", "purge-forgotten",
    "reembed", "reencrypt", "restore", "restore-backup", "restore-forgotten", "rotate-key", "share", "shared",
    "supersede", "task claim", "task finish", "task release", "task start", "task switch", "task update",
    "unarchive", "unconsolidate", "unmerge", "unshare", "update", "verify-erasure",
}  # fmt: skip
#: What is about the store as a whole, by design; what is said of a backup is tested in tests/test_isolation.py.
WHOLE = {"doctor"}


def commands(group: Any, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name


def test_every_command_is_tried() -> None:
    """A new command comes with its row in COMMANDS, or this fails."""
    shown = set(commands(typer.main.get_command(build())))
    assert shown - OTHERS == set(COMMANDS) - {"tree of it"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Own, Own]:
    """A store, what its owner has in ("acme",), and what the other has in ("acme", "zhang")."""
    folder = tmp_path_factory.mktemp("commands")
    own, other = filled(folder / "store", 0, folder), filled(folder / "store", 1, folder)
    return folder / "store", own, other


@pytest.mark.parametrize("way", COMMANDS)
@pytest.mark.parametrize("as_json", [True, False], ids=["document", "for people"])
def test_no_command_shows_it_to_the_other_and_each_shows_it_to_the_owner(
    shop: tuple[Path, Own, Own], way: str, as_json: bool, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    store, own, other = shop
    monkeypatch.chdir(tmp_path)
    arguments, expected = COMMANDS[way]
    named = any("{" in part for part in arguments)

    def run(namespace: str, ids: Own) -> tuple[int, str]:
        capsys.readouterr()
        where = ("--store", str(store), "--namespace", namespace, "--set", "embedding.provider=hashing")
        code = main([*(part.format(**asdict(ids)) for part in arguments), *where, *(["--json"] if as_json else [])])
        printed = capsys.readouterr()
        return code, printed.out + printed.err + exported(tmp_path)

    code, shown = run("acme", own)
    assert code == 0
    sought = expected.format(**asdict(own))
    assert sought in shown or (not as_json and sought in ("nodes", "branches")), shown
    assert other.canary not in shown
    code, shown = run("acme/zhang", own)
    assert (code == 4) == named, "an id of the owner's is one that there is not; all else is an answer"
    assert own.canary not in shown
    if way not in WHOLE and not named:
        assert not [id for id in asdict(own).values() if str(id) in shown]
        if as_json and way == "stats":
            assert json.loads(shown)["nodes"] == 17, "its own, and not those of both"


def exported(folder: Path) -> str:
    """What an export has left, which is read as part of the answer, and then gone."""
    file = folder / "out.jsonl"
    if not file.exists():
        return ""
    try:
        return file.read_text("utf-8")
    finally:
        file.unlink()
