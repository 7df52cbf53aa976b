"""The command demo: two real processes, a real SIGKILL between them, and what is left of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Optional

import typer

from hybridmem import inputs
from hybridmem.cli import demo_show
from hybridmem.cli.demo_story import AGENT, STORIES
from hybridmem.cli.options import DATABASE, Options, command
from hybridmem.cli.output import Reply, console
from hybridmem.errors import HybridMemError, InvalidInput

#: Seconds one of the two processes may take before it counts as hung.
PATIENCE = 120.0


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "demo")(demo)


def demo(
    options: Options,
    lang: Annotated[str, typer.Option("--lang", help="zh or en.")] = "zh",
    keep: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--keep", metavar="DIR", help="Make the store there and keep it; default: a temporary one."),
    ] = None,
) -> Reply:
    """See it work: an agent is killed half-way and carries on.

    One process works on an expense claim and is killed by SIGKILL in the middle of a write. A second one opens the
    store, says what was going on and what is next, answers three questions from memory, and finishes the step. Exit
    code 1 if anything that was acknowledged is missing.
    """
    if lang not in STORIES:
        raise InvalidInput(f"lang: must be one of {', '.join(STORIES)}, not {lang!r}")
    if options.store is not None:
        raise InvalidInput("demo: makes a store of its own; to keep it, give --keep DIR instead of --store")
    # The demo does not download a model; whoever wants another one configures it.
    settings = options.configuration(embedding__local_files_only=True).model_dump(mode="json")
    show = demo_show.Show(STORIES[lang], console(quiet=options.as_json))
    with _store(keep) as store:
        data = Run(lang, store, settings, show).run()
        data["store"] = str(store) if keep is not None else None
        show.end(data, agent=AGENT, kept=store if keep is not None else None)
    return Reply(data, lambda screen: None)


@dataclass(slots=True)
class Run:
    """One run of the demo."""

    lang: str
    store: Path
    settings: dict[str, Any]
    show: demo_show.Show
    acknowledged: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> dict[str, Any]:
        """Both processes. :raises HybridMemError: something acknowledged is missing, or a write is half there."""
        begun = time.monotonic()
        self.show.title()
        killed_by = self._first()
        data = self._second()
        data |= {"lang": self.lang, "killed_by": killed_by, "acknowledged": len(self.acknowledged)}
        data["in_flight"] = len(STORIES[self.lang].step)
        data["seconds"] = round(time.monotonic() - begun, 1)
        if data["found"] != len(self.acknowledged) or data["in_flight_found"]:
            raise HybridMemError(
                f"demo: {data['found']} of {len(self.acknowledged)} acknowledged memories found, and "
                f"{data['in_flight_found']} of the write in flight; please report this"
            )
        return data

    def _first(self) -> str:
        """Lets the first process work until it is in the middle of a transaction, and kills it there."""
        with self._process("first", {}) as (process, lines):
            for item in lines:
                if item["kind"] == "memory":
                    self.acknowledged.append(item)
                if item["kind"] == "in_flight":
                    process.kill()
                    break
                self.show.written(item)
            process.wait()
        if process.returncode != -signal.SIGKILL:
            raise HybridMemError(f"demo: the first process ended by itself with {process.returncode}")
        self.show.killed(self.acknowledged)
        return signal.Signals(-process.returncode).name

    def _second(self) -> dict[str, Any]:
        """Lets the second process resume, and shows what it says as it says it."""
        data: dict[str, Any] = {}
        items = [{name: item[name] for name in ("id", "type", "content")} for item in self.acknowledged]
        with self.show.waiting(), self._process("second", {"acknowledged": items}) as (process, lines):
            for item in lines:
                kind = item.pop("kind")
                data |= item
                self.show.told(kind, item, len(self.acknowledged))
            process.wait()
        if process.returncode != 0 or "stats" not in data:
            raise HybridMemError(f"demo: the second process ended with {process.returncode}")
        return data

    @contextlib.contextmanager
    def _process(
        self, name: str, more: dict[str, Any]
    ) -> Iterator[tuple[subprocess.Popen[bytes], Iterator[dict[str, Any]]]]:
        """A process of demo_agent and the JSON lines that it writes; dead at the end in any case."""
        given = {"lang": self.lang, "store": str(self.store), "config": self.settings, **more}
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "hybridmem.cli.demo_agent", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=_environment(),
            )
            watchdog = threading.Timer(PATIENCE, process.kill)
            watchdog.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                with process.stdin as pipe:
                    pipe.write(json.dumps(given).encode())
                yield process, (json.loads(line) for line in process.stdout if line.endswith(b"\n"))
                if process.returncode not in (0, -signal.SIGKILL):
                    _pass_on(errors)
            finally:
                watchdog.cancel()
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


@contextlib.contextmanager
def _store(keep: str | None) -> Iterator[Path]:
    """Where the demo writes: a new directory that goes again, or the one to keep."""
    if keep is not None:
        directory = inputs.path("keep", keep).absolute()
        if (directory / DATABASE).exists():
            raise InvalidInput(f"keep: there is a store in {directory} already; name a new directory")
        yield directory
        return
    parent = Path(tempfile.mkdtemp(prefix="hybridmem-demo-"))
    try:
        yield parent / "store"
    finally:
        shutil.rmtree(parent, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Ours, with this very package importable also when it is not installed."""
    package = str(Path(__file__).resolve().parents[2])
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": package if not path else package + os.pathsep + path}


def _pass_on(errors: IO[bytes]) -> None:
    """What a process that failed said on stderr."""
    errors.seek(0)
    print(errors.read().decode("utf-8", "replace").rstrip(), file=sys.stderr)
