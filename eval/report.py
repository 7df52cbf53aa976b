"""A report of results: one Markdown file with every table and plot, made from result files; runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from eval import kinds, plots, tables
from eval.tables import Result

FILE = "report.md"


def write(results: Sequence[Result], out: Path, others: Sequence[Result] = ()) -> list[Path]:
    """Writes ``report.md`` and its plots.

    :param others: results of the kinds of eval.kinds.
    :return: the files, the report first.
    :raises HybridMemError: matplotlib is not installed.
    :raises OSError: ``out`` cannot be written to.
    """
    drawn = plots.draw(results, out, others)
    file = out / FILE
    file.write_text("\n".join([*_parts(results, others, drawn)]), encoding="utf-8")
    return [file, *drawn]


def _parts(results: Sequence[Result], others: Sequence[Result], drawn: Sequence[Path]) -> Iterator[str]:
    yield "# Evaluation report\n"
    yield from _provenance([*results, *others])
    groups = tables.by_dataset(results)
    if len(results) > 1:
        yield "## Overview\n"
        yield tables.overview(results).markdown()
    for group in groups:
        first = group[0]
        yield f"## {first['experiment']['name']}: {first['data']['name']} ({first['dataset']})\n"
        if len(group) > 1:
            yield tables.of_points(group).markdown()
            yield f"The tables and plots below are of the first of these runs: {_point(first)}.\n"
        for sheet in tables.of_result(first):
            yield sheet.markdown()
        prefix = f"{plots.name(first)}-"
        for file in drawn:
            # One name may begin like another ("locomo" and "locomo-first9"); a kind has no hyphen.
            if file.name.startswith(prefix) and "-" not in file.name.removeprefix(prefix):
                yield f"![{file.stem}]({file.name})\n"
    for each in others:
        yield f"## {kinds.title(each)}\n"
        for sheet in kinds.sheets(each):
            yield sheet.markdown()
        for file in drawn:
            if file.stem == plots.other_name(each):
                yield f"![{file.stem}]({file.name})\n"


def _provenance(results: Sequence[Result]) -> Iterator[str]:
    """What all of it was made with, each once."""
    origins = [result["provenance"] for result in results]
    commits = sorted(
        {
            f"{(origin['git']['sha'] or 'none')[:10]}{' with changes' if origin['git']['dirty'] else ''}"
            for origin in origins
        }
    )
    models = sorted({f"{origin['embedding_model']['model']}" for origin in origins})
    versions = sorted(
        {f"{name} {version}" for origin in origins for name, version in origin["versions"].items() if version}
    )
    times = sorted(origin["finished_at"] for origin in origins)
    yield f"- Commit: {', '.join(commits)}"
    yield f"- Embedding model: {', '.join(models)}"
    yield f"- Versions: {', '.join(versions)}"
    yield f"- Machine: {', '.join(sorted({origin['platform'] for origin in origins}))}"
    yield f"- Finished: {times[0]}" + (f" to {times[-1]}" if times[0] != times[-1] else "")
    yield "- Made from the result files alone: `python -m eval report`\n"


def _point(result: Result) -> str:
    shown = [f"{key.removeprefix('memory.')} = {value}" for key, value in result["point"].items()]
    return ", ".join([*shown, f"seed {result['seed']}"])
