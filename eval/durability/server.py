"""The fork server: a process that has imported everything and opened nothing, and forks a child for each order.

A new interpreter with Chroma in it takes two seconds; a thousand kills would take hours. SQLite and Chroma are opened
in the children only. Run as ``python -m eval.durability.server``; speaks JSON, a line for a line.
"""

from __future__ import annotations

import gc
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from eval import results
from hybridmem.errors import HybridMemError

#: Far longer than anything takes: only a hang reaches it.
PATIENCE = 120.0


class Server:
    """The other end: what the harness holds."""

    def __init__(self, logs: Path | None) -> None:
        """:param logs: where trajectories are read from; None: they are made."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "eval.durability.server", *([str(logs)] if logs else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=results.ROOT,
            env={**os.environ, "PYTHONPATH": str(results.ROOT), "PYTHONFAULTHANDLER": "1"},
        )

    def start(self, order: dict[str, Any]) -> int:
        """Forks a child for an order (``do``: live, found or look; ``errors``: where its traceback goes): its pid."""
        return int(self._ask(order))

    def wait(self, pid: int) -> int:
        """Waits for the end of a child: its exit code, or the negative number of the signal that ended it.

        :raises HybridMemError: it hangs.
        """
        code = self._ask({"do": "wait", "pid": pid})
        if code is None:
            os.kill(pid, signal.SIGKILL)
            raise HybridMemError(f"a process did not end within {PATIENCE:g} s")
        return int(code)

    def run(self, order: dict[str, Any]) -> None:
        """Starts a child that must end well.

        :raises HybridMemError: it did not; says how.
        """
        code = self.wait(self.start(order))
        if code != 0:
            file = Path(order["errors"])
            said = file.read_text(encoding="utf-8") if file.exists() else ""
            raise HybridMemError(f"{order['do']} on {order['store']} ended with {code}\n{said}")

    def _ask(self, order: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise HybridMemError(f"the fork server ended with {self._process.wait()}")
        return json.loads(line)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def main() -> None:
    """Serves until stdin ends."""
    from eval.durability import agent, trajectories
    from hybridmem.index import chroma, chroma_import, health
    from hybridmem.text import terms

    chroma_import.import_chromadb()
    importlib.import_module("chromadb.api.rust")  # what would else be imported by each child anew
    terms("invoices 发票")
    chroma.HNSW = dict(agent.HNSW)
    health.opens_in_child = opens_in_fork
    tales = trajectories.read(Path(sys.argv[1])) if len(sys.argv) > 1 else trajectories.made(0)
    logging.getLogger("hybridmem").addHandler(logging.NullHandler())  # what is torn is counted, and no news
    logging.getLogger("hybridmem").propagate = False
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints must not answer
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "wait":
            answer: Any = _wait(order["pid"])
        else:
            answer = os.fork()
            if not answer:
                _child(order, tales)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _wait(pid: int) -> int | None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def _child(order: dict[str, Any], tales: Sequence[Any]) -> None:
    """Does not return."""
    code = 1
    try:
        _do(order, tales)
        code = 0
    except BaseException:
        Path(order["errors"]).write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(code)


def _do(order: dict[str, Any], tales: Sequence[Any]) -> None:
    from eval.durability import agent, check, sabotage
    from hybridmem import faults

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the harness
    if order["do"] == "found":
        agent.found(order["store"])
    elif order["do"] == "look":
        check.look(order)
    else:
        if order["sabotage"]:
            sabotage.KINDS[order["sabotage"]]()
        os.environ[faults.VARIABLE] = order["fault"] or ""
        faults.arm()
        agent.live(order, tales[order["tale"] % len(tales)])


def opens_in_fork(
    directory: Path, *collections: str, timeout_seconds: float = PATIENCE, keep_open: Sequence[int] = ()
) -> bool:
    """Stands in for hybridmem.index.health.opens_in_child, which starts an interpreter: the same check in a fork, which
    has Chroma imported already. It keeps the lock of the index just the same until it is done."""
    from hybridmem.index.child import answer_self

    held = [os.dup(descriptor) for descriptor in keep_open]  # hybridmem closes its own copies in a fork
    child = os.fork()
    if not child:
        code = 1
        try:
            answer_self(directory, collections)
            code = 0
        finally:
            os._exit(code)
    for descriptor in held:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


if __name__ == "__main__":
    main()
