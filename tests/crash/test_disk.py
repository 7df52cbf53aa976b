"""A full disk, a store that cannot be written, a path that is no store: a clear error, and nothing half done (C057)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hybridmem import InvalidInput, Memory, StoreDamaged, StoreFull, StoreTooNew

from .helpers import CONFIG, QUIET, check_database, check_vectors, damaged, run, said

#: No file of the process may grow beyond this; the signal that comes with it is ignored, so that writing fails.
LIMIT = """
    import resource

    def limit(size):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def free():
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def largest():
        return max(file.stat().st_size for file in Path(sys.argv[1]).iterdir() if file.is_file())
"""


def test_a_full_disk_gives_store_full_and_loses_nothing(tmp_path: Path) -> None:
    written, refused, found, after, pending = said(
        LIMIT
        + """
    memory = Memory.open(sys.argv[1], config=QUIET)
    written = [memory.add(f"磁盘满之前 before marke{number}", type="event").id for number in range(20)]
    memory.flush()
    limit(largest() + 400_000)
    refused = []
    for number in range(400):
        try:
            written.append(memory.add(f"磁盘 filling {number} " + "满" * 2_000, type="event").id)
        except StoreFull as error:
            refused.append(str(error))
            if len(refused) == 3:
                break
    for call in (lambda: memory.add_many([{"content": "满" * 9_000}] * 20), lambda: memory.start_task("满" * 90_000)):
        try:
            call()
        except StoreFull:
            pass
        else:
            raise AssertionError("written in spite of the limit")
    found = [memory.search(f"marke{number}", k=1)[0].id for number in range(20)]
    memory.resume()
    nodes = memory.stats().nodes
    assert nodes == len(written), (nodes, len(written))
    free()
    after = memory.add("磁盘又有空间了 free again").id
    assert memory.search("free again", k=1)[0].id == after
    pending = memory.flush()
    memory.close()
    say(written), say(refused), say(found), say(after), say(pending)
    """,
        tmp_path,
    )
    assert len(refused) == 3
    assert all("cannot be written" in text for text in refused)
    assert len(written) > 20, "the limit left no room at all"
    assert found == written[:20]
    assert pending == 0
    contents = check_database(tmp_path)
    assert set(contents) == {*written, after}
    check_vectors(tmp_path)


def test_a_full_disk_stops_the_index_only_for_as_long_as_it_is_full(tmp_path: Path) -> None:
    """SQLite still has room here, Chroma has not. Its files are sound, so nothing is moved aside."""
    indexes = said(
        LIMIT
        + """
    memory = Memory.open(sys.argv[1], config=QUIET)
    memory.add_many([{"content": f"记忆 memory {number}"} for number in range(200)])
    memory.flush()
    # Closing shortens the write-ahead log, so that SQLite has room below the limit.
    memory.close()
    memory = Memory.open(sys.argv[1], config=QUIET)
    # Chroma's own database grows with every vector, its largest file sets the limit
    chroma = (Path(sys.argv[1]) / "vectors" / "chroma.sqlite3").stat().st_size
    assert chroma > largest() / 2
    memory.add_many([{"content": f"更多 more {number}"} for number in range(200)])
    memory.search("更多 more")
    limit(chroma)
    try:
        memory.flush()
    except StoreFull:
        pass
    found = memory.search("memory 7", k=5)
    assert "记忆 memory 7" in [hit.content for hit in found]
    free()
    assert memory.flush() == 0
    say(memory.stats().index)
    memory.close()
    """,
        tmp_path,
    )
    assert indexes == ["ready"]
    assert len(check_database(tmp_path)) == 400
    check_vectors(tmp_path)


def test_a_close_on_a_full_disk_gives_the_index_up(tmp_path: Path) -> None:
    """Whatever close() could not write, another process can take over at once."""
    assert said(
        LIMIT
        + """
    from hybridmem.index import OwnerLock
    memory = Memory.open(sys.argv[1], config=QUIET)
    memory.add("一条 one memory")
    memory.flush()
    limit(1)
    try:
        memory.close()
    except StoreFull:
        pass
    free()
    say(os.system(f"{sys.executable} -c 'import fcntl; fcntl.flock(open(\\"{sys.argv[1]}/vectors.lock\\"), 6)'"))
    """,
        tmp_path,
    ) == [0]
    assert len(check_database(tmp_path)) == 1
    with Memory.open(tmp_path, config=QUIET) as memory:
        assert memory.flush() == 0
    check_vectors(tmp_path)
    assert damaged(tmp_path) == []


#: Rights mean nothing to root, so the child becomes nobody, once everything is imported.
NOBODY = """
    from hybridmem.index import chroma
    from hybridmem.store import migrations
    import hybridmem.embed.hashing, sqlite_utils
    chroma.import_chromadb()
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
"""


@pytest.fixture
def open_to_all(tmp_path: Path) -> Path:
    """A store below directories that everybody may enter."""
    store = tmp_path / "store"
    with Memory.open(store, config=QUIET) as memory:
        memory.add("只读 read only", id="kept")
        memory.flush()
    for path in (store, *store.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    for path in tmp_path.parents:
        if path.stat().st_uid == os.getuid() and path.stat().st_mode & 0o005 != 0o005:
            path.chmod(path.stat().st_mode | 0o055)
    tmp_path.chmod(0o755)
    return store


def test_a_read_only_store_gives_a_clear_error_and_stays_as_it_is(open_to_all: Path) -> None:
    store = open_to_all
    for path in (store, *store.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    answers = said(
        NOBODY
        + """
    try:
        with Memory.open(sys.argv[1], config=CONFIG) as memory:
            memory.add("写不了 cannot be written")
    except StoreFull as error:
        say(str(error))
    """,
        store,
    )
    store.chmod(0o755)
    (answer,) = answers
    assert "cannot be written" in answer
    assert str(store) in answer
    assert check_database(store) == {"kept": "只读 read only"}


def test_a_directory_that_cannot_be_made_gives_store_full(tmp_path: Path, open_to_all: Path) -> None:
    closed = open_to_all.parent / "closed"
    closed.mkdir()
    closed.chmod(0o555)
    (answer,) = said(
        NOBODY
        + """
    try:
        Memory.open(sys.argv[1] + "/new/store", config=CONFIG)
    except StoreFull as error:
        say(str(error))
    """,
        closed,
    )
    assert "cannot be made" in answer


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("我的笔记 my notes", encoding="utf-8")
    with pytest.raises(InvalidInput, match="is a file"):
        Memory.open(file, config=CONFIG)
    with pytest.raises((InvalidInput, StoreFull)):
        Memory.open(file / "store", config=CONFIG)
    assert file.read_text(encoding="utf-8") == "我的笔记 my notes"


@pytest.mark.parametrize("data", ["这不是数据库 not a database" * 100, "x"])
def test_a_file_that_is_not_sqlite_is_refused_and_kept(tmp_path: Path, data: str) -> None:
    (tmp_path / "tree.db").write_text(data, encoding="utf-8")
    with pytest.raises(StoreDamaged, match=r"tree\.db"):
        Memory.open(tmp_path, config=CONFIG)
    assert (tmp_path / "tree.db").read_text(encoding="utf-8") == data


def test_a_foreign_sqlite_database_is_refused_and_kept(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "tree.db")) as database:
        database.execute("CREATE TABLE mine (a)")
        database.commit()
    before = (tmp_path / "tree.db").read_bytes()
    with pytest.raises(StoreDamaged, match="not a hybridmem store"):
        Memory.open(tmp_path, config=CONFIG)
    assert (tmp_path / "tree.db").read_bytes() == before


def test_a_store_of_a_later_version_is_refused_and_kept(tmp_path: Path) -> None:
    with Memory.open(tmp_path, config=QUIET) as memory:
        memory.add("未来 future", id="kept")
    with closing(sqlite3.connect(tmp_path / "tree.db")) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        database.execute(f"PRAGMA user_version = {version + 1}")
    with pytest.raises(StoreTooNew, match="upgrade"):
        Memory.open(tmp_path, config=CONFIG)
    with closing(sqlite3.connect(tmp_path / "tree.db")) as database:
        database.execute(f"PRAGMA user_version = {version}")
    assert check_database(tmp_path) == {"kept": "未来 future"}


def test_a_truncated_database_gives_store_damaged_and_never_an_empty_store(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "whole", config=QUIET) as memory:
        memory.add_many([{"content": f"记忆 memory {number}"} for number in range(300)])
    for size in (0.1, 0.5, 0.9):
        store = Path(shutil.copytree(tmp_path / "whole", tmp_path / f"cut-{size}"))
        data = (store / "tree.db").read_bytes()
        (store / "tree.db").write_bytes(data[: int(len(data) * size)])
        done = run(
            """
            with Memory.open(sys.argv[1], config=QUIET) as memory:
                list(memory.walk())
                memory.search("memory 7")
                memory.add("写 write")
            """,
            store,
        )
        assert done.returncode == 1, f"{size}: opened as if it were whole"
        assert "hybridmem.errors.StoreDamaged" in done.stderr, done.stderr[-600:]
