"""A subtree that is kept in memory is as fresh as one that is read: whoever writes, wherever."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hybridmem import Memory
from hybridmem.index import view
from index.filled import Filled, views_of

OpenMemory = Callable[..., Memory]


@pytest.fixture
def filled(memory: OpenMemory) -> Filled:
    return Filled(memory())


class TestFreshness:
    @pytest.fixture
    def branches(self, filled: Filled) -> tuple[str, str]:
        one, other = filled.add(1, 1)
        filled.add(2, 1, parent=one)
        filled.add(1, 3, parent=other)
        return one, other

    def test_a_write_elsewhere_changes_nothing_here(self, filled: Filled, branches: tuple[str, str]) -> None:
        views, (one, other) = views_of(filled), branches
        here, there, everywhere = (filled.pool(views, id) for id in (one, other, None))
        filled.add(1, parent=other)
        filled.memory.update(other, content="别的 other", importance=0.9)
        filled.memory.pin(other)
        filled.embed(1)
        assert filled.pool(views, one) is here
        assert filled.pool(views, other) is not there
        assert filled.pool(views) is not everywhere

    def test_what_is_written_inside_is_there_at_once(self, filled: Filled, branches: tuple[str, str]) -> None:
        views, (one, _) = views_of(filled), branches
        filled.pool(views, one)
        [added] = filled.add(1, parent=one)
        pool = filled.pool(views, one)
        assert len(pool) == 4
        filled.check(pool)
        filled.memory.update(added, importance=0.25, type="fact")
        pool = filled.pool(views, one)
        assert pool.importance.tolist()[-1] == 0.25
        assert pool.types.tolist()[-1] == "fact"
        [deep] = filled.add(1, parent=added)
        assert filled.pool(views, one).depth.tolist() == [1, 2, 2, 2, 3]
        filled.memory.update(deep, content="改了 changed")
        assert not filled.pool(views, one).embedded[-1]

    def test_a_repeat_that_is_only_confirmed_counts(self, filled: Filled, branches: tuple[str, str]) -> None:
        views, (one, _) = views_of(filled), branches
        filled.memory.add("只说一次 once", type="fact", parent=one)
        assert filled.pool(views, one).uses.tolist()[-1] == 0
        filled.memory.add("只说一次 once", type="fact", parent=one)
        assert filled.pool(views, one).uses.tolist()[-1] == 1

    def test_what_is_embedded_later_is_compared_then(self, filled: Filled, branches: tuple[str, str]) -> None:
        views, (one, other) = views_of(filled), branches
        filled.memory.add("等着 waits", parent=one)
        here, there = filled.pool(views, one), filled.pool(views, other)
        assert here.embedded.tolist() == [True, True, True, False]
        filled.embed(2)
        filled.check(filled.pool(views, one))
        assert filled.pool(views, other) is there

    def test_what_moves_out_is_gone_and_what_moves_in_is_there(self, filled: Filled, branches: tuple[str, str]) -> None:
        views, (one, other) = views_of(filled), branches
        [leaf] = filled.add(1, parent=one)
        assert (len(filled.pool(views, one)), len(filled.pool(views, other))) == (4, 3)
        filled.memory.move(leaf, other)
        assert (len(filled.pool(views, one)), len(filled.pool(views, other))) == (3, 4)
        filled.check(filled.pool(views, other))
        filled.memory.move(one, other)
        assert len(filled.pool(views, other)) == 7
        assert filled.pool(views, one).depth.tolist() == [2, 3, 3]
        filled.memory.add("之后 after", parent=one)
        filled.memory.move(one, "root")
        assert len(filled.pool(views, one)) == 4, "hung back where it was, with what came while it was away"

    def test_what_is_forgotten_or_archived_is_gone_where_it_was_and_elsewhere_nothing_is_read(
        self, filled: Filled, branches: tuple[str, str]
    ) -> None:
        views, (one, other) = views_of(filled), branches
        inner, leaf = filled.memory.children(one)[0].id, filled.memory.children(one)[1].id
        filled.memory.start_task("别处 elsewhere")  # where the agent stands protects nothing here
        for hide, back in (("forget", "restore_forgotten"), ("archive", "unarchive")):
            there, _ = filled.pool(views, other), filled.pool(views, one)
            below = filled.pool(views, inner)
            getattr(filled.memory, hide)(leaf, subtree=False)
            assert len(filled.pool(views, one)) == 2
            assert filled.pool(views, inner) is below, "beside it"
            getattr(filled.memory, hide)(one, subtree=True)
            assert len(filled.pool(views, one)) == len(filled.pool(views, inner)) == 0, "also below what was named"
            getattr(filled.memory, back)(one, subtree=False)
            assert len(filled.pool(views, one)) == 1
            getattr(filled.memory, back)(one, subtree=True)
            assert (len(filled.pool(views, one)), len(filled.pool(views, inner))) == (3, 1)
            filled.check(filled.pool(views, one))
            assert filled.pool(views, other) is there

    def test_an_import_is_seen_everywhere(self, filled: Filled, branches: tuple[str, str], tmp_path: Path) -> None:
        views, (one, _) = views_of(filled), branches
        filled.pool(views, one)
        file = tmp_path / "chat.jsonl"
        file.write_text('{"role": "user", "content": "你好 hello"}\n', encoding="utf-8")
        filled.memory.import_(file, format="chat", parent=one)
        assert len(filled.pool(views, one)) == 4

    def test_another_handle_writes(self, filled: Filled, branches: tuple[str, str]) -> None:
        views, (one, other) = views_of(filled), branches
        here, there = filled.pool(views, one), filled.pool(views, other)
        with Memory.open(filled.memory.path, config={"index": {"background": False}}) as second:
            second.add("别处 elsewhere", parent=other)
        assert filled.pool(views, one) is here
        assert len(filled.pool(views, other)) == len(there) + 1

    def test_another_process_writes(self, filled: Filled, branches: tuple[str, str]) -> None:
        views, (one, other) = views_of(filled), branches
        here = filled.pool(views, one)
        command = [
            sys.executable,
            "-m",
            "hybridmem.cli",
            "--store",
            str(filled.memory.path),
            "add",
            "另一个 other process",
        ]
        for parent, expected in ((other, 3), (one, 4)):
            subprocess.run([*command, "--parent", parent], check=True, capture_output=True)
            assert len(filled.pool(views, one)) == expected
            assert (filled.pool(views, one) is here) == (parent == other)

    def test_after_very_much_news_it_is_read_anew(
        self, filled: Filled, branches: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(view, "MOST_NEWS", 3)
        views, (one, other) = views_of(filled), branches
        here = filled.pool(views, one)
        filled.add(1, 1, 1, parent=other)
        assert filled.pool(views, one) is here
        filled.add(1, 1, 1, 1, parent=other)
        assert filled.pool(views, one) is not here
        filled.check(filled.pool(views, one))
