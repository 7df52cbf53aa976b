"""Files of each format, and what happens to files: cut off, overwritten, mixed up, nested, full of odd values."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from hybridmem.erased import ErasureReceipt, hash_with

from .values import texts

START = "2026-07-01T08:00:00+00:00"


def _node(id: str, parent: str | None, type: str, content: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "node",
        "id": id,
        "parent_id": parent,
        "type": type,
        "content": content,
        "created_at": START,
        **more,
    }


#: The namespace that every example begins with, in our own format.
LINES: list[dict[str, Any]] = [
    {"kind": "hybridmem", "version": 1, "namespace": ["default"]},
    _node("root1", None, "root", "root"),
    _node("task1", "root1", "task", "企业报销任务 expense claim", task={"status": "open", "next_step": "提交报销单"}),
    _node("done1", "root1", "task", "办完的 finished", task={"status": "done", "finished_at": START}),
    _node(
        "fact1",
        "task1",
        "fact",
        "用户张三，部门研发部 research",
        importance=0.9,
        metadata={"speaker": "张三", "n": 1, "where": "紫藤抽屉"},
    ),
    _node("event1", "fact1", "event", "财务退回，发票不清晰 invoice INV-1 returned", version=3, uses=2),
    _node("note1", "done1", "note", "报销"),
    _node("twin1", "done1", "note", "报销。"),
    _node("old1", "task1", "fact", "部门是市场部", state="superseded", replaced_by="fact1"),
    _node("kept1", "task1", "note", "archived 归档", state="archived", pinned=True),
    _node("gone1", "task1", "note", "forgotten 忘记", state="forgotten"),
    _node("json1", "root1", "note", '{"金额": 3500.5}', structured=True),
    {"kind": "active", "agent": "default", "task_id": "task1", "node_id": "event1"},
]
#: What those say, in words that are no name of anything: in an encrypted store no byte may tell them.
SECRETS = ("企业报销任务", "提交报销单", "办完的", "部门研发部", "财务退回", "市场部", "紫藤抽屉", "3500.5", "被抹去的")
TREE: dict[str, Any] = {
    "root_id": "r", "active_node_id": "b",
    "nodes": {
        "r": {"id": "r", "parent_id": None, "content": "root", "node_type": "root", "timestamp": 1782892800,
        "weight": 1.0},
        "a": {"id": "a", "parent_id": "r", "content": "任务 task", "node_type": "task", "timestamp": START,
        "weight": 0.5},
        "b": {"id": "b", "parent_id": "a", "content": {"x": [1]}, "node_type": "fact", "timestamp": START,
        "weight": 7, "tag": "é"},
    },
}  # fmt: skip
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "请记住 remember: 发票丢了 INV-2", "timestamp": START},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "done", "is_error": False},
    {"role": "user", "content": [{"type": "text", "text": "好"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {"type": "function_call_output", "call_id": "c", "output": {"a": 1}},
    {"level": "error", "message": "2026-07-01 08:00:00 ERROR failed", "ts": 1782892800.5},
]
#: What an erasure printed: of the memory ``erased1``, which is gone from every store (see arena.py).
RECEIPT: dict[str, Any] = {
    "ok": True,
    **ErasureReceipt(
        "node", START, "5a17", (hash_with("5a17", "erased1"),), (), {"memories": 1, "words": 2}, {"updated": 1}, 0,
        {"sqlite": "3.40.1"}, (("tree.db", 274_432),), (), True, False, START,
    ).sealed().to_dict(),
}  # fmt: skip
FORMATS = ("auto", "jsonl", "tree", "chat")

#: Text that no writer of JSON makes, put where a value stands.
RAW = (
    "NaN", "-Infinity", "1e999", "-0", "9" * 5_000, "0." + "0" * 400 + "1", '"\\ud800"', '"\\udc00\\ud800"',
    '"\\u0000"', "tru", "",
    "[" * 100_000, '{"a":' * 100_000, "[" * 200 + "]" * 200, '{"id": 1, "id": 2}', "'x'", "//", "00", "1,", '"',
)  # fmt: skip
BYTES = (
    b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe5\x8f", b"\0", b"\xef\xbb\xbf", b"\r", b"\n\n",
    b"\x1a", b"{", b"]", b'"', b"\\",
)  # fmt: skip
#: Values in the place of others.
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**63) - 1, 10**400, 1e308, -1.5, "", " ", "x", "root", "task", "live",
    "root1", "task1", "b",
    "gone1", "9999-12-31T23:59:59-12:00", "0000", [], {}, [[]], [None], {"": None}, {"x": {"y": []}}, ["task1",
    "event1"], "\0", "\ud800",
    "x" * 600, "\u200b", {"status": "open"}, {"status": ["open"]}, {"next_step": 5}, {"started_at": {}},
    [{"role": "user"}], "完",
)  # fmt: skip


def _slots(value: Any) -> list[tuple[Any, Any]]:
    """Each place in a document where a value stands: the list or object, and the index or key."""
    found, todo = [], [value]
    while todo:
        item = todo.pop()
        keys = range(len(item)) if isinstance(item, list) else list(item) if isinstance(item, dict) else ()
        found += [(item, key) for key in keys]
        todo += [item[key] for key in keys]
    return found


@st.composite
def changed(draw: st.DrawFn, base: Any) -> tuple[Any, dict[str, str]]:
    """A document with some of its values replaced, taken out, renamed or doubled; and the raw text to put in."""
    document, raw = copy.deepcopy(base), {}
    for number in range(draw(st.integers(0, 3))):
        slots = _slots(document)
        if not slots:
            break
        holder, key = slots[draw(st.integers(0, len(slots) - 1))]
        what = draw(st.sampled_from(("odd", "odd", "odd", "text", "raw", "delete", "rename", "double")))
        if what == "odd":
            holder[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif what == "text":
            holder[key] = draw(texts)
        elif what == "raw":
            mark = f"@@{number}@@"
            raw[json.dumps(mark)] = draw(st.sampled_from(RAW))
            holder[key] = mark
        elif what == "delete":
            del holder[key]
        elif isinstance(holder, dict):
            holder[draw(texts)] = holder.pop(key) if what == "rename" else copy.deepcopy(holder[key])
        else:
            holder.insert(draw(st.integers(0, len(holder))), copy.deepcopy(holder[key]))
    return document, raw


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """The bytes of a file."""
    kind = draw(st.sampled_from(("jsonl", "tree", "chat", "records", "text")))
    if kind == "text":
        text = draw(st.sampled_from(RAW) | texts)
    else:
        base = {"jsonl": LINES, "tree": TREE, "chat": CHAT, "records": CHAT}[kind]
        document, raw = draw(changed(base))
        in_lines = kind in ("jsonl", "records") and isinstance(document, list)
        ascii_only = draw(st.booleans())
        parts = [json.dumps(part, ensure_ascii=ascii_only) for part in (document if in_lines else [document])]
        text = "\n".join(parts)
        for mark, put in raw.items():
            text = text.replace(mark, put)
    data = text.encode(draw(st.sampled_from(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16"))), "surrogatepass")
    return damaged(data, draw(damages))


#: Where in a file of any length, and what happens there.
damages = st.lists(
    st.tuples(
        st.floats(0, 1), st.sampled_from(("cut", "insert", "overwrite", "remove", "flip")), st.sampled_from(BYTES)
    ),
    max_size=2,
)


def damaged(data: bytes, edits: list[tuple[float, str, bytes]]) -> bytes:
    """The bytes, cut off, put in, overwritten, taken out or with one bit turned."""
    for where, what, piece in edits:
        at = int(where * len(data))
        if what == "cut":
            data = data[:at]
        elif what == "flip":
            data = data[:at] + bytes(byte ^ 1 << piece[0] % 8 for byte in data[at : at + 1]) + data[at + 1 :]
        else:
            end = at + {"insert": 0, "overwrite": len(piece), "remove": 5}[what]
            data = data[:at] + (b"" if what == "remove" else piece) + data[end:]
    return data
