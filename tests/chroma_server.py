"""A Chroma server in a process of its own, as an operator would run one, to be killed, stopped and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

PROGRAM = Path(sys.executable).with_name("chroma.exe" if sys.platform == "win32" else "chroma")
#: Far longer than it takes on a busy machine.
START_SECONDS = 90.0


class ChromaServer:
    """Started with the object, and killed at the end of the ``with`` block if it still runs."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start(directory)

    def __enter__(self) -> ChromaServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, directory: Path) -> None:
        """Runs on the data in this directory, at the same address as before."""
        assert PROGRAM.exists(), f"{PROGRAM}: chromadb brings this program"
        command = [str(PROGRAM), "run", "--path", str(directory), "--host", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            command,
            cwd=directory.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS
        with httpx.Client(timeout=5.0, trust_env=False) as client:
            while True:
                try:
                    if client.get(f"{self.url}/api/v2/heartbeat").is_success:
                        return
                except httpx.TransportError:
                    pass
                assert self._process.poll() is None, "the server ended while it started"
                assert time.monotonic() < deadline, "the server never answered"
                time.sleep(0.05)

    def kill(self) -> None:
        """kill -9, also of one that is paused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It takes connections, since the system does, and answers nothing: as a network that swallows everything."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class SilentServer:
    """Takes connections and reads what is sent, and never answers. ``requests`` is what each connection has sent."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self.asked = threading.Event()
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> SilentServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        self._thread.join()
        self.hang_up()

    def hang_up(self) -> None:
        """Ends every connection without an answer."""
        for one in self._open:
            one.close()
        self._open.clear()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            connection.settimeout(30.0)
            self.requests.append(connection.recv(65536))
            self.asked.set()
