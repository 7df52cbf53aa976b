"""What the tests of forgetting and archiving share."""

from __future__ import annotations

from hybridmem import Memory

HIDING = (("forget", "restore_forgotten", "forgotten"), ("archive", "unarchive", "archived"))


def make_branch(m: Memory) -> Memory:
    """A finished task with a note that has two leaves; the agent is at work elsewhere."""
    task = m.start_task("报销 claim")
    note = m.add("材料 papers", id="note")
    m.add("发票 invoice", type="fact", parent=note, id="invoice")
    m.add("收据 receipt", parent=note, id="receipt")
    m.finish_task(task.id)
    m.move("note", "root")
    m.start_task("别处 elsewhere")
    return m


def states(m: Memory) -> dict[str, str]:
    return {node.id: node.state for node in m.walk() if node.type not in ("root", "task")}
