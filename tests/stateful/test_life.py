"""Any life of memories, over every verb that forgets, archives, summarises, merges or goes back: the store is what a
plain dict says, nothing protected is ever lost, and what is not live is never found.

Beside test_model, which is about the tree and recovery: here which memories go is chosen by policies, too.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from stateful.life import SUMMED
from stateful.life_machine import LifeMachine

POSITION = st.integers(0, 10**6)
TYPES = st.sampled_from(["fact", "fact", "event", "note", "decision"])
#: Of which not more than the share or number may be left, or what has been quiet for long.
POLICIES = st.sampled_from(
    [
        {"policy": "least_weight", "max_nodes": 0},
        {"policy": "least_weight", "max_share": 0.5},
        {"policy": "least_recently_used", "max_nodes": 3},
        {"policy": "random", "seed": 1, "max_share": 0.3},
        {"policy": "newest", "max_nodes": 2, "types": ["fact", "event"]},
        {"policy": "age", "days": 1.0},
        {"policy": "decay", "threshold": 0.6},
    ]
)


class LifeEqualsPlainDict(LifeMachine):
    @rule(type=TYPES, where=st.sampled_from(["task", "task", "node", "root", "any"]), which=POSITION, again=POSITION)
    def add(self, type: str, where: str, which: int, again: int) -> None:
        """Now and then what another memory says, live or not."""
        model = self.model
        places = {"task": model.task, "node": model.node, "any": self.pick(which)}
        above = places.get(where) or model.root
        like = self.pick(again) if again % 5 == 0 else None
        value = (model.nodes[like]["value"] if like else "") or self.new_text()
        if model.state(above) == "forgotten":
            self.refused("add", value, parent=above)
        else:
            self.put(value, type, above)

    @rule(below=st.booleans())
    def start_task(self, below: bool) -> None:
        self.start(below=below)

    @precondition(lambda self: self.model.task is not None)
    @rule()
    def finish_task(self) -> None:
        self.finish()

    @rule(which=POSITION, pinned=st.booleans())
    def pin(self, which: int, pinned: bool) -> None:
        id = self.pick(which, "live", "archived", "superseded")
        if id is not None and self.model.state(id) != "forgotten":
            self.memory.pin(id, pinned)
            self.model.nodes[id]["pinned"] = pinned

    @rule(which=POSITION, reason=POSITION, helpful=st.none() | st.booleans(), said=st.sampled_from(["for", "against"]))
    def feedback(self, which: int, reason: int, helpful: bool | None, said: str) -> None:
        id, by = self.pick(which, "live", "archived", "superseded"), self.pick(reason)
        if id is None or by is None:
            return
        named = {"confirmed_by": by} if said == "for" else {"contradicted_by": by}
        if id == by or self.model.state(id) == "forgotten":
            self.refused("feedback", id, helpful=helpful, **named)
            return
        node, values = self.memory.feedback(id, helpful=helpful, **named), self.model.nodes[id]
        before, doubt = values["confidence"], 1 - values["confidence"]
        values["confidence"] = 1 - doubt / 2 if said == "for" else before / 2
        assert helpful is None or (node.importance > values["importance"]) == helpful
        values["importance"] = node.importance
        values["uses"] += helpful is True
        if values["state"] == "live":
            values["replaced_by"] = by if said == "against" else None

    @rule(which=POSITION, again=POSITION)
    def supersede(self, which: int, again: int) -> None:
        id, model = self.pick(which, "live", task=False), self.model
        if id is None:
            return
        values = model.nodes[id]
        beside = [one for one in model.children(values["parent"], "live") if model.nodes[one]["type"] == values["type"]]
        value = model.nodes[beside[again % len(beside)]]["value"] if beside and again % 4 == 0 else self.new_text()
        if values["state"] != "live" or values["type"] == "task" or value == values["value"]:
            self.refused("supersede", id, value)
            return
        below, pinned = model.children(id), values["pinned"]
        node = self.memory.supersede(id, value)
        self.took(node, values["parent"], value)
        for one in below:
            model.nodes[one]["parent"] = node.id
        model.replace(id, node.id)
        model.nodes[node.id]["pinned"] |= pinned
        self.touched |= {id, node.id}

    @rule(which=POSITION, kind=st.sampled_from(["forget", "archive"]), subtree=st.booleans())
    def forget_or_archive(self, which: int, kind: str, subtree: bool) -> None:
        id, model = self.pick(which, "live", "archived", "superseded"), self.model
        if id is None:
            return
        chosen = model.branch(id, *(("live",) if kind == "archive" else ("live", "archived", "superseded")))
        is_half = not subtree and id in chosen and len(chosen) > 1
        chosen = chosen if subtree else [one for one in chosen if one == id]
        if is_half or any(model.is_protected(one, kind) for one in chosen):
            self.refused(kind, id, subtree=subtree)
            return
        assert list(getattr(self.memory, kind)(id, subtree=subtree).ids) == chosen
        model.leave(chosen, "forgotten" if kind == "forget" else "archived")
        self.touched |= set(chosen)

    @rule(policy=POLICIES, limit=st.sampled_from([None, None, 2]), dry_run=st.sampled_from([False, False, True]))
    def forget_by_policy(self, policy: dict[str, Any], limit: int | None, dry_run: bool) -> None:
        """What it takes may go, leaves first, and no more than it was told to; more than the cap is left only of what
        may not go."""
        model = self.model
        report = self.memory.forget(policy=policy, limit=limit, dry_run=dry_run)
        after = model.copy()
        for id in report.ids:
            assert after.state(id) == "live"
            assert not after.is_held(id), "what is protected never goes"
            assert not after.there_below(id), "leaves first"
            after.give(id, "forgotten")
        assert limit is None or len(report.ids) <= limit
        assert report.left == len(after.ids("live"))
        types = policy.get("types")
        left = [id for id in after.ids("live") if types is None or after.nodes[id]["type"] in types]
        most = policy.get("max_nodes")
        if most is not None and limit is None:
            assert len(report.ids) == 0 or len(left) >= most
            assert len(left) <= most or all(after.is_held(id) or after.there_below(id) for id in left)
        for one in report.held:
            assert after.state(one.id) == "live"
            assert after.is_held(one.id)
        if not dry_run:
            self.model = after
            self.touched |= set(report.ids)

    @precondition(lambda self: self.model.ids("forgotten", "archived"))
    @rule(which=POSITION, kind=st.sampled_from(["restore_forgotten", "unarchive"]), subtree=st.booleans())
    def bring_back(self, which: int, kind: str, subtree: bool) -> None:
        model, takes = self.model, "forgotten" if kind == "restore_forgotten" else "archived"
        id = self.pick(which, takes)
        if id is None:
            return
        is_gone = kind == "restore_forgotten" and model.nodes[id]["purged"]
        if is_gone or any(model.state(one) == "forgotten" for one in model.chain(id)):
            self.refused(kind, id, subtree=subtree)
            return
        purged = [one for one in model.nodes if model.nodes[one]["purged"]]
        chosen = [one for one in model.branch(id, takes) if not {*purged} & {one, *model.chain(one)}]
        if not is_gone and kind == "unarchive":
            chosen = [one for one in chosen if one == id or not model.is_summed_up(one, chosen)]
        chosen = chosen if subtree else [one for one in chosen if one == id]
        assert list(getattr(self.memory, kind)(id, subtree=subtree).ids) == chosen
        for one in chosen:
            model.give(one, model.before[one] if kind == "restore_forgotten" else "live")
        self.touched |= set(chosen)

    @precondition(lambda self: self.model.ids("forgotten"))
    @rule(days=st.sampled_from([None, 0.0, 0.0, 2.0]), limit=st.sampled_from([None, 1]))
    def purge_forgotten(self, days: float | None, limit: int | None) -> None:
        model = self.model
        report = self.memory.purge_forgotten(days, limit=limit)
        there = [id for id in model.ids("forgotten") if not model.nodes[id]["purged"]]
        may_go = {id for id in there if not model.nodes[id]["pinned"]}
        assert may_go.issuperset(report.ids)
        assert days != 0.0 or limit is not None or may_go == set(report.ids)
        assert report.kept == len(there) - len(report.ids)
        model.purge(report.ids)
        self.touched |= set(report.ids)

    @rule(which=POSITION, kind=st.sampled_from(["all", "old", "one", "one"]))
    def consolidate(self, which: int, kind: str) -> None:
        model, id = self.model, self.pick(which, "live") if kind == "one" else None
        if id is not None and (model.state(id) != "live" or model.nodes[id]["status"] == "open"):
            self.refused("consolidate", id)
            return
        for one in self.memory.consolidate(id, older_than=0.0 if kind == "old" else None).branches:
            assert one.summary_id is not None
            is_task = one.id == model.root or model.nodes[one.id]["type"] == "task"
            top = one.id if is_task else model.parent_of(one.id)
            for source in one.sources:
                assert model.state(source) == "live"
                assert (is_task and one.id in model.chain(source)) or one.id in (source, *model.chain(source))
                assert not model.stays_in_branch(source, top)
            texts = [model.nodes[source] for source in one.sources if model.nodes[source]["type"] != "task"]
            for source in one.sources:
                model.take_mark(source, "archived", one.summary_id, SUMMED)
            confidence = sum(values["confidence"] for values in texts) / len(texts)
            importance = max(values["importance"] for values in texts)
            model.put(one.summary_id, top, "summary", one.summary, importance, confidence)
            self.touched |= {one.summary_id, *one.sources}

    @precondition(lambda self: any(values["by"] == SUMMED for values in self.model.nodes.values()))
    @rule(which=POSITION)
    def unconsolidate(self, which: int) -> None:
        model = self.model
        summaries = [id for id, values in model.nodes.items() if values["type"] == "summary"]
        id = summaries[which % len(summaries)] if summaries else self.pick(which)
        if id is None:
            return
        sources, values = model.sources(id), model.nodes[id]
        back = [one for one in sources if model.state(one) == "archived"]
        is_part = values["replaced_by"] and values["state"] not in ("live", "superseded")
        is_in_use = values["pinned"] or is_part or model.children(id, "live") or id in model.at_work()
        is_below = any(model.state(above) == "forgotten" for one in back for above in model.chain(one))
        if not sources or is_in_use or is_below:
            self.refused("unconsolidate", id)
            return
        assert set(self.memory.unconsolidate(id).ids) == set(back)
        for one in back:
            model.give_mark_back(one)
        if values["state"] != "forgotten":
            model.give(id, "forgotten")
        self.touched |= {id, *back}

    @rule(which=POSITION, others=st.lists(POSITION, min_size=1, max_size=2))
    def merge_duplicates(self, which: int, others: list[int]) -> None:
        model, keep = self.model, self.pick(which, "live", task=False)
        if keep is None or model.state(keep) != "live" or model.nodes[keep]["type"] == "task":
            return
        alike = [one for one in model.ids("live") if model.nodes[one]["type"] == model.nodes[keep]["type"]]
        going = list(dict.fromkeys(alike[one % len(alike)] for one in others))
        is_wrong = keep in going or any(
            model.nodes[one]["pinned"] or len(model.branch(one, "live")) > 1 for one in going
        )
        if is_wrong:
            self.refused("merge_duplicates", keep, going)
            return
        model.merge(keep, going, self.memory.merge_duplicates(keep, going).sequence)
        self.touched |= {keep, *going}

    @precondition(lambda self: any(values["by"] not in (None, SUMMED) for values in self.model.nodes.values()))
    @rule(which=POSITION)
    def unmerge(self, which: int) -> None:
        model = self.model
        kept = [id for id in model.nodes if model.last_merged(id)]
        id = kept[which % len(kept)] if kept else self.pick(which)
        if id is None:
            return
        back = model.last_merged(id)
        if not back or model.state(id) == "forgotten":
            self.refused("unmerge", id)
            return
        values, last = model.nodes[id], model.nodes[back[0]]["by"]
        merged = self.memory.unmerge(id)
        assert set(merged.ids) == set(back)
        assert merged.keep.confidence <= values["confidence"]
        values["confidence"] = merged.keep.confidence
        values["uses"] = max(0, values["uses"] - model.gained.pop(last, 0))
        for one in back:
            model.give_mark_back(one)
        self.touched |= {id, *back}

    @rule()
    def checkpoint(self) -> None:
        self.points.append((self.memory.checkpoint(), self.model.copy()))

    @precondition(lambda self: self.points)
    @rule(which=POSITION)
    def restore(self, which: int) -> None:
        self.restored(*self.points[which % len(self.points)])

    @rule(days=st.sampled_from([0.5, 3.0, 40.0]))
    def time_goes_by(self, days: float) -> None:
        self.clock.time += timedelta(days=days)

    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.open()


TestLifeEqualsPlainDict = pytest.mark.filterwarnings("error")(LifeEqualsPlainDict.TestCase)
TestLifeEqualsPlainDict.settings = settings(  # type: ignore[attr-defined]
    max_examples=25,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
