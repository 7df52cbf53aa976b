"""What the tests of erasure share: a search for bytes in every file under a store."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

#: In everything that is to go, and in nothing else: Chinese, English and mixed.
MARKERS = ("绝密马克", "zqxmarker", "机密zqy9mix")
TEXT = f"用户的 {MARKERS[0]} and the {MARKERS[1]} 在 {MARKERS[2]} 里"


def forms(text: str) -> dict[str, bytes]:
    """How a text may stand in a file."""
    return {
        "utf-8": text.encode("utf-8"),
        "utf-16-le": text.encode("utf-16-le"),
        "utf-16-be": text.encode("utf-16-be"),
        "json": json.dumps(text)[1:-1].encode("ascii"),
    }


def vectors(store: Path, uid: str) -> list[bytes]:
    """The embedding of a node as it stands in the database: float32, one per piece."""
    with closing(sqlite3.connect(store / "tree.db")) as conn:
        rows = conn.execute(
            "SELECT e.vector FROM embedding e JOIN node n ON n.id = e.node_id WHERE n.uid = ?", (uid,)
        ).fetchall()
    return [bytes(row[0]) for row in rows]


#: What of them the lexical index has: a term shares its beginning with the one before it, and only the rest is stored.
STEMS = ("zqxmark", "zqy9mix", "xmarker")


def found(directory: Path, *, texts: tuple[str, ...] = MARKERS + STEMS, blobs: tuple[bytes, ...] = ()) -> list[str]:
    """Where one of these texts or vectors stands in any file under a directory, byte for byte."""
    wanted = {f"{text} ({form})": one for text in texts for form, one in forms(text).items()}
    wanted |= {f"vector {number}": blob for number, blob in enumerate(blobs)}
    hits = []
    for file in sorted(directory.rglob("*")):
        if not file.is_file():
            continue
        data = file.read_bytes()
        hits += [f"{file.relative_to(directory)}: {name}" for name, one in wanted.items() if one in data]
    return hits
