"""C056: Ctrl-C or SIGTERM in a long import: one line, the right exit code, all or nothing; and it can be run again."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from crash.helpers import check_database

from .processes import document, program

RECORDS = 2_000


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = ("第{}条：财务退回了报销单", "message {}: the order was shipped late", "会议 meeting {} 改到 Friday")
    messages = [{"role": "user", "content": texts[n % 3].format(n)} for n in range(RECORDS)]
    file = tmp_path_factory.mktemp("chat") / "聊天 chat.json"
    file.write_text(json.dumps(messages, ensure_ascii=False), encoding="utf-8")
    return file


@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_import_that_is_stopped_anywhere_says_so_and_the_next_adds_only_what_is_missing(
    tmp_path: Path, chat: Path, how: signal.Signals, code: int
) -> None:
    """C056: at three random moments, one after the other on the same store."""
    store, chance = tmp_path / "store", random.SystemRandom()
    for _ in range(3):
        moment = chance.uniform(0.0, 0.8)
        process = program(store, "import", str(chat))
        # Before it has come to the store nothing can be left half done.
        while not (store / "tree.db-wal").exists() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(moment)
        process.send_signal(how)
        _, err = process.communicate(timeout=120)
        assert process.returncode in (0, code), f"after {moment} s: {err}"
        assert "Traceback" not in err
        if process.returncode:
            assert err.count("\n") == 1, err
        there = len(check_database(store)) if has_namespace(store) else 0
        assert there in (0, RECORDS), f"after {moment} s"
    ended, answer = document(program(store, "import", str(chat), "--json"))
    assert ended == 0
    assert answer["added"] == RECORDS - there
    assert len(check_database(store)) == RECORDS
    assert document(program(store, "index", "--json"))[1]["waiting"] == 0
    ended, answer = document(program(store, "import", str(chat), "--json"))
    assert (ended, answer["added"], answer["skipped"]) == (0, 0, RECORDS)


def has_namespace(store: Path) -> bool:
    """A signal may come before the store has any, and before it has tables."""
    with contextlib.closing(sqlite3.connect(store / "tree.db")) as conn, contextlib.suppress(sqlite3.OperationalError):
        return conn.execute("SELECT count(*) FROM namespace").fetchone() != (0,)
    return False
