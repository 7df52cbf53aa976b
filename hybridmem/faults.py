"""Named fault points: the places where a crash matters, so that tests can have the process die at exactly that one.

Nothing of it is for users. A point that is passed costs one function call and a comparison, and does nothing, unless
the environment variable HYBRIDMEM_FAULT named it when this module was imported, or when :func:`arm` was called. Then
the process kills itself there (SIGKILL): no handler runs, nothing is flushed, as if the power of this process were cut.
"""

from __future__ import annotations

import os
import signal

from hybridmem.errors import ConfigError

#: ``NAME``, or ``NAME:N`` to die at the N-th time (from 1) that the point is passed.
VARIABLE = "HYBRIDMEM_FAULT"

#: Every point, and what has happened when it is passed and what has not.
POINTS = {
    "migration.before_commit": "the schema of a new or older store is made, but not committed",
    "namespace.before_commit": "the namespace and its root are written, but not committed",
    "write.before_begin": "a write was asked for and has no lock yet",
    "write.after_begin": "the transaction has begun, and nothing is written",
    "node.after_row": "a node and its revision are written; nothing else of the operation is",
    "node.after_lexical": "the words of a node are indexed; its outbox row is not written",
    "node.after_outbox": "the outbox row of a node is written; its log row is not",
    "log.after_row": "a log row is written, but not committed",
    "revise.after_revision": "a node has its new content; words, outbox and log are of the old one",
    "move.before_paths": "a branch has its new parent; the paths below are those of the old one",
    "move.after_paths": "the paths of a branch are rewritten; version and log are not",
    "states.after_rows": "a branch is forgotten, archived or brought back; outbox, pointers and log do not know",
    "states.after_outbox": "a branch has new states and waits for the index; pointers and log do not know",
    "task.before_pointer": "a task has its new status; the active pointer is the old one",
    "checkpoint.after_row": "a checkpoint is written, but not committed",
    "import.after_record": "a record of a file is stored, others are not, and nothing is committed",
    "write.before_commit": "all of a transaction is written, and nothing committed",
    "write.after_commit": "a transaction is committed; its caller does not know yet",
    "write.before_return": "a verb is done and the index woken; it has not returned yet",
    "index.before_embedding": "nodes wait for their vectors; none is made",
    "index.before_keeping": "vectors are made and not kept anywhere",
    "index.after_keeping": "vectors are in SQLite and not in Chroma",
    "index.before_upsert": "Chroma is open and about to be given vectors",
    "index.after_upsert": "vectors are in Chroma; their outbox rows are still there",
    "index.after_outbox": "vectors are in Chroma and their outbox rows gone",
    "rebuild.before_aside": "the files of the index are found damaged, and still in place",
    "rebuild.after_aside": "damaged files are moved aside; nothing is queued again",
    "rebuild.after_queue": "damaged files are moved aside, and everything is queued again",
    "close.before_index": "a handle is being closed; Chroma is still open",
    "close.after_index": "Chroma is closed; that is not noted in SQLite",
    "close.before_session": "the index is given up; the run is not noted as ended",
}
#: Likewise, of backups and of restoring them, which agents do not do by themselves.
BACKUP_POINTS = {
    "backup.after_copy": "a backup has all its pages, under its temporary name, unchecked",
    "backup.before_rename": "a backup is checked and on disk, under its temporary name",
    "backup.after_rename": "a backup is in its place; older ones have not been removed",
    "backup_restore.after_copy": "a backup is copied to the store directory, under a temporary name, unchecked",
    "backup_restore.before_decision": "the copy is made ready, checked and on disk, under a temporary name",
    "backup_restore.after_decision": "the copy is decided to be the store; the old one is all in its place",
    "backup_restore.before_log": "the restored store is being put in place; the old write-ahead log is where it was",
    "backup_restore.after_log": "the old write-ahead log is aside, the rest of the old store is not",
    "backup_restore.before_vectors": "the log and what belongs to it are aside, the vectors are not",
    "backup_restore.before_database": "all but the old database is aside",
    "backup_restore.before_rename": "the old store is aside; there is no database",
    "backup_restore.after_rename": "the copy is the database",
}

#: Likewise, of consolidating, of merging, and of undoing either.
CONSOLIDATION_POINTS = {
    "consolidate.before_write": "a branch is summarised, and nothing written",
    "consolidate.after_summary": "the summary is written; all that it stands for is still live",
    "consolidate.after_sources": "what the summary stands for is archived; outbox and log do not know",
    "unconsolidate.after_rows": "the sources are live and the summary forgotten; outbox and log do not know",
    "merge.after_rows": "memories are merged into one, or are themselves again; outbox and log do not know",
}
#: Likewise, of taking away for good what was forgotten.
PURGE_POINTS = {
    "purge.after_rows": "nodes are marked as purged; their contents, words and vectors are still there",
    "purge.after_revisions": "the contents of purged nodes are gone; their words, vectors and log entries are not",
}
#: Likewise, of encrypting a store, encrypting it anew, and of changing the master key.
ENCRYPTION_POINTS = {
    "encrypt.before_begun": "a plain store is marked as encrypted and has its keys, but that is not committed",
    "reseal.before_commit": "some memories are sealed by the new key, but not committed",
    "reseal.before_finish": "all is sealed by the new keys, the old ones are destroyed, but not committed",
    "rotate.before_commit": "every data key is wrapped by the new master key, but not committed",
}
#: Likewise, of writing the audit trail.
AUDIT_POINTS = {
    "audit.after_row": "the entry of a call is written, the note of the newest entry is not; nothing is committed",
    "audit.after_flush": "entries that waited are committed; that they do not wait any more is not known yet",
}

#: Likewise, of erasing.
ERASURE_POINTS = {
    "erase.after_rows": "what is erased is gone from the rows, and committed; the files still hold it",
    "erase.after_words": "the lexical index is merged; vectors, backups and free pages are as they were",
    "erase.before_vectors": "everything is queued for a new index; the files of the old one are still there",
    "erase.after_vectors": "the old vector index is gone; backups and free pages are as they were",
    "erase.in_backup": "what was erased is gone from the copy of a backup; the backup itself is as it was",
    "erase.after_backup": "one backup is rewritten",
    "erase.after_aside": "what was set aside is removed; the free pages of the database are as they were",
    "erase.after_vacuum": "the database is rewritten; the write-ahead log holds it all still",
    "erase.before_receipt": "all files are clean; the receipt does not say so",
}

_armed: str | None = None
_left = 0


def arm() -> None:
    """Reads HYBRIDMEM_FAULT again: for a process that was forked after this module was imported.

    :raises ConfigError: it names no point, or not a number of times ≥ 1.
    """
    global _armed, _left
    name, _, times = os.environ.get(VARIABLE, "").partition(":")
    if not name:
        _armed = None
        return
    known = {
        **POINTS, **BACKUP_POINTS, **CONSOLIDATION_POINTS, **PURGE_POINTS, **ENCRYPTION_POINTS, **AUDIT_POINTS,
        **ERASURE_POINTS,
    }  # fmt: skip
    if name not in known:
        raise ConfigError(f"{VARIABLE}: there is no fault point {name!r}; there are {', '.join(known)}")
    if times and (not times.isdecimal() or int(times) < 1):
        raise ConfigError(f"{VARIABLE}: {times!r} must be a whole number ≥ 1")
    _armed, _left = name, int(times or "1")


def point(name: str) -> None:
    """Passes a point; the process ends here if it is armed and this is the time that was asked for."""
    if _armed is not None and name == _armed:
        _die()


def _die() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


arm()
