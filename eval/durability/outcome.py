"""What a run comes to: counts, shares and times, in one document like those of the experiments."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval import results
from eval.bench.timing import summary
from eval.durability.agent import CONFIG
from eval.durability.schedule import Fate
from eval.durability.verdict import Finding
from hybridmem import config, faults
from hybridmem.embed.hashing import HashingEmbedder

#: Problems that are written down in words.
_SHOWN = 50
_KINDS = ("lost", "extra", "wrong", "disagree", "astray")


@dataclass
class Totals:
    """Of a run so far. ``points`` (by fault point) and ``processes`` (by how many are at work) count kills."""

    kills: int = 0
    rounds: int = 0
    stores: int = 0
    damaged: int = 0
    asked_of_chroma: int = 0
    missed_by_chroma: int = 0
    points: Counter[str] = field(default_factory=Counter)
    processes: Counter[int] = field(default_factory=Counter)
    times: dict[str, list[float]] = field(default_factory=dict)
    recovered_after: dict[str, list[float]] = field(default_factory=dict)
    blamed: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[str, Finding]] = field(default_factory=list)

    def count(
        self, fates: Sequence[tuple[Fate, bool]], seen: Mapping[str, Any], finding: Finding, *, processes: int
    ) -> str:
        """Adds a round: ``fates`` of its processes, with whether each was killed. Returns which it was, in words."""
        killed = [fate for fate, dead in fates if dead]
        names = sorted({fate.point or "" for fate in killed})
        self.kills += len(killed)
        self.processes[processes] += len(killed)
        self.points.update(fate.point or "" for fate in killed)
        self.asked_of_chroma += seen["asked_of_chroma"]
        self.missed_by_chroma += seen["missed_by_chroma"]
        for name, ms in seen["times"].items():
            self.times.setdefault(name, []).append(ms)
        for name in names:
            self.recovered_after.setdefault(name, []).append(seen["times"]["recover"])
            self.blamed[name] += len(finding.problems)
        points = ", ".join(name or "a random moment" for name in names) or "nobody"
        where = f"round {self.rounds}, store {self.stores}, {processes} at work, killed at {points}"
        self.findings.append((where, finding))
        return where


def document(totals: Totals, given: Mapping[str, Any], never_passed: Sequence[str], seconds: float) -> dict[str, Any]:
    """The result; ``failed`` in it says whether anything was lost, extra, wrong, in disagreement or astray."""
    found = [finding for _, finding in totals.findings]
    counts = {kind: sum(len(getattr(finding, kind)) for finding in found) for kind in _KINDS}
    acknowledged = sum(finding.acknowledged for finding in found)
    whole, absent = sum(finding.whole for finding in found), sum(finding.absent for finding in found)
    right = sum((finding.right for finding in found), Counter[str]())
    resumes = sum(finding.resumes for finding in found)
    problems = [f"{where}: {text}" for where, finding in totals.findings for text in finding.problems]
    durability = {
        **given,
        "kills": totals.kills,
        "at_random_moments": totals.points[""],
        "at_fault_points": totals.kills - totals.points[""],
        "by_processes": {str(count): kills for count, kills in sorted(totals.processes.items())},
        "stores": totals.stores,
        "looks": totals.rounds,
        "seconds": round(seconds, 1),
        "acknowledged": acknowledged,
        "recovered": max(0, acknowledged - counts["lost"]),
        **counts,
        "recovered_share": _share(max(0, acknowledged - counts["lost"]), acknowledged),
        "under_way": {"whole": whole, "not_at_all": absent},
        "resumes": resumes,
        "right": {
            "active_task": _share(right["task"], resumes),
            "active_node": _share(right["node"], resumes),
            "next_step": _share(right["next_step"], resumes),
            "decisions": _share(right["decisions"], resumes),
            "interrupted": _share(right["interrupted"], resumes),
            "decision_path_of_checkpoints": _share(right["paths"], right["checkpoints"]),
        },
        "verbs": dict(sum((finding.verbs for finding in found), Counter[str]()).most_common()),
        "refused": dict(sum((finding.refused for finding in found), Counter[str]()).most_common()),
        "indexes_moved_aside": totals.damaged,
        "chroma": {"asked": totals.asked_of_chroma, "missed": totals.missed_by_chroma},
        "ms": {name: summary(ms) for name, ms in totals.times.items() if ms},
        "points": {name: _point(totals, name) for name in ["", *faults.POINTS] if totals.points[name]},
        "never_passed": list(never_passed),
        "problems": problems[:_SHOWN],
        "failed": bool(sum(counts.values())),
    }
    origin = results.provenance(HashingEmbedder(CONFIG["embedding"]["dimension"]).identity)
    machine = {"platform": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count()}
    return {
        "format": results.FORMAT,
        results.DURABILITY: durability,
        "config": config.load(CONFIG).model_dump(mode="json"),
        "provenance": {**origin, **machine},
    }


def file_name(result: Mapping[str, Any]) -> str:
    """``durability-<kills asked for>[-s<seed>][-logs][-<sabotage>]-<short sha>[-dirty].json``."""
    found, git = result[results.DURABILITY], result["provenance"]["git"]
    parts = [
        "durability",
        str(found["asked"]),
        f"s{found['seed']}" if found["seed"] else "",
        "logs" if found["logs"] else "",
        found["sabotage"] or "",
        git["sha"][:10] if git["sha"] else "uncommitted",
        "dirty" if git["sha"] and git["dirty"] else "",
    ]
    return "-".join(part for part in parts if part) + ".json"


def _point(totals: Totals, name: str) -> dict[str, Any]:
    return {
        "kills": totals.points[name],
        "problems": totals.blamed[name],
        "recover_ms": summary(totals.recovered_after[name]),
    }


def _share(part: int, whole: int) -> float | None:
    """In percent; None of nothing."""
    return round(100.0 * part / whole, 4) if whole else None
