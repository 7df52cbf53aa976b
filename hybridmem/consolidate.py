"""Where finished tasks and old memories become summaries, and where that is undone.

A branch is summarised outside of any transaction, since a language model takes its time; then one transaction looks
whether the branch is as it was, adds the summary, archives what it stands for (``replaced_by`` names the summary) and
logs it. Nothing is deleted: every source is there by its id, is found when archived memories are asked for, and comes
back with unconsolidate().
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from hybridmem import faults, inputs
from hybridmem.claims import Claims
from hybridmem.consolidated import Consolidated, ConsolidationReport
from hybridmem.errors import InvalidInput
from hybridmem.ports import Passage, Summarizer
from hybridmem.store import gathering, log, outbox, points, states, tree
from hybridmem.store.gathering import Part
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import Key, from_micros
from hybridmem.store.workspace import Workspace
from hybridmem.summarize.details import details
from hybridmem.text import clean_text
from hybridmem.tokens import token_counter
from hybridmem.types import ROOT_TYPE, SUMMARY_TYPE, TASK_TYPE, StateChange
from hybridmem.write import Writer, refuse_forgotten

_logger = logging.getLogger("hybridmem")
#: Called with (branches looked at, branches in all).
Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class _Branch:
    """What is to be summarised: ``head`` names it, the summary hangs below ``parent``. ``before`` (microseconds since
    1970 UTC): only the memories right below the head that were last active before."""

    head: Key
    parent: Key
    before: int | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """A branch as it was read. ``titles`` are those of tasks right below the head, by the id of the source."""

    sources: tuple[Part, ...]
    left: tuple[tuple[str, str], ...]
    titles: Mapping[int, str]

    @property
    def state(self) -> object:
        """Equal for two plans if and only if a summary of the one is one of the other."""
        return [(part.uid, part.version, part.revision_id) for part in self.sources], self.left


class _Skipped(Exception):
    """A branch stays as it is, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Consolidation:
    """The verbs of one workspace; see :class:`hybridmem.Memory` for what each promises."""

    def __init__(self, workspace: Workspace, writer: Writer, claims: Claims, make: Callable[[], Summarizer]) -> None:
        """:param make: gives the summariser; called when one is needed first."""
        self._workspace = workspace
        self._writer = writer
        self._claims = claims
        self._make = make

    def consolidate(
        self, id: str | None, *, older_than: timedelta | float | None, dry_run: bool, progress: Progress | None
    ) -> ConsolidationReport:
        dry_run = inputs.flag("dry_run", dry_run)
        before = None if older_than is None else self._workspace.now() - inputs.age("older_than", older_than)
        with self._workspace.read() as tx:
            branches = self._branches(tx, before) if id is None else [self._branch(tx, id, before)]
        done: list[Consolidated] = []
        skipped: list[tuple[str, str]] = []
        for number, branch in enumerate(branches):
            if progress is not None:
                progress(number, len(branches))
            try:
                done.append(self._one(branch, dry_run=dry_run))
            except _Skipped as why:
                skipped.append((branch.head.uid, why.reason))
        if progress is not None:
            progress(len(branches), len(branches))
        sums = (sum(one.tokens_before for one in done), sum(one.tokens_after for one in done))
        note = (
            ""
            if branches
            else "nothing to consolidate: there is no finished task"
            + ("" if before is None else " and no memory that is so old")
        )
        return ConsolidationReport(dry_run, tuple(done), tuple(skipped), *sums, note)

    def undo(self, id: str, *, dry_run: bool) -> StateChange:
        dry_run = inputs.flag("dry_run", dry_run)
        if dry_run:
            with self._workspace.read() as tx:
                return self._undone(tx, id, dry_run=True)
        with self._workspace.write() as tx:
            return self._undone(tx, id, dry_run=False)

    # Which branches there are

    def _branches(self, tx: sqlite3.Connection, before: int | None) -> list[_Branch]:
        namespace = self._workspace.id
        tasks = gathering.finished_tasks(tx, namespace)
        if before is None:
            return [_Branch(key, key) for key in tasks]
        active = {id_: node.active_at for id_, node in tree.nodes(tx, [key.id for key in tasks]).items()}
        old = [_Branch(key, key) for key in tasks if active[key.id] < from_micros(before)]
        return old + [_Branch(key, key, before) for key in gathering.with_old_children(tx, namespace, before)]

    def _branch(self, tx: sqlite3.Connection, id: str, before: int | None) -> _Branch:
        key = refuse_forgotten("id", tree.key(tx, self._workspace.id, id))
        if key.state != "live":
            raise InvalidInput(f"id: {key.uid!r} is {key.state}; only what is live can be consolidated")
        status = points.task(tx, key)
        if key.type == ROOT_TYPE or (status is not None and status[0] in ("open", "paused")):
            if before is not None:
                return _Branch(key, key, before)
            what = "the root" if status is None else f"a task that is not finished ({status[0]})"
            raise InvalidInput(
                f"id: {key.uid!r} is {what}; give older_than to consolidate what is old right below it, or no id for "
                "all finished tasks"
            )
        if status is not None:
            return _Branch(key, key)
        assert key.parent_id is not None
        return _Branch(key, tree.by_id(tx, key.parent_id))

    # What a branch holds

    def _plan(self, tx: sqlite3.Connection, branch: _Branch) -> _Plan:
        paths = [branch.head.path]
        if branch.parent.id == branch.head.id:
            paths = gathering.child_paths(tx, branch.head, before=branch.before)
        parts = gathering.parts(tx, paths)
        left, kept = self._left_alone(tx, parts)
        live = [part for part in parts if part.state == "live" and part.id not in kept]
        tasks = {part.id: tree.title(part.content) for part in parts if part.type == TASK_TYPE}
        depth = len(path_ids(branch.parent.path))
        titles = {}
        for part in live:
            below = [one for one in path_ids(part.path)[depth:] if one in tasks and one != part.id]
            titles[part.id] = tasks[below[0]] if below else ""
        return _Plan(tuple(live), tuple(left), titles)

    def _left_alone(self, tx: sqlite3.Connection, parts: Sequence[Part]) -> tuple[list[tuple[str, str]], set[int]]:
        """What must stay as it is, with the reasons; and all internal ids that stay, what encloses it included, so that
        it is found from the root as before."""
        at_work = self._at_work(tx)
        left: list[tuple[str, str]] = []
        kept: set[int] = set()
        shut: set[int] = set()
        # By path, so that what encloses something comes before it.
        for part in sorted((part for part in parts if part.state == "live"), key=lambda part: part.path):
            above = path_ids(part.path)[:-1]
            reason = self._reason(tx, part, at_work)
            if reason:
                left.append((part.uid, reason))
            if reason or shut.intersection(above):
                kept.update((part.id, *above))
            if part.status in ("open", "paused"):
                shut.add(part.id)
        return left, kept

    def _reason(self, tx: sqlite3.Connection, part: Part, at_work: Mapping[int, str]) -> str:
        if part.pinned:
            return "is pinned"
        if part.status in ("open", "paused"):
            claim = self._claims.of(tx, tree.by_id(tx, part.id))
            held = f", claimed by agent {claim.agent!r}" if claim else ""
            return f"is a task that is not finished ({part.status}{held}), and so is all below it"
        return f"is where agent {at_work[part.id]!r} is at work" if part.id in at_work else ""

    def _at_work(self, tx: sqlite3.Connection) -> dict[int, str]:
        """The active task and node of every agent and what encloses them, by internal id."""
        found: dict[int, str] = {}
        for agent, *uids in points.agents(tx, self._workspace.id):
            for uid in uids:
                key = None if uid is None else tree.find(tx, self._workspace.id, uid)
                for node_id in [] if key is None else path_ids(key.path):
                    found.setdefault(node_id, agent)
        return found

    # One branch

    def _one(self, branch: _Branch, *, dry_run: bool) -> Consolidated:
        with self._workspace.read() as tx:
            plan = self._plan(tx, branch)
            title = tree.title(tree.node(tx, branch.head).content)
        before = self._tokens(plan)
        text = self._summary(plan, before)
        facts = details("\n".join(part.content for part in plan.sources))
        made = Consolidated(
            id=branch.head.uid,
            title=title,
            summary_id=None,
            summary=text,
            sources=tuple(part.uid for part in plan.sources),
            left=plan.left,
            tokens_before=before,
            tokens_after=token_counter().count(text),
            details_before=len(facts),
            details_kept=len(facts & details(text)),
        )
        return made if dry_run else self._written(branch, plan, made)

    def _tokens(self, plan: _Plan) -> int:
        """Of the sources. :raises _Skipped: it is not worth while."""
        texts = [part for part in plan.sources if part.type != TASK_TYPE]
        if not texts:
            raise _Skipped("there is nothing in it to summarise" + (": all is left alone" if plan.left else ""))
        if len(texts) == 1 and texts[0].type == SUMMARY_TYPE:
            raise _Skipped("there is nothing new beside its summary")
        tokens = sum(token_counter().count(part.content) for part in plan.sources)
        least = self._workspace.config.consolidation.min_tokens
        if tokens < least:
            raise _Skipped(f"it has {tokens} tokens, fewer than consolidation.min_tokens ({least})")
        return tokens

    def _summary(self, plan: _Plan, tokens: int) -> str:
        """A text that may take the place of the sources. :raises _Skipped: there is none."""
        passages = [
            Passage(part.content, part.type, from_micros(part.created_at), plan.titles[part.id])
            for part in plan.sources
        ]
        known = sum(token_counter().count(part.content) for part in plan.sources if part.type == SUMMARY_TYPE)
        share = self._workspace.config.consolidation.budget_share
        try:
            text = self._make().summarize(passages, max(1, known + int(share * (tokens - known))))
            if not isinstance(text, str):
                raise InvalidInput(f"summary: must be a text, not {type(text).__name__}")
            text = clean_text("summary", text) if text.strip() else ""
        except Exception as error:  # whatever a summariser of somebody else's raises: the memory is not to suffer
            _logger.warning("a branch was not consolidated: %s: %s", type(error).__name__, error)
            raise _Skipped(f"the summariser failed: {type(error).__name__}: {error}") from error
        if not text:
            raise _Skipped("the summariser has nothing that is shorter")
        length = token_counter().count(text)
        if length >= tokens:
            raise _Skipped(f"the summary has {length} tokens, its sources have {tokens}")
        return text

    def _written(self, branch: _Branch, plan: _Plan, made: Consolidated) -> Consolidated:
        """Puts the summary in the place of its sources, in one transaction."""
        workspace = self._workspace
        faults.point("consolidate.before_write")
        with workspace.write() as tx:
            found = tree.find(tx, workspace.id, branch.head.uid)
            if found is None or found.state != "live" or found.path != branch.head.path:
                raise _Skipped("it has changed while it was summarised")
            if self._plan(tx, branch).state != plan.state:
                raise _Skipped("it has changed while it was summarised")
            summary = self._add_summary(tx, branch, plan, made)
            faults.point("consolidate.after_summary")
            gathering.change(tx, {part.id: ("archived", summary.uid) for part in plan.sources}, workspace.now())
            faults.point("consolidate.after_sources")
            outbox.queue_all(tx, workspace.id, [part.id for part in plan.sources])
            nodes = [
                [part.uid, {"state": "archived", "replaced_by": summary.uid, "version": part.version + 1}]
                for part in plan.sources
            ]
            marks = log.marks({part.uid: part.replaced_by for part in plan.sources})
            workspace.record(tx, "consolidate", summary.uid, {"nodes": nodes, **marks})
            workspace.checkpoint_if_due(tx)
        return replace(made, summary_id=summary.uid)

    def _add_summary(self, tx: sqlite3.Connection, branch: _Branch, plan: _Plan, made: Consolidated) -> Key:
        """It is as important as the most important of its sources, and happened when the last of them did: to be
        summarised is no news."""
        sources = [part for part in plan.sources if part.type != TASK_TYPE]
        last = max(part.created_at for part in sources)
        draft = self._writer.draft(
            made.summary,
            type=SUMMARY_TYPE,
            importance=max(part.importance for part in sources),
            confidence=sum(part.confidence for part in sources) / len(sources),
            metadata={
                "consolidated": {
                    "sources": len(plan.sources),
                    "tokens_before": made.tokens_before,
                    "tokens_after": made.tokens_after,
                    "since": from_micros(min(part.created_at for part in sources)).isoformat(),
                    "until": from_micros(last).isoformat(),
                }
            },
            occurred_at=from_micros(last),
        )
        key = self._writer.insert(tx, draft, tree.by_id(tx, branch.parent.id))
        tree.touch(tx, {key.path: last})
        return key

    # Undoing it

    def _undone(self, tx: sqlite3.Connection, id: str, *, dry_run: bool) -> StateChange:
        workspace = self._workspace
        key = tree.key(tx, workspace.id, id)
        # What it contradicts or superseded has the same mark. Of an imported one the log does not tell.
        summed, marked = log.consolidated(tx, workspace.id, key.uid), gathering.replaced(tx, workspace.id, key.uid)
        sources = [row for row in marked if (row[1] in summed if summed else row[2] == "archived")]
        if key.type != SUMMARY_TYPE or not sources:
            raise InvalidInput(f"id: {key.uid!r} is no summary that consolidate() has made, or its sources are back")
        self._refuse_in_use(tx, key)
        back = [row for row in sources if row[2] == "archived"]
        for one in tree.keys(tx, [node_id for node_id, _, _, _ in back]):
            above = states.highest_forgotten_above(tx, one)
            if above is not None:
                raise InvalidInput(
                    f"id: {one.uid!r} would come back below {above!r}, which is forgotten; call "
                    f"restore_forgotten({above!r}) first"
                )
        changes = [*back, (key.id, key.uid, key.state, key.version)]
        ids = tuple(uid for _, uid, _, _ in back)
        note = "" if len(back) == len(sources) else f"{len(sources) - len(back)} are not archived any more: left alone"
        if dry_run:
            return StateChange("unconsolidate", key.uid, ids, False, True, None, note)
        marks = {uid: summed.get(uid, "") for _, uid, _, _ in back}
        gathering.change(tx, {node_id: ("live", marks[uid]) for node_id, uid, _, _ in back}, workspace.now())
        states.change(tx, {key.id: "forgotten"}, workspace.now())
        faults.point("unconsolidate.after_rows")
        outbox.queue_all(tx, workspace.id, [row[0] for row in changes])
        nodes: list[list[object]] = [
            [uid, {"state": "live", "replaced_by": marks[uid], "version": version + 1}] for _, uid, _, version in back
        ]
        nodes.append([key.uid, {"state": "forgotten", "before": key.state, "version": key.version + 1}])
        sequence = workspace.record(tx, "unconsolidate", key.uid, {"nodes": nodes})
        workspace.checkpoint_if_due(tx)
        return StateChange("unconsolidate", key.uid, ids, False, False, sequence, note)

    def _refuse_in_use(self, tx: sqlite3.Connection, key: Key) -> None:
        """A summary goes when its sources come back, so nothing may depend on it."""
        node = tree.node(tx, key)
        # Of one that is live it names what contradicts it, of a superseded one what was said in its place.
        if node.replaced_by is not None and key.state not in ("live", "superseded"):
            raise InvalidInput(
                f"id: {key.uid!r} is itself part of {node.replaced_by!r}; "
                f"call unconsolidate({node.replaced_by!r}) first"
            )
        if node.pinned:
            raise InvalidInput(f"id: {key.uid!r} is pinned; call pin({key.uid!r}, False) first")
        if tree.children(tx, key, limit=1):
            raise InvalidInput(f"id: {key.uid!r} has live memories below it; move them elsewhere first")
        if key.id in self._at_work(tx):
            raise InvalidInput(f"id: {key.uid!r} is where an agent is at work; let it write or switch elsewhere first")
