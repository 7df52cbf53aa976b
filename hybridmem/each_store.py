"""What looks at one store, done for each where there is one for each namespace, and told as one."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, cast

from hybridmem import inputs
from hybridmem.findings import Report
from hybridmem.store import layout

P = ParamSpec("P")
Check = Callable[Concatenate[str | Path, P], Report]


def each_store(check: Check[P]) -> Check[P]:
    """Lets a function that reports on a store take a directory of the layout ``separate`` as well.

    With a keyword ``namespace`` it looks at the store of that one alone.
    """

    @functools.wraps(check)
    def run(path: str | Path, *given: P.args, **options: P.kwargs) -> Report:
        place, namespace = inputs.path("path", path), options.get("namespace")
        if not layout.is_separate(place):
            return check(path, *given, **options)
        if isinstance(namespace, tuple):
            return check(layout.directory_of(place, namespace), *given, **options)
        return _together(place, [check(one, *given, **options) for one in layout.stores(place)])

    return cast("Check[P]", run)  # path may be given by its name, which the type cannot say


def _together(place: Path, reports: list[Report]) -> Report:
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.counts)
    return Report(
        str(place),
        None,
        tuple(finding for report in reports for finding in report.findings),
        dict(counts),
        mended=tuple(finding for report in reports for finding in report.mended),
        notes=tuple(dict.fromkeys(f"{Path(report.path).name}: {note}" for report in reports for note in report.notes)),
        aside=tuple(file for report in reports for file in report.aside),
    )
