"""The OpenAI-compatible endpoint, against a real server on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from hybridmem.config import EmbeddingConfig
from hybridmem.embed import create
from hybridmem.embed.http import HttpEmbedder
from hybridmem.errors import EmbeddingUnavailable

KEY = "sk-geheim-0123456789"
Reply = tuple[int, Any, dict[str, str]]


class Server:
    """Answers with the next of ``replies``, else as a model of 3 dimensions would; keeps what it was asked."""

    def __init__(self) -> None:
        self.replies: list[Callable[[dict[str, Any]], Reply]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append({"path": self.path, **body})
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, answer, headers = (server.replies.pop(0) if server.replies else good)(body)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                with suppress(BrokenPipeError):  # a client that gave up waiting
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def good(body: dict[str, Any]) -> Reply:
    """One vector per text, told by its length, and handed back in reverse."""
    data = [{"index": place, "embedding": [len(text), 1, 0]} for place, text in enumerate(body["input"])]
    return 200, {"data": data[::-1]}, {}


def answer(status: int, content: Any, **headers: str) -> Callable[[dict[str, Any]], Reply]:
    return lambda body: (status, content, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.fixture
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def embedder(server: Server, pauses: list[float]) -> HttpEmbedder:
    return HttpEmbedder(server.url, "模型", batch_size=3, retries=2, timeout_seconds=5.0, sleep=pauses.append)


def test_texts_go_in_batches_and_vectors_come_back_in_order(server: Server, embedder: HttpEmbedder) -> None:
    texts = ["发票", "a", "退回了", "four", "fünf!", "报销 six", "7"]
    vectors = embedder.embed_documents(texts)
    assert [len(request["input"]) for request in server.requests] == [3, 3, 1]
    assert [text for request in server.requests for text in request["input"]] == texts
    assert {request["path"] for request in server.requests} == {"/v1/embeddings"}
    assert {request["model"] for request in server.requests} == {"模型"}
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[:, 0] / vectors[:, 1], [len(text) for text in texts], rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_the_width_is_learned_from_the_first_reply(server: Server, embedder: HttpEmbedder) -> None:
    assert embedder.embed_query("发票").shape == (3,)
    assert embedder.identity.dimension == 3
    assert len(server.requests) == 1
    assert embedder.embed_documents([]).shape == (0, 3)


def test_or_asked_for_once(server: Server, embedder: HttpEmbedder) -> None:
    assert embedder.identity.dimension == embedder.identity.dimension == 3
    assert len(server.requests) == 1


def test_a_configured_width_is_asked_for_and_insisted_on(server: Server) -> None:
    embedder = HttpEmbedder(server.url, "m", dimension=2)
    assert embedder.identity.dimension == 2
    with pytest.raises(EmbeddingUnavailable, match="3 numbers instead of 2"):
        embedder.embed_query("发票")
    assert server.requests[0]["dimensions"] == 2


def test_busy_then_ok(server: Server, embedder: HttpEmbedder, pauses: list[float]) -> None:
    server.replies = [answer(429, {"error": "slow down"}, Retry_After="7"), answer(503, b"")]
    assert embedder.embed_query("发票 invoice").shape == (3,)
    assert pauses == [7.0, 1.0]


def test_broken_for_good(server: Server, embedder: HttpEmbedder, pauses: list[float]) -> None:
    server.replies = [answer(500, b"boom " * 1000)] * 5
    with pytest.raises(EmbeddingUnavailable, match=r"HTTP 500: boom.*tried 3 times") as caught:
        embedder.embed_documents(["发票"])
    assert len(server.requests) == 3
    assert pauses == [0.5, 1.0]
    assert len(str(caught.value)) < 500


def test_told_to_wait_too_long_it_gives_up_at_once(server: Server, embedder: HttpEmbedder, pauses: list[float]) -> None:
    server.replies = [answer(429, {}, Retry_After="3600")]
    with pytest.raises(EmbeddingUnavailable, match="429"):
        embedder.embed_query("发票")
    assert pauses == []


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_not_repeated(server: Server, embedder: HttpEmbedder, status: int) -> None:
    server.replies = [answer(status, {"error": {"message": "没有这个模型"}})]
    with pytest.raises(EmbeddingUnavailable, match=str(status)):
        embedder.embed_query("发票")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{not json", "not what the embeddings API promises"),
        (b"\xff\xfe", "not what the embeddings API promises"),
        ({"vectors": []}, "not what the embeddings API promises"),
        ([1, 2], "not what the embeddings API promises"),
        ({"data": [{"index": 0}]}, "not what the embeddings API promises"),
        ({"data": [{"index": "x", "embedding": [1, 0, 0]}]}, "not what the embeddings API promises"),
        ({"data": [{"index": 0, "embedding": [1, 0, 0]}]}, "1 embeddings for 2 texts"),
        ({"data": [{"index": 0, "embedding": [1, 0, 0]}] * 2}, "2 embeddings for 2 texts"),
        ({"data": [{"index": place, "embedding": []} for place in (0, 1)]}, "empty"),
        ({"data": [{"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [1, 0, 0]}]}, "3 numbers instead of 2"),
    ],
)
def test_a_reply_that_cannot_be_right_is_refused(
    server: Server, embedder: HttpEmbedder, content: Any, reason: str
) -> None:
    server.replies = [answer(200, content)]
    with pytest.raises(EmbeddingUnavailable, match=reason):
        embedder.embed_documents(["发票", "invoice"])


def test_one_unusable_vector_does_not_spoil_the_batch(server: Server, embedder: HttpEmbedder) -> None:
    rows = [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    server.replies = [answer(200, {"data": [{"index": place, "embedding": row} for place, row in enumerate(rows)]})]
    vectors = embedder.embed_documents(["a", "发票", "c"])
    assert np.isfinite(vectors).all(axis=1).tolist() == [True, False, True]


def test_nobody_there(pauses: list[float]) -> None:
    embedder = HttpEmbedder("http://127.0.0.1:9/v1", "m", retries=1, sleep=pauses.append)
    with pytest.raises(EmbeddingUnavailable, match="tried 2 times"):
        _ = embedder.identity
    assert pauses == [0.5]


def test_no_answer_in_time(server: Server) -> None:
    given_up = threading.Event()

    def slow(body: dict[str, Any]) -> Reply:
        given_up.wait(5)
        return 200, b"", {}

    server.replies = [slow]
    embedder = HttpEmbedder(server.url, "m", retries=0, timeout_seconds=0.05)
    with pytest.raises(EmbeddingUnavailable, match=r"no answer within 0\.05 s"):
        embedder.embed_query("发票")
    given_up.set()


def test_surrogates_and_nul_reach_the_endpoint_as_valid_text(server: Server, embedder: HttpEmbedder) -> None:
    embedder.embed_documents(["\ud800发票", "a\0b"])
    assert server.requests[0]["input"] == ["\ufffd发票", "a b"]


class TestTheKey:
    def test_is_sent_from_the_variable_that_the_configuration_names(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_KEY", f"{KEY}\n")
        config = EmbeddingConfig(provider="openai", model="m", base_url=server.url + "/", api_key_env="MY_KEY")
        create(config).embed_query("发票")
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"

    def test_is_not_sent_when_unset(self, server: Server, embedder: HttpEmbedder) -> None:
        embedder.embed_query("发票")
        assert "authorization" not in server.headers[0]

    @pytest.mark.parametrize("key", [KEY, f"{KEY}\nX-Evil: 1", f"密钥{KEY}"])
    def test_is_in_no_message_repr_or_identity(
        self, server: Server, embedder: HttpEmbedder, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
        server.replies = [answer(401, {"error": f"Incorrect API key provided: {KEY}"})]
        with pytest.raises(EmbeddingUnavailable) as caught:
            embedder.embed_query("发票")
        assert "OPENAI_API_KEY" in str(caught.value)
        server.replies = []
        error: BaseException | None = caught.value
        shown = [repr(embedder), repr(vars(embedder))]
        while error is not None:
            shown.append(repr(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        monkeypatch.delenv("OPENAI_API_KEY")
        shown.append(repr(embedder.identity))
        assert KEY not in " ".join(shown)
