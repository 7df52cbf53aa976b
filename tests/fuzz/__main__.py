"""The long run: ``python -m tests.fuzz --minutes 10 --seed 1`` from the root of the repository.

Goes round the kinds with a new seed each time until the time is over. Prints what failed, in its smallest form, to be
put into corpus.py; how many examples of each kind were tried; and the seeds. Ends with 1 if something failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from .arena import Arenas
from .guarded import KINDS

#: Seconds that one example may take, copying and checking the store included, on a machine that does other things too.
SLOW = 20.0
#: Examples of one kind from one seed.
ROUND = 100


def run(arenas: Arenas, name: str, number: int, examples: int) -> tuple[int, list[str]]:
    """Tries new examples of a kind from a seed. Returns how many, and what failed in its smallest form."""
    tried, last, has_failed = 0, None, False
    kind = KINDS[name]

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False, print_blob=False,
    )  # fmt: skip
    @given(kind.examples)
    def check(example: object) -> None:
        nonlocal tried, last, has_failed
        tried, last = tried + 1, example
        started = time.monotonic()
        try:
            kind.check(arenas[kind.world], example)
            took = time.monotonic() - started
            assert took < SLOW, f"took {took:.0f} seconds"
        except Exception as error:
            if not has_failed:  # its smallest form may take minutes to be found
                print(
                    f"{name}, seed {number}: {type(error).__name__}: {repr(example)[:1000]}; looking for less",
                    flush=True,
                )
            has_failed = True
            raise

    try:
        check()
    except Exception as error:
        where = "".join(traceback.format_tb(error.__traceback__, limit=-5))
        return tried, [
            f"{name}, seed {number}: {repr(last)[:1000]}\n{where}{type(error).__name__}: {str(error)[:1000]}"
        ]
    return tried, []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to go on (10)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; each round takes the next (1)")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="only this kind; repeatable")
    parser.add_argument("--examples", type=int, default=ROUND, help=f"of a kind in one round ({ROUND})")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    failures: list[str] = []
    number = given.seed
    with tempfile.TemporaryDirectory() as folder:
        arenas, end = Arenas(Path(folder)), time.monotonic() + 60 * given.minutes
        while time.monotonic() < end:
            for name in given.kind or KINDS:
                if time.monotonic() > end:
                    break
                tried, failed = run(arenas, name, number, given.examples)
                counts[name] += tried
                failures += failed
                for failure in failed:
                    print(f"FAILED {failure}", flush=True)
            print(f"seed {number}: {sum(counts.values()):,} examples so far", flush=True)
            number += 1
    each = "; ".join(f"{name} {count:,}" for name, count in counts.items())
    print(f"seeds {given.seed} to {number - 1}: {each}. {sum(counts.values()):,} examples, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
