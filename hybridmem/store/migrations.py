"""The schema, in numbered steps that are never edited once released.

SQLite is the truth: everything a store knows is here, and Chroma's files can be rebuilt from it without the model.
Times are integer microseconds since 1970-01-01 UTC. Public ids are the ``uid`` of a node; integer keys never leave
the store.
"""

from __future__ import annotations

import secrets

import sqlite_utils
from sqlite_utils import Migrations

#: ``PRAGMA application_id`` of a hybridmem store: "hmem" in ASCII.
APPLICATION_ID = 0x686D656D
#: ``PRAGMA user_version``: how many of the steps below a store has. A higher one was made by a later version.
SCHEMA_VERSION = 9

migrations = Migrations("hybridmem")


@migrations()
def m001_first(db: sqlite_utils.Database) -> None:
    for statement in _FIRST:
        db.execute(statement)


@migrations()
def m002_pieces(db: sqlite_utils.Database) -> None:
    """One embedding per piece of a content. What was embedded whole is embedded again, by whoever opens the store."""
    for statement in _PIECES:
        db.execute(statement)


@migrations()
def m003_claims(db: sqlite_utils.Database) -> None:
    """Who works on a task."""
    db.execute(_CLAIMS)


@migrations()
def m004_places(db: sqlite_utils.Database) -> None:
    """Decisions and tasks by where they hang, so that those below one task are found without reading all of the
    namespace; and where the vectors of another embedding model are gathered until they are complete, see
    hybridmem.store.models."""
    for statement in (*_PLACES, *_NEXT_MODEL):
        db.execute(statement)


@migrations()
def m005_replaced(db: sqlite_utils.Database) -> None:
    """Which memory stands for another one now: what superseded it, what it was merged into, or its summary."""
    for statement in _REPLACED:
        db.execute(statement)


@migrations()
def m006_audit(db: sqlite_utils.Database) -> None:
    """Who did what. Every namespace has a note of its newest entry from its beginning, so that all of a trail cannot be
    taken away unseen."""
    for statement in _AUDIT:
        db.execute(statement)
    # Under which queries are hashed, see hybridmem.store.audit.
    db.execute("INSERT INTO setting (key, value) VALUES ('audit.secret', ?)", [f'"{secrets.token_hex(32)}"'])


@migrations()
def m007_encryption(db: sqlite_utils.Database) -> None:
    """The data keys of an encrypted store, and which of them has sealed a value; see hybridmem.store.sealing."""
    for statement in _ENCRYPTION:
        db.execute(statement)


@migrations()
def m008_grants(db: sqlite_utils.Database) -> None:
    """Which subtrees are shared with whom, and the groups of a namespace."""
    for statement in _GRANTS:
        db.execute(statement)


@migrations()
def m009_erasure(db: sqlite_utils.Database) -> None:
    """What has been erased, so that nothing brings it back, and the receipts of it."""
    for statement in _ERASURE:
        db.execute(statement)


_FIRST = (
    """CREATE TABLE setting (
        key TEXT PRIMARY KEY,
        value TEXT NOT NULL                    -- JSON
    ) STRICT""",
    """CREATE TABLE namespace (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,              -- JSON array of the segments: compared whole, never by prefix
        nodes INTEGER NOT NULL DEFAULT 0,      -- how many it has, the root not counted
        created_at INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE node (
        id INTEGER PRIMARY KEY AUTOINCREMENT,  -- insertion order
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        uid TEXT NOT NULL,
        parent_id INTEGER REFERENCES node(id), -- NULL: the root of the namespace
        path TEXT NOT NULL,                    -- '/1/57/903/': ids from the root to this node; follows parent_id
        depth INTEGER NOT NULL CHECK (depth >= 0),
        type TEXT NOT NULL,
        revision_id INTEGER NOT NULL,          -- the current content and metadata
        content_key TEXT NOT NULL,             -- hash of the content, to recognise exact repeats
        importance REAL NOT NULL CHECK (importance BETWEEN 0 AND 1),
        confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
        uses INTEGER NOT NULL DEFAULT 0 CHECK (uses >= 0),
        pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
        state TEXT NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'archived', 'superseded', 'forgotten')),
        version INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
        agent TEXT NOT NULL,                   -- who wrote it first
        terms INTEGER NOT NULL DEFAULT 0,      -- length of the content in lexical terms, for BM25
        speaker TEXT NOT NULL DEFAULT '',      -- who said it, casefolded; '': nobody in particular
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        active_at INTEGER NOT NULL,            -- last activity of the node or anything below it
        UNIQUE (namespace_id, uid)
    ) STRICT""",
    "CREATE INDEX node_parent ON node (parent_id)",
    "CREATE INDEX node_path ON node (path)",
    "CREATE INDEX node_decision ON node (namespace_id, id) WHERE type = 'decision'",
    "CREATE INDEX node_task ON node (namespace_id, id) WHERE type = 'task'",
    # only these types are merged with an exact repeat, see hybridmem.types.MERGED_TYPES
    """CREATE INDEX node_repeat ON node (parent_id, content_key)
        WHERE type IN ('fact', 'preference', 'decision')""",
    """CREATE TABLE revision (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        -- deferred: a node needs the id of its first revision, so that is written before it
        node_id INTEGER NOT NULL REFERENCES node(id) DEFERRABLE INITIALLY DEFERRED,
        version INTEGER NOT NULL,              -- the node's version that brought it
        content TEXT NOT NULL,
        structured INTEGER NOT NULL CHECK (structured IN (0, 1)), -- 1: content is JSON of a dict, list or number
        metadata TEXT NOT NULL                 -- JSON object
    ) STRICT""",
    "CREATE INDEX revision_node ON revision (node_id)",
    """CREATE TABLE task (
        node_id INTEGER PRIMARY KEY REFERENCES node(id),
        status TEXT NOT NULL CHECK (status IN ('open', 'paused', 'done', 'failed')),
        next_step TEXT,                        -- NULL: not said
        started_at INTEGER NOT NULL,
        finished_at INTEGER                    -- NULL: not finished
    ) STRICT""",
    """CREATE TABLE active (
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        agent TEXT NOT NULL,
        task_id INTEGER REFERENCES node(id),   -- NULL: no active task
        node_id INTEGER REFERENCES node(id),   -- NULL: nothing written yet
        PRIMARY KEY (namespace_id, agent)
    ) STRICT""",
    """CREATE TABLE operation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        sequence INTEGER NOT NULL,             -- 1, 2, 3 … within the namespace
        kind TEXT NOT NULL,
        node_uid TEXT,                         -- NULL: about no single node
        agent TEXT NOT NULL,
        at INTEGER NOT NULL,
        payload TEXT NOT NULL,                 -- JSON; content only by reference to its revision
        payload_hash TEXT NOT NULL,            -- the chain covers this, so that a payload can be erased later
        hash TEXT NOT NULL,                    -- sha256:… over the previous hash and this entry
        UNIQUE (namespace_id, sequence)
    ) STRICT""",
    """CREATE TABLE outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        node_id INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        reason TEXT                            -- NULL: not failed yet
    ) STRICT""",
    "CREATE INDEX outbox_namespace ON outbox (namespace_id, id)",
    "CREATE INDEX outbox_node ON outbox (node_id)",
    """CREATE TABLE embedding (
        id INTEGER PRIMARY KEY AUTOINCREMENT,  -- rises with every write, so that views can follow it
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        node_id INTEGER NOT NULL UNIQUE REFERENCES node(id),
        revision_id INTEGER NOT NULL,          -- the content it was made from
        vector BLOB NOT NULL                   -- little-endian float32, L2-normalised
    ) STRICT""",
    "CREATE INDEX embedding_namespace ON embedding (namespace_id, id)",
    """CREATE TABLE checkpoint (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        number INTEGER NOT NULL,               -- 1, 2, 3 … within the namespace
        label TEXT,                            -- NULL: made automatically
        reason TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        at INTEGER NOT NULL,
        agent TEXT NOT NULL,
        active_task TEXT,                      -- uid; NULL: none
        active_node TEXT,                      -- uid; NULL: none
        decision_path TEXT NOT NULL,           -- JSON array of uids, oldest first
        nodes INTEGER NOT NULL,
        digest TEXT NOT NULL,
        UNIQUE (namespace_id, number)
    ) STRICT""",
    """CREATE TABLE session (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        agent TEXT NOT NULL,
        process TEXT NOT NULL,                 -- host, pid and start time: tells a dead process from a living one
        opened_at INTEGER NOT NULL,
        resumed INTEGER NOT NULL DEFAULT 0 CHECK (resumed IN (0, 1)), -- 1: it knew that one before it was cut off
        closed_at INTEGER                      -- NULL: still open, or it died
    ) STRICT""",
    "CREATE INDEX session_agent ON session (namespace_id, agent, id)",
    # Our own terms, each prefixed with its namespace (see lexical.py). The ascii tokenizer keeps every non-ASCII
    # character and, with these tokenchars, all ASCII punctuation, so that a term is whatever stands between blanks.
    """CREATE VIRTUAL TABLE lexical USING fts5(terms,
        tokenize = "ascii tokenchars '!""#$%&''()*+,-./:;<=>?@[\\]^_`{|}~'")""",
    "CREATE VIRTUAL TABLE lexical_instance USING fts5vocab(lexical, 'instance')",
)

_PIECES = (
    "DROP TABLE embedding",
    """CREATE TABLE embedding (
        id INTEGER PRIMARY KEY AUTOINCREMENT,  -- rises with every write, so that views can follow it
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        node_id INTEGER NOT NULL REFERENCES node(id),
        piece INTEGER NOT NULL CHECK (piece BETWEEN 0 AND 255), -- which part of the content, see hybridmem.pieces
        revision_id INTEGER NOT NULL,          -- the content it was made from
        vector BLOB NOT NULL,                  -- little-endian float32, L2-normalised
        UNIQUE (node_id, piece)
    ) STRICT""",
    "CREATE INDEX embedding_namespace ON embedding (namespace_id, id)",
    # Counts the embedded nodes; with the piece, since otherwise SQLite reads every row to see what its condition says.
    "CREATE INDEX embedding_first ON embedding (namespace_id, piece) WHERE piece = 0",
    """INSERT INTO outbox (namespace_id, node_id)
        SELECT namespace_id, id FROM node
        WHERE state = 'live' AND parent_id IS NOT NULL AND id NOT IN (SELECT node_id FROM outbox)""",
)

_CLAIMS = """CREATE TABLE claim (
    token INTEGER PRIMARY KEY AUTOINCREMENT,   -- rises with every claim, also after older ones are gone
    node_id INTEGER NOT NULL UNIQUE REFERENCES node(id),
    session_id INTEGER NOT NULL REFERENCES session(id),
    outlives INTEGER NOT NULL CHECK (outlives IN (0, 1)), -- 1: whatever becomes of the run
    until INTEGER NOT NULL
) STRICT"""

_PLACES = (
    "CREATE INDEX node_decision_place ON node (namespace_id, path) WHERE type = 'decision'",
    "CREATE INDEX node_task_place ON node (namespace_id, path) WHERE type = 'task'",
)

_NEXT_MODEL = (
    """CREATE TABLE embedding_next (
        node_id INTEGER NOT NULL REFERENCES node(id),
        piece INTEGER NOT NULL CHECK (piece BETWEEN 0 AND 255),
        revision_id INTEGER NOT NULL,          -- the content it was made from
        vector BLOB NOT NULL,                  -- little-endian float32, L2-normalised
        PRIMARY KEY (node_id, piece)
    ) STRICT""",
)

_REPLACED = (
    "ALTER TABLE node ADD COLUMN replaced_by TEXT NOT NULL DEFAULT ''",  # the uid of a node; '': none
    "CREATE INDEX node_replaced ON node (namespace_id, replaced_by) WHERE replaced_by != ''",
)

_AUDIT_START = "sha256:" + "0" * 64
_AUDIT = (
    """CREATE TABLE audit (
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        sequence INTEGER NOT NULL,             -- 1, 2, 3 … within the namespace
        at INTEGER NOT NULL,
        agent TEXT NOT NULL,
        verb TEXT NOT NULL,                    -- the method that was called
        node_uid TEXT,                         -- NULL: about no single node
        outcome TEXT NOT NULL,                 -- 'ok' or the name of an error
        detail TEXT NOT NULL,                  -- JSON; never what a memory says
        hash TEXT NOT NULL,                    -- sha256:… over the previous hash and this entry
        PRIMARY KEY (namespace_id, sequence)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE audit_head (
        namespace_id INTEGER PRIMARY KEY REFERENCES namespace(id),
        sequence INTEGER NOT NULL,             -- of the newest entry
        hash TEXT NOT NULL,
        anchor_sequence INTEGER NOT NULL,      -- of the last entry that retention has removed; 0: none
        anchor_hash TEXT NOT NULL
    ) STRICT""",
    f"""CREATE TRIGGER namespace_audit AFTER INSERT ON namespace BEGIN
        INSERT INTO audit_head VALUES (new.id, 0, '{_AUDIT_START}', 0, '{_AUDIT_START}');
    END""",
    f"INSERT INTO audit_head SELECT id, 0, '{_AUDIT_START}', 0, '{_AUDIT_START}' FROM namespace",
)

_ENCRYPTION = (
    """CREATE TABLE data_key (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        wrapped BLOB,                          -- by the master key; NULL: from here on nothing is sealed
        master TEXT NOT NULL,                  -- the id of the master key; '': none
        made_at INTEGER NOT NULL,
        retired_at INTEGER,                    -- NULL: what is written is sealed by this one
        turns INTEGER NOT NULL DEFAULT 0 CHECK (turns IN (0, 1)) -- 1: the vectors of the namespace are turned by it
    ) STRICT""",
    "CREATE INDEX data_key_namespace ON data_key (namespace_id)",
    *(
        # 0: it is not sealed
        f"ALTER TABLE {table} ADD COLUMN key_id INTEGER NOT NULL DEFAULT 0"
        for table in ("revision", "task", "checkpoint")
    ),
)

_GRANTS = (
    """CREATE TABLE grants (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        uid TEXT NOT NULL UNIQUE,
        namespace_id INTEGER NOT NULL REFERENCES namespace(id) ON DELETE CASCADE, -- whose memories these are
        node_id INTEGER NOT NULL REFERENCES node(id) ON DELETE CASCADE,           -- the top of the shared subtree
        principal TEXT NOT NULL,               -- JSON, see hybridmem.store.grants
        rights TEXT NOT NULL CHECK (rights IN ('read', 'write', 'admin')),
        expires_at INTEGER,                    -- NULL: until it is revoked, which takes the row away
        created_at INTEGER NOT NULL,
        agent TEXT NOT NULL,                   -- who gave it
        sequence INTEGER NOT NULL,             -- by which entry of the log
        via INTEGER REFERENCES grants(id) ON DELETE CASCADE -- by virtue of which other grant; NULL: by the owner
    ) STRICT""",
    "CREATE INDEX grants_principal ON grants (principal, namespace_id)",
    "CREATE INDEX grants_node ON grants (node_id)",
    "CREATE INDEX grants_namespace ON grants (namespace_id)",
    "CREATE INDEX grants_via ON grants (via) WHERE via IS NOT NULL",
    """CREATE TABLE grant_member (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace_id INTEGER NOT NULL REFERENCES namespace(id) ON DELETE CASCADE,
        team TEXT NOT NULL,                    -- ["group", name], as in grants.principal
        principal TEXT NOT NULL,
        UNIQUE (namespace_id, team, principal)
    ) STRICT""",
    "CREATE INDEX grant_member_principal ON grant_member (principal)",
)

_ERASURE = (
    """CREATE TABLE tombstone (
        namespace_id INTEGER NOT NULL REFERENCES namespace(id),
        uid_hash TEXT NOT NULL,                -- of the public id, see hybridmem.store.tombstones
        at INTEGER NOT NULL,
        reason TEXT NOT NULL,                  -- 'erased'
        PRIMARY KEY (namespace_id, uid_hash)
    ) STRICT""",
    "CREATE INDEX tombstone_hash ON tombstone (uid_hash)",
    """CREATE TABLE erasure (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        namespace_id INTEGER REFERENCES namespace(id), -- NULL: of a user, across namespaces
        at INTEGER NOT NULL,
        complete INTEGER NOT NULL CHECK (complete IN (0, 1)), -- 0: files may still hold what was erased
        receipt TEXT NOT NULL                  -- JSON, without contents
    ) STRICT""",
    "CREATE INDEX erasure_left ON erasure (id) WHERE complete = 0",
)
