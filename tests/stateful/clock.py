"""The clock of the state machine."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


class Steps:
    """Time that moves by a minute with every look, or stands still."""

    def __init__(self) -> None:
        self.time = datetime(2026, 7, 2, tzinfo=timezone.utc)
        self.moving = True

    def now(self) -> datetime:
        if self.moving:
            self.time += timedelta(seconds=1)
        return self.time
