"""The whole of it: store after store, until there were as many kills as were asked for."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from eval.durability import outcome, sabotage
from eval.durability.life import Life, Progress
from eval.durability.outcome import Totals
from eval.durability.schedule import Schedule
from eval.durability.server import Server
from eval.experiment import pick

#: How many agents a store may have at work at once; each number gets about the same share of the kills.
PROCESSES = (1, 2, 4)


def run(
    kills: int,
    seed: int,
    progress: Progress,
    *,
    logs: Path | None = None,
    broken: str | None = None,
    points: Sequence[str] | None = None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Kills ``kills`` processes or a few more (those of a round die together), and returns the result document.

    :param logs: a folder of logs to make trajectories of; None: synthetic ones.
    :param broken: what to break in the agents' processes, one of sabotage.KINDS; None: nothing.
    :param points: kill only at these fault points; None: at all of them, and at random moments.
    :param folder: where the stores are made and removed again; None: the system's folder for temporary files.
    :raises ConfigError: there is no such sabotage.
    """
    if broken is not None:
        pick(sabotage.KINDS, broken, "sabotage")
    random, began, totals = Random(seed), time.perf_counter(), Totals()
    schedule = Schedule(random, kills, points)
    with tempfile.TemporaryDirectory(dir=folder) as place, Server(logs) as server:
        while totals.kills < kills:
            totals.stores += 1
            processes = min(PROCESSES, key=lambda count: (totals.processes[count], count))
            store = Path(place) / f"store-{totals.stores}"
            life = Life(store, processes, server, schedule, totals, broken, random, progress)
            life.live(kills)
            shutil.rmtree(store, ignore_errors=True)
            shutil.rmtree(life.scratch, ignore_errors=True)
    given = {"asked": kills, "seed": seed, "logs": logs is not None, "sabotage": broken}
    return outcome.document(totals, given, schedule.never_passed, time.perf_counter() - began)
