"""C038: storing a text that says nothing is refused by name on every door, and takes nothing else down with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory
from hybridmem.cli import main

OpenMemory = Callable[..., Memory]

BLANK = ["", " ", "\n\t\r\n", "\u3000", "\u200b\u200d", "\ufeff", "\u00a0", "\u2028", "\u2060\ufe0f", "\x07", None]


@pytest.mark.parametrize("blank", BLANK)
def test_alone_it_is_refused_and_nothing_is_stored(memory: OpenMemory, refused: Callable[..., Any], blank: Any) -> None:
    m = memory()
    kept = m.add("发票 invoice", type="fact")
    with refused(m, InvalidInput, "content"):
        m.add(blank, type="fact")
    if blank is not None:  # where nothing was given there is nothing to change
        with refused(m, InvalidInput, "content"):
            m.update(kept.id, content=blank)
        with refused(m, InvalidInput, "title"):
            m.start_task(blank)


@pytest.mark.parametrize("blank", BLANK)
def test_in_a_batch_of_ten_the_position_is_named_and_all_or_nothing_holds(
    memory: OpenMemory, refused: Callable[..., Any], blank: Any
) -> None:
    m = memory()
    items = [{"content": f"第 {n} 条 item {n}"} for n in range(9)]
    with refused(m, InvalidInput, "item 4: content"):
        m.add_many([*items[:4], {"content": blank}, *items[4:]])
    assert len(m.add_many(items)) == 9


@pytest.mark.parametrize("value", [0, False, [], {}, ["", None]])
def test_a_number_or_a_list_is_no_blank_text(memory: OpenMemory, value: Any) -> None:
    assert memory().add(value).value == value


def test_observed_raw_output_may_have_blanks_which_are_dropped_and_told(memory: OpenMemory) -> None:
    """Agents emit empty messages all the time: for observe() they are noise, and the nine good ones are kept."""
    m = memory()
    texts = [blank for blank in BLANK if blank is not None]
    good = [{"role": "user", "content": f"第 {n} 条 message"} for n in range(9)]
    found = m.observe(
        [*good, *({"role": "user", "content": text} for text in texts), {"role": "user", "content": None}]
    )
    assert [node.content for node in found.nodes] == [message["content"] for message in good]
    assert [one.position for one in found.dropped] == list(range(9, 9 + len(texts) + 1))
    assert {one.reason for one in found.dropped} == {"empty"}


@pytest.mark.parametrize("blank", ["", "  \n", "\u200b", "\u3000"])
def test_on_the_command_line_it_exits_with_2(tmp_path: Any, blank: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "store")
    assert main(["add", blank, "--store", store, "--set", "embedding.provider=hashing"]) == 2
    assert "content" in capsys.readouterr().err
