"""Master keys: where the one comes from that wraps the data keys of an encrypted store.

A store never holds it. It is given as 32 bytes, by the environment or a file (``encryption.key``), or stays in a key
management service, behind :class:`hybridmem.ports.KeyProvider`.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from pathlib import Path

from hybridmem import crypto
from hybridmem.config import EncryptionConfig
from hybridmem.errors import ConfigError, EncryptionError, InvalidInput, StoreFull, shown
from hybridmem.ports import KeyProvider

#: How a key is given.
FORMS = "32 bytes as base64 or as 64 hexadecimal digits"
_BOUND = b"hybridmem data key"


class LocalKey:
    """A master key that this process has itself."""

    def __init__(self, key: bytes) -> None:
        """:param key: 32 bytes. :raises InvalidInput: it is something else; the message does not show it."""
        if not isinstance(key, (bytes, bytearray)) or len(key) != crypto.KEY_BYTES:
            raise InvalidInput(f"master_key: must be {crypto.KEY_BYTES} bytes, or a KeyProvider")
        self._key = bytes(key)

    @property
    def id(self) -> str:
        """A fingerprint: tells the key from others, and nothing of it."""
        return base64.b32encode(crypto.derive(self._key, "fingerprint", 10)).decode("ascii").lower()

    def wrap(self, key: bytes) -> bytes:
        return crypto.seal(self._key, key, _BOUND)

    def unwrap(self, wrapped: bytes) -> bytes:
        """:raises EncryptionError: another key has wrapped it, or it was changed."""
        try:
            return crypto.unseal(self._key, wrapped, _BOUND)
        except crypto.Broken:
            raise EncryptionError(f"the master key {self.id} does not open this data key") from None

    def __repr__(self) -> str:
        return f"LocalKey({self.id})"


def provider(
    settings: EncryptionConfig, given: KeyProvider | bytes | None = None, field: str = "encryption.key"
) -> KeyProvider | None:
    """The master key that was passed in, or the configured one (``field``, in messages); None: there is none.

    A variable that is not set gives none, unless ``encryption.enabled`` asks for one; a file has to be there.

    :raises ConfigError: what the configuration names is no key. InvalidInput: what was passed in is none.
    """
    if given is not None:
        return LocalKey(bytes(given)) if isinstance(given, (bytes, bytearray)) else _checked(given)
    if settings.key is None:
        return None
    kind, _, name = settings.key.partition(":")
    if kind == "env":
        value = os.environ.get(name)
        where = f"{field}: the variable {name}"
        return None if not value else LocalKey(parsed(value.encode("utf-8", "replace"), where))
    return LocalKey(parsed(_read(Path(name), field), f"{field}: the file {name}"))


def named(text: str) -> KeyProvider:
    """The master key that ``env:NAME`` or ``file:PATH`` names.

    :raises ConfigError: it names nothing, or no key.
    """
    try:
        found = provider(EncryptionConfig(key=text), field="--new-key")
    except ConfigError:
        raise
    except ValueError:
        raise ConfigError("--new-key: must be env:NAME or file:PATH") from None
    if found is None:
        raise ConfigError(f"--new-key: the environment variable {text.partition(':')[2]} is not set")
    return found


def parsed(text: bytes, where: str) -> bytes:
    """The key in a text, or these very bytes. :raises ConfigError: it is none; the message does not show it."""
    if len(text) == crypto.KEY_BYTES:
        return text
    stripped = text.strip()
    try:
        if len(stripped) == 2 * crypto.KEY_BYTES:
            return bytes.fromhex(stripped.decode("ascii"))
        key = base64.b64decode(stripped.replace(b"-", b"+").replace(b"_", b"/"), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != crypto.KEY_BYTES:
        raise ConfigError(f"{where} must hold {FORMS}; make one with: hybridmem new-key FILE")
    return key


def new_key_file(file: Path) -> str:
    """Writes a new random master key to a new file that its owner alone can read; returns its fingerprint.

    :raises InvalidInput: the file is there. StoreFull: it cannot be written.
    """
    key = secrets.token_bytes(crypto.KEY_BYTES)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInput(f"file: {file} is there already; a key is never written over another") from None
    except OSError as error:
        raise StoreFull(f"{file}: cannot be made: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as out:
        out.write(base64.b64encode(key) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    return LocalKey(key).id


def _checked(given: KeyProvider) -> KeyProvider:
    if not all(hasattr(type(given), name) for name in ("id", "wrap", "unwrap")):
        raise InvalidInput("master_key: must be 32 bytes, or have id, wrap() and unwrap(); see ports.KeyProvider")
    if not isinstance(given.id, str) or not given.id.strip():
        raise InvalidInput(f"master_key: its id must be text that names the key, not {shown(given.id)}")
    return given


def _read(file: Path, field: str) -> bytes:
    try:
        if file.stat().st_size > 1000:
            raise ConfigError(f"{field}: {file} is too large for a key: it must hold {FORMS}")
        return file.read_bytes()
    except ConfigError:
        raise
    except (OSError, ValueError) as error:  # ValueError: no name of a file
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{field}: {file} cannot be read: {why}") from error
