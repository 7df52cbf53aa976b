"""Configuration: the documented file is the defaults, and every mistake is named with its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hybridmem import Config, ConfigError, Memory
from hybridmem.config import keys, load

DEFAULTS = Path(__file__).parents[1] / "configs" / "default.yaml"


def write(folder: Path, text: str) -> Path:
    file = folder / "我的 config.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_documented_defaults_are_the_defaults() -> None:
    assert yaml.safe_load(DEFAULTS.read_text("utf-8")) == Config().model_dump()
    assert load(DEFAULTS) == load() == load(None) == load({}) == Config()


def key_lines() -> Iterator[tuple[str, bool]]:
    """(dotted key, whether a comment stands right above it) for every line of the file that sets a value or opens a
    mapping below a section."""
    section, commented = "", False
    for line in DEFAULTS.read_text("utf-8").splitlines():
        text = line.strip()
        if text.startswith("#"):
            commented = True
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        name = text.partition(":")[0]
        if depth == 0 and text:
            section = name
        elif depth == 1:
            yield f"{section}.{name}", commented
        commented = False


#: Coefficients of one formula, explained by the comment above the first of them.
EXPLAINED_TOGETHER = {
    "weights.recency", "weights.confidence", "weights.frequency", "weights.half_life_days_by_type",
    "weights.other_importance", "retrieval.lexical", "retrieval.neighbour", "retrieval.speaker", "retrieval.date",
    "retrieval.recent", "forgetting.task", "forgetting.opening", "forgetting.frequency",
    "forgetting.importance", "forgetting.confidence",
}  # fmt: skip


def test_every_key_is_in_the_file_with_a_comment_above_it() -> None:
    found = dict(key_lines())
    assert list(found) == keys()
    assert {key for key, commented in found.items() if not commented} == EXPLAINED_TOGETHER


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ({"retrieval": {"omga": 0.2}}, "retrieval.omega"),
        ({"retreival": {"k": 5}}, "retrieval"),
        ({"contxt": {}}, "context"),
        ({"index": {"exactlimit": 5}}, "index.exact_limit"),
        ({"embedding": {"Provider": "hashing"}}, "embedding.provider"),
    ],
)
def test_a_misspelt_key_names_the_file_the_key_and_the_nearest(
    tmp_path: Path, given: dict[str, Any], near: str
) -> None:
    file = write(tmp_path, yaml.safe_dump(given))
    section, inner = next(iter(given.items()))
    wrong = ".".join([section, *inner]) if near != "retrieval" else section
    with pytest.raises(ConfigError) as caught:
        load(file)
    message = str(caught.value)
    assert str(file) in message
    assert repr(wrong) in message
    assert f"did you mean {near!r}?" in message
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"retrieval": {"omega": 1.5}}, "retrieval.omega"),
        ({"retrieval": {"k": -1}}, "retrieval.k"),
        ({"retrieval": {"k": "很多"}}, "retrieval.k"),
        ({"retrieval": {"blend": "both"}}, "retrieval.blend"),
        ({"retrieval": {"vector": 0, "lexical": 0}}, "retrieval.vector"),
        ({"weights": {"half_life_days": 0}}, "weights.half_life_days"),
        ({"weights": {"half_life_days_by_type": {"fact": -1}}}, "weights.half_life_days_by_type.fact"),
        ({"weights": {"default_importance": {"fact": 2}}}, "weights.default_importance.fact"),
        ({"weights": {"default_importance": {"fact": float("nan")}}}, "weights.default_importance.fact"),
        ({"weights": {"half_life_days_by_type": {"fact": float("nan")}}}, "weights.half_life_days_by_type.fact"),
        ({"weights": {"importance": 0, "recency": 0, "confidence": 0, "frequency": 0}}, "weights.importance"),
        ({"weights": {"importance": float("inf")}}, "weights.importance"),
        ({"store": {"durability": "none"}}, "store.durability"),
        ({"store": []}, "store"),
        ({"store": None}, "store"),
        ({"embedding": {"provider": "openai", "model": "m"}}, "embedding.base_url"),
        ({"embedding": {"provider": "sentence-transformers"}}, "embedding.model"),
        ({"context": {"token_budget": 0}}, "context.token_budget"),
        ({"index": {"batch_size": 0}}, "index.batch_size"),
        ({"index": {"url": "127.0.0.1:8000"}}, "index.url"),
        ({"index": {"url": "http://"}}, "index.url"),
        ({"index": {"url": "ftp://127.0.0.1"}}, "index.url"),
        ({"index": {"url": "http://127.0.0.1:80000"}}, "index.url"),
        ({"index": {"url": "http://张三:密码@127.0.0.1:8000"}}, "index.url"),
        ({"index": {"url": "http://127.0.0.1:8000/?token=1"}}, "index.url"),
        ({"index": {"timeout_seconds": 0}}, "index.timeout_seconds"),
    ],
)
def test_a_wrong_value_names_the_file_and_the_key(tmp_path: Path, given: dict[str, Any], key: str) -> None:
    file = write(tmp_path, yaml.safe_dump(given, allow_unicode=True))
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(file) in str(caught.value)
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("retrieval: {k: [", "is not valid YAML"),
        ("- 一\n- 二\n", "must hold keys and values, not a list"),
        ("只是文字\n", "must hold keys and values, not a str"),
        ("retrieval:\n\tk: 5\n", "is not valid YAML"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=said) as caught:
        load(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_a_directory_and_foreign_bytes_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load(tmp_path / "没有.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "gbk.yaml").write_bytes("模型: 一".encode("gbk"))
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(tmp_path / "gbk.yaml"))


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert load(write(tmp_path, "# 什么都没有\n")) == Config()


def test_values_are_replaced_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_DIR", "/模型")
    monkeypatch.setenv("TOP", "7")
    file = write(
        tmp_path,
        "embedding:\n  provider: sentence-transformers\n  model: ${MODEL_DIR}/e5-${TOP}\nretrieval:\n  k: ${TOP}\n",
    )
    settings = load(file)
    assert settings.embedding.model == "/模型/e5-7"
    assert settings.retrieval.k == 7


def test_an_unset_variable_names_the_file_the_key_and_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    file = write(tmp_path, "embedding:\n  model: ${NOT_SET_ANYWHERE}\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    for part in (str(file), "embedding.model", "NOT_SET_ANYWHERE"):
        assert part in str(caught.value)


def test_overrides_win_and_leave_their_source_alone() -> None:
    source = {"retrieval": {"k": 3, "omega": 0.2}}
    settings = load(source, {"retrieval.k": 5, "context.order": "time"})
    assert (settings.retrieval.k, settings.retrieval.omega, settings.context.order) == (5, 0.2, "time")
    assert source == {"retrieval": {"k": 3, "omega": 0.2}}
    assert load(settings, {"retrieval.k": 6}).retrieval.k == 6
    assert settings.retrieval.k == 5
    with pytest.raises(ConfigError, match=r"retrieval\.kk.*did you mean 'retrieval\.k'"):
        load(source, {"retrieval.kk": 5})
    with pytest.raises(ConfigError, match="retrieval"):
        load(None, {"retrieval": 5})


def test_a_configuration_cannot_be_changed_once_made() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().retrieval.k = 5  # type: ignore[misc]


def test_a_wrong_configuration_opens_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        Memory.open(tmp_path / "store", config={"retrieval": {"omega_": 1}})
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("depth", [30, 300, 900, 5_000])
@pytest.mark.parametrize("kind", ['{"a": %s}', "[%s]"])
def test_nesting_without_end_is_an_error_and_no_overflow(depth: int, kind: str, tmp_path: Path) -> None:
    """Found by fuzzing: as a mapping, and in a file."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if "a" in kind else [value]
    with pytest.raises(ConfigError):
        load({"retrieval": {"k": value}})
    before, _, after = kind.partition("%s")
    (tmp_path / "deep.yaml").write_text(f"retrieval: {before * depth}1{after * depth}\n", encoding="utf-8")
    with pytest.raises(ConfigError):
        load(tmp_path / "deep.yaml")
