"""No call, however odd, leaves an entry that the store cannot take: it would wait, and spoil every later write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from surface import BY_ID

from hybridmem import HybridMemError, Memory

OpenMemory = Callable[..., Memory]

#: Half a character, one in a long text, a NUL, blanks alone, more than any id has.
ODD = ("\ud800", "发票\ude00", "a\0b", " ", "\u200b", "x" * 600)


@pytest.mark.parametrize("queries", ["hash", "plain", "none"])
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_id_or_query_spoils_no_later_call(memory: OpenMemory, odd: str, queries: str) -> None:
    m = memory(audit={"queries": queries})
    calls: dict[str, Callable[[], Any]] = {name: (lambda call=call: call(m, odd)) for name, call in BY_ID.items()}
    if len(odd) < 600:  # as a query that is none too long
        calls |= {"query": lambda: m.search(odd), "query of a context": lambda: m.context(odd)}
    for name, call in calls.items():
        before = len(m.audit(limit=None))
        with pytest.raises(HybridMemError):
            call()
        assert m.get(m.add("继续 carry on", parent="root").id).content == "继续 carry on", name
        entries = m.audit(limit=None)[before:]
        assert len([one for one in entries if one.verb not in ("audit", "add", "get")]) <= 1
    assert m.verify().ok


def test_a_query_is_kept_as_it_was_up_to_a_length(memory: OpenMemory) -> None:
    """One that is refused since it is too long must not fill the store by way of the trail."""
    m = memory(audit={"queries": "plain"})
    with pytest.raises(HybridMemError):
        m.search("发票 invoice " * 1_000_000)
    m.search("发票 invoice")
    first, second = (one.detail["query"] for one in m.audit("search"))
    assert len(first) == 10_000
    assert second == "发票 invoice"
