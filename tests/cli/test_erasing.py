"""hybridmem verify-erasure: what erase --json printed is a receipt; anything else is refused by the wrong field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_what_erase_printed_is_a_receipt(cli: Any, claim: dict[str, str], tmp_path: Path) -> None:
    """Under ``--json`` with its ``ok``; the digest is the one that was printed."""
    printed = cli("erase", claim["fact"], "--subtree", "--yes", "--json").out
    (tmp_path / "receipt.json").write_text(printed, encoding="utf-8")
    check = cli.json("verify-erasure", str(tmp_path / "receipt.json"))
    assert (check["ok"], check["receipts"], check["found"]) == (True, 1, [])


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("ids", [["x"]], "ids must be a string"),
        ("ids", "x", "ids: must be a list"),
        ("namespaces", {"x": 1}, "namespaces: must be a list"),
        ("salt", "\ud800", "salt contains half"),
        ("counts", [], "counts: must be an object"),
        ("counts", {"words": "1"}, "counts: must be a whole number"),
        ("scanned", [["tree.db"]], "scanned: must be pairs"),
        ("complete", 1, "complete: must be True or False"),
        ("more", 1, "'more': belongs to no receipt"),
        ("digest", None, "'digest': is missing"),
    ],
)
def test_a_receipt_with_a_wrong_field_is_refused_by_its_name(
    cli: Any, claim: dict[str, str], tmp_path: Path, field: str, value: Any, said: str
) -> None:
    receipt = cli.json("erase", claim["fact"], "--subtree", "--yes")
    receipt = {name: one for name, one in {**receipt, field: value}.items() if one is not None or name != field}
    (tmp_path / "receipt.json").write_text(json.dumps(receipt), encoding="utf-8")
    result = cli("verify-erasure", str(tmp_path / "receipt.json"))
    assert result.code == 2
    assert "receipt.json: is no receipt of an erasure: " in result.err
    assert said in result.err


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '"x"', "\0"])
def test_a_file_that_holds_none_is_refused(cli: Any, claim: dict[str, str], tmp_path: Path, text: str) -> None:
    (tmp_path / "receipt.json").write_text(text, encoding="utf-8")
    result = cli("verify-erasure", str(tmp_path / "receipt.json"))
    assert result.code == 2
    assert "is no receipt of an erasure" in result.err
