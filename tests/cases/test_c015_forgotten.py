"""C015: what is forgotten is nowhere to be found, on any path, and takes no place of what is live."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hybridmem import InvalidInput, Memory, NotFound
from hybridmem.cli import main
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Vectors

OpenMemory = Callable[..., Memory]
#: A word of its own in each, so that any trace of one in any reply can be seen.
TEXTS = ("财务退回发票{0} invoice marke{0}", "the user prefers 短信{0} over mail marke{0}", "停机窗口{0} marke{0}")
QUERY = "发票 invoice 短信 停机窗口 the user prefers mail"
SHORT = "发票 invoice"
CONFIG: dict[str, Any] = {"embedding": {"provider": "hashing", "dimension": 32}, "index": {"background": False}}


class WordsOnly(HashingEmbedder):
    """Has vectors for contents and none for questions: words and tree alone find."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return HashingEmbedder().embed_documents(texts)

    def embed_query(self, text: str) -> Vectors:
        if "marke" in text or text in (QUERY, SHORT):
            raise RuntimeError("no vector for a question")
        return super().embed_query(text)


def content(number: int) -> str:
    return TEXTS[number % 3].format(number)


def fill(m: Memory) -> tuple[set[int], set[int]]:
    """30 memories, of which 10 are forgotten: some by id, some with a branch. (forgotten, live)."""
    m.start_task("企业报销任务 claim", next_step="提交 submit")
    for number in range(20):
        m.add(content(number), type=("fact", "decision", "event")[number % 3], id=f"id{number}")
    for number in range(20, 30):
        m.add(content(number), parent="id20" if number in range(21, 25) else "task", id=f"id{number}")
    m.flush()
    m.search(QUERY, 30)  # what is kept in memory must follow
    for number in (0, 4, 7, 11, 29):
        assert m.forget(f"id{number}").ids == (f"id{number}",)
    assert m.forget("id20", subtree=True).ids == ("id20", "id21", "id22", "id23", "id24")
    forgotten = {0, 4, 7, 11, 29, *range(20, 25)}
    return forgotten, set(range(30)) - forgotten


def replies(m: Memory) -> Iterator[tuple[str, Any]]:
    """Every way of reading that does not ask for what is forgotten, by name."""
    for scope in ("auto", "namespace", "task"):
        yield f"search {scope}", m.search(QUERY, 40, scope=scope, trace=True).to_dict()
        yield f"context {scope}", m.context(QUERY, token_budget=4_000, scope=scope).to_dict()
    for format in ("text", "markdown", "messages", "json"):
        yield f"context {format}", m.context(QUERY, token_budget=4_000, format=format).text
    yield "context by weight", m.context(token_budget=4_000).to_dict()
    for number in range(30):
        yield f"search by its own word {number}", m.search(f"marke{number}", 3).to_dict()
        yield f"search for it {number}", m.search(content(number), 3).to_dict()
    yield "search other states", m.search(QUERY, 40, states=["live", "archived", "superseded"]).to_dict()
    yield "search by type", m.search(QUERY, 40, types=["fact", "decision", "event", "note"]).to_dict()
    yield "children", [node.to_dict() for node in m.children(m.active_task().id)]  # type: ignore[union-attr]
    yield "children of a forgotten one", [node.to_dict() for node in m.children("id20")]
    point = m.resume().to_dict()
    yield "resume", {name: point[name] for name in ("active_task", "active_node", "path", "decisions", "open_subtasks")}
    yield "tasks", [node.to_dict() for node in m.tasks()]
    yield "checkpoint", m.checkpoint().decision_path
    yield "weights", m.weights([f"id{number}" for number in range(30)])


def traces(reply: Any, numbers: set[int]) -> set[int]:
    """Of which of these memories there is an id or a word in a reply."""
    text = json.dumps(reply, ensure_ascii=False)
    return {n for n in numbers if f'"id{n}"' in text or f"marke{n} " in text.replace('"', " ").replace("\\", " ")}


def check(m: Memory, forgotten: set[int], live: set[int]) -> None:
    for name, reply in replies(m):
        assert traces(reply, forgotten) == set(), name
    assert {int(hit.id[2:]) for hit in m.search(QUERY, 30, types=["fact", "decision", "event", "note"])} == live
    assert {int(hit.id[2:]) for hit in m.context(QUERY, token_budget=4_000).hits if hit.id[:2] == "id"} == live


@pytest.mark.parametrize("limit", [10_000, 0], ids=["exact", "located"])
@pytest.mark.parametrize("embedder", [HashingEmbedder, WordsOnly], ids=["hybrid", "words and tree"])
class TestNoTrace:
    def test_on_any_path_at_once_and_after_a_restart(self, memory: OpenMemory, limit: int, embedder: Any) -> None:
        """C015: by vector, words, tree, list, context and recovery; before and after the index has caught up."""
        sections = {"index": {"exact_limit": limit, "background": False}}
        with memory(embedder=embedder(), **sections) as m:
            forgotten, live = fill(m)
            check(m, forgotten, live)
            assert m.flush() == 0
            check(m, forgotten, live)
        m = memory(embedder=embedder(), **sections)
        check(m, forgotten, live)
        for number in (*forgotten - set(range(21, 25)),):
            m.restore_forgotten(f"id{number}", subtree=True)
        check(m, set(), forgotten | live)

    def test_a_branch_that_was_searched_is_empty_and_full_again(
        self, memory: OpenMemory, limit: int, embedder: Any
    ) -> None:
        """C015: the branch itself as scope."""
        m = memory(embedder=embedder(), index={"exact_limit": limit, "background": False})
        fill(m)
        for _ in range(3):
            assert m.search(QUERY, 5, scope="id20").hits == ()
            assert m.context(QUERY, scope="id20").hits == ()
            m.restore_forgotten("id20", subtree=True)
            assert {hit.id for hit in m.search(QUERY, 9, scope="id20")} == {f"id{n}" for n in range(20, 25)}
            m.forget("id20", subtree=True)


class TestByExpiryAndEviction:
    """C015: not only what was named goes from everywhere, but also what a policy or its age has taken."""

    def fill(self, m: Memory, clock: Any) -> tuple[set[int], set[int]]:
        """30 memories; five go since they are old, five since there are too many. (forgotten, live)."""
        m.start_task("企业报销任务 claim", next_step="提交 submit")
        for number in range(30):
            m.add(content(number), type=("fact", "decision", "event")[number % 3], id=f"id{number}")
            if number == 4:
                clock.advance(days=100)
        m.flush()
        m.search(QUERY, 30)
        old = m.forget(policy={"policy": "age", "days": 90, "types": ["fact", "decision", "event"]})
        many = m.forget(policy={"policy": "least_recently_used", "max_nodes": 21})
        assert (len(old.ids), len(many.ids), many.left) == (5, 5, 21), "the numbers are the true ones"
        forgotten = {int(id[2:]) for id in (*old.ids, *many.ids)}
        return forgotten, set(range(30)) - forgotten

    @pytest.mark.parametrize("limit", [10_000, 0], ids=["exact", "located"])
    @pytest.mark.parametrize("purged", [False, True], ids=["forgotten", "purged"])
    def test_it_leaves_no_trace(self, memory: OpenMemory, clock: Any, tmp_path: Path, limit: int, purged: bool) -> None:
        sections = {"index": {"exact_limit": limit, "background": False}}
        with memory(**sections) as m:
            forgotten, live = self.fill(m, clock)
            if purged:
                clock.advance(days=31)
                assert {int(id[2:]) for id in m.purge_forgotten().ids} == forgotten
            check(m, forgotten, live)
            assert m.flush() == 0
            check(m, forgotten, live)
        m = memory(**sections)
        check(m, forgotten, live)
        if not purged:
            return
        wanted = {f"marke{number}" for number in forgotten}
        m.export(tmp_path / "out.jsonl")
        asked = {"states": ["forgotten", "live"], "as_of": clock.now()}
        everything = [
            (tmp_path / "out.jsonl").read_text("utf-8"), [node.to_dict() for node in m.walk()],
            [entry.to_dict() for number in forgotten for entry in m.history(f"id{number}")],
            [one.to_dict() for one in m.operations()], m.search(QUERY, 50, **asked).to_dict(),  # type: ignore[arg-type]
            m.search(QUERY, 50, states=["forgotten"]).to_dict(),
        ]  # fmt: skip
        words = set(json.dumps(everything, ensure_ascii=False).replace('"', " ").replace("\\", " ").split())
        assert not wanted & words, "nor where one asks for what is forgotten"
        assert m.purge_forgotten(0).ids == (), "and the second time the number is 0"


class TestTheNumberThatIsSaid:
    def test_it_is_the_true_one_and_zero_for_what_is_gone(self, memory: OpenMemory) -> None:
        """C015: not "removed 0" while it removes, nor a success for nothing; an unknown id is an error."""
        m = memory()
        forgotten, _ = fill(m)
        assert m.stats().by_state["forgotten"] == len(forgotten) == 10
        for number in forgotten:
            assert m.forget(f"id{number}", subtree=True).ids == ()
        with pytest.raises(NotFound):
            m.forget("id30")
        assert m.stats().by_state["forgotten"] == 10

    def test_by_its_id_a_forgotten_one_says_that_it_is_and_can_be_asked_for(self, memory: OpenMemory) -> None:
        """It can be brought back, so it must be possible to find it; but only who says so does."""
        m = memory()
        forgotten, _ = fill(m)
        assert {m.get(f"id{number}").state for number in forgotten} == {"forgotten"}
        found = m.search(QUERY, 40, states=["forgotten"], types=["fact", "decision", "event", "note"])
        assert {int(hit.id[2:]) for hit in found} == forgotten
        assert {int(node.id[2:]) for node in m.walk() if node.state == "forgotten"} == forgotten


@pytest.mark.parametrize("limit", [10_000, 3], ids=["exact", "located"])
class TestGhosts:
    """C015: 700 forgotten ones that say what is asked take no place of 13 live ones; three that say it as well keep the
    search from looking at everything for want of anything good."""

    def fill(self, m: Memory, wanted: str) -> None:
        m.add_many({"content": SHORT, "type": "event", "id": f"same{number}"} for number in range(3))
        m.add_many({"content": f"{SHORT} {number}", "id": f"old{number}"} for number in range(700))
        m.add_many({"content": f"{wanted} {number}", "id": f"new{number}"} for number in range(10))
        m.add("在这里 here", id="here")
        m.flush()
        for number in range(700):
            m.forget(f"old{number}")

    @pytest.mark.parametrize("flushed", [True, False], ids=["index up to date", "index behind"])
    @pytest.mark.parametrize("embedder", [HashingEmbedder, WordsOnly], ids=["hybrid", "words and tree"])
    def test_of_what_is_found_by_its_words(self, memory: OpenMemory, limit: int, embedder: Any, flushed: bool) -> None:
        m = memory(embedder=embedder(), index={"exact_limit": limit, "background": False})
        self.fill(m, "关于发票的别的话 another matter with an invoice")
        if flushed:
            m.flush()
        found = [hit.id for hit in m.search(SHORT, 13)]
        assert sorted(id[:3] for id in found) == ["new"] * 10 + ["sam"] * 3
        assert {id[:3] for id in found[:3]} == {"sam"}

    def test_of_what_is_found_by_its_vector_alone_while_the_index_is_behind(
        self, memory: OpenMemory, limit: int
    ) -> None:
        m = memory(index={"exact_limit": limit, "background": False})
        self.fill(m, "invoicezzz")
        found = [hit.id for hit in m.search(SHORT, 13)]
        assert sorted(id[:3] for id in found) == ["new"] * 10 + ["sam"] * 3


class TestTheCommands:
    @pytest.fixture
    def cli(self, tmp_path: Path, monkeypatch: Any, capsys: Any) -> Callable[..., tuple[int, Any, str]]:
        """``cli(arguments…)``: the exit code, the document, and what is printed for people."""
        store = tmp_path / "store"
        with Memory.open(store, config=CONFIG) as m:
            fill(m)
        (tmp_path / "config.yaml").write_text("embedding: {provider: hashing, dimension: 32}\n", encoding="utf-8")
        monkeypatch.setenv("HYBRIDMEM_STORE", str(store))
        monkeypatch.setenv("HYBRIDMEM_CONFIG", str(tmp_path / "config.yaml"))

        def run(*arguments: str) -> tuple[int, Any, str]:
            capsys.readouterr()
            main([*arguments])
            shown = capsys.readouterr().out
            code = main([*arguments, "--json"])
            return code, json.loads(capsys.readouterr().out), shown

        return run

    def test_no_command_that_reads_shows_it(self, cli: Any) -> None:
        """C015: search, context, tree, resume, lists; as a document and as printed."""
        forgotten = {0, 4, 7, 11, 29, *range(20, 25)}
        commands = (
            ["search", QUERY, "-k", "40"], ["context", QUERY, "--budget", "4000"], ["context"], ["tree", "--all"],
            ["tree"], ["task", "list"], ["task", "show"], ["resume"], ["checkpoint", "--list"],
        )  # fmt: skip
        for command in commands:
            code, document, shown = cli(*command)
            assert code == 0
            document.pop("operations_since", None)  # the log says what was done to which id
            document.pop("last_operation", None)
            assert traces(document, forgotten) == set(), command
            if command != ["resume"]:
                assert traces(shown, forgotten) == set(), command

    def test_tree_shows_it_when_asked_and_it_can_be_brought_back(self, cli: Any) -> None:
        _, document, shown = cli("tree", "--forgotten", "--all")
        assert sum(node["state"] == "forgotten" for node in document["nodes"]) == 10
        assert "[forgotten]" in shown
        code, document, shown = cli("restore-forgotten", "id20", "--subtree")
        assert (code, shown.splitlines()[0]) == (0, "5 brought back")
        assert document["count"] == 0, "the second time, as a document, there was nothing left"
        assert document["note"].startswith("nothing changed: 'id20' is live")
        assert traces(cli("search", "marke22")[1], {22}) == {22}

    def test_the_reply_lists_what_went(self, cli: Any) -> None:
        _, document, shown = cli("forget", "id1", "--dry-run")
        assert (document["ids"], document["count"], document["dry_run"]) == (["id1"], 1, True)
        assert shown.splitlines() == ["1 would be forgotten", "  id1"]
        assert cli("forget", "id1")[2].splitlines() == ["1 forgotten", "  id1"]
        assert traces(cli("search", "marke1")[1], {1}) == set()


def test_an_unknown_argument_is_refused_and_nothing_goes(memory: OpenMemory) -> None:
    """C017's half of it: no misspelt selector is passed over, and nothing but what is named is touched."""
    m = memory()
    _, live = fill(m)
    call: Any = m.forget
    for wrong in ({"sub_tree": True}, {"user": "x"}, {"query": QUERY}):
        with pytest.raises(TypeError):
            call("id1", **wrong)
    with pytest.raises(InvalidInput):
        call(["id1", "id2"])
    assert m.stats().by_state["live"] == len(live) + 1
