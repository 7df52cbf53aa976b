"""Which process a run of an agent was, and whether that process still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def process_name() -> str:
    """Identifies this process on this machine, safe against reuse of its number."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def is_running(process: str) -> bool:
    """Whether the process of a session still lives. One on another machine counts as living: we cannot know."""
    host, pid, started = process.rsplit(":", 2)
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it exists and belongs to somebody else
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """The start time of a process in clock ticks since boot, '' where the system does not tell (or a zombie's '')."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] == "Z" else fields[19]
