"""What a process notes outside the store: what it is about to do, and what was acknowledged.

One JSON object per line, written with a single ``write`` to a file that is only appended to: a killed process leaves
whole lines, since what the system has taken it keeps.

- ``{"verb", "given"}``: an intention, right before the call
- ``{"made", "version", "more"}``: the call returned; or ``{"refused"}``: it raised an error that says so
- ``{"resumed"}``: what resume() said; ``{"closing"}``, ``{"closed"}``: around close()
- ``{"failed"}``: something that must never happen, in words
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Journal:
    """Of one process."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, entry: Mapping[str, Any]) -> None:
        os.write(self._descriptor, (json.dumps(entry, ensure_ascii=False) + "\n").encode())


def read(file: Path) -> list[dict[str, Any]]:
    """The entries of a process, oldest first; none if it did not get as far as its first."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
