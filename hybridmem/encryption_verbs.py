"""The verbs of Memory about its master key."""

from __future__ import annotations

from hybridmem import keys, rotation
from hybridmem.audit import audited
from hybridmem.config import EncryptionConfig
from hybridmem.errors import EncryptionError
from hybridmem.ports import KeyProvider
from hybridmem.store.workspace import Workspace


class EncryptionVerbs:
    """What Memory does with its master key."""

    def __init__(self, workspace: Workspace) -> None:
        self._encrypted = workspace.connections

    @audited()
    def rotate_master_key(self, new: KeyProvider | bytes) -> int:
        """Wraps the data keys of all namespaces by another master key, in one transaction; contents are not touched.

        This handle goes on with the new one. Others that are open go on as long as they need no more data keys: one
        that has read or written nothing yet needs one. The old master key opens nothing any more, but backups that were
        made before. Where each namespace has a directory of its own (``store.layout: separate``) it is about that of
        this one; ``hybridmem rotate-key`` is about all.

        :param new: 32 bytes, or a KeyProvider. :return: how many data keys were wrapped.
        :raises EncryptionError: the store is not encrypted, or one of the master keys cannot be used, or somebody has
            changed it since this handle was opened.
        """
        keyring, provider = self._encrypted.keyring, keys.provider(EncryptionConfig(), new)
        if keyring is None or provider is None:
            raise EncryptionError(f"{self._encrypted.directory}: is not encrypted; hybridmem encrypt makes it so")
        return rotation.rotate(self._encrypted, keyring, provider)
