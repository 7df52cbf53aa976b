"""Every way a command can end: distinct exit codes, one line, no traceback, nothing left behind."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from pathlib import Path

import pytest

import hybridmem.cli.retrieval
from hybridmem.memory import Memory

from .conftest import Cli


class TestEnvironment:
    def test_a_misspelt_variable_is_an_error_that_names_the_right_one(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HYBRIDMEM_STROE", "elsewhere")
        result = cli("add", "文本 text", "--json")
        assert result.code == 3
        assert "HYBRIDMEM_STROE; did you mean HYBRIDMEM_STORE?" in result.document["error"]["message"]
        assert not cli.store.exists()

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("retrieval: [", "not valid YAML"),
            ("retreival: {k: 3}", "did you mean 'retrieval'?"),
            ("retrieval: {k: 很多}", "retrieval.k"),
            ("context: {order: alphabet}", "context.order"),
            ("retrieval: {omega: 2}", "retrieval.omega"),
            ("embedding: {model: '${HM_UNSET_NAME}'}", "HM_UNSET_NAME is not set"),
        ],
    )
    def test_a_wrong_configuration_stops_the_command(self, cli: Cli, tmp_path: Path, text: str, says: str) -> None:
        file = tmp_path / "坏的.yaml"
        file.write_text(text, encoding="utf-8")
        result = cli("add", "x", "--config", str(file))
        assert result.code == 3
        assert says in result.err
        assert "坏的.yaml" in result.err
        assert not cli.store.exists()


class TestStore:
    def test_busy(self, cli: Cli, claim: dict[str, str]) -> None:
        other = sqlite3.connect(cli.store / "tree.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            result = cli("add", "等一下 wait", "--json")
        finally:
            other.close()
        assert (result.code, result.document["error"]["type"]) == (5, "StoreBusy")
        assert cli.json("add", "现在可以 now")["ok"]

    def test_damaged(self, cli: Cli) -> None:
        cli.store.mkdir()
        (cli.store / "tree.db").write_bytes(b"this is not a database, " * 400)
        result = cli("stats", "--json")
        assert (result.code, result.document["error"]["type"]) == (7, "StoreDamaged")

    def test_a_file_in_its_place(self, cli: Cli) -> None:
        cli.store.write_text("x", encoding="utf-8")
        assert cli("add", "x", "--json").document["error"]["exit_code"] == 2

    def test_no_embedding_model_is_a_warning_on_stderr(self, cli: Cli, claim: dict[str, str], tmp_path: Path) -> None:
        missing = ("--set", "embedding.provider=openai", "--set", "embedding.model=m", "--set", "embedding.retries=0")
        unreachable = ("--set", "embedding.base_url=http://127.0.0.1:9/v1")
        result = cli("search", "发票为什么被退回？", *missing, *unreachable)
        assert result.code == 0
        assert "财务退回" in result.out
        assert "warning" in result.err


class TestUnexpected:
    @pytest.fixture(autouse=True)
    def _broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*arguments: object, **named: object) -> None:
            print("noise of a library")
            raise RuntimeError("坏了 broken")

        monkeypatch.setattr(Memory, "search", broken)

    def test_is_one_line_with_advice(self, cli: Cli, claim: dict[str, str]) -> None:
        result = cli("search", "x", "--json")
        assert result.code == 1
        assert result.document["error"]["type"] == "RuntimeError"
        assert "HYBRIDMEM_DEBUG=1" in result.err
        assert "Traceback" not in result.err
        assert "noise of a library" in result.err

    def test_shows_where_when_asked(self, cli: Cli, claim: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HYBRIDMEM_DEBUG", "1")
        result = cli("search", "x", "--json")
        assert "Traceback" in result.err
        assert "坏了 broken" in result.err
        assert result.document["ok"] is False


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_while_it_waits_for_stdin(self, cli: Cli, number: signal.Signals, code: int) -> None:
        with cli.process("add", "-", "--json") as process:
            _until_it_handles(process.pid, number)
            process.send_signal(number)
            assert process.stdin is not None
            out, err = process.communicate(timeout=20)
        assert process.returncode == code
        assert json.loads(out)["error"]["exit_code"] == code
        assert b"Traceback" not in err
        assert err.count(b"\n") == 1
        assert not cli.store.exists()

    def test_an_import_that_is_stopped_left_all_or_nothing_and_runs_again(self, cli: Cli, tmp_path: Path) -> None:
        messages = [{"role": "user", "content": f"第{i}条消息 message {i} " * 20} for i in range(3000)]
        (tmp_path / "chat.json").write_text(json.dumps(messages), encoding="utf-8")
        with cli.process("import", "chat.json") as process:
            while not (cli.store / "tree.db-wal").exists() and process.poll() is None:
                time.sleep(0.005)
            time.sleep(0.15)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert b"Traceback" not in err
        assert cli.json("stats")["nodes"] in (0, 3000)
        assert cli.json("add", "没有锁住 no lock left")["ok"]

    def test_a_reader_that_goes_away_is_no_error(self, cli: Cli) -> None:
        for i in range(3):
            cli.json("add", "很长的内容 long " * 20_000 + str(i))
        with cli.process("tree", "--json") as process:
            assert process.stdout is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr is not None
            assert process.stderr.read() == b""
        assert process.returncode == 141


def _until_it_handles(pid: int, number: signal.Signals) -> None:
    """Waits until a process has a handler for a signal of its own, as /proc tells."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        time.sleep(3.0)
        return
    for _ in range(2000):
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
        # Python itself handles SIGINT from the start; SIGTERM is ours and set right after.
        if int(caught.split()[1], 16) & (1 << (signal.SIGTERM - 1)):
            time.sleep(0.3)
            return
        time.sleep(0.005)
    raise AssertionError(f"the process never got ready for {number.name}")


def test_help_is_there_without_arguments(cli: Cli) -> None:
    result = cli()
    assert result.code == 0
    assert "hybridmem demo" in result.out
    assert hybridmem.cli.retrieval.search.__doc__.split("\n")[0] in result.out
