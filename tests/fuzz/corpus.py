"""What has been found, in its smallest form; each is tried by test_fuzz.py every time. ``python -m tests.fuzz`` prints
new ones. The number is the seed."""

from __future__ import annotations

import json
from typing import Any

from .documents import RECEIPT
from .kinds import Query
from .values import HUGE
from .worlds import KEY

CORPUS: dict[str, list[Any]] = {
    "command": [
        (["backup", "x" * 300], None),  # 1: no file can have that name
        (["--json", '{"a":' * 5_000], None),  # 2: a word that no message can show
        (["--json", "add", "x", "--metadata", '{"a":' * 5_000], None),  # deeper than Python reads
        (["--json", "export", "store/../store/tree.db"], None),  # over the store's own file
        (["--json", "export", "out.jsonl", "--format", "xml"], None),  # refused, and no file is left
        (["new-key", "a\0b"], None),  # 1000: no name of a file
        (["config", "--json", "--set", "0\x850='"], None),  # two lines, for those that end one at U+0085
    ],
    "command, separate": [
        (["backup", "store/tree.db"], None),  # 3011: looked like a store of the other layout
    ],
    "sharing": [
        ("set_group member", HUGE),  # 3012: a number that no message can show
    ],
    "sealed": [
        ("sealed.jsonl", [("raw", "more", "[" * 100_000)], [], "auto", KEY),  # nested deeper than Python reads
    ],
    "receipt": [
        (json.dumps(RECEIPT).encode(), False),  # what erase --json printed, which was refused
        (json.dumps({**RECEIPT, "ids": [["x"]]}).encode(), False),
    ],
    "file": [
        # a weight that is no float
        (b'{"nodes": [{"id": "a", "content": "x", "weight": ' + b"9" * 400 + b"}]}", "tree", True, "task"),
    ],
    "messages": [
        # 1003: took minutes, as the gate looked at the whole run once from each character of it
        (b'[{"role": "user", "content": "' + b"[" * 100_000 + b'x"}]', "chat", False),
    ],
    "query": [
        Query("发票", k=0, filters=(("types", False),)),  # 1: no list
        Query("发票", budget=HUGE, as_context=True),  # 1: a number that no message can show
        Query("发票", scope="\ud800"),  # 1000: the entry in the audit trail could not be written, nor anything after it
    ],
    "value": [
        ("add id", None, 5_000, False),  # 1: a value that no message can show
        ("update version", None, 5_000, False),  # 1
        ("add importance", 10**400, 0, False),  # a number that is no float
    ],
}
