"""Forgetting and archiving: what goes, what is protected, what comes back; what of it the log and the past know."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from crash.helpers import QUIET, chroma_vectors
from forgetting import HIDING, make_branch, states

from hybridmem import InvalidInput, Memory, NotFound, StateChange
from hybridmem.embed.hashing import HashingEmbedder
from hybridmem.ports import Vectors

OpenMemory = Callable[..., Memory]


@pytest.fixture
def branch(memory: OpenMemory) -> Memory:
    return make_branch(memory())


class TestWhatGoes:
    @pytest.mark.parametrize(("hide", "back", "state"), HIDING)
    def test_a_leaf_goes_and_comes_back(self, branch: Memory, hide: str, back: str, state: str) -> None:
        gone = getattr(branch, hide)("invoice")
        assert isinstance(gone, StateChange)
        assert (gone.operation, gone.id, gone.ids, gone.note) == (hide, "invoice", ("invoice",), "")
        assert gone.sequence == branch.operations()[-1].sequence
        assert states(branch) == {"note": "live", "invoice": state, "receipt": "live"}
        assert branch.get("invoice").content == "发票 invoice", "by its id it is there"
        assert [node.id for node in branch.children("note")] == ["receipt"]
        assert getattr(branch, back)("invoice").ids == ("invoice",)
        assert [node.id for node in branch.children("note")] == ["invoice", "receipt"]

    def test_a_whole_branch_goes_if_that_is_said_and_only_then(self, branch: Memory, refused: Any) -> None:
        with refused(branch, InvalidInput, r"subtree: 'note' has 2 memories below it.*subtree=True \(--subtree\)"):
            branch.forget("note")
        with refused(branch, InvalidInput, "subtree: 'note' has 2 memories below it that are live"):
            branch.archive("note", subtree=False)
        assert branch.forget("note", subtree=True).ids == ("note", "invoice", "receipt"), "in the order of insertion"
        assert set(states(branch).values()) == {"forgotten", "live"}
        assert branch.restore_forgotten("note", subtree=True).ids == ("note", "invoice", "receipt")

    def test_archiving_takes_what_is_below_along_unless_told_otherwise(self, branch: Memory) -> None:
        assert branch.archive("note").ids == ("note", "invoice", "receipt")
        assert branch.unarchive("note", subtree=False).ids == ("note",)
        assert branch.unarchive("note").ids == ("invoice", "receipt")
        assert branch.archive("receipt", subtree=False).ids == ("receipt",)

    def test_what_is_archived_or_superseded_below_must_not_be_left_behind(self, branch: Memory, refused: Any) -> None:
        branch.archive("invoice")
        branch.forget("receipt")
        with refused(branch, InvalidInput, "'note' has 1 memories below it that are live or archived or superseded"):
            branch.forget("note")
        assert branch.forget("note", subtree=True).ids == ("note", "invoice")
        branch.restore_forgotten("note")
        branch.forget("note")  # a leaf now: everything below it is forgotten

    @pytest.mark.parametrize(("hide", "back", "state"), HIDING)
    def test_a_second_time_changes_nothing_and_says_so(
        self, branch: Memory, rows: Any, hide: str, back: str, state: str
    ) -> None:
        getattr(branch, hide)("invoice")
        for verb, name, said in (
            (hide, "invoice", f"nothing changed: 'invoice' is {state}"),
            (back, "receipt", "nothing changed: 'receipt' is live"),
        ):
            before = rows(branch)
            for subtree in (False, True):
                again = getattr(branch, verb)(name, subtree=subtree)
                assert (again.ids, again.sequence) == ((), None)
                assert again.note.startswith(said)
            assert rows(branch) == before, "no version rises, and nothing is logged"

    def test_an_unknown_id_is_not_found_nor_one_of_somebody_else(self, branch: Memory, memory: OpenMemory) -> None:
        other = memory(namespace=("李四",))
        for verb in ("forget", "restore_forgotten", "archive", "unarchive"):
            for dry_run in (False, True):
                with pytest.raises(NotFound, match="'没有'"):
                    getattr(branch, verb)("没有", dry_run=dry_run)
                with pytest.raises(NotFound, match="'invoice'"):
                    getattr(other, verb)("invoice", dry_run=dry_run)
        assert set(states(branch).values()) == {"live"}

    @pytest.mark.parametrize("flag", ["subtree", "dry_run"])
    @pytest.mark.parametrize("wrong", ["false", 0, 1, None, []])
    def test_a_flag_is_true_or_false(self, branch: Memory, refused: Any, flag: str, wrong: Any) -> None:
        with refused(branch, InvalidInput, f"{flag}: must be True or False"):
            branch.forget("note", **{flag: wrong})

    @pytest.mark.parametrize(("verb", "first"), [("forget", None), ("restore_forgotten", "forget"),
                                                 ("archive", None), ("unarchive", "archive")])  # fmt: skip
    def test_a_dry_run_says_it_and_changes_nothing(
        self, branch: Memory, rows: Any, verb: str, first: str | None
    ) -> None:
        if first is not None:
            getattr(branch, first)("note", subtree=True)
        before = rows(branch)
        would = getattr(branch, verb)("note", subtree=True, dry_run=True)
        assert rows(branch) == before
        did = getattr(branch, verb)("note", subtree=True)
        assert would.ids == did.ids != ()
        assert (would.dry_run, did.dry_run, would.sequence) == (True, False, None)

    def test_a_dry_run_in_a_new_handle_writes_not_even_that_it_ran(
        self, branch: Memory, memory: OpenMemory, rows: Any
    ) -> None:
        before = rows(branch)
        with memory() as second:
            second.forget("note", subtree=True, dry_run=True)
        assert rows(branch) == before


class TestWhatComesBack:
    def test_in_the_state_in_which_it_was(self, branch: Memory, memory: OpenMemory, tmp_path: Path) -> None:
        branch.archive("receipt")
        branch.export(tmp_path / "all.jsonl")
        text = (tmp_path / "all.jsonl").read_text("utf-8").splitlines()
        lines = [json.loads(line) for line in text]
        for line in lines:
            if line.get("id") == "invoice":
                line["state"] = "superseded"
        (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        m = memory("other")
        m.import_(tmp_path / "all.jsonl")
        before = states(m)
        assert before == {"note": "live", "invoice": "superseded", "receipt": "archived"}
        for _ in range(2):
            m.forget("note", subtree=True)
            assert set(states(m).values()) == {"forgotten"}
            m.restore_forgotten("note", subtree=True)
            assert states(m) == before

    def test_the_state_before_is_that_before_the_last_time(self, branch: Memory, monkeypatch: Any) -> None:
        monkeypatch.setattr("hybridmem.store.log.PAGE", 2)
        branch.archive("invoice")
        branch.forget("invoice")
        for _ in range(5):  # the entry is some pages back
            branch.forget("receipt")
            branch.restore_forgotten("receipt")
        branch.restore_forgotten("invoice")
        assert states(branch)["invoice"] == "archived"
        branch.unarchive("invoice")
        branch.forget("invoice")
        branch.restore_forgotten("invoice")
        assert states(branch)["invoice"] == "live"

    def test_what_was_imported_as_forgotten_comes_back_live(
        self, branch: Memory, memory: OpenMemory, tmp_path: Path
    ) -> None:
        branch.forget("invoice")
        branch.export(tmp_path / "all.jsonl")
        m = memory("other")
        m.import_(tmp_path / "all.jsonl")
        assert m.restore_forgotten("invoice").ids == ("invoice",)
        assert m.get("invoice").state == "live"

    def test_not_below_what_is_still_forgotten(self, branch: Memory, refused: Any) -> None:
        """The topmost one is named: bringing a whole chain back unasked would be more than was said."""
        branch.add("细节 detail", parent="invoice", id="detail")
        branch.switch_task(branch.active_task().id)  # type: ignore[union-attr]
        branch.forget("note", subtree=True)
        said = r"'detail' hangs below 'note', which is forgotten; call restore_forgotten\('note'\) first"
        for subtree in (False, True):
            with refused(branch, InvalidInput, said):
                branch.restore_forgotten("detail", subtree=subtree)
        branch.restore_forgotten("note")
        with refused(branch, InvalidInput, "'detail' hangs below 'invoice', which is forgotten"):
            branch.restore_forgotten("detail")
        branch.restore_forgotten("invoice")
        assert branch.restore_forgotten("detail").ids == ("detail",)
        assert [node.id for node in branch.ancestors("detail")][1:] == ["note", "invoice"]

    def test_its_vector_without_the_model(self, memory: OpenMemory) -> None:
        class Noting(HashingEmbedder):
            embedded: list[str] = []  # noqa: RUF012

            def embed_documents(self, texts: Sequence[str]) -> Vectors:
                self.embedded.extend(texts)
                return super().embed_documents(texts)

        m = memory(embedder=Noting())
        id = m.add("invoice rejected by finance 发票").id
        m.add("其他 other")
        m.flush()
        Noting.embedded.clear()
        for hide, back, _ in HIDING:
            getattr(m, hide)(id)
            m.flush()
            getattr(m, back)(id)
            best = m.search("rejecting invoices")[0]
            assert best.id == id
            assert best.score_details.vector is not None
            assert m.flush() == 0
        assert Noting.embedded == []

    def test_a_repeat_of_what_is_forgotten_is_a_new_memory(self, branch: Memory) -> None:
        branch.forget("invoice")
        again = branch.add("发票 invoice", type="fact", parent="note")
        assert again.created
        branch.restore_forgotten("invoice")
        confirmed = branch.add("发票 invoice", type="fact", parent="note")
        assert (confirmed.id, confirmed.created) == ("invoice", False), "of two alike the older one"


class TestTheLog:
    def test_one_entry_says_everything_about_every_node(self, branch: Memory) -> None:
        branch.archive("receipt")
        before = len(branch.operations())
        branch.forget("note", subtree=True)
        [entry] = branch.operations(before)
        assert (entry.kind, entry.node_id) == ("forget", "note")
        assert entry.payload == {
            "subtree": True,
            "states": [
                ["note", "live", "forgotten", branch.get("note").version],
                ["invoice", "live", "forgotten", 2],
                ["receipt", "archived", "forgotten", 3],
            ],
        }
        branch.restore_forgotten("note", subtree=True)
        [entry] = branch.operations(before + 1)
        assert [row[:3] for row in entry.payload["states"]] == [
            ["note", "forgotten", "live"], ["invoice", "forgotten", "live"], ["receipt", "forgotten", "archived"],
        ]  # fmt: skip
        assert [row[3] for row in entry.payload["states"]] == [
            branch.get(id).version for id in ("note", "invoice", "receipt")
        ]

    def test_versions_rise_and_it_is_no_activity_of_anything(self, branch: Memory, clock: Any) -> None:
        nodes = {node.id: node for node in branch.walk()}
        for verb in ("archive", "unarchive", "forget", "restore_forgotten"):
            clock.advance(days=1)
            getattr(branch, verb)("invoice")
        after = {node.id: node for node in branch.walk()}
        assert {id: node.active_at for id, node in after.items()} == {id: node.active_at for id, node in nodes.items()}
        assert {id for id in nodes if after[id] != nodes[id]} == {"invoice"}
        assert after["invoice"].version == nodes["invoice"].version + 4
        assert after["invoice"].updated_at == clock.time

    def test_it_counts_towards_the_next_checkpoint(self, memory: OpenMemory) -> None:
        m = memory(checkpoint={"every_operations": 3})
        id = m.add("发票 invoice").id
        m.forget(id)
        m.restore_forgotten(id)
        assert m.checkpoints()[0].reason == "operations"


class TestThePast:
    def test_before_it_was_forgotten_it_is_there_and_after_it_is_not(self, branch: Memory, clock: Any) -> None:
        at = {}
        for step in ("forget", "restore_forgotten", "archive", "unarchive"):
            branch.flush()
            at[step] = clock.time
            clock.advance(days=1)
            getattr(branch, step)("note", subtree=True)
        at["now"] = clock.time
        state = {"forget": "live", "restore_forgotten": "forgotten", "archive": "live", "unarchive": "archived",
                 "now": "live"}  # fmt: skip
        for step, moment in at.items():
            found = branch.search(
                "发票 invoice 材料 papers", as_of=moment, states=[state[step]], types=["fact", "note"]
            )
            assert {hit.id for hit in found} == {"note", "invoice", "receipt"}, step
            assert {hit.node.state for hit in found} == {state[step]}
            live = branch.context("发票 invoice", as_of=moment).hits
            assert ("invoice" in {hit.id for hit in live}) == (state[step] == "live")

    def test_versions_and_times_are_those_of_then(self, branch: Memory, clock: Any) -> None:
        first = branch.get("receipt")
        moment = clock.time
        clock.advance(days=1)
        branch.forget("note", subtree=True)
        branch.restore_forgotten("note")  # so that nothing later names what the entry of the forgetting stands under
        middle, forgotten = clock.time, branch.get("receipt")
        clock.advance(days=1)
        branch.restore_forgotten("receipt")
        then = {hit.id: hit.node for hit in branch.search("收据 receipt", as_of=moment)}["receipt"]
        assert (then.version, then.updated_at, then.state) == (first.version, first.updated_at, "live")
        found = branch.search("收据 receipt", as_of=middle, states=["forgotten"])
        between = {hit.id: hit.node for hit in found}["receipt"]
        assert (between.version, between.updated_at) == (forgotten.version, forgotten.updated_at)

    def test_the_last_activity_is_that_of_then_though_what_was_active_there_has_moved_away(
        self, memory: OpenMemory, clock: Any
    ) -> None:
        m = memory()
        m.add("一处 place", parent="root", id="place")
        clock.advance(days=10)
        m.add("活动 activity", parent="place", id="lively")
        m.move("lively", "root")
        moment, before = clock.time, m.get("place")
        clock.advance(days=1)
        m.forget("place")
        [then] = m.search("一处 place", k=1, as_of=moment)
        assert then.node == before

    def test_its_vector_is_that_of_then(self, branch: Memory, clock: Any) -> None:
        branch.flush()
        moment = clock.time
        clock.advance(days=1)
        branch.forget("note", subtree=True)
        branch.flush()
        assert branch.search("发票 invoice", as_of=moment)[0].score_details.vector is not None


class TestTheIndex:
    def test_its_vectors_leave_chroma_and_come_back(self, tmp_path: Path) -> None:
        def held() -> set[int]:
            return {node_id for node_id, _ in chroma_vectors(tmp_path)}

        with Memory.open(tmp_path, config=QUIET) as m:
            m.add_many([{"content": f"发票 invoice {number}", "id": str(number)} for number in range(5)])
            m.add("别处 elsewhere")
            assert m.flush() == 0
        everything = held()
        assert len(everything) == 6
        for hide, back, _ in HIDING:
            with Memory.open(tmp_path, config=QUIET) as m:
                getattr(m, hide)("2")
                assert m.flush() == 0
            assert len(held()) == 5
            with Memory.open(tmp_path, config=QUIET) as m:
                getattr(m, back)("2")
                assert m.flush() == 0
            assert held() == everything

    def test_what_was_never_embedded_does_not_wait_for_ever(self, memory: OpenMemory) -> None:
        """Nothing was put into the index, so there is nothing to wait for, though no model was ever asked for."""
        m = memory()
        for hide, _, _ in HIDING:
            id = m.add(f"从未嵌入 never embedded {hide}").id
            getattr(m, hide)(id)
        assert m.flush() == 0
        assert m.stats().embedding_model is None
        m.restore_forgotten(m.search("never embedded", states=["forgotten"])[0].id)
        assert m.flush() == 0
        assert m.stats().vectors == 1

    def test_one_that_failed_is_no_longer_reported_as_stuck(self, memory: OpenMemory) -> None:
        class RefusingBad(HashingEmbedder):
            def embed_documents(self, texts: Sequence[str]) -> Vectors:
                if any("坏" in text for text in texts):
                    raise RuntimeError("坏")
                return super().embed_documents(texts)

        m = memory(embedder=RefusingBad())
        m.add("好的 good")
        bad = m.add("坏的 bad").id
        assert m.flush() == 1
        assert [id for id, _ in m.stats().stuck] == [bad]
        m.forget(bad)
        assert m.flush() == 0
        assert m.stats().stuck == ()


class TestCounts:
    def test_stats_say_how_many_are_in_which_state(self, branch: Memory) -> None:
        branch.archive("receipt")
        branch.forget("invoice")
        stats = branch.stats()
        assert stats.nodes == sum(stats.by_state.values()) == sum(stats.by_type.values()) == 5
        assert stats.by_state == {"live": 3, "archived": 1, "forgotten": 1}
        assert stats.open_tasks == 1
        assert branch.checkpoint().nodes == 5
