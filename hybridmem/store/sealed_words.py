"""The words of users in the payloads of the log: what is sealed of an entry, while the rest stays readable."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from hybridmem import crypto
from hybridmem.store.data_keys import DataKey, Keyring
from hybridmem.store.rows import dump

#: Names in the payloads of the log under which words of a user stand.
WORDS = ("next_step", "last_step", "note")
#: What is in a payload (JSON) with sealed words, and in no other: a quote in a text has a backslash before it.
MARK = '"sealed":'


def sealed(key: DataKey, sequence: int, value: Mapping[str, Any]) -> dict[str, Any]:
    """A payload as it is to be stored."""
    return with_words(
        value,
        lambda said, uid, name: (
            {"sealed": [key.id, key.seal(said, sequence, uid, name)]} if isinstance(said, str) else said
        ),
    )


def with_words(value: Mapping[str, Any], said: Callable[[Any, str, str], Any]) -> dict[str, Any]:
    """A payload with each of its words replaced by what ``said`` gives for it, the node it is about and its name."""

    def changed(values: Mapping[str, Any], uid: str) -> dict[str, Any]:
        return {name: said(one, uid, name) if name in WORDS else one for name, one in values.items()}

    found = changed(value, "")
    if isinstance(found.get("nodes"), list):
        found["nodes"] = [
            [one[0], changed(one[1], one[0])] if isinstance(one, (list, tuple)) and isinstance(one[1], Mapping) else one
            for one in found["nodes"]
        ]
    return found


def opened(tx: sqlite3.Connection, keyring: Keyring, stored: str, sequence: int) -> str:
    """A payload (JSON) as it was said. :raises Broken: words in it do not open."""

    def said(one: Any, uid: str, name: str) -> Any:
        if not isinstance(one, dict) or "sealed" not in one:
            return one
        try:
            key_id, sealed = one["sealed"]
            return keyring.key(tx, int(key_id)).unseal(sealed, sequence, uid, name)
        except (TypeError, ValueError):
            raise crypto.Broken from None

    return dump(with_words(json.loads(stored), said))
