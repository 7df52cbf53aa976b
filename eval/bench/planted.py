"""A made history of any size: a tree of projects and sessions, texts, and vectors planted in clusters; from a seed.

Vectors are a common direction (as every sentence model has one), plus a direction of the project, one of the session,
and noise. Any part is made on demand from the seed and its place alone, so that a process that only asks questions need
not hold the matrix.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import numpy as np

from hybridmem.ports import EmbedderIdentity, Vectors

#: Of what is made here; another version gives other stores.
VERSION = 1
DIMENSION = 384
PROJECTS = 10
#: Shares of the common direction, the project's, the session's and the noise in a vector before it is normalised. Two
#: nodes of a session have a cosine of about 0.8 and two of different projects one of 0.3.
SHARES = (0.6, 0.5, 0.6, 0.5)
#: How much noise sets a question apart from the node that it asks for.
QUESTION_NOISE = 0.6

_SESSION = 100
_ENGLISH, _CHINESE, _CHARACTERS = 6_000, 4_000, 1_200
_TYPES = ("event", "note", "fact", "event", "decision")
_START = datetime(2025, 1, 1, tzinfo=timezone.utc)
_SYLLABLES = "ba ker lo tin mar es pol gra ven du ric som al tor wen hi fa nu cle ost"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: its words are of the text of node ``target``, its vector (d,) is near to that node's."""

    text: str
    vector: Vectors
    project: int
    target: int


class Planted:
    """``nodes`` of a store, its root counted in: the first project has exactly ``nodes // 10``, itself counted in.

    Nodes but the root are numbered from 0 in the order of the tree. :param nodes: ≥ 300.
    """

    def __init__(self, nodes: int, seed: int = 0) -> None:
        self.nodes = nodes
        self.seed = seed
        self.count = nodes - 1
        self._session = max(5, min(_SESSION, nodes // 100))
        self._common = _unit(self._random(0).standard_normal(DIMENSION))

    def project(self, number: int) -> range:
        """The numbers of a project's nodes, itself first."""
        size = self.nodes // PROJECTS
        return range(number * size, self.count if number == PROJECTS - 1 else (number + 1) * size)

    def sessions(self, number: int) -> list[range]:
        """The sessions of a project, each with itself first."""
        span = self.project(number)
        starts = range(span.start + 1, span.stop, self._session)
        return [range(start, min(start + self._session, span.stop)) for start in starts]

    def items(self, number: int) -> Iterator[dict[str, Any]]:
        """A project as ``Memory.add_many`` takes it."""
        project = self.project(number).start
        yield self._item(project, "root", "note", f"project {number} 项目")
        for session in self.sessions(number):
            for node, text in zip(session, self.texts(session), strict=True):
                first = node == session.start
                parent = uid(project if first else session.start)
                yield self._item(node, parent, "note" if first else _TYPES[node % len(_TYPES)], text)

    def texts(self, session: range) -> list[str]:
        """The texts of a session's nodes: a third English, a third Chinese, a third mixed."""
        english, chinese, shares_en, shares_zh = _words()
        random = self._random(1, session.start)
        texts = []
        for node in session:
            words = [english[i] for i in random.choice(len(english), 10, p=shares_en)]
            signs = [chinese[i] for i in random.choice(len(chinese), 8, p=shares_zh)]
            parts = ([" ".join(words)], ["".join(signs)], [" ".join(words[:5]), "".join(signs[:4])])[node % 3]
            texts.append(" ".join(parts))
        return texts

    def vectors(self, number: int) -> Vectors:
        """The vectors of a project's nodes, shape (n, d), L2-normalised."""
        common, by_project, by_session, noise = SHARES
        base = common * self._common + by_project * self._direction(2, number)
        rows = [_unit(base)[None, :]]
        for session in self.sessions(number):
            random = self._random(4, session.start)
            own = random.standard_normal((len(session), DIMENSION)) / np.sqrt(DIMENSION)
            rows.append(_unit(base + by_session * self._direction(3, session.start) + noise * own))
        found: Vectors = np.concatenate(rows).astype(np.float32)
        return found

    def questions(self, number: int, count: int) -> list[Asked]:
        """``count`` questions about nodes of a project, each about another one; fewer if it has no more."""
        random = self._random(5, number)
        vectors, span = self.vectors(number), self.project(number)
        asked = []
        for target in random.permutation(np.arange(span.start + 1, span.stop))[:count].tolist():
            own = random.standard_normal(DIMENSION) / np.sqrt(DIMENSION)
            near = _unit(vectors[target - span.start] + QUESTION_NOISE * own).astype(np.float32)
            asked.append(Asked(self._words_of(target, number), near, number, target))
        return asked

    def common(self) -> Vectors:
        """(d,) the direction that all texts share."""
        found: Vectors = self._common.astype(np.float32)
        return found

    def _words_of(self, target: int, project: int) -> str:
        """Some words of a node's text, and a number, by which two questions are never the same text."""
        session = next(session for session in self.sessions(project) if target in session)
        words = self.texts(session)[target - session.start].split(" ")
        # Of Chinese, which has no spaces, the first six characters.
        return " ".join([*[word if word.isascii() else word[:6] for word in words[:4]], f"#{target}?"])

    def _item(self, node: int, parent: str, type: str, text: str) -> dict[str, Any]:
        when = _START + timedelta(minutes=5 * node)
        return {"content": text, "type": type, "parent": parent, "id": uid(node), "occurred_at": when}

    def _direction(self, kind: int, place: int) -> Any:
        return _unit(self._random(kind, place).standard_normal(DIMENSION))

    def _random(self, *place: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, VERSION, *place])


class PlantedEmbedder:
    """An Embedder that returns the planted vectors, and for any other text one made from its checksum.

    The time spent in here is no part of any figure: see :meth:`spent`.
    """

    def __init__(self, planted: Planted) -> None:
        self._common = planted.common()
        self._seed = planted.seed
        self._known: dict[str, Vectors] = {}
        self._seconds = 0.0

    @property
    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity("planted", "planted clusters", f"{VERSION}.{self._seed}", DIMENSION)

    def spent(self) -> float:
        """Seconds spent in here so far."""
        return self._seconds

    def learn(self, texts: Sequence[str], vectors: Vectors) -> None:
        """From now on these texts have these vectors, shape (n, d)."""
        self._known.update(zip(texts, vectors, strict=True))

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, d)."""
        began = time.perf_counter()
        found = np.stack([self._vector(text) for text in texts])
        self._seconds += time.perf_counter() - began
        return found

    def embed_query(self, text: str) -> Vectors:
        """Shape (d,)."""
        began = time.perf_counter()
        found = self._vector(text)
        self._seconds += time.perf_counter() - began
        return found

    def _vector(self, text: str) -> Vectors:
        known = self._known.get(text)
        if known is not None:
            return known
        checksum = int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")
        own = np.random.default_rng(checksum).standard_normal(DIMENSION) / np.sqrt(DIMENSION)
        found: Vectors = _unit(SHARES[0] * self._common + own).astype(np.float32)
        return found


def uid(node: int) -> str:
    """The public id of a node by its number."""
    return f"n{node}"


def number(uid: str) -> int:
    """The other way round."""
    return int(uid[1:])


def _unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@lru_cache(maxsize=1)
def _words() -> tuple[list[str], list[str], Any, Any]:
    """English and Chinese words and how often each is used: as in real texts, the next rank a little less (Zipf and
    Mandelbrot), without the ten commonest, which are stop words."""
    random = np.random.default_rng(VERSION)
    syllables = _SYLLABLES.split(" ")
    english: dict[str, None] = {}
    while len(english) < _ENGLISH:
        english["".join(random.choice(syllables, int(random.integers(2, 5))))] = None
    signs = [chr(0x4E00 + int(i)) for i in random.choice(8_000, _CHARACTERS, replace=False)]
    chinese: dict[str, None] = {}
    while len(chinese) < _CHINESE:
        chinese["".join(random.choice(signs, 2))] = None
    return [*english], [*chinese], _shares(_ENGLISH), _shares(_CHINESE)


def _shares(words: int) -> Any:
    weights = 1.0 / (np.arange(words) + 10.0)
    return weights / weights.sum()
