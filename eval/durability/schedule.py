"""Who is killed when: half of all kills at a random moment, half at a fault point, each of them in its turn."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from hybridmem import faults

#: Only the process that owns the index passes these, so every process of the round is to die there.
OWNERS = (
    "index.before_upsert", "index.after_upsert", "index.after_outbox", "close.after_index",
    "rebuild.before_aside", "rebuild.after_aside", "rebuild.after_queue",
)  # fmt: skip
#: Passed while a store is made.
FRESH = ("migration.before_commit", "namespace.before_commit")
ORDINARY = tuple(name for name in faults.POINTS if name not in OWNERS and name not in FRESH)
#: What an agent does rather than other things so that it passes a point, by the first part of its name.
WANTS = {
    "move": ("move",),
    "import": ("import_",),
    "revise": ("update",),
    "states": ("forget", "restore_forgotten", "archive", "unarchive"),
    "task": ("start_task", "switch_task", "finish_task"),
    "checkpoint": ("checkpoint",),
}
#: At which time that it is passed a process dies at most, likewise.
_TIMES = {
    "write": 20,
    "node": 15,
    "log": 20,
    "revise": 4,
    "move": 3,
    "task": 3,
    "states": 2,
    "checkpoint": 3,
    "import": 6,
    "index": 3,
}
#: Seconds after the fork, from and to: while it opens, in its first writes, later.
_MOMENTS = ((0.0, 0.03), (0.03, 0.3), (0.3, 0.8))
#: After so many turns in which it was not passed a point is given up.
_PATIENCE = 6
_STEPS = 60
_WITHOUT_END = 5_000


@dataclass(frozen=True, slots=True)
class Fate:
    """Of one process: it dies at the ``times``-th passing of ``point``, or ``delay`` seconds after it was forked, or
    (neither) ends in order after ``steps`` steps."""

    steps: int
    point: str | None = None
    times: int = 1
    delay: float | None = None

    @property
    def wants(self) -> tuple[str, ...]:
        return WANTS.get(self.point.partition(".")[0], ()) if self.point else ()


@dataclass(frozen=True, slots=True)
class Round:
    """What happens to a store between two looks at it; ``torn``: its index is damaged before."""

    fates: tuple[Fate, ...]
    torn: bool = False


class Schedule:
    """Seeded. ``kills`` (wanted) decides when points go before random moments: so that each has its turn."""

    def __init__(self, random: Random, kills: int, points: Sequence[str] | None = None) -> None:
        """:param points: only these, and no kill at a random moment; None: all, and random ones."""
        self._random = random
        self._left = kills
        self._everywhere = points is None
        self._points = tuple(faults.POINTS) if points is None else tuple(points)
        self._due = {
            kind: deque(self._shuffled([name for name in group if name in self._points]))
            for kind, group in (("owners", OWNERS), ("fresh", FRESH), ("ordinary", ORDINARY))
        }
        self._uncovered = set(self._points)
        self._missed: Counter[str] = Counter()

    @property
    def never_passed(self) -> list[str]:
        return sorted(self._uncovered)

    def first(self, processes: int) -> Round | None:
        """What happens while a new store is made, or None: it is made in peace."""
        name = self._next("fresh")
        return None if name is None else Round(tuple(Fate(0, name) for _ in range(processes)))

    def next(self, processes: int) -> Round:
        if self._due["owners"] and self._random.random() < self._owners_share(processes):
            name = self._next("owners")
            assert name is not None
            fates = tuple(self._at(name) for _ in range(processes))
            return Round(fates, torn=name.startswith("rebuild"))
        return Round(tuple(self._fates(processes)))

    def tell(self, fate: Fate, *, died: bool) -> None:
        """What became of a fate."""
        self._left -= died
        if fate.point is None:
            return
        if died:
            self._uncovered.discard(fate.point)
        elif fate.point in self._uncovered:
            self._missed[fate.point] += 1
            if self._missed[fate.point] < _PATIENCE:
                kind = "owners" if fate.point in OWNERS else "fresh" if fate.point in FRESH else "ordinary"
                if fate.point in self._due[kind]:
                    self._due[kind].remove(fate.point)
                self._due[kind].appendleft(fate.point)

    def _owners_share(self, processes: int) -> float:
        if not self._due["ordinary"]:
            return 1.0
        if self._hurried:
            return (0.8 if processes == 1 else 0.35) if set(OWNERS) & self._uncovered else 0.0
        return 0.5 * len(self._due["owners"]) / len(self._points)

    @property
    def _hurried(self) -> bool:
        """Whether the kills that are left are hardly enough for the points that had no turn yet."""
        return not self._everywhere or self._left < 2.5 * len(self._uncovered)

    def _fates(self, processes: int) -> Iterator[Fate]:
        spared = self._random.randrange(processes) if processes > 1 and self._random.random() < 0.25 else None
        for place in range(processes):
            if place == spared:
                yield Fate(self._random.randint(5, _STEPS))
            elif self._due["ordinary"] and (self._hurried or self._random.random() < 0.55):
                name = self._next("ordinary")
                assert name is not None
                yield self._at(name)
            else:
                yield Fate(_WITHOUT_END, delay=self._random.uniform(*self._random.choice(_MOMENTS)))

    def _at(self, name: str) -> Fate:
        most = 1 if self._missed[name] else _TIMES.get(name.partition(".")[0], 1)
        return Fate(_STEPS, name, self._random.randint(1, most))

    def _next(self, kind: str) -> str | None:
        """The point whose turn it is; it goes to the end of the line."""
        due = self._due[kind]
        if not due:
            return None
        due.rotate(-1)
        return due[-1]

    def _shuffled(self, names: list[str]) -> list[str]:
        self._random.shuffle(names)
        return names
