"""``python -m eval``: parses, runs, prints. Tables, file names and JSON documents go to stdout, all else to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eval import cache, kinds, results, studies, tables
from eval import experiment as experiments
from hybridmem.errors import ConfigError, HybridMemError

if TYPE_CHECKING:
    from eval.batch import Done
    from eval.runner import Progress as Callback

_RUNS = Path(__file__).resolve().parent / "runs"
_STORES = _RUNS / "cache" / "bench"
#: Wide enough for every column when the output is not a terminal; a file does not wrap.
_PLAIN_WIDTH = 200

app = typer.Typer(
    help="Measure hybridmem and what it is compared with, on public and made data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Experiment = Annotated[Path, typer.Argument(help="The experiment, e.g. configs/experiments/smoke.yaml.")]
_Data = Annotated[
    Path, typer.Option("--data", help="The folder with a folder per data set, or the folder or file of one.")
]
_Out = Annotated[Path, typer.Option("--out", help="The folder for the result files.")]
_Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Ask only the first N questions.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
_Results = Annotated[list[Path], typer.Argument(help="Result files, or folders of them.")]
_Drawn = Annotated[Path, typer.Option("--out", help="The folder for the files.")]
_DATA = Path("data")


@app.command()
def run(
    experiment: _Experiment,
    data: _Data = _DATA,
    out: _Out = _RUNS,
    limit: _Limit = None,
    as_json: _Json = False,
) -> None:
    """Run an experiment: a table and a result file for each of its data sets and seeds.

    One that says a kind (forgetting, consolidation, updates) is made whole, with one result file.
    """
    with _errors():
        study = studies.load(experiment, data, cache.FILE)
        if study is not None:
            if limit is not None:
                raise ConfigError(f"--limit: {experiment} does not compare systems on questions, and is made whole")
            _study(study, out, as_json)
            return
        plan, runs = experiments.load(experiment)
        if plan.sweep:
            raise ConfigError(f"{experiment}: has a sweep; run it with: python -m eval sweep {experiment}")
        done = _make(runs, data, out, limit, again=True)
        _show(done, as_json)


@app.command()
def sweep(
    experiment: _Experiment,
    data: _Data = _DATA,
    out: _Out = _RUNS,
    limit: _Limit = None,
    as_json: _Json = False,
) -> None:
    """Run every point of the grid of an experiment that has not been run yet with this code, configuration and data.

    So an interrupted sweep goes on where it stopped, and one that is finished only prints its tables.
    """
    with _errors():
        if experiments.read(experiment).get("kind") is not None:
            raise ConfigError(f"{experiment}: has no sweep; run it with: python -m eval run {experiment}")
        _, runs = experiments.load(experiment)
        _show(_make(runs, data, out, limit, again=False), as_json)


@app.command()
def table(
    files: _Results,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of drawn tables.")] = False,
    as_json: _Json = False,
) -> None:
    """Print the tables of results."""
    with _errors():
        found, others = results.by_kind(results.read_all(files))
        if as_json:
            _print_json([_summary(result) for result in [*found, *others]])
        else:
            _print_tables(found, others, markdown=markdown)


@app.command()
def plot(files: _Results, out: _Drawn) -> None:
    """Draw the plots of results, and print where they are."""
    with _errors():
        found, others = results.by_kind(results.read_all(files))
        from eval import plots

        _print_files(plots.draw(found, out, others))


@app.command()
def report(files: _Results, out: _Drawn) -> None:
    """Write a report with all tables and plots of results, and print where it is. Runs nothing."""
    with _errors():
        found, others = results.by_kind(results.read_all(files))
        from eval import report as reports

        _print_files(reports.write(found, out, others))


@app.command()
def bench(
    nodes: Annotated[str, typer.Option("--nodes", help="Sizes of the stores, each ≥ 300.")] = "1000,10000,100000",
    out: _Out = _RUNS,
    stores: Annotated[
        Path, typer.Option("--stores", help="The folder where stores are kept for the next run; may be deleted.")
    ] = _STORES,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the planted data.")] = 0,
    as_json: _Json = False,
) -> None:
    """Measure how long add, index, search, context and open take, beside Chroma's filtered query, a bare INSERT and
    numpy. The first run builds the stores, which takes minutes at 100,000 nodes.
    """
    with _errors():
        # Only here: with it come the library and Chroma.
        from eval.bench import run as benchmark

        sizes = benchmark.sizes(nodes)
        with _progress(benchmark.steps(sizes), 1, unit="steps") as (progress, _):
            result = benchmark.run(sizes, seed, stores, progress)
        _made(out / benchmark.file_name(result), result, as_json)


@app.command()
def durability(
    kills: Annotated[int, typer.Option("--kills", min=1, help="How many processes are killed, or a few more.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of what agents do, and of when they die.")] = 0,
    logs: Annotated[
        Path | None,
        typer.Option("--logs", help="A folder of *.jsonl logs that agents live through; else synthetic ones."),
    ] = None,
    sabotage: Annotated[
        str | None,
        typer.Option("--sabotage", help="Break the product in the agents: outbox or log. The run must then fail."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where stores are made; else the system's temporary folder.")
    ] = None,
    out: _Out = _RUNS,
    as_json: _Json = False,
) -> None:
    """Kill agents at work, at random moments and at every fault point, and look at what is left of what they were told.

    Exit code 1 if anything was lost, is there and should not be, is wrong, or disagrees.
    """
    with _errors():
        from eval.durability import outcome
        from eval.durability import run as runs

        with _progress(kills, 1, unit="kills") as (progress, _):
            result = runs.run(kills, seed, progress, logs=logs, broken=sabotage, folder=folder)
        _made(out / outcome.file_name(result), result, as_json)
        if result[results.DURABILITY]["failed"]:
            raise typer.Exit(1)


def main() -> None:
    """The entry of ``python -m eval``."""
    app(prog_name="python -m eval")


def _make(runs: Sequence[experiments.Run], data: Path, out: Path, limit: int | None, *, again: bool) -> list[Done]:
    # Only here: with them come the embedders and the systems, which --help needs none of.
    from eval.batch import Batch

    vectors = cache.VectorCache(cache.FILE)
    try:
        batch = Batch(data, out, limit=limit, cache=vectors)
        with _progress(batch.questions(runs), len(runs)) as (progress, next_run):
            done = []
            for each in runs:
                done.append(batch.make(each, again=again, progress=progress))
                next_run()
            return done
    finally:
        vectors.close()


def _study(study: studies.Study, out: Path, as_json: bool) -> None:
    with _progress(study.steps, 1, unit=study.unit) as (progress, _):
        result = study.run(progress)
    _made(out / results.study_file_name(result), result, as_json)


def _made(file: Path, result: dict[str, Any], as_json: bool) -> None:
    """Writes a result that is not of an experiment with systems, and shows it."""
    results.write(file, result)
    if as_json:
        _print_json({**_summary(result), "file": str(file)})
        return
    _print_tables([], [result], markdown=False)
    Console(stderr=True).print(f"result file: {_plain(file)}", soft_wrap=True, highlight=False)


def _show(done: Sequence[Done], as_json: bool) -> None:
    if as_json:
        _print_json([{**_summary(each.result), "file": str(each.file)} for each in done])
        return
    _print_tables([each.result for each in done], [], markdown=False)
    errors = Console(stderr=True)
    for each in done:
        kept = "" if each.made else " (was there already)"
        errors.print(f"result file: {_plain(each.file)}{kept}", soft_wrap=True, highlight=False)


def _print_tables(found: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]], *, markdown: bool) -> None:
    """Those of experiments with systems; and of ``others``, of the other kinds."""
    sheets = [tables.overview(found)] if len(found) > 1 else []
    for group in tables.by_dataset(found):
        sheets += [tables.of_points(group)] if len(group) > 1 else tables.of_result(group[0])
    for each in others:
        sheets += kinds.sheets(each)
    if markdown:
        typer.echo("\n".join(sheet.markdown() for sheet in sheets), nl=False)
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    for sheet in sheets:
        console.print(sheet.rich())


def _print_files(files: Sequence[Path]) -> None:
    for file in files:
        typer.echo(str(file))


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, ensure_ascii=False, indent=1))


def _summary(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "questions"}


@contextmanager
def _errors() -> Iterator[None]:
    """Errors that are meant for the user become one line and the exit code of their class."""
    errors = Console(stderr=True)
    try:
        yield
    except HybridMemError as error:
        errors.print(f"[red]error:[/red] {_plain(error)}", soft_wrap=True, highlight=False)
        raise typer.Exit(error.exit_code) from error
    except OSError as error:
        errors.print(f"[red]error:[/red] a file cannot be written: {_plain(error)}", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from error


@contextmanager
def _progress(questions: int, runs: int, *, unit: str = "questions") -> Iterator[tuple[Callback, Any]]:
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        whole = bar.add_task("", total=runs, unit="runs", visible=runs > 1)
        task = bar.add_task("starting", total=questions, unit=unit)
        yield lambda what, answered: bar.update(task, description=what, advance=answered), lambda: bar.advance(whole)


def _plain(value: object) -> str:
    """Text for rich that is not read as markup: paths and messages hold square brackets."""
    return str(value).replace("[", "\\[")
