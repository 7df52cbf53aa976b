"""Chroma behind the port: right answers, one client per directory, and no surprises from the surroundings."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hybridmem.errors import IndexUnavailable
from hybridmem.index import ChromaIndex, ExactIndex, collection_name
from hybridmem.index import chroma as chroma_file
from hybridmem.index.server import Server
from hybridmem.ports import VectorIndex

ROOT = Path(__file__).parents[2]
DIMENSION = 16
NAME = collection_name(("acme", "张三"), "model")


def vectors(n: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(params=["embedded", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | chroma_file.ServerClient]:
    """Where Chroma is: what holds in this process holds on a server."""
    if request.param == "embedded":
        yield tmp_path / "索引 vectors"
        return
    client = chroma_file.ServerClient(Server(request.getfixturevalue("chroma_server").url, 60.0))
    client.drop("", keep=None)
    yield client
    client.close()


@pytest.fixture
def index(place: Path | chroma_file.ServerClient) -> Iterator[ChromaIndex]:
    opened = ChromaIndex(place, NAME, DIMENSION)
    yield opened
    opened.close()


def run(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=cwd,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_finds_what_exact_search_finds(index: ChromaIndex) -> None:
    rows, oracle = vectors(700), ExactIndex(DIMENSION)
    port: VectorIndex = index
    for either in (port, oracle):
        either.upsert(range(100, 800), rows)
        either.delete([100, 101, 9999])
        either.upsert([102], -rows[2:3])
    for query in (rows[2], -rows[2], rows[50], rows[699]):
        ids, cosines = port.query(query, 10)
        expected_ids, expected_cosines = oracle.query(query, 10)
        assert ids == expected_ids
        np.testing.assert_allclose(cosines, expected_cosines, atol=1e-5)
    assert port.ids() == oracle.ids() == set(range(102, 800))


def test_scores_are_similarities_between_minus_one_and_one(index: ChromaIndex) -> None:
    row = vectors(1)
    other = np.zeros_like(row)
    other[0, :2] = [row[0, 1], -row[0, 0]]
    other /= np.linalg.norm(other)
    index.upsert([1, 2, 3], np.concatenate([-row, other, row]))
    ids, cosines = index.query(row[0], 3)
    assert ids == [3, 2, 1]
    assert cosines == pytest.approx([1.0, 0.0, -1.0], abs=1e-5)
    assert all(-1.0 <= one <= 1.0 for one in cosines)


def test_edges_of_k_and_of_an_empty_index(index: ChromaIndex) -> None:
    query = vectors(1)[0]
    assert index.query(query, 5) == ([], [])
    assert index.ids() == set()
    index.upsert([], np.zeros((0, DIMENSION), dtype=np.float32))
    index.delete([])
    index.upsert([5], vectors(1))
    assert index.query(query, 0) == ([], [])
    assert index.query(query, 1000)[0] == [5]


def test_of_an_id_given_twice_the_last_vector_counts(index: ChromaIndex) -> None:
    rows = vectors(2)
    index.upsert([1, 1], rows)
    assert index.query(rows[1], 1)[1] == pytest.approx([1.0], abs=1e-5)


def test_more_than_one_batch_and_more_than_one_page(index: ChromaIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chroma_file, "BATCH", 40)
    index.upsert(range(120), vectors(120))
    assert index.ids() == set(range(120))
    index.delete(range(100))
    assert index.ids() == set(range(100, 120))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0])
def test_bad_vectors_and_queries_are_refused(index: ChromaIndex, bad: float) -> None:
    rows = vectors(2)
    rows[1] = bad
    with pytest.raises(IndexUnavailable):
        index.upsert([1, 2], rows)
    assert index.ids() == set()
    if bad != 0.0:
        with pytest.raises(IndexUnavailable, match="NaN"):
            index.query(rows[1], 1)


def test_a_wrong_width_is_refused_when_written_asked_and_opened(
    index: ChromaIndex, place: Path | chroma_file.ServerClient
) -> None:
    index.upsert([1], vectors(1))
    narrow = np.ones((1, 3), dtype=np.float32)
    with pytest.raises(IndexUnavailable, match=r"\(1, 3\)"):
        index.upsert([2], narrow)
    with pytest.raises(IndexUnavailable, match=r"\(3,\)"):
        index.query(narrow[0], 1)
    with pytest.raises(IndexUnavailable, match="16 numbers, not 3"):
        ChromaIndex(place, NAME, 3)


def test_an_index_made_with_another_metric_is_refused(place: Path | chroma_file.ServerClient) -> None:
    client = chroma_file.open_client(place) if isinstance(place, Path) else place
    client.chroma.get_or_create_collection(NAME, embedding_function=None, configuration={"hnsw": {"space": "l2"}})
    if isinstance(place, Path):
        client.close()
    with pytest.raises(IndexUnavailable, match="l2, not cosine"):
        ChromaIndex(place, NAME, DIMENSION)
    assert not chroma_file._shared


def test_one_that_is_not_there_is_not_made_unless_wanted(place: Path | chroma_file.ServerClient) -> None:
    with pytest.raises(IndexUnavailable, match="does not exist"):
        ChromaIndex(place, NAME, DIMENSION, create=False)
    ChromaIndex(place, NAME, DIMENSION).close()
    ChromaIndex(place, NAME, DIMENSION, create=False).close()


def test_a_number_is_noted_beside_the_vectors_and_they_are_counted(
    index: ChromaIndex, place: Path | chroma_file.ServerClient
) -> None:
    assert index.marked() is None
    index.mark(0)
    index.upsert([1, 2, 3], vectors(3))
    index.mark(7)
    other = ChromaIndex(place, NAME, DIMENSION)
    index.mark(8)
    assert (other.marked(), other.count()) == (8, 3), "what is there now, not what was when it was opened"
    assert other.query(vectors(3)[1], 1)[0] == [2]
    other.close()


def test_it_is_all_there_after_closing_and_opening(place: Path | chroma_file.ServerClient) -> None:
    rows = vectors(30)
    first = ChromaIndex(place, NAME, DIMENSION)
    first.upsert(range(30), rows)
    first.close()
    second = ChromaIndex(place, NAME, DIMENSION)
    assert second.ids() == set(range(30))
    assert second.query(rows[7], 1)[0] == [7]
    second.close()


def test_neither_text_nor_names_reach_the_disk_and_the_directory_is_private(tmp_path: Path) -> None:
    index = ChromaIndex(tmp_path / "v", NAME, DIMENSION)
    index.upsert([1], vectors(1))
    index.close()
    assert stat.S_IMODE((tmp_path / "v").stat().st_mode) == 0o700
    data = b"".join(file.read_bytes() for file in (tmp_path / "v").rglob("*") if file.is_file())
    assert "张三".encode() not in data
    assert b"acme" not in data


class TestOneClientPerDirectory:
    def test_two_spellings_share_it_and_see_each_others_writes(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path)
        one = ChromaIndex(tmp_path / "v", NAME, DIMENSION)
        two = ChromaIndex(tmp_path / "link" / "." / "v", NAME, DIMENSION)
        assert len(chroma_file._shared) == 1
        one.upsert([1], vectors(1))
        assert two.query(vectors(1)[0], 1)[0] == [1]
        one.close()
        one.close()
        assert two.ids() == {1}
        two.close()
        assert not chroma_file._shared

    def test_a_closed_index_says_so(self, place: Path | chroma_file.ServerClient) -> None:
        index = ChromaIndex(place, NAME, DIMENSION)
        index.close()
        for call in (index.ids, lambda: index.query(vectors(1)[0], 1), lambda: index.delete([1])):
            with pytest.raises(IndexUnavailable, match="closed"):
                call()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_a_forked_child_is_refused_instead_of_hanging(
        self, index: ChromaIndex, place: Path | chroma_file.ServerClient, tmp_path: Path
    ) -> None:
        index.upsert([1], vectors(1))
        calls = [index.ids, lambda: ChromaIndex(tmp_path / "other", NAME, DIMENSION)]
        if not isinstance(place, Path):
            del calls[1]  # with a server a child may begin anew
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                for call in calls:
                    with pytest.raises(IndexUnavailable, match="fork"):
                        call()
                    refused += 1
                index.close()
            finally:
                os._exit(0 if refused == len(calls) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert index.ids() == {1}


class TestCollectionNames:
    def test_chroma_accepts_them_and_they_are_stable(self) -> None:
        assert collection_name(("acme", "张三"), "model") == NAME
        assert len(NAME) == 51
        assert NAME.replace("-", "").isalnum()
        assert NAME.isascii()

    def test_no_two_hostile_inputs_share_one(self) -> None:
        inputs = [
            (("a", "b"), "m"),
            (("a,b",), "m"),
            (('a","b',), "m"),
            (("a", "b", "m"), ""),
            (("ab",), "m"),
            (("a", "b"), "M"),
            (("a",), "bm"),
            (("a\0b",), "m"),
            (("é",), "m"),
            (("e\u0301",), "m"),
            (("\ud800",), "m"),
            (("张三",), "m"),
            (("\\u5f20\\u4e09",), "m"),
        ]
        assert len({collection_name(*one) for one in inputs}) == len(inputs)


class TestSurroundings:
    CODE = (
        "import sys, logging, numpy as np; from pathlib import Path; from hybridmem.index import ChromaIndex; "
        "assert 'chromadb' not in sys.modules; before = (list(logging.root.handlers), logging.root.level); "
        "index = ChromaIndex(Path('v'), 'abc', 2); index.upsert([1], np.array([[1, 0]], dtype='f4')); "
        "print(index.query(np.array([1, 0], dtype='f4'), 1)); index.close(); "
        "assert before == (list(logging.root.handlers), logging.root.level); "
    )

    @pytest.mark.parametrize(
        "content",
        [
            "名称=张三".encode("gbk"),
            b"IS_PERSISTENT=maybe",
            b"CHROMA_API_IMPL=chromadb.api.fastapi.FastAPI\nCHROMA_SERVER_HOST=127.0.0.1",
            b"PERSIST_DIRECTORY=elsewhere\nALLOW_RESET=true",
        ],
    )
    def test_a_dotenv_file_of_the_users_project_is_neither_read_nor_fatal(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / ".env").write_bytes(content)
        done = run(self.CODE, tmp_path)
        assert (done.stdout, done.stderr) == ("([1], [1.0])\n", "")
        assert (tmp_path / "v" / "chroma.sqlite3").exists()

    def test_nor_are_its_environment_variables(self, tmp_path: Path) -> None:
        done = run(
            self.CODE,
            tmp_path,
            CHROMA_API_IMPL="chromadb.api.fastapi.FastAPI",
            IS_PERSISTENT="maybe",
            PERSIST_DIRECTORY="elsewhere",
            ANONYMIZED_TELEMETRY="true",
            CHROMA_OTEL_COLLECTION_ENDPOINT="http://127.0.0.1:9",
        )
        assert (done.stdout, done.stderr) == ("([1], [1.0])\n", "")
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["v"]

    def test_no_socket_is_opened_to_anywhere(self, tmp_path: Path) -> None:
        guard = (
            "import sys\n"
            "def hook(event, args):\n"
            "    if event in ('socket.connect', 'socket.getaddrinfo', 'socket.bind'):\n"
            "        print('NETWORK', event, args, flush=True)\n"
            "sys.addaudithook(hook)\n"
        )
        done = run(guard + self.CODE, tmp_path)
        assert (done.stdout, done.stderr) == ("([1], [1.0])\n", "")

    def test_a_program_that_uses_chromadb_itself_keeps_its_dotenv(self, tmp_path: Path) -> None:
        (tmp_path / ".env").write_text("CHROMA_SERVER_HOST=from-dotenv")
        code = self.CODE + "import chromadb; print(chromadb.Settings().chroma_server_host)"
        done = run(code, tmp_path)
        assert done.stdout.splitlines()[-1] == "from-dotenv", done.stderr

    def test_chroma_missing_is_said_with_the_command(self, tmp_path: Path) -> None:
        code = (
            "import sys; sys.modules['chromadb'] = None; from pathlib import Path; "
            "from hybridmem.index import ChromaIndex; from hybridmem.errors import IndexUnavailable\n"
            "try: ChromaIndex(Path('v'), 'abc', 2)\n"
            "except IndexUnavailable as error: print(error)"
        )
        assert "pip install 'chromadb" in run(code, tmp_path).stdout

    def test_a_directory_that_cannot_be_made_is_index_unavailable(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("not a directory")
        with pytest.raises(IndexUnavailable, match="cannot open the index"):
            ChromaIndex(tmp_path / "file" / "v", NAME, DIMENSION)
