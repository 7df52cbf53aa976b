"""One synthetic run in a store: lived, consolidated, gone on with, consolidated again; looked at after each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from eval.datasets.synthetic_run import Run
from hybridmem import Memory
from hybridmem.config import Config
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Summarizer, TokenCounter


@dataclass(frozen=True, slots=True)
class Planted:
    """A fact: its words as they stand in its note, and the group at the top of that note."""

    words: str
    top: str


class Life:
    """The memory of a run with every task finished. The facts are only looked for; nothing tells the memory of them."""

    def __init__(
        self,
        directory: Path,
        run: Run,
        config: Config,
        counter: TokenCounter,
        summarizer: Summarizer | None = None,
    ) -> None:
        """:param summarizer: None: the configured one."""
        self._counter = counter
        self._memory = Memory.open(directory, config=config, embedder=HashingEmbedder(), summarizer=summarizer)
        self._tasks: dict[str, str] = {}
        self.planted = planted(run)
        #: Contents of all that was ever written, by id.
        self._originals: dict[str, str] = {}
        for group in run.groups:
            above = self._tasks[group.parent] if group.parent else None
            self._keep(group.id, self._memory.start_task(group.title, parent=above).id)
        for item in run.items:
            self._note(item.group, item.content, item.type, item.time)
        for group in reversed(run.groups):
            self._memory.finish_task(self._tasks[group.id])

    def __enter__(self) -> Life:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._memory.close()

    def go_on(self, texts: Sequence[str]) -> None:
        """Notes some more in the finished tasks, in turn."""
        tops = [group for group in self._tasks if "." not in group]
        for number, text in enumerate(texts):
            self._note(tops[number % len(tops)], text, "event", None)

    def consolidate(self) -> dict[str, Any]:
        """One pass, and what is there after it: tokens of all live memories and of all ever written, planted facts
        that stand in a live memory of their own task, and the state of the originals."""
        before = self._live_tokens()
        report = self._memory.consolidate()
        live = self._live_texts()
        lost = [fact.words for fact in self.planted if fact.words not in live[fact.top]]
        return {
            "tokens_written": sum(map(self._counter.count, self._originals.values())),
            "tokens_before": before,
            "tokens_after": self._live_tokens(),
            "facts": len(self.planted),
            "facts_kept": len(self.planted) - len(lost),
            "lost": lost,
            "summaries": len(report.branches),
            "skipped": [reason for _, reason in report.skipped],
            "details_before": sum(one.details_before for one in report.branches),
            "details_kept": sum(one.details_kept for one in report.branches),
            "originals": len(self._originals),
            "recoverable": sum(self._memory.get(id_).content == text for id_, text in self._originals.items()),
        }

    def _note(self, group: str, text: str, kind: str, time: Any) -> None:
        node = self._memory.add(text, type=kind, parent=self._tasks[group], occurred_at=time)
        self._originals[node.id] = text

    def _keep(self, group: str, id_: str) -> None:
        self._tasks[group] = id_
        self._originals[id_] = self._memory.get(id_).content

    def _live_texts(self) -> dict[str, str]:
        """All live contents below each task at the top."""
        return {
            group: "\n".join(node.content for node in self._memory.walk(id_) if node.state == "live")
            for group, id_ in self._tasks.items()
            if "." not in group
        }

    def _live_tokens(self) -> int:
        nodes = [node for node in self._memory.walk() if node.state == "live" and node.type != "root"]
        return sum(self._counter.count(node.content) for node in nodes)


def planted(run: Run) -> list[Planted]:
    """What is known in the end of every attribute of every task: the answers that the questions of the run draw on. Of
    a corrected value the last one."""
    items = {item.id: item for item in run.items}
    found = []
    for answer in run.answers:
        item = items[answer.item]
        words = next(word for word in (answer.value.zh, answer.value.en) if word in item.text)
        found.append(Planted(words, item.group.partition(".")[0]))
    return found


def chatter(run: Run) -> list[str]:
    """The notes of a run that answer nothing."""
    answers = {answer.item for answer in run.answers}
    return [item.text for item in run.items if item.type == "event" and item.id not in answers]
