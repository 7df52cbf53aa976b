"""What may be neither forgotten nor archived: the root, what is pinned or unfinished, and where somebody is at work."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forgetting import HIDING, make_branch, states

from hybridmem import InvalidInput, Memory

OpenMemory = Callable[..., Memory]


@pytest.fixture
def branch(memory: OpenMemory) -> Memory:
    return make_branch(memory())


class TestWhatIsProtected:
    """Each is refused by name with the way out, which works; a dry run says the same; and nothing has changed."""

    def refuse(self, m: Memory, verb: str, id: str, said: str, refused: Any) -> None:
        with pytest.raises(InvalidInput, match=said):
            getattr(m, verb)(id, subtree=True, dry_run=True)
        with refused(m, InvalidInput, said):
            getattr(m, verb)(id, subtree=True)

    @pytest.mark.parametrize("verb", ["forget", "archive"])
    def test_the_root(self, branch: Memory, verb: str, refused: Any) -> None:
        self.refuse(branch, verb, branch.root().id, "id: the root of a namespace cannot be", refused)

    def test_what_is_pinned_which_may_be_archived(self, branch: Memory, refused: Any) -> None:
        branch.pin("receipt")
        self.refuse(branch, "forget", "receipt", r"'receipt' is pinned; call pin\('receipt', False\) first", refused)
        self.refuse(branch, "forget", "note", "'receipt' is pinned", refused)
        assert branch.archive("note").ids == ("note", "invoice", "receipt")
        self.refuse(branch, "forget", "note", "'receipt' is pinned", refused)
        branch.pin("receipt", False)
        assert len(branch.forget("note", subtree=True).ids) == 3

    @pytest.mark.parametrize("verb", ["forget", "archive"])
    @pytest.mark.parametrize("status", ["open", "paused"])
    def test_a_task_that_is_not_finished(self, branch: Memory, verb: str, status: str, refused: Any) -> None:
        elsewhere = branch.active_task()
        assert elsewhere is not None
        task = branch.start_task("付款 payment", parent="note")
        branch.switch_task(elsewhere.id)
        branch.update_task(task.id, status=status)
        said = rf"'{task.id}' is a task that is not finished \({status}\); call finish_task\('{task.id}'\) first"
        self.refuse(branch, verb, task.id, said, refused)
        self.refuse(branch, verb, "note", said, refused)
        branch.finish_task(task.id)
        assert task.id in getattr(branch, verb)("note", subtree=True).ids

    @pytest.mark.parametrize("verb", ["forget", "archive"])
    def test_where_any_agent_is_at_work(
        self, branch: Memory, memory: OpenMemory, verb: str, refused: Any, clock: Any
    ) -> None:
        other = memory(agent="机器人 B")
        task = other.start_task("付款 payment", parent="note")
        branch.finish_task(task.id)  # by somebody else: it is still where the other agent is
        self.refuse(branch, verb, task.id, f"'{task.id}' is the active task of agent '机器人 B'", refused)
        self.refuse(branch, verb, "note", "'note' encloses where agent '机器人 B' is at work", refused)
        elsewhere = other.start_task("另一件 another")
        written = other.add("写在这里 written here", parent="receipt")
        self.refuse(branch, verb, "receipt", "'receipt' encloses where agent '机器人 B' is at work", refused)
        self.refuse(branch, verb, "note", "'note' encloses where agent '机器人 B'", refused)
        other.switch_task(elsewhere.id)
        assert written.id in getattr(branch, verb)("note", subtree=True).ids

    @pytest.mark.parametrize(("hide", "back", "state"), HIDING)
    def test_what_an_agent_wrote_last_may_go_and_it_stands_above_then(
        self, branch: Memory, memory: OpenMemory, hide: str, back: str, state: str
    ) -> None:
        other = memory(agent="机器人 B")
        other.start_task("另一件 another")
        last = other.add("写错了 a mistake", parent="receipt")
        getattr(branch, hide)(last.id)
        assert branch.operations()[-1].payload["active"] == {"机器人 B": [other.active_task().id, "receipt"]}  # type: ignore[union-attr]
        assert other.resume().active_node == branch.get("receipt")
        assert other.resume().active_task == other.active_task()
        assert other.add("下一条 the next", parent="node").parent_id == "receipt"
        getattr(branch, back)(last.id)
        assert other.resume().active_node.content == "下一条 the next"  # type: ignore[union-attr]

    def test_nothing_is_written_to_what_is_forgotten_or_below_it(self, branch: Memory, refused: Any) -> None:
        old = branch.tasks(["done"])[0]
        branch.forget(old.id)
        branch.forget("note", subtree=True)
        for call in (
            lambda: branch.add("新的 new", parent="note"),
            lambda: branch.add("新的 new", parent=branch.get("invoice")),
            lambda: branch.add_many([{"content": "好 fine"}, {"content": "新的 new", "parent": "note"}]),
            lambda: branch.start_task("任务 task", parent="note"),
            lambda: branch.update("note", importance=1.0),
            lambda: branch.move("note", "root"),
            lambda: branch.move(branch.active_task(), "note"),  # type: ignore[arg-type]
            lambda: branch.pin("note"),
            lambda: branch.switch_task(old.id),
            lambda: branch.update_task(old.id, status="open"),
        ):
            with refused(branch, InvalidInput, r"is forgotten; call restore_forgotten\('\w+'\) first|must be the text"):
                call()

    def test_an_import_puts_nothing_below_what_is_forgotten(self, branch: Memory, tmp_path: Path, refused: Any) -> None:
        branch.export(tmp_path / "all.jsonl")
        branch.forget("note", subtree=True)
        assert branch.import_(tmp_path / "all.jsonl").added == 0
        assert states(branch)["note"] == "forgotten", "what is there already is skipped, as it is"
        line = {"kind": "node", "id": "新", "parent_id": "note", "type": "note", "content": "新的 new"}
        with (tmp_path / "all.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        with refused(branch, InvalidInput, r"parent_id: 'note' is forgotten; call restore_forgotten\('note'\) first"):
            branch.import_(tmp_path / "all.jsonl")
