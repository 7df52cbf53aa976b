"""A store from its making to its last kill: rounds of agents at work, each followed by a look at what is left."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from eval.durability import journal
from eval.durability.outcome import Totals
from eval.durability.schedule import Fate, Round, Schedule
from eval.durability.server import Server
from eval.durability.verdict import Judge
from hybridmem.index.projection import DIRECTORY

#: Rounds in the life of a store, and nodes that it has at most when another begins: looking at it costs time.
ROUNDS = 12
NODES = 700

#: Hears what is being done, and how many kills there were since it heard last.
Progress = Callable[[str, int], None]


class Life:
    """Of one store, from its making to its last kill."""

    def __init__(
        self,
        store: Path,
        processes: int,
        server: Server,
        schedule: Schedule,
        totals: Totals,
        broken: str | None,
        random: Random,
        progress: Progress,
    ) -> None:
        self.scratch = store.with_name(f"{store.name}-scratch")
        self.scratch.mkdir()
        self._store = store
        self._agents = [f"agent{number}" for number in range(processes)]
        self._server = server
        self._schedule = schedule
        self._totals = totals
        self._broken = broken
        self._random = random
        self._progress = progress
        self._judge = Judge(self._agents)
        self._known: list[str] = []
        self._runs = self._damaged = 0
        self._tale = random.randrange(1_000)

    def live(self, kills: int) -> None:
        """Until there were ``kills`` in all, or the store is old."""
        first = self._schedule.first(len(self._agents))
        if first is not None:
            self._round(first)
        self._server.run({"do": "found", "store": str(self._store), "errors": str(self.scratch / "found.txt")})
        self._judge.founded = True
        for number in range(ROUNDS):
            if self._totals.kills >= kills:
                return
            last = number == ROUNDS - 1 or len(self._known) > NODES
            self._round(self._schedule.next(len(self._agents)), whole=last)
            if last:
                return

    def _round(self, plan: Round, *, whole: bool = False) -> None:
        totals = self._totals
        totals.rounds += 1
        if plan.torn:
            self._tear()
        orders = [self._order(name, fate) for name, fate in zip(self._agents, plan.fates, strict=True)]
        codes = self._run(orders, plan.fates)
        died = [(fate, code == -signal.SIGKILL) for fate, code in zip(plan.fates, codes, strict=True)]
        seen = self._look(whole=whole)
        finding = self._judge.judge({order["agent"]: journal.read(Path(order["journal"])) for order in orders}, seen)
        for order, code in zip(orders, codes, strict=True):
            if code not in (0, -signal.SIGKILL):
                file = Path(order["errors"])
                said = file.read_text(encoding="utf-8") if file.exists() else ""
                finding.wrong.append(f"{order['agent']} ended with {code}: {said[-2000:]}")
        for fate, dead in died:
            self._schedule.tell(fate, died=dead)
        where = totals.count(died, seen, finding, processes=len(self._agents))
        totals.damaged += seen["damaged"] - self._damaged
        self._damaged, self._known = seen["damaged"], list(seen["nodes"])
        self._progress(where, sum(dead for _, dead in died))

    def _order(self, name: str, fate: Fate) -> dict[str, Any]:
        self._runs += 1
        base = self.scratch / f"{name}-{self._runs}"
        return {
            "do": "live",
            "store": str(self._store),
            "agent": name,
            "run": self._runs,
            "tale": self._tale + int(name.removeprefix("agent")),
            "journal": f"{base}.jsonl",
            "errors": f"{base}.txt",
            "scratch": str(self.scratch),
            "steps": fate.steps,
            "wants": list(fate.wants),
            "fault": f"{fate.point}:{fate.times}" if fate.point else None,
            "sabotage": self._broken,
        }

    def _run(self, orders: Sequence[dict[str, Any]], fates: Sequence[Fate]) -> list[int]:
        """Starts the processes, kills those whose time it is, and waits for them all: their exit codes."""
        began = time.monotonic()
        pids = [self._server.start(order) for order in orders]
        doomed = sorted((fate.delay, pid) for fate, pid in zip(fates, pids, strict=True) if fate.delay is not None)
        for delay, pid in doomed:
            time.sleep(max(0.0, began + delay - time.monotonic()))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [self._server.wait(pid) for pid in pids]

    def _look(self, *, whole: bool) -> dict[str, Any]:
        out, copy = self.scratch / "seen.json", self.scratch / "copy"
        out.unlink(missing_ok=True)
        # Half of the time the next agents find the index as the kill left it.
        raw = self._random.random() < 0.5
        self._server.run(
            {
                "do": "look",
                "store": str(self._store),
                "agents": self._agents,
                "known": self._known,
                "copy": str(copy) if raw else None,
                "whole": whole,
                "out": str(out),
                "errors": str(self.scratch / "look.txt"),
            }
        )
        shutil.rmtree(copy, ignore_errors=True)
        seen: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return seen

    def _tear(self) -> None:
        """Damages the index so that it cannot be opened."""
        file = self._store / DIRECTORY / "chroma.sqlite3"
        if file.exists():
            os.truncate(file, file.stat().st_size // 2)
