"""Any sequence of writes, in two namespaces, over reopenings: the store equals a plain dict, and all it derives agrees.

The model is a dict of nodes per namespace and the active pointers; after every step the whole store is compared with
it, and what the store keeps twice (paths, depth, counters, lexical index, outbox, log chain) is recomputed.
"""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from hybridmem import InvalidInput
from stateful.kept import check_kept_twice, has_terms
from stateful.machine import Machine

#: Few and short, so that exact repeats are common.
CONTENTS = st.sampled_from(
    [
        "发票不清晰",
        "invoice ERR_42 returned",
        "用户 prefers 短信 SMS",
        "a",
        "😀",
        " 两端 \r\n",
        '{"a": 1}',
        "停机 Saturday",
    ]
)
STRUCTURED = st.sampled_from([{"a": 1}, [1, "二"], 7, "普通 text"])
TYPES = st.sampled_from(["fact", "preference", "decision", "event", "note", "custom"])
METADATA = st.dictionaries(
    st.sampled_from(["k", "键", "n"]), st.sampled_from([None, True, 1, 1.5, "值", [1, None], {"x": "y"}]), max_size=3
)
UNITS = st.sampled_from([0.0, 0.25, 0.5, 1.0])
POSITION = st.integers(0, 10**6)


class StoreEqualsPlainDict(Machine):
    # Rules

    spaces = st.sampled_from([0, 0, 1])
    parents = st.one_of(st.sampled_from(["task", "decision", "node", "root"]), POSITION)
    contents = st.one_of(CONTENTS, STRUCTURED)

    @rule(space=spaces, content=contents, type=TYPES, parent=parents, i=UNITS, c=UNITS, metadata=METADATA)
    def add(self, space: int, content: Any, type: str, parent: Any, i: float, c: float, metadata: Any) -> None:
        given = {"content": content, "type": type, "importance": i, "confidence": c, "metadata": metadata}
        passed, meant = self.placed(space, parent)
        if self.models[space].state(meant) == "forgotten":
            with pytest.raises(InvalidInput, match=r"parent: .* is forgotten"):
                self.opened[space].add(**given, parent=passed)
            return
        node = self.opened[space].add(**given, parent=passed)
        self.stored(space, node, meant, given)

    @rule(space=spaces, items=st.lists(st.tuples(contents, TYPES, st.integers(-1, 3)), min_size=1, max_size=4))
    def add_many(self, space: int, items: list[tuple[Any, str, int]]) -> None:
        model = self.models[space]
        batch, given = [], []
        for position, (content, type, above) in enumerate(items):
            values = {"content": content, "type": type, "importance": 0.5, "confidence": 0.5, "metadata": {}}
            parent = above if 0 <= above < position else "task"
            given.append((values, parent))
            batch.append({**values, "parent": parent})
        nodes = self.opened[space].add_many(batch)
        task = model.task or model.root
        for node, (values, parent) in zip(nodes, given, strict=True):
            self.stored(space, node, nodes[parent].id if isinstance(parent, int) else task, values)

    @rule(space=spaces, content=CONTENTS)
    def a_batch_with_one_bad_item_is_refused(self, space: int, content: str) -> None:
        with pytest.raises(InvalidInput, match="item 1"):
            self.opened[space].add_many([{"content": content}, {"content": " "}])

    @rule(
        space=spaces, which=POSITION, content=st.none() | contents, metadata=st.none() | METADATA, i=st.none() | UNITS
    )
    def update(self, space: int, which: int, content: Any, metadata: Any, i: float | None) -> None:
        id = self.pick(space, which)
        if id is None or (content is None and metadata is None and i is None):
            return
        if self.is_refused(space, id, "update", content=content, metadata=metadata, importance=i):
            return
        values = self.models[space].nodes[id]
        node = self.opened[space].update(
            id, content=content, metadata=metadata, importance=i, expected_version=values["version"]
        )
        if content is not None:
            values["value"] = content
        for key, value in (metadata or {}).items():
            if value is None:
                values["metadata"] = {k: v for k, v in values["metadata"].items() if k != key}
            else:
                values["metadata"] = {**values["metadata"], key: value}
        if i is not None:
            values["importance"] = i
        values["version"] += 1
        assert node.version == values["version"]

    @rule(space=spaces, which=POSITION, parent=st.one_of(st.just("root"), POSITION))
    def move(self, space: int, which: int, parent: Any) -> None:
        model = self.models[space]
        id = self.pick(space, which)
        if id is None:
            return
        passed, meant = self.placed(space, parent)
        if self.is_refused(space, id, "move", passed):
            return
        if model.state(meant) == "forgotten":
            with pytest.raises(InvalidInput, match=r"parent: .* is forgotten"):
                self.opened[space].move(id, passed)
            return
        if meant == id or id in (model.chain(meant) if meant != model.root else []):
            with pytest.raises(InvalidInput, match="loop"):
                self.opened[space].move(id, passed)
            return
        self.opened[space].move(id, passed)
        model.nodes[id]["parent"] = meant
        model.nodes[id]["version"] += 1

    @rule(space=spaces, which=POSITION, pinned=st.booleans())
    def pin(self, space: int, which: int, pinned: bool) -> None:
        id = self.pick(space, which)
        if id is not None and not self.is_refused(space, id, "pin", pinned):
            self.opened[space].pin(id, pinned)
            self.models[space].nodes[id]["pinned"] = pinned
            self.models[space].nodes[id]["version"] += 1

    @rule(space=spaces, title=CONTENTS, below=st.booleans(), step=st.sampled_from([None, "下一步 next"]))
    def start_task(self, space: int, title: str, below: bool, step: str | None) -> None:
        model = self.models[space]
        node = self.opened[space].start_task(title, next_step=step, parent="active" if below else None)
        model.nodes[node.id] = {
            "parent": (model.task or model.root) if below else model.root, "type": "task", "value": title,
            "importance": 0.8, "confidence": 0.7, "metadata": {}, "pinned": False, "uses": 0, "version": 1,
            "status": "open", "step": step, "state": "live",
        }  # fmt: skip
        model.task = model.node = node.id

    @rule(space=spaces, which=POSITION)
    def switch_task(self, space: int, which: int) -> None:
        id = self.pick(space, which, tasks=True)
        if id is None or self.is_refused(space, id, "switch_task"):
            return
        values = self.models[space].nodes[id]
        if values["status"] in ("done", "failed"):
            with pytest.raises(InvalidInput, match=r"is (done|failed)"):
                self.opened[space].switch_task(id)
            return
        node = self.opened[space].switch_task(id)
        values["status"] = "open"
        values["version"] = node.version
        self.models[space].task = self.models[space].node = id

    @rule(space=spaces, which=POSITION, step=st.sampled_from(["一步", " ", None]), status=st.sampled_from(
        [None, "open", "paused"]), title=st.none() | CONTENTS)  # fmt: skip
    def update_task(self, space: int, which: int, step: str | None, status: str | None, title: str | None) -> None:
        id = self.pick(space, which, tasks=True)
        if id is None or (step is None and status is None and title is None):
            return
        if self.is_refused(space, id, "update_task", next_step=step, status=status, title=title):
            return
        values = self.models[space].nodes[id]
        self.opened[space].update_task(id, next_step=step, status=status, title=title)
        if step is not None:
            values["step"] = step if step.strip() else None
        values["status"] = status or values["status"]
        values["value"] = title if title is not None else values["value"]
        values["version"] += 1

    @rule(space=spaces, status=st.sampled_from(["done", "failed"]), outcome=st.none() | CONTENTS)
    def finish_task(self, space: int, status: str, outcome: str | None) -> None:
        model = self.models[space]
        if model.task is None or model.nodes[model.task]["status"] in ("done", "failed"):
            return
        id = model.task
        node = self.opened[space].finish_task(status=status, outcome=outcome)
        if outcome is not None:
            [event] = [child for child in self.opened[space].children(id) if child.id not in model.nodes]
            model.nodes[event.id] = {
                "parent": id, "type": "event", "value": outcome, "importance": 0.5, "confidence": 0.7, "metadata": {},
                "pinned": False, "uses": 0, "version": 1, "status": None, "step": None, "state": "live",
            }  # fmt: skip
        model.nodes[id].update(status=status, step=None, version=node.version)
        above = [one for one in model.chain(id) if one != model.root and model.nodes[one]["status"] == "open"]
        model.task, model.node = (above[0] if above else None), id

    @rule(space=spaces, which=POSITION, kind=st.sampled_from(["forget", "forget", "archive"]), subtree=st.booleans())
    def forget_or_archive(self, space: int, which: int, kind: str, subtree: bool) -> None:
        id, model = self.pick(space, which), self.models[space]
        if id is None:
            return
        takes = ("live",) if kind == "archive" else ("live", "archived")
        chosen = model.branch(id, *takes)
        verb = getattr(self.opened[space], kind)
        if not subtree and id in chosen and len(chosen) > 1:
            with pytest.raises(InvalidInput, match="subtree: "):
                verb(id, subtree=False)
            return
        chosen = chosen if subtree else [one for one in chosen if one == id]
        if any(model.is_protected(one, kind) for one in chosen):
            with pytest.raises(InvalidInput, match=r"nothing was (forgotten|archived)"):
                verb(id, subtree=subtree)
            return
        assert list(verb(id, subtree=subtree, dry_run=True).ids) == chosen
        assert list(verb(id, subtree=subtree).ids) == chosen
        for one in chosen:
            model.give(one, "forgotten" if kind == "forget" else "archived")
        if model.node in chosen:
            model.node = next(one for one in model.chain(model.node) if model.state(one) == "live")

    @rule(space=spaces, which=POSITION, kind=st.sampled_from(["restore_forgotten", "unarchive"]), subtree=st.booleans())
    def bring_back(self, space: int, which: int, kind: str, subtree: bool) -> None:
        id, model = self.pick(space, which), self.models[space]
        if id is None:
            return
        verb = getattr(self.opened[space], kind)
        above = [one for one in model.chain(id) if model.state(one) == "forgotten"]
        if above:
            with pytest.raises(InvalidInput, match=f"hangs below '{above[-1]}'"):
                verb(id, subtree=subtree)
            return
        chosen = model.branch(id, "forgotten" if kind == "restore_forgotten" else "archived")
        chosen = chosen if subtree else [one for one in chosen if one == id]
        assert list(verb(id, subtree=subtree).ids) == chosen
        for one in chosen:
            model.give(one, model.before[one] if kind == "restore_forgotten" else "live")

    @rule(space=spaces)
    def checkpoint(self, space: int) -> None:
        memory, model = self.opened[space], self.models[space]
        point = memory.checkpoint()
        assert (point.nodes, point.active_task_id, point.active_node_id) == (len(model.nodes), model.task, model.node)
        assert point.digest == memory.operations(point.sequence - 1)[0].hash

    @rule(moving=st.booleans())
    def let_time_go_on_or_stand(self, moving: bool) -> None:
        self.clock.moving = moving

    @rule(space=spaces, content=CONTENTS)
    def search_finds_what_says_just_that(self, space: int, content: str) -> None:
        """Also embeds what waits."""
        model = self.models[space]
        with_it = {id for id, values in model.nodes.items() if values["value"] == content}
        live = {id for id in model.nodes if model.state(id) == "live"}
        found = {hit.id for hit in self.opened[space].search(content, 100)}
        assert found <= live, "what is forgotten or archived is never found"
        assert with_it & live <= found
        asked = {hit.id for hit in self.opened[space].search(content, 100, states=["forgotten", "archived"])}
        assert with_it - live <= asked <= model.nodes.keys() - live

    @precondition(lambda self: any(model.nodes for model in self.models))
    @rule(space=spaces)
    def flush_brings_everything_into_the_index(self, space: int) -> None:
        assert self.opened[space].flush() == 0
        for memory, model in zip(self.opened, self.models, strict=True):
            stats = memory.stats()
            assert (stats.pending, stats.stuck) == (0, ())
            assert stats.by_state.get("live", 0) <= stats.vectors <= stats.nodes == len(model.nodes)

    @precondition(lambda self: any(model.nodes for model in self.models))
    @rule()
    def reopen(self) -> None:
        for memory in self.opened:
            memory.close()
        self.open()

    @precondition(lambda self: any(model.nodes for model in self.models))
    @rule()
    def the_process_is_killed(self) -> None:
        """What a kill leaves: the files as they are at this moment, with nobody having closed anything."""
        image = self.folder / f"store-{len(list(self.folder.iterdir()))}"
        shutil.copytree(self.store, image)
        for memory in self.opened:
            memory.close()
        self.store = image
        self.open()
        assert self.opened[0].flush() == 0  # which brings an index that is behind, torn or gone into agreement

    @precondition(lambda self: any(model.nodes for model in self.models))
    @rule()
    def the_index_is_lost(self) -> None:
        for memory in self.opened:
            memory.close()
        shutil.rmtree(self.store / "vectors", ignore_errors=True)
        self.open()
        assert self.opened[0].flush() == 0

    @precondition(lambda self: any(model.nodes for model in self.models))
    @rule(space=spaces, position=POSITION)
    def restore_to_an_earlier_point_and_back(self, space: int, position: int) -> None:
        """All is as it was but the versions, which never go back."""
        memory, model = self.opened[space], self.models[space]
        now = memory.operations()[-1].sequence
        memory.restore(sequence=1 + position % now)
        memory.restore(sequence=now)
        for id, values in model.nodes.items():
            version = memory.get(id).version
            assert version >= values["version"]
            values["version"] = version

    # What always holds

    @invariant()
    def the_tree_is_the_models(self) -> None:
        for memory, model in zip(self.opened, self.models, strict=True):
            nodes = list(memory.walk())
            assert [node.id for node in nodes] == model.preorder()
            for node in nodes[1:]:
                values = model.nodes[node.id]
                task = node.task
                assert {
                    "parent": node.parent_id, "type": node.type, "value": node.value, "importance": node.importance,
                    "confidence": pytest.approx(node.confidence), "metadata": node.metadata, "pinned": node.pinned,
                    "uses": node.uses, "version": node.version, "status": task.status if task else None,
                    "step": task.next_step if task else None, "state": node.state,
                } == values  # fmt: skip
                assert type(node.value) is type(values["value"])
                assert node.depth == len(model.chain(node.id))
                assert node.active_at >= node.created_at
            for id in (model.root, *model.nodes):
                assert [child.id for child in memory.children(id)] == model.children(id, "live")
                above = model.chain(id)[:1]
                assert model.state(id) == "forgotten" or model.state(above[0] if above else id) != "forgotten"

    @invariant()
    def the_pointers_are_the_models(self) -> None:
        for memory, model in zip(self.opened, self.models, strict=True):
            task, point = memory.active_task(), memory.resume()
            assert (task.id if task else None) == model.task
            assert (point.active_node.id if point.active_node else None) == model.node
            assert not point.interrupted

    @invariant()
    def what_is_kept_twice_agrees(self) -> None:
        terms_kept = 0
        for memory, model in zip(self.opened, self.models, strict=True):
            check_kept_twice(memory, model)
            terms_kept += sum(has_terms(values["value"]) for values in model.nodes.values())
        with self.opened[0]._workspace.read() as tx:
            assert tx.execute("SELECT count(*) FROM lexical").fetchone()[0] == terms_kept


TestStoreEqualsPlainDict = pytest.mark.filterwarnings("error")(StoreEqualsPlainDict.TestCase)
TestStoreEqualsPlainDict.settings = settings(  # type: ignore[attr-defined]
    max_examples=25,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
