"""verify() of a store whose vectors are on a Chroma server: it says so, and takes the files beside it for nothing."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

from damages import make

from hybridmem import verify

URL = "http://127.0.0.1:9"


def test_what_a_server_holds_is_not_compared_and_nobody_asks_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    make(store)
    with contextlib.closing(sqlite3.connect(store / "tree.db", isolation_level=None)) as conn:
        [(key,)] = conn.execute("SELECT json_extract(value, '$[1]') FROM setting WHERE key = 'index_of'").fetchall()
        conn.execute("UPDATE setting SET value = ? WHERE key = 'index_of'", (json.dumps([URL, key]),))
    report = verify(store)
    assert report.ok, report.findings
    assert [URL in note for note in report.notes] == [True]
    assert "vectors" not in report.counts
