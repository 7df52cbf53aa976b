"""C057: on a full disk the write that fails is nowhere, what was acknowledged stays, and nothing needs repair after it.

tests/crash/test_disk.py has writing, searching and indexing; here are the other verbs, the restart, and the program.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from crash.helpers import QUIET, check_database, check_vectors, environment, said

from hybridmem import Memory, StoreFull

from .processes import PROGRAM, ROOT, indexed

#: As if no file of the process could grow any more, from limit() to free().
LIMIT = """
    import resource
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = max(file.stat().st_size for file in Path(sys.argv[1]).iterdir() if file.is_file())
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    def free():
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    def refused(call, *given, **more):
        try:
            call(*given, **more)
        except StoreFull:
            return True
        return False
"""


def test_no_verb_leaves_anything_half_done_and_the_last_checkpoint_stays_usable(tmp_path: Path) -> None:
    """C057: and afterwards a new process goes on without repair."""
    answers = said(
        LIMIT
        + """
    memory = Memory.open(sys.argv[1], config=QUIET)
    task = memory.start_task("企业报销任务 expenses", next_step="提交 submit")
    nodes = [memory.add(f"第{n}条 memory {n}", type="fact") for n in range(30)]
    memory.forget(nodes[9].id)
    memory.checkpoint("before 之前")
    memory.flush()
    limit()
    # Room in a file that is there already may be left: until there is none.
    written = 0
    while not refused(memory.add, "满 full " * 500, id=f"filling-{written}"):
        written += 1
    say(written)
    say([
        refused(memory.add_many, [{"content": "满 full " * 500}] * 3),
        refused(memory.update, nodes[0].id, content="改 changed " * 500),
        refused(memory.start_task, "另一个任务 another " * 500),
        refused(memory.import_, sys.argv[2]),
    ])
    found = [refused(memory.forget, nodes[1].id), refused(memory.checkpoint, "满了 full"),
             refused(memory.move, nodes[2].id, nodes[3].id), refused(memory.restore_forgotten, nodes[9].id)]
    say(found)
    say([memory.search("memory 5", k=1)[0].content, memory.resume().next_step, memory.stats().nodes])
    free()
    memory.add("又有空间了 free again", id="after")
    memory.close()
    """,
        tmp_path,
        chat(tmp_path.with_name("chat.json")),
    )
    written, long, short, after = answers
    assert long == [True] * 4
    assert after[:2] == ["第5条 memory 5", "提交 submit"]
    assert after[2] == 31 + written
    contents = check_database(tmp_path)
    with Memory.open(tmp_path, config=QUIET) as memory:
        labels = [point.label for point in memory.checkpoints()]
        assert "before 之前" in labels
        # What was refused is not there, what was not is.
        assert ("满了 full" in labels) is not short[1]
        nodes = {node.content: node for node in memory.walk()}
        assert (nodes["第1条 memory 1"].state == "live") is short[0]
        assert (nodes["第2条 memory 2"].parent_id == nodes["第3条 memory 3"].id) is not short[2]
        assert (nodes["第9条 memory 9"].state == "forgotten") is short[3]
        assert memory.resume().next_step == "提交 submit"
        assert memory.add("没有修过 without any repair").version == 1
    assert "after" in contents
    assert not [content for content in contents.values() if content.startswith(("改", "另"))]
    indexed(tmp_path, QUIET)
    check_vectors(tmp_path)


def chat(file: Path) -> Path:
    file.write_text('[{"role": "user", "content": "' + "导入 imported " * 2_000 + '"}]', encoding="utf-8")
    return file


def test_the_program_ends_with_the_code_of_full_and_works_when_there_is_room(tmp_path: Path) -> None:
    """C057"""
    with Memory.open(tmp_path, config=QUIET) as memory:
        memory.add("在此之前 before", id="before")
    size = (tmp_path / "tree.db").stat().st_size

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    command = [sys.executable, "-m", "hybridmem.cli", "add", "-", *PROGRAM]
    variables = {**environment(), "HYBRIDMEM_STORE": str(tmp_path)}

    def add(before: Callable[[], None] | None) -> subprocess.CompletedProcess[bytes]:
        text = ("满" * 200_000).encode()
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            preexec_fn=before,
            check=False,
            env=variables,
            cwd=ROOT,
            timeout=120,
        )

    full = add(no_room)
    assert full.returncode == StoreFull.exit_code, full.stderr
    assert b"Traceback" not in full.stderr
    assert check_database(tmp_path) == {"before": "在此之前 before"}
    again = add(None)
    assert again.returncode == 0, again.stderr
    assert len(check_database(tmp_path)) == 2
