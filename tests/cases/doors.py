"""Every place where text comes in: a call for each text parameter of each public method, for tests with hostile text.

The list is held against the signatures by :func:`text_parameters`, so that a new parameter comes with its line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridmem import Memory

#: What an annotation that takes text has in it.
TEXTUAL = ("str", "Any", "Mapping", "Parent")


@dataclass(frozen=True)
class Place:
    """A store with something in it, and a directory beside it."""

    memory: Memory
    task: str
    fact: str
    note: str
    folder: Path


def place(m: Memory, folder: Path) -> Place:
    """Fills a new memory, and makes a file of messages."""
    (folder / "chat.json").write_text('[{"role": "user", "content": "x"}]', encoding="utf-8")
    task = m.start_task("企业报销任务 claim", next_step="提交 submit")
    fact, note = m.add("部门研发部 R&D", type="fact"), m.add("发票 invoice", type="note")
    m.flush()
    return Place(m, task.id, fact.id, note.id, folder)


Door = Callable[[Place, str], Any]

#: Text that is kept: a bad one is refused by the name of the field.
KEPT: dict[str, Door] = {
    "add.content": lambda p, text: p.memory.add(text),
    "add.content in a value": lambda p, text: p.memory.add({"a": [text]}),
    "add.type": lambda p, text: p.memory.add("x", type=text),
    "add.metadata": lambda p, text: p.memory.add("x", metadata={"a": [{"b": text}]}),
    "add.metadata as a key": lambda p, text: p.memory.add("x", metadata={text: 1}),
    "add.occurred_at": lambda p, text: p.memory.add("x", occurred_at=text),
    "add.id": lambda p, text: p.memory.add("x", id=text),
    "add_many.items": lambda p, text: p.memory.add_many([{"content": "好 good"}, {"content": text}, {"content": "y"}]),
    "backup.label": lambda p, text: p.memory.backup(label=text),
    "checkpoint.label": lambda p, text: p.memory.checkpoint(text),
    "feedback.note": lambda p, text: p.memory.feedback(p.fact, helpful=True, note=text),
    "finish_task.outcome": lambda p, text: p.memory.finish_task(p.task, outcome=text),
    "open.namespace": lambda p, text: Memory.open(p.memory.path, namespace=("acme", text)),
    "open.agent": lambda p, text: Memory.open(p.memory.path, agent=text),
    "start_task.title": lambda p, text: p.memory.start_task(text),
    "start_task.next_step": lambda p, text: p.memory.start_task("x", next_step=text),
    "start_task.metadata": lambda p, text: p.memory.start_task("x", metadata={"a": text}),
    "supersede.content": lambda p, text: p.memory.supersede(p.fact, text),
    "supersede.type": lambda p, text: p.memory.supersede(p.fact, "x", type=text),
    "supersede.metadata": lambda p, text: p.memory.supersede(p.fact, "x", metadata={"a": text}),
    "update.content": lambda p, text: p.memory.update(p.fact, content=text),
    "update.type": lambda p, text: p.memory.update(p.fact, type=text),
    "update.metadata": lambda p, text: p.memory.update(p.fact, metadata={"a": text}),
    "update_task.title": lambda p, text: p.memory.update_task(p.task, title=text),
    "update_task.next_step": lambda p, text: p.memory.update_task(p.task, next_step=text),
}
#: Text that is looked for: a bad one is refused, or names nothing that is there.
SOUGHT: dict[str, Door] = {
    "add.parent": lambda p, text: p.memory.add("x", parent=text),
    "ancestors.id": lambda p, text: p.memory.ancestors(text),
    "ancestors.as_of": lambda p, text: p.memory.ancestors(p.fact, as_of=text),
    "archive.id": lambda p, text: p.memory.archive(text),
    "children.id": lambda p, text: p.memory.children(text),
    "children.as_of": lambda p, text: p.memory.children(p.task, as_of=text),
    "claim_task.id": lambda p, text: p.memory.claim_task(text, seconds=60),
    "consolidate.id": lambda p, text: p.memory.consolidate(text),
    "context.query": lambda p, text: p.memory.context(text),
    "context.order": lambda p, text: p.memory.context("x", order=text),
    "context.scope": lambda p, text: p.memory.context("x", scope=text),
    "context.format": lambda p, text: p.memory.context("x", format=text),
    "context.types": lambda p, text: p.memory.context("x", types=[text]),
    "context.states": lambda p, text: p.memory.context("x", states=[text]),
    "context.since": lambda p, text: p.memory.context("x", since=text),
    "context.until": lambda p, text: p.memory.context("x", until=text),
    "context.metadata": lambda p, text: p.memory.context("x", metadata={"a": text}),
    "context.as_of": lambda p, text: p.memory.context("x", as_of=text),
    "export.format": lambda p, text: p.memory.export(p.folder / "x", format=text),
    "feedback.id": lambda p, text: p.memory.feedback(text, helpful=True),
    "feedback.confirmed_by": lambda p, text: p.memory.feedback(p.fact, confirmed_by=text),
    "feedback.contradicted_by": lambda p, text: p.memory.feedback(p.fact, contradicted_by=text),
    "finish_task.id": lambda p, text: p.memory.finish_task(text),
    "finish_task.status": lambda p, text: p.memory.finish_task(p.task, status=text),
    "forget.id": lambda p, text: p.memory.forget(text),
    "forget.within": lambda p, text: p.memory.forget(policy={"policy": "newest", "max_nodes": 0}, within=text),
    "get.id": lambda p, text: p.memory.get(text),
    "get.as_of": lambda p, text: p.memory.get(p.fact, as_of=text),
    "history.id": lambda p, text: p.memory.history(text),
    "import_.format": lambda p, text: p.memory.import_(p.folder / "chat.json", format=text),
    "import_.parent": lambda p, text: p.memory.import_(p.folder / "chat.json", parent=text),
    "merge_duplicates.keep": lambda p, text: p.memory.merge_duplicates(text, [p.note]),
    "merge_duplicates.others": lambda p, text: p.memory.merge_duplicates(p.note, [text]),
    "move.id": lambda p, text: p.memory.move(text, "root"),
    "move.parent": lambda p, text: p.memory.move(p.fact, text),
    "near_duplicates.within": lambda p, text: p.memory.near_duplicates(text),
    "observe.parent": lambda p, text: p.memory.observe(["x"], parent=text),
    "observe.format": lambda p, text: p.memory.observe("x", format=text),
    "pin.id": lambda p, text: p.memory.pin(text),
    "release_task.id": lambda p, text: p.memory.release_task(text),
    "restore.checkpoint": lambda p, text: p.memory.restore(checkpoint=text),
    "restore_forgotten.id": lambda p, text: p.memory.restore_forgotten(text),
    "search.query": lambda p, text: p.memory.search(text),
    "search.scope": lambda p, text: p.memory.search("x", scope=text),
    "search.types": lambda p, text: p.memory.search("x", types=[text]),
    "search.states": lambda p, text: p.memory.search("x", states=[text]),
    "search.since": lambda p, text: p.memory.search("x", since=text),
    "search.until": lambda p, text: p.memory.search("x", until=text),
    "search.metadata": lambda p, text: p.memory.search("x", metadata={"a": text}),
    "search.metadata as a key": lambda p, text: p.memory.search("x", metadata={text: 1}),
    "search.as_of": lambda p, text: p.memory.search("x", as_of=text),
    "start_task.parent": lambda p, text: p.memory.start_task("x", parent=text),
    "supersede.id": lambda p, text: p.memory.supersede(text, "x"),
    "switch_task.id": lambda p, text: p.memory.switch_task(text),
    "tasks.status": lambda p, text: p.memory.tasks([text]),
    "unarchive.id": lambda p, text: p.memory.unarchive(text),
    "unconsolidate.id": lambda p, text: p.memory.unconsolidate(text),
    "unmerge.id": lambda p, text: p.memory.unmerge(text),
    "update.id": lambda p, text: p.memory.update(text, content="x"),
    "update_task.id": lambda p, text: p.memory.update_task(text, next_step="x"),
    "update_task.status": lambda p, text: p.memory.update_task(p.task, status=text),
    "audit.verb": lambda p, text: p.memory.audit(verb=text),
    "audit.agent": lambda p, text: p.memory.audit(agent=text),
    "audit.node": lambda p, text: p.memory.audit(node=text),
    "audit.outcome": lambda p, text: p.memory.audit(outcome=text),
    "audit.since": lambda p, text: p.memory.audit(since=text),
    "audit.until": lambda p, text: p.memory.audit(until=text),
    "erase.id": lambda p, text: p.memory.erase(text),
    "export_audit.verb": lambda p, text: p.memory.export_audit(p.folder / "a", verb=text),
    "export_audit.agent": lambda p, text: p.memory.export_audit(p.folder / "a", agent=text),
    "export_audit.node": lambda p, text: p.memory.export_audit(p.folder / "a", node=text),
    "export_audit.outcome": lambda p, text: p.memory.export_audit(p.folder / "a", outcome=text),
    "export_audit.since": lambda p, text: p.memory.export_audit(p.folder / "a", since=text),
    "export_audit.until": lambda p, text: p.memory.export_audit(p.folder / "a", until=text),
    "set_group.name": lambda p, text: p.memory.set_group(text, ["user:acme"]),
    "set_group.members": lambda p, text: p.memory.set_group("理赔组", [f"user:{text}"]),
    "share.id": lambda p, text: p.memory.share(text, "user:acme"),
    "share.principal": lambda p, text: p.memory.share(p.fact, f"user:{text}"),
    "share.rights": lambda p, text: p.memory.share(p.fact, "user:acme", text),
    "share.expires": lambda p, text: p.memory.share(p.fact, "user:acme", expires=text),
    "unshare.grant_id": lambda p, text: p.memory.unshare(text),
    "walk.id": lambda p, text: list(p.memory.walk(text)),
    "walk.as_of": lambda p, text: list(p.memory.walk(as_of=text)),
}
#: Names of files and directories, which systems have rules of their own for: tests/fuzz.
PATHS = {"backup.file", "export.file", "export_audit.file", "import_.file", "open.path", "open.config"}
#: Answered, not refused: ids that are not here are left out of the answer, as it says.
LEFT_OUT = {"weights.ids"}
#: One message each, with the text somewhere in it, and the name that an error gives the place.
MESSAGES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "content": ("content", lambda text: {"role": "user", "content": text}),
    "part": ("content", lambda text: {"role": "user", "content": [{"type": "text", "text": text}]}),
    "role": ("role", lambda text: {"role": text, "content": "x"}),
    "name": ("name", lambda text: {"role": "user", "name": text, "content": "x"}),
    "arguments": (
        "content", lambda text: {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": text}}]},
    ),
    "tool": (
        "tool_calls.0..name",
        lambda text: {"role": "assistant", "tool_calls": [{"function": {"name": text, "arguments": "{}"}}]},
    ),
    "failure": ("content", lambda text: {"role": "tool", "tool_call_id": "1", "content": text, "is_error": True}),
    "extra": ("metadata", lambda text: {"role": "user", "content": "x", "extra": {"a": text}}),
    "extra as a key": ("metadata", lambda text: {"role": "user", "content": "x", text: 1}),
    "time": ("timestamp", lambda text: {"role": "user", "content": "x", "timestamp": text}),
    "log line": ("content", lambda text: text),
    "record": ("content", lambda text: {"message": text, "level": "info"}),
}  # fmt: skip


def text_parameters() -> set[str]:
    """``method.parameter`` of everything public that takes text."""
    found = set()
    for name in dir(Memory):
        method = getattr(Memory, name)
        if name.startswith("_") or not callable(method):
            continue
        for parameter in inspect.signature(method).parameters.values():
            annotation = str(parameter.annotation)
            if any(word in annotation for word in TEXTUAL) and "Callable" not in annotation:
                found.add(f"{name}.{parameter.name}")
    return found


def tried() -> set[str]:
    """The parameters that have a line here."""
    return {door.split(" ")[0] for door in (*KEPT, *SOUGHT)} | PATHS | LEFT_OUT
