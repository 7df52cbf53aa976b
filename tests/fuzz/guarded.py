"""What is tried of that which guards: sealed exports, master keys, sharing, the audit trail, receipts of erasures."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from hybridmem import ConfigError, Memory, Principal
from hybridmem.keys import parsed
from hybridmem.sealed_file import is_sealed

from .arena import GRANT, Arena, Example
from .documents import ODD, RAW, RECEIPT, SECRETS, changed, damaged, damages
from .kinds import EVERYWHERE, Kind, tried
from .values import anything, meant, moments, principals, texts
from .worlds import KEY, OTHER_KEY, World, text_of

# Sealed exports

_HEADER = ("kind", "version", "id", "master", "wrapped", "more")
_field = st.tuples(st.just("field"), st.sampled_from(_HEADER), st.sampled_from(ODD) | texts)
_raw = st.tuples(st.just("raw"), st.sampled_from(_HEADER), st.sampled_from(RAW))
_lost = st.tuples(st.just("lost"), st.sampled_from(_HEADER), st.none())
_line = st.tuples(
    st.sampled_from(("drop", "double", "swap", "foreign", "other file", "again")), st.floats(0, 1), st.floats(0, 1)
)


def resealed(data: bytes, other: bytes, edits: list[tuple[str, Any, Any]]) -> bytes:
    """A sealed export with its header or its lines changed; ``other``: another one, of the same master key."""
    lines, others = data.decode().splitlines(), other.decode().splitlines()
    for what, one, two in edits:
        if what == "raw":
            lines[0] = json.dumps({**json.loads(lines[0]), one: "@@"}).replace('"@@"', two)
            break
        if what in ("field", "lost"):
            header = json.loads(lines[0])
            header.pop(one, None) if what == "lost" else header.update({one: two})
            lines[0] = json.dumps(header)
            continue
        here, there = (int(where * (len(lines) - 1)) for where in (one, two))
        if what == "drop":
            del lines[here]
        elif what == "double":
            lines.insert(there, lines[here])
        elif what == "swap":
            lines[here], lines[there] = lines[there], lines[here]
        elif what == "other file":
            lines[here] = others[there % len(others)]
        elif what == "foreign":
            lines[here] = base64.b64encode(os.urandom(60)).decode()
        else:  # what is sealed stays the same, its letters do not
            lines[here] = f" {lines[here]}\r"
        if not lines or not lines[0].startswith("{"):
            break
    return "\n".join(lines).encode("utf-8", "surrogatepass") + b"\n"


def check_sealed(arena: Arena, example: tuple[str, list[Any], list[Any], str, bytes | None]) -> None:
    """A sealed export is taken in as it was written, or not at all; and not at all by another key, or by none."""
    name, edits, bytewise, format, key = example
    with arena.example() as place:
        files = [(place.folder / one).read_bytes() for one in ("sealed.jsonl", "sealed.json")]
        data, other = files if name == "sealed.jsonl" else reversed(files)
        given, whole = place.folder / "given", place.folder / name
        given.write_bytes(damaged(resealed(data, other, edits), bytewise))
        if key == KEY:
            with place.opened(("whole",)) as memory:
                memory.import_(whole)
                nodes = _nodes(memory)
            if place.call(("new",), lambda memory: memory.import_(given, format=format)) is None:
                with place.opened(("new",)) as memory:
                    assert _nodes(memory) in (nodes, {}) or not _is_sealed(given)
            place.call(("default",), lambda memory: memory.import_(given, format=format))
        else:
            elsewhere = Example(place.folder / "elsewhere", World(key=key))
            error = elsewhere.call(("new",), lambda memory: memory.import_(given, format=format))
            assert error is not None or not _is_sealed(given)
            with elsewhere.opened(("new",)) as memory:
                assert not any(word in str(_nodes(memory)) for word in SECRETS)


def _nodes(memory: Memory) -> dict[str, Any]:
    return {
        node.id: (node.parent_id, node.content, node.metadata, node.type, node.state)
        for node in memory.walk()
        if node.depth and node.content != "继续 carry on"  # which sound() has written
    }


def _is_sealed(file: Any) -> bool:
    return is_sealed(file.read_bytes().decode("utf-8", "replace"))


# Master keys

#: What asks for the master key, or does without.
KEYED = (
    ("show", "fact1"), ("add", "新的 new"), ("search", "发票"), ("encrypt",), ("reencrypt",), ("decrypt",), ("doctor",),
    ("export", "out.jsonl"), ("export", "out.json", "--plain"), ("import", "sealed.jsonl"), ("backup", "new.db"),
    ("restore-backup", "taken.db", "restored"), ("verify-erasure", "--all", "--finish"),
    ("rotate-key", "--new-key", "file:given"), ("rotate-key", "--new-key", "env:FUZZ_OTHER_KEY"),
    ("doctor", "--fix"), ("erase", "fact1", "--subtree", "--yes"),
    ("namespaces",), ("audit",), ("erase", "--user", "张三", "--yes"), ("checkpoint",), ("new-key", "given"),
)  # fmt: skip
_forms = (
    text_of(KEY).encode(), KEY.hex().encode(), KEY, KEY.hex().upper().encode(), text_of(KEY).encode() + b"\n",
    text_of(OTHER_KEY).encode(), OTHER_KEY, b"", b"\n", b" " * 32, b"\xff" * 32, b"=" * 44, b"0" * 64, b"g" * 64,
    "٣".encode() * 64, b"A" * 43, b"A" * 2_000, b"x" * 33, b"\xef\xbb\xbf" + text_of(KEY).encode(), KEY[:31],
    b"\0" * 44,
)  # fmt: skip
keys = st.one_of(
    st.sampled_from(_forms),
    st.builds(damaged, st.sampled_from(_forms), damages),
    st.binary(max_size=70),
    texts.map(lambda text: text.encode("utf-8", "surrogatepass")),
)
#: How the master key is told to the program; with a name, the data is the value of the setting.
SOURCES = ("environment", "file", "name")


def check_key(arena: Arena, example: tuple[tuple[str, ...], str, bytes]) -> None:
    """Only the right master key opens, and no message shows what was given for one."""
    command, source, data = example
    settings: list[str] = []
    with arena.example() as place:
        (place.folder / "given").write_bytes(data)
        environment = {**place.world.environment}
        if source == "environment":
            data = data.replace(b"\0", b"0")
            environment["HYBRIDMEM_KEY"] = os.fsdecode(data)
        elif source == "file":
            settings = ["--set", "encryption.key=file:given"]
        else:
            settings = ["--set", f"encryption.key={data.replace(bytes(1), b'0').decode('utf-8', 'replace')}"]
        key = _key(data)
        ended = tried(place, ["--json", *settings, *command], None, environment, keys=[key] if key else [])
        if source != "name":
            assert len(data.strip()) < 12 or data.strip() not in ended.out + ended.err.encode("utf-8"), ended
            if place.world.key and key != KEY and command[0] not in ("new-key", "doctor", "namespaces"):
                assert ended.code not in (0, 13), ended


def _key(data: bytes) -> bytes | None:
    try:
        return parsed(data, "") if len(data) <= 1000 else None
    except ConfigError:
        return None


# Sharing and the audit trail

SHARERS: dict[str, Callable[[Memory, Any], Any]] = {
    "share": lambda m, value: m.share("fact1", value),
    "share rights": lambda m, value: m.share("fact1", "group:team", value),
    "share expires": lambda m, value: m.share("fact1", "agent:acme/li:bot", "write", value),
    "share id": lambda m, value: m.share(value, "user:acme/li"),
    "unshare": lambda m, value: m.unshare(value),
    "set_group": lambda m, value: m.set_group(value, ["user:acme/li"]),
    "set_group member": lambda m, value: m.set_group("team", ["user:acme/张三", value]),
    "set_group members": lambda m, value: m.set_group("team", value),
    "audit verb": lambda m, value: m.audit(verb=value),
    "audit agent": lambda m, value: m.audit(agent=value, node=value),
    "audit since": lambda m, value: m.audit(since=value, until=value),
    "audit outcome": lambda m, value: m.audit(outcome=value),
    "audit limit": lambda m, value: m.audit(limit=value),
    "audit after": lambda m, value: m.audit(after=value, limit=2),
    "export_audit": lambda m, value: m.export_audit(m.path.parent / "out.jsonl", since=value, outcome="failed"),
    "export_audit file": lambda m, value: m.export_audit(m.path if isinstance(value, str) else value),
    "prune_audit": lambda m, value: m.prune_audit(value),
}  # fmt: skip


def check_sharing(arena: Arena, example: tuple[str, Any]) -> None:
    """It is shared with whom it was meant for, or with nobody; and whoever it is shared with finds it."""
    verb, value = example
    with arena.example() as place:
        value = place.grant if value == GRANT else meant(value)
        place.call(("default",), lambda memory: SHARERS[verb](memory, value))
        with place.opened() as memory:
            given = memory.grants()
            assert all(Principal.parse(str(one.principal)) == one.principal for one in given)
            members = [one for those in memory.groups().values() for one in those]
            assert all(Principal.parse(str(one)) == one for one in members)
        with place.opened(("acme", "张三")) as memory:
            assert len(memory.shared()) >= any(one.principal.names == ("acme", "张三") for one in given)


# Receipts


@st.composite
def receipts(draw: st.DrawFn) -> bytes:
    """A receipt that somebody has been at, one in two with a digest that fits again."""
    document, raw = draw(changed(RECEIPT))
    if draw(st.booleans()) and isinstance(document, dict):
        said = {name: value for name, value in document.items() if name not in ("digest", "ok")}
        document["digest"] = _digest(said)
    text = json.dumps(document, ensure_ascii=draw(st.booleans()))
    for mark, put in raw.items():
        text = text.replace(mark, put)
    return damaged(text.encode("utf-8", "surrogatepass"), draw(damages) if draw(st.integers(0, 3)) == 0 else [])


def _digest(said: dict[str, Any]) -> str:
    text = json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def check_receipt(arena: Arena, example: tuple[bytes, bool]) -> None:
    """A receipt is read as it was printed; one that was changed is refused, or is said to be."""
    data, finish = example
    with arena.example() as place:
        (place.folder / "given").write_bytes(data)
        ended = tried(place, ["--json", "verify-erasure", "given", *["--finish"][: int(finish)]])
        if _is(RECEIPT, data):
            assert ended.code == 0, ended
        if ended.code == 0:
            said = json.loads(data)
            assert said.pop("digest") == _digest({name: value for name, value in said.items() if name != "ok"})


def _is(value: Any, data: bytes) -> bool:
    """As JSON, where ``true`` is not 1."""
    try:
        return json.dumps(json.loads(data), sort_keys=True) == json.dumps(value, sort_keys=True)
    except (ValueError, RecursionError):
        return False


_values = st.one_of(principals, moments, anything, st.just(GRANT), st.lists(principals, max_size=3))
_sealed = st.tuples(
    st.sampled_from(("sealed.jsonl", "sealed.json")), st.lists(_field | _raw | _lost | _line, max_size=2), damages,
    st.sampled_from(("auto", "auto", "auto", "jsonl", "tree", "chat")), st.sampled_from((KEY, KEY, OTHER_KEY, None)),
)  # fmt: skip
_keyed = st.tuples(st.sampled_from(KEYED), st.sampled_from(SOURCES), keys)
_shared = st.tuples(st.sampled_from(sorted(SHARERS)), _values)
GUARDED = {
    "sealed": Kind(_sealed, check_sealed, "encrypted"),
    "key": Kind(_keyed, check_key),
    "key, encrypted": Kind(_keyed, check_key, "encrypted"),
    "sharing": Kind(_shared, check_sharing),
    "sharing, encrypted": Kind(_shared, check_sharing, "encrypted"),
    "receipt": Kind(st.tuples(receipts(), st.booleans()), check_receipt),
    "receipt, separate": Kind(st.tuples(receipts(), st.booleans()), check_receipt, "separate"),
}
#: All that is tried: what can happen everywhere in each world.
KINDS: dict[str, Kind] = {
    **EVERYWHERE,
    **{
        f"{name}, {world}": Kind(kind.examples, kind.check, world)
        for world in ("encrypted", "separate")
        for name, kind in EVERYWHERE.items()
    },
    **GUARDED,
}
