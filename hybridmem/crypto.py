"""The few things that hybridmem asks of ``cryptography``, imported when the first is asked for: that takes 70 ms."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

#: Bytes of every key: AES-256, HMAC-SHA256.
KEY_BYTES = 32
#: Bytes of a nonce of AES-GCM. It is random: up to 2^32 values may be sealed by one key.
NONCE_BYTES = 12


class Broken(Exception):
    """Something does not open: it was changed, belongs elsewhere, or was sealed by another key."""


def seal(key: bytes, plain: bytes, bound: bytes, nonce: bytes | None = None) -> bytes:
    """AES-256-GCM: nonce, then ciphertext, then tag.

    :param bound: additional data: it opens together with these alone.
    :param nonce: 12 bytes that no other ``plain`` is sealed with; None: random ones.
    """
    import secrets

    number = secrets.token_bytes(NONCE_BYTES) if nonce is None else nonce
    return number + _cipher(key).encrypt(number, plain, bound)


def unseal(key: bytes, sealed: bytes, bound: bytes) -> bytes:
    """The opposite of :func:`seal`. :raises Broken: it does not open."""
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise Broken from None


def derive(key: bytes, purpose: str, length: int = KEY_BYTES) -> bytes:
    """HKDF-SHA256 (RFC 5869) of a key, one for each purpose."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=length, salt=None, info=f"hybridmem {purpose}".encode()).derive(key)


def stream(key: bytes, length: int) -> bytes:
    """``length`` bytes that only the key tells, the same ones each time: AES-256 in counter mode."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    return Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(length))


@lru_cache(maxsize=64)
def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
