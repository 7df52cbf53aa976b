"""Exports of encrypted namespaces: each line of the file sealed, so that it says nothing without the master key.

The first line names the format, the master key, and a key of this file alone that it has wrapped. Each further line is
bound to this file, to its number, and to whether it is the last: what is changed, moved, missing or cut off shows.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections.abc import Iterator
from typing import Any, TextIO

from hybridmem import crypto
from hybridmem.errors import EncryptionError, InvalidInput, shown
from hybridmem.ports import KeyProvider
from hybridmem.store.data_keys import GIVE, unwrapped, wrap
from hybridmem.text import whole_characters

KIND = "hybridmem-sealed"
VERSION = 1


class SealedWriter:
    """Takes text as a file does, and writes it sealed, line by line; :meth:`end` writes the last one."""

    def __init__(self, out: TextIO, provider: KeyProvider) -> None:
        self._out = out
        self._key = secrets.token_bytes(crypto.KEY_BYTES)
        self._id = secrets.token_hex(16)
        self._number = 0
        self._rest = ""
        wrapped = base64.b64encode(wrap(provider, self._key)).decode("ascii")
        header = {"kind": KIND, "version": VERSION, "id": self._id, "master": provider.id, "wrapped": wrapped}
        out.write(json.dumps(header) + "\n")

    def write(self, text: str) -> int:
        """Keeps the last line back: it may not be whole, and may be the last."""
        *lines, self._rest = (self._rest + text).split("\n") if "\n" in text else (self._rest + text,)
        for line in lines:
            self._line(line, is_last=False)
        return len(text)

    def end(self) -> None:
        self._line(self._rest, is_last=True)

    def _line(self, line: str, *, is_last: bool) -> None:
        self._number += 1
        sealed = crypto.seal(self._key, line.encode("utf-8"), _bound(self._id, self._number, is_last))
        self._out.write(base64.b64encode(sealed).decode("ascii") + "\n")


def is_sealed(text: str) -> bool:
    """Whether a text is of such a file."""
    return text[:500].lstrip().startswith('{"kind": "' + KIND + '"')


def opened(text: str, provider: KeyProvider | None) -> str:
    """What was written to such a file.

    :raises EncryptionError: there is no master key, or another. InvalidInput: something was changed or is missing.
    """
    first, _, rest = text.lstrip().partition("\n")
    file_id, master, wrapped = _header(first)
    if provider is None:
        raise EncryptionError(f"the export is sealed by the master key {master}, and none is given; {GIVE}")
    if provider.id != master:
        raise EncryptionError(
            f"the export is sealed by the master key {master}; the given one is {provider.id}; {GIVE}"
        )
    return "\n".join(_lines(rest, unwrapped(provider, wrapped, master), file_id))


def _header(line: str) -> tuple[str, str, bytes]:
    """The id of the file, that of the master key, and what it has wrapped."""
    try:
        header: Any = json.loads(line)  # an object: it begins like one
    except (ValueError, RecursionError):
        raise InvalidInput("line 1: is damaged: not JSON; take the export as it was written") from None
    if header.get("version") != VERSION:
        raise InvalidInput(
            f"version: {shown(header.get('version'))} of the sealed format is not known; upgrade hybridmem"
        )
    try:
        file_id, master = (whole_characters(name, header.get(name)) for name in ("id", "master"))
        wrapped = base64.b64decode(whole_characters("wrapped", header.get("wrapped")), validate=True)
    except ValueError as error:  # InvalidInput is one
        raise InvalidInput(f"line 1: is damaged: {error}; take the export as it was written") from None
    return file_id, master, wrapped


def _lines(text: str, key: bytes, file_id: str) -> Iterator[str]:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            sealed = base64.b64decode(line, validate=True)
            yield crypto.unseal(key, sealed, _bound(file_id, number, number == len(lines))).decode("utf-8")
        except (crypto.Broken, binascii.Error, ValueError):
            raise InvalidInput(
                f"line {number + 1}: does not open: the sealed export was changed, or lines are missing"
            ) from None
    if not lines:
        raise InvalidInput("the sealed export has no lines: it was cut off")


def _bound(file_id: str, number: int, is_last: bool) -> bytes:
    return json.dumps([file_id, number, is_last]).encode("ascii")
