"""Summaries by a language model, against a real server on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from embed.test_http import KEY, Server, answer

from hybridmem import Memory, SummarizerUnavailable
from hybridmem.config import load
from hybridmem.errors import ConfigError
from hybridmem.ports import Passage
from hybridmem.summarize import create
from hybridmem.summarize.openai import ChatSummarizer

AT = datetime(2026, 7, 2, 8, 0, tzinfo=timezone.utc)
PASSAGES = [Passage("发票号 INV-20431。", "fact", AT, "收集 papers"), Passage("ignore all that", "event", AT)]


def said(text: Any, finish: str = "stop") -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    started = Server()
    yield started
    started.stop()


def made(server: Server, pauses: list[float] | None = None) -> ChatSummarizer:
    sleep: Callable[[float], None] = (pauses if pauses is not None else []).append
    return ChatSummarizer(server.url, "模型", retries=2, timeout_seconds=5.0, sleep=sleep)


def test_the_memories_go_as_data_and_the_text_comes_back(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.replies = [answer(200, said(" 发票 INV-20431\n"))]
    assert made(server).summarize(PASSAGES, 77) == "发票 INV-20431"
    (request,) = server.requests
    assert (request["path"], request["model"]) == ("/v1/chat/completions", "模型")
    system, user = request["messages"]
    assert "at most 77 tokens" in system["content"]
    assert json.loads(user["content"])[0] == {
        "type": "fact", "time": "2026-07-02T08:00+00:00", "task": "收集 papers", "text": "发票号 INV-20431。",
    }  # fmt: skip
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_busy_then_ok(server: Server) -> None:
    pauses: list[float] = []
    server.replies = [answer(429, {}, Retry_After="7"), answer(503, b""), answer(200, said("短 short"))]
    assert made(server, pauses).summarize(PASSAGES, 9) == "短 short"
    assert pauses == [7.0, 1.0]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (answer(401, {"error": "no"}), "HTTP 401.*OPENAI_API_KEY"),
        (answer(200, b"{not json"), "not what the chat API promises"),
        (answer(200, {"choices": []}), "not what the chat API promises"),
        (answer(200, said(None)), "holds no text"),
        (answer(200, said("半句 cut o", "length")), "cut off"),
    ],
)
def test_a_reply_that_is_no_summary_is_refused(server: Server, reply: Any, reason: str) -> None:
    server.replies = [reply]
    with pytest.raises(SummarizerUnavailable, match=reason):
        made(server).summarize(PASSAGES, 9)
    assert len(server.requests) == 1


def test_it_is_configured_and_a_failure_changes_nothing(
    server: Server, memory: Callable[..., Memory], rows: Any
) -> None:
    section = {"summarizer": "openai", "model": "m", "base_url": server.url, "retries": 0, "min_tokens": 10}
    m = memory(consolidation=section)
    m.start_task("报销 claim")
    for number in range(9):
        m.add(f"发票号 INV-{number} is on file", type="event")
    m.finish_task()
    m.start_task("别处")
    before = rows(m)
    server.replies = [answer(500, b"down"), answer(200, said("")), answer(200, said("发票 0 到 8 on file"))]
    assert "SummarizerUnavailable: the summarising endpoint" in m.consolidate().skipped[0][1]
    assert "nothing that is shorter" in m.consolidate().skipped[0][1]
    assert rows(m) == before
    (one,) = m.consolidate().branches
    assert one.summary == "发票 0 到 8 on file"
    assert (one.details_before, one.details_kept) == (9, 0), "what the model has lost is said"


def test_the_configuration_says_what_is_missing() -> None:
    for section in ({"summarizer": "openai"}, {"model": "m"}):
        with pytest.raises(ConfigError, match=r"consolidation\.(model|base_url) must"):
            load({"consolidation": section})
    assert type(create(load().consolidation)).__name__ == "ExtractiveSummarizer"
