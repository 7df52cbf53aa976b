"""What erasing gives back. Like hybridmem.types, frozen and without behaviour beyond reading themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from hybridmem import inputs
from hybridmem.errors import InvalidInput, shown
from hybridmem.text import whole_characters
from hybridmem.types import jsonable


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """What was erased, or with ``dry_run`` would be, without a word of it.

    ``scope`` is node, subtree, namespace or user. ``ids`` are the SHA-256 of ``salt`` and the public id of each memory
    that went, ``namespaces`` those of ``salt`` and the names (as JSON) of each namespace that went whole. ``counts``
    tells how many memories, revisions, words (entries of the lexical index), vectors, log entries, labels, claims and
    so on, and data ``keys`` that were destroyed; of the files: ``backups`` that were rewritten, ``backup_memories``
    erased in them, ``files_removed`` and ``bytes_removed`` of what was set aside. ``summaries`` says what became of
    those that quoted it. ``scanned`` are the files that were rewritten or read, each with its bytes. ``related`` counts
    memories that stay, and that this one was merged with, replaced or contradicted: they may say the same.

    ``complete`` False: ``left`` says what may still hold it, and why; whoever has the store open finishes it, and so
    does ``hybridmem verify-erasure --finish``. ``digest`` is over all the rest.
    """

    scope: str
    at: str
    salt: str
    ids: tuple[str, ...]
    namespaces: tuple[str, ...]
    counts: dict[str, int]
    summaries: dict[str, int]
    related: int
    versions: dict[str, str]
    scanned: tuple[tuple[str, int], ...] = ()
    left: tuple[str, ...] = ()
    complete: bool = False
    dry_run: bool = False
    finished_at: str | None = None
    digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        return jsonable(asdict(self))  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ErasureReceipt:
        """What :meth:`to_dict` gave, or ``erase --json`` printed: with an ``ok``, which says nothing of the erasure.

        :raises InvalidInput: it is something else; names the field.
        """
        if not isinstance(values, Mapping):
            raise InvalidInput(f"receipt: must be an object as erase --json prints it, not {shown(values)}")
        given = {name: value for name, value in values.items() if name != "ok"}
        for name in [*(_FIELDS.keys() - given.keys()), *(given.keys() - _FIELDS.keys())]:
            wrong = "is missing" if name in _FIELDS else "belongs to no receipt"
            raise InvalidInput(f"{shown(name)}: {wrong}; give the receipt as it was printed")
        return cls(**{name: read(name, given[name]) for name, read in _FIELDS.items()})

    def sealed(self) -> ErasureReceipt:
        """With its digest."""
        return replace(self, digest=self.right_digest())

    def right_digest(self) -> str:
        """What the digest has to be."""
        said = {name: value for name, value in self.to_dict().items() if name != "digest"}
        text = json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode("utf-8")).hexdigest()

    def hashed(self, text: str) -> str:
        """A public id, or names as JSON, as this receipt has it."""
        return hash_with(self.salt, text)


def _texts(field: str, value: Any) -> tuple[str, ...]:
    return tuple(whole_characters(field, one) for one in inputs.listed(field, value))


def _pairs(field: str, value: Any) -> tuple[tuple[str, int], ...]:
    pairs = [inputs.listed(field, one) for one in inputs.listed(field, value)]
    if any(len(pair) != 2 for pair in pairs):
        raise InvalidInput(f"{field}: must be pairs of a file and its bytes, not {shown(value)}")
    return tuple((whole_characters(field, name), inputs.count(field, size)) for name, size in pairs)


def _by_name(item: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    def read(field: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{field}: must be an object, not {shown(value)}")
        return {whole_characters(field, name): item(field, one) for name, one in value.items()}

    return read


def _text_or_none(field: str, value: Any) -> str | None:
    return None if value is None else whole_characters(field, value)


#: What each field of a receipt must be.
_FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "scope": whole_characters, "at": whole_characters, "salt": whole_characters, "ids": _texts, "namespaces": _texts,
    "counts": _by_name(inputs.count), "summaries": _by_name(inputs.count), "related": inputs.count,
    "versions": _by_name(whole_characters), "scanned": _pairs, "left": _texts, "complete": inputs.flag,
    "dry_run": inputs.flag, "finished_at": _text_or_none, "digest": whole_characters,
}  # fmt: skip


def hash_with(salt: str, text: str) -> str:
    return hashlib.sha256(f"{salt}:{text}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class ErasureCheck:
    """What ``verify-erasure`` found: ``receipts`` that were looked at, ``found`` what of it is there, in words without
    contents; ``notes`` what is not wrong, but not as it was right after; ``scanned`` files or tables and their size."""

    receipts: int
    found: tuple[str, ...]
    notes: tuple[str, ...]
    scanned: tuple[tuple[str, int], ...]

    @property
    def ok(self) -> bool:
        return not self.found

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **jsonable(asdict(self))}
