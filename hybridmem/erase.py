"""Where memories are erased for good: from the rows in one transaction, then from every file the store knows of.

The rows are those of hybridmem.store.erasing, the files those of hybridmem.cleanse; here is what is chosen, what
becomes of summaries that quote it, and the receipt. A dry run does the very same to the rows and takes it back, so
that its counts are those of the real one.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hybridmem import faults, inputs
from hybridmem.cleanse import Cleansing, Progress
from hybridmem.erased import ErasureReceipt, hash_with
from hybridmem.errors import HybridMemError, InvalidInput, StoreBusy
from hybridmem.index.chroma_import import version as chroma_version
from hybridmem.ports import Passage, Summarizer
from hybridmem.store import erasing, receipts, tree
from hybridmem.store.connect import Connections
from hybridmem.store.erasing import By
from hybridmem.store.rows import Key, dump, from_micros
from hybridmem.store.states import Member
from hybridmem.store.workspace import Workspace
from hybridmem.text import clean_text
from hybridmem.tokens import token_counter
from hybridmem.types import ROOT_TYPE, SUMMARY_TYPE
from hybridmem.write import Writer

logger = logging.getLogger("hybridmem")
#: How often a summary is made again because somebody has written meanwhile.
TRIES = 3
#: In the metadata of a summary that quotes something erased (erasure.summaries: flag).
QUOTES = "quotes_erased"


@dataclass
class Gone:
    """What an erasure takes away, of any number of namespaces: ``uids`` and ``spaces`` are told by hash only."""

    uids: list[str] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    summaries: Counter[str] = field(default_factory=Counter)
    related: int = 0

    def add(self, other: Gone) -> None:
        self.uids += other.uids
        self.spaces += other.spaces
        self.counts += other.counts
        self.summaries += other.summaries
        self.related += other.related


class _Undone(Exception):
    """Ends a dry run: everything is rolled back."""


class Erasing:
    """The verb of one workspace; see :class:`hybridmem.Memory` for what it promises."""

    def __init__(
        self, workspace: Workspace, writer: Writer, make: Callable[[], Summarizer], receipts: Receipts
    ) -> None:
        """:param make: gives the summariser; called when one is needed first."""
        self._workspace = workspace
        self._writer = writer
        self._make = make
        self._receipts = receipts

    def erase(self, id: str, *, subtree: bool, dry_run: bool, progress: Progress | None = None) -> ErasureReceipt:
        subtree, dry_run = inputs.flag("subtree", subtree), inputs.flag("dry_run", dry_run)
        scope = "subtree" if subtree else "node"
        gone, row = self.memories(lambda tx: self._chosen(tx, id, subtree), scope, dry_run=dry_run)
        return self._receipts.finish(scope, gone, row, progress)

    def namespace(self, *, everything: bool, dry_run: bool, progress: Progress | None = None) -> ErasureReceipt:
        dry_run = inputs.flag("dry_run", dry_run)
        if inputs.flag("everything", everything) is not True:
            raise InvalidInput(
                f"everything: erasing all of {'/'.join(self._workspace.namespace)!r} needs everything=True "
                "(--everything); to erase one memory, name its id"
            )
        gone, row = self.whole("namespace", dry_run=dry_run)
        return self._receipts.finish("namespace", gone, row, progress)

    # The rows

    def memories(
        self, choose: Callable[[sqlite3.Connection], Sequence[str]], scope: str | None, *, dry_run: bool
    ) -> tuple[Gone, int | None]:
        """Erases the nodes that ``choose`` names in one transaction.

        :param scope: of the receipt that is begun in it; None: the caller has one.
        :return: what went, and the row of the receipt (None in a dry run, and without ``scope``).
        """
        for _ in range(TRIES):
            with self._workspace.read() as tx:
                uids = list(choose(tx))
                told = erasing.quoting(tx, self._workspace.id, uids)
                state = self._state(tx, uids, told)
            texts = self._texts(uids, told)
            gone: Gone | None = None
            row: int | None = None
            try:
                with self._workspace.write() as tx:
                    if self._state(tx, list(choose(tx)), erasing.quoting(tx, self._workspace.id, uids)) != state:
                        continue
                    gone = self._rows(tx, uids, told, texts)
                    if dry_run:
                        raise _Undone
                    self._workspace.checkpoint_if_due(tx)
                    if scope is not None:
                        row = self._receipts.begin(tx, scope, gone, self._workspace.id)
            except _Undone:
                pass
            if gone is not None:
                return gone, row
        raise StoreBusy("erase: the memories changed each time while a summary of the rest was made; try again")

    def whole(self, scope: str | None, *, dry_run: bool) -> tuple[Gone, int | None]:
        """Erases the namespace; this handle is no use afterwards."""
        workspace = self._workspace
        row: int | None = None
        gone = Gone(spaces=[dump(list(workspace.namespace))])
        try:
            with workspace.write() as tx:
                gone.counts = erasing.take_namespace(tx, workspace.id, workspace.namespace, workspace.now())
                if dry_run:
                    raise _Undone
                if scope is not None:
                    row = self._receipts.begin(tx, scope, gone, workspace.id)
        except _Undone:
            pass
        if not dry_run:
            workspace.session = None
        return gone, row

    def _chosen(self, tx: sqlite3.Connection, id: str, subtree: bool) -> list[str]:
        key = tree.key(tx, self._workspace.id, id)
        if key.type == ROOT_TYPE:
            raise InvalidInput("id: the root of a namespace cannot be erased by itself; erase the whole namespace")
        lower = erasing.below(tx, key)
        if lower and not subtree:
            left = [one for one in erasing.members(tx, lower, self._workspace.id) if not one.purged]
            if left:
                raise InvalidInput(
                    f"subtree: {key.uid!r} has {len(left)} memories below it; say subtree=True (--subtree) to erase "
                    "them all"
                )
            lower = []
        return [key.uid, *lower]

    def _state(self, tx: sqlite3.Connection, uids: Sequence[str], told: Sequence[Member]) -> object:
        """Equal for two moments if what is to be erased, and what the summaries are made of, is the same."""
        without = {*uids, *(one.uid for one in told)}
        left = [erasing.sources(tx, self._workspace.id, one.uid, without) for one in told]
        return sorted(uids), [(one.uid, one.version) for one in told], left

    def _rows(
        self, tx: sqlite3.Connection, uids: Sequence[str], told: Sequence[Member], texts: Mapping[str, str | None]
    ) -> Gone:
        """``texts``: of each summary that is to be made again its text, None: there is nothing shorter."""
        workspace = self._workspace
        by = By(workspace.id, workspace.agent, workspace.now())
        gone = Gone(related=erasing.related(tx, workspace.id, uids))
        flag = workspace.config.erasure.summaries == "flag"
        going = [*uids]
        without = {*uids, *(one.uid for one in told)}
        for one in told:
            if flag and one.state != "forgotten":
                self._flag(tx, one)
                gone.summaries["flagged"] += 1
                continue
            going.append(one.uid)
            gone.summaries["erased"] += 1
            if one.state != "live":
                continue
            left = erasing.sources(tx, workspace.id, one.uid, without)
            text = texts.get(one.uid)
            if left and text:
                erasing.stand_for(tx, by, left, self._summary(tx, one, left, text).uid)
                gone.summaries["remade"] += 1
            elif left:
                erasing.bring_back(tx, by, left, one.uid)
                gone.summaries["undone"] += 1
        nodes = erasing.members(tx, going, workspace.id)
        gone.counts["moved"] = erasing.lift(tx, by, nodes)
        nodes = erasing.members(tx, going, workspace.id)
        gone.uids = [one.uid for one in nodes]
        gone.counts += erasing.take(tx, by, nodes)
        return gone

    # Summaries

    def _texts(self, uids: Sequence[str], told: Sequence[Member]) -> dict[str, str | None]:
        """The new text of each live summary that quotes something erased, of its sources that are left."""
        if self._workspace.config.erasure.summaries == "flag":
            return {}
        without = {*uids, *(one.uid for one in told)}
        found: dict[str, str | None] = {}
        for one in told:
            if one.state != "live":
                continue
            with self._workspace.read() as tx:
                left = erasing.sources(tx, self._workspace.id, one.uid, without)
                nodes = tree.nodes(tx, [source.id for source in left])
            passages = [Passage(node.content, node.type, node.created_at) for node in nodes.values() if node.content]
            found[one.uid] = self._text(sorted(passages, key=lambda passage: passage.at))
        return found

    def _text(self, passages: Sequence[Passage]) -> str | None:
        if not passages:
            return None
        tokens = sum(token_counter().count(passage.text) for passage in passages)
        budget = max(1, int(self._workspace.config.consolidation.budget_share * tokens))
        try:
            text = self._make().summarize(passages, budget)
            text = clean_text("summary", text) if isinstance(text, str) and text.strip() else ""
        except Exception as error:  # of somebody else's: what is to be erased is erased all the same
            logger.warning("a summary could not be made again: %s: %s", type(error).__name__, error)
            return None
        return text if text and token_counter().count(text) < tokens else None

    def _summary(self, tx: sqlite3.Connection, old: Member, left: Sequence[Member], text: str) -> Key:
        """In the place of the old one, as old and as important as its sources make it."""
        nodes = list(tree.nodes(tx, [one.id for one in left]).values())
        last = max(node.created_at for node in nodes)
        draft = self._writer.draft(
            text,
            type=SUMMARY_TYPE,
            importance=max(node.importance for node in nodes),
            confidence=sum(node.confidence for node in nodes) / len(nodes),
            metadata={"consolidated": {"sources": len(nodes)}},
            occurred_at=last,
        )
        parent = tree.by_id(tx, old.id).parent_id
        assert parent is not None
        return self._writer.insert(tx, draft, tree.by_id(tx, parent))

    def _flag(self, tx: sqlite3.Connection, one: Member) -> None:
        key = tree.by_id(tx, one.id)
        self._writer.changed(tx, key, "update", {"revision": self._writer.revise(tx, key, None, {QUOTES: True})})


class Receipts:
    """The receipts of a store, and the files that have to be cleaned before one is complete."""

    def __init__(self, connections: Connections, cleansing: Cleansing, now: Callable[[], int]) -> None:
        """:param now: the time in microseconds since 1970 UTC."""
        self._connections = connections
        self._cleansing = cleansing
        self._now = now

    def finish(self, scope: str, gone: Gone, row: int | None, progress: Progress | None = None) -> ErasureReceipt:
        """Cleans the files and gives the receipt; without a row (a dry run) it only counts the files."""
        if row is None:
            made = self._made(scope, gone, secrets.token_hex(16), dry_run=True)
            return made.sealed()
        faults.point("erase.after_rows")
        done: list[ErasureReceipt] = []
        try:
            done = self._cleansing.finish(progress)
        except HybridMemError as error:  # the rows are gone, and whoever comes next goes on from there
            logger.warning("an erasure is not complete yet: %s", error)
            with self._connections.read() as tx:
                found = ErasureReceipt.from_dict(receipts.incomplete(tx)[row])
            return _with_left(found, str(error))
        with self._connections.read() as tx:
            found = ErasureReceipt.from_dict(receipts.one(tx, row))
        return next((one for one in done if one.salt == found.salt), found)

    def begin(self, tx: sqlite3.Connection, scope: str, gone: Gone, namespace: int | None) -> int:
        """Notes in the transaction that erases the rows what is to be done then; returns the row of the receipt."""
        made = self._made(scope, gone, secrets.token_hex(16), dry_run=False)
        return receipts.begin(tx, namespace, self._now(), made.sealed().to_dict())

    def _made(self, scope: str, gone: Gone, salt: str, *, dry_run: bool) -> ErasureReceipt:
        counts = Counter(gone.counts)
        files = self._cleansing.inventory()
        if not dry_run:  # counted when it is done
            files = dict.fromkeys(files, 0)
        return ErasureReceipt(
            scope=scope,
            at=from_micros(self._now()).isoformat(),
            salt=salt,
            ids=tuple(sorted(hash_with(salt, uid) for uid in gone.uids)),
            namespaces=tuple(sorted(hash_with(salt, names) for names in gone.spaces)),
            counts=dict(sorted({**counts, **files}.items())),
            summaries=dict(sorted(gone.summaries.items())),
            related=gone.related,
            versions={"sqlite": sqlite3.sqlite_version, "chroma": chroma_version()},
            dry_run=dry_run,
        )


def _with_left(receipt: ErasureReceipt, why: str) -> ErasureReceipt:
    return replace(receipt, left=(*receipt.left, why), complete=False).sealed()
