"""``python -m eval``: parses, runs, prints. The table or one JSON document goes to stdout, all else to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eval import experiment as experiments
from eval import report, results, runner
from hybridmem.errors import HybridMemError

_RUNS = Path(__file__).resolve().parent / "runs"
#: Wide enough for every column when the output is not a terminal; a file does not wrap.
_PLAIN_WIDTH = 120

app = typer.Typer(
    help="Measure hybridmem and what it is compared with, on public data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _group() -> None:
    """Keeps ``run`` a subcommand while it is the only one."""


@app.command()
def run(
    experiment: Annotated[Path, typer.Argument(help="The experiment, e.g. configs/experiments/locomo.yaml.")],
    data: Annotated[Path, typer.Option("--data", help="The folder that holds the data set, or its file.")],
    out: Annotated[Path, typer.Option("--out", help="The folder for the result file.")] = _RUNS,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Ask only the first N questions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")] = False,
) -> None:
    """Run an experiment: print one table, write one result file."""
    errors = Console(stderr=True)
    try:
        result = _measure(experiment, data, limit, errors)
        file = out / results.file_name(result["experiment"]["name"], result["provenance"]["git"], limit)
        results.write(file, result)
    except HybridMemError as error:
        errors.print(f"[red]error:[/red] {_plain(error)}", soft_wrap=True, highlight=False)
        raise typer.Exit(error.exit_code) from error
    except OSError as error:
        errors.print(f"[red]error:[/red] the result file cannot be written: {_plain(error)}", soft_wrap=True)
        raise typer.Exit(1) from error
    if as_json:
        summary = {key: value for key, value in result.items() if key != "questions"}
        typer.echo(json.dumps({**summary, "file": str(file)}, ensure_ascii=False, indent=1))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    console.print(report.table(result))
    errors.print(f"result file: {_plain(file)}", soft_wrap=True, highlight=False)


def main() -> None:
    """The entry of ``python -m eval``."""
    app(prog_name="python -m eval")


def _measure(path: Path, data: Path, limit: int | None, console: Console) -> dict[str, Any]:
    """Everything of a run but writing and printing it: the content of the result file."""
    experiment, config = experiments.load(path)
    # Only here: with them come the embedders and the systems, which --help needs none of.
    from eval.datasets import DATASETS
    from eval.systems import SYSTEMS
    from hybridmem import embed, tokens

    load = experiments.pick(DATASETS, experiment.dataset, "data set")
    systems = {name: experiments.pick(SYSTEMS, name, "system") for name in experiment.systems}
    dataset = load(data)
    if limit is not None:
        dataset = dataset.first(limit)
    embedder = embed.create(config.embedding)
    questions = dataset.counts()["questions"] * len(systems)
    with _progress(console, questions) as progress:
        measured = runner.run(
            experiment,
            dataset,
            systems,
            config=config,
            embedder=embedder,
            counter=tokens.token_counter(),
            progress=progress,
        )
    return {
        "experiment": experiment.model_dump(mode="json"),
        "config": config.model_dump(mode="json"),
        "limit": limit,
        "provenance": results.provenance(embedder.identity),
        **measured,
    }


@contextmanager
def _progress(console: Console, questions: int) -> Iterator[runner.Progress]:
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("questions"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=questions)
        yield lambda what, answered: bar.update(task, description=what, advance=answered)


def _plain(value: object) -> str:
    """Text for rich that is not read as markup: paths and messages hold square brackets."""
    return str(value).replace("[", "\\[")
