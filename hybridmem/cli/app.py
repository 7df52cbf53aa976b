"""The program ``hybridmem``: its commands put together, and every way it can end turned into one exit code.

0 success; the ``exit_code`` of the error (see hybridmem.errors) or of the reply; 2 also for wrong usage; 130 and 143
when stopped by Ctrl-C or SIGTERM; 141 when the reader of stdout went away; 1 for anything that should not happen.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from hybridmem.cli import (
    auditing,
    backups,
    consolidating,
    demo,
    doctor,
    encryption,
    erasing,
    files,
    forgetting,
    intake,
    memories,
    namespaces,
    output,
    past,
    recovery,
    retrieval,
    sharing,
    tasks,
    tree,
    weights,
)
from hybridmem.cli.options import group_options
from hybridmem.cli.output import Reply
from hybridmem.errors import HybridMemError, shortened

DEBUG = "HYBRIDMEM_DEBUG"
CLOSED_PIPE = 141
HELP = "Memory for long-running AI agents: a weighted tree in SQLite, embeddings in Chroma. Start with: hybridmem demo"
EPILOG = (
    "Exit codes: 0 success, also of an empty search; 2 usage or a wrong value; 3 configuration; 4 not found; "
    "5 store busy; 6 version conflict; 7 store damaged; 8 no embedding model; 9 no vector index; 10 store full or "
    "read-only; 11 store closed; 12 no reranker; 13 doctor or verify-erasure has found something; "
    "14 task claimed by another; 15 no summariser; 16 no master key, or another; 17 not shared for that; "
    "130 Ctrl-C; 141 closed pipe; 143 SIGTERM; "
    "1 anything else."
)


class Stopped(BaseException):
    """A signal asked the program to end; no Exception, so that nothing on the way takes it for an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number
        self.name = "Interrupted" if number == signal.SIGINT else "Terminated"

    @property
    def message(self) -> str:
        return (
            f"{self.name.lower()}: all that was acknowledged is stored, and of this command everything or nothing; "
            "it is safe to run it again"
        )


class _Answered(Exception):
    """An option that is a whole command has its answer; carries it past the parser."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


def _version(wanted: bool) -> None:
    if wanted:
        from hybridmem import __version__

        raise _Answered(Reply({"version": __version__}, lambda screen: screen.print(f"hybridmem {__version__}")))


def build() -> typer.Typer:
    """The program with all its commands."""
    app = typer.Typer(
        name="hybridmem",
        add_completion=False,
        no_args_is_help=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    version = Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and end.")
    ]
    group_options(app, help=HELP, epilog=EPILOG, extra={"version": version})
    parts = (
        demo, memories, intake, tasks, retrieval, tree, weights, forgetting, consolidating, recovery, past, backups,
        doctor, namespaces, erasing, files, auditing, encryption, sharing,
    )  # fmt: skip
    for part in parts:
        part.register(app)
    return app


#: Whether this run prints JSON: usage errors happen before the options are parsed, so the arguments are asked.
_as_json = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code.

    :param arguments: without the name of the program; None: those of the process.
    """
    global _as_json
    given = list(sys.argv[1:] if arguments is None else arguments)
    _as_json = "--json" in given[: given.index("--") if "--" in given else None]
    for stream in (sys.stdout, sys.stderr):
        output.make_safe(stream)
    with _logging(), _signals():
        try:
            code = _run(given or ["--help"])
            sys.stdout.flush()
        except BrokenPipeError:
            output.silence(sys.stdout)
            return CLOSED_PIPE
        return code


def _run(given: list[str]) -> int:
    try:
        with contextlib.redirect_stdout(sys.stderr) if _as_json else contextlib.nullcontext():
            # What libraries print must not get between the reader and the one document.
            result = _invoke(given)
        if isinstance(result, Reply):
            output.send(result, _as_json)
            return result.exit_code
        return result if isinstance(result, int) else 0
    except Stopped as stop:
        return _fail(stop.name, stop.message, stop.exit_code)
    except HybridMemError as error:
        return _fail(type(error).__name__, str(error), error.exit_code)
    except BrokenPipeError:
        raise
    except SystemExit as end:  # typer's and rich's answer to a closed pipe
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        usage = getattr(error, "format_message", None)
        if usage is not None:
            return _fail("UsageError", f"{usage()}{_hint(error)}", 2)
        if os.environ.get(DEBUG):
            traceback.print_exc(file=sys.stderr)
        advice = "" if os.environ.get(DEBUG) else f" (this should not happen; {DEBUG}=1 shows where)"
        return _fail(type(error).__name__, f"{type(error).__name__}: {error}{advice}", 1)


@functools.cache
def _command() -> Any:
    """The program in the form that can be called; typer builds it from the signatures, which takes a while."""
    return typer.main.get_command(build())


def _invoke(given: list[str]) -> Any:
    """What the command returned: a Reply, or the exit code of --help."""
    try:
        return _command().main(args=given, prog_name="hybridmem", standalone_mode=False)
    except _Answered as answered:
        return answered.reply


def _fail(kind: str, message: str, exit_code: int) -> int:
    output.send_failure(kind, shortened(message), exit_code, _as_json)
    return exit_code


def _hint(error: Exception) -> str:
    """Where to read how it is used. Typer's errors carry the context of the command they happened in."""
    path = getattr(getattr(error, "ctx", None), "command_path", "hybridmem")
    return f" (see: {path} --help)"


@contextlib.contextmanager
def _logging() -> Iterator[None]:
    """The log of hybridmem goes to stderr, a line each, while a command runs."""
    logger, handler = logging.getLogger("hybridmem"), output.LogLines()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the command in order: the transaction under way is rolled back, the store closed."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise Stopped(number)

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
