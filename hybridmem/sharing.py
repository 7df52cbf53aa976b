"""Where subtrees are shared and taken back, and where what others share is searched beside one's own."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hybridmem import inputs
from hybridmem.audit import Call, Visit
from hybridmem.embed.model import Model
from hybridmem.errors import InvalidInput, NotFound, shown
from hybridmem.filters import Filters, Source
from hybridmem.guest import Guest, Resolver, label, stored, tops
from hybridmem.index.pool import Pool
from hybridmem.indexing import Indexer
from hybridmem.locate import Locator
from hybridmem.ports import Reranker
from hybridmem.principals import RIGHTS, Grant, Principal, Rights, SharedSubtree, at_least
from hybridmem.ranking import Postings, Signals
from hybridmem.recall import Recall
from hybridmem.results import Hit, Located, SearchResult
from hybridmem.store import grants, tree
from hybridmem.store.grants import Granted
from hybridmem.store.past import Past
from hybridmem.store.paths import path_ids
from hybridmem.store.rows import Key, from_micros, new_uid, to_micros
from hybridmem.store.workspace import Workspace
from hybridmem.types import STATES

logger = logging.getLogger("hybridmem")

#: Owners whose vectors are kept in memory, and which share of index.cache_mb each may take.
KEPT = 4


class Sharing:
    """Grants and groups of one workspace, which may be that of a guest with the right ``admin``."""

    def __init__(self, workspace: Workspace, resolver: Resolver) -> None:
        self._workspace = workspace
        self._resolver = resolver

    def share(self, id: str, principal: Any, rights: str, expires: Any) -> Grant:
        whom = Principal.parse(principal)
        inputs.one_of("rights", rights, RIGHTS)
        until = None if expires is None else to_micros(inputs.moment("expires", expires))
        workspace = self._workspace
        if whom.names == workspace.namespace:
            raise InvalidInput(f"principal: {str(whom)!r} is in this namespace, and sees all of it")
        if workspace.config.store.layout == "separate":
            raise InvalidInput(
                "share: each namespace of this store has a directory of its own (store.layout: separate), and reads no "
                "other; what is to be shared needs store.layout: shared"
            )
        if until is not None and until <= workspace.now():
            raise InvalidInput(f"expires: must lie ahead, not {from_micros(until).isoformat()}")
        with workspace.write() as tx:
            key = tree.key(tx, workspace.id, id)
            via = self._virtue(tx, key, whom) if isinstance(workspace, Guest) else None
            if via is not None and via.expires_at is not None:
                until = via.expires_at if until is None else min(until, via.expires_at)
            text, number = stored(whom), None if via is None else via.id
            grants.revoke(tx, grants.same(tx, workspace.id, key.id, text, number))
            uid = new_uid()
            said: dict[str, object] = {"grant": uid, "principal": text, "rights": rights, "expires_at": until}
            sequence = workspace.record(tx, "share", key.uid, said)
            grants.give(
                tx, workspace.id, uid=uid, node=key.id, principal=text, rights=rights, expires_at=until,
                at=workspace.now(), agent=workspace.agent, sequence=sequence, via=number,
            )  # fmt: skip
            workspace.checkpoint_if_due(tx)
            made = grants.find(tx, uid)
            assert made is not None
            return self._told(tx, made)

    def _virtue(self, tx: sqlite3.Connection, key: Key, whom: Principal) -> Granted:
        """The grant by virtue of which a guest may share further: one to itself, not to a group that it is in."""
        if whom.kind == "group":
            raise InvalidInput("principal: the groups of a namespace are its owner's; name users or agents")
        for one in self._resolver.in_effect(tx):
            own = one.namespace == int(self._workspace.id) and not one.principal.startswith('["group"')
            if own and at_least(one.rights, "admin") and key.path.startswith(one.top.path):
                return one
        raise InvalidInput("id: what is shared with a group cannot be shared further by its members")

    def unshare(self, grant_id: str) -> None:
        if not isinstance(grant_id, str):
            raise InvalidInput(f"grant_id: must be the text of an id, not {shown(grant_id)}")
        with self._workspace.read() as tx:
            found = grants.find(tx, inputs.name("grant_id", grant_id))
            mine = found is not None and found.namespace == self._workspace.id
            held = set() if found is None or mine else {one.id for one in self._resolver.in_effect(tx)}
        if found is None or not (mine or found.via in held):
            raise NotFound(f"grant_id: there is no grant {shown(grant_id)} in this namespace")
        where = self._workspace
        if not mine:
            where = Guest(self._workspace, self._resolver, found.namespace, found.owner, "admin")
            where.trail.enter(Call("unshare", None))
        with where.write() as tx:
            if grants.find(tx, grant_id) is not None:
                grants.revoke(tx, [found.id])
                where.record(tx, "unshare", found.top.uid, {"grant": found.uid})
                where.checkpoint_if_due(tx)

    def grants(self) -> list[Grant]:
        with self._workspace.read() as tx:
            return [self._told(tx, one) for one in grants.given_by(tx, self._workspace.id)]

    def set_group(self, name: str, members: Sequence[Any]) -> None:
        team = stored(Principal.group(name))
        found = [Principal.parse(one) for one in inputs.listed("members", members)]
        if any(one.kind == "group" for one in found):
            raise InvalidInput("members: must be users and agents, not groups")
        workspace = self._workspace
        with workspace.write() as tx:
            texts = list(dict.fromkeys(stored(one) for one in found))
            grants.set_members(tx, workspace.id, team, texts)
            workspace.record(tx, "group", None, {"group": name, "members": texts})
            workspace.checkpoint_if_due(tx)

    def groups(self) -> dict[str, tuple[Principal, ...]]:
        with self._workspace.read() as tx:
            rows = grants.members(tx, self._workspace.id)
        found: dict[str, tuple[Principal, ...]] = {}
        for team, member in rows:
            name = _principal(team).name
            found[name] = (*found.get(name, ()), _principal(member))
        return found

    def shared(self) -> list[SharedSubtree]:
        with self._workspace.read() as tx:
            found = []
            for one in self._resolver.in_effect(tx):
                node = self._resolver.shown(tx, tree.node(tx, one.top), one.namespace)
                if node is not None:
                    until = None if one.expires_at is None else from_micros(one.expires_at)
                    found.append(SharedSubtree(one.owner, node, _rights(one), until))
            return found

    def _told(self, tx: sqlite3.Connection, one: Granted) -> Grant:
        until = None if one.expires_at is None else from_micros(one.expires_at)
        who, made, over = _principal(one.principal), from_micros(one.created_at), self._resolver.is_over(tx, one)
        return Grant(one.uid, one.top.uid, who, _rights(one), until, made, one.agent, over)


def _rights(one: Granted) -> Rights:
    return RIGHTS[RIGHTS.index(one.rights)]


def _principal(text: str) -> Principal:
    kind, *rest = json.loads(text)
    if kind == "group":
        return Principal("group", (), rest[0])
    return Principal(kind, tuple(rest[0]), rest[1] if len(rest) > 1 else "")


class _Within(Locator):
    """Locates within what is shared: a scope is the internal id of a node of it."""

    def scope(self, tx: sqlite3.Connection, scope: str, past: Past | None = None) -> Key:
        (key,) = tree.keys(tx, [int(scope)]) or (None,)
        part = self._workspace.id
        if key is None or not any(key.path.startswith(top) for top, _ in part.branches):  # type: ignore[attr-defined]
            raise NotFound("scope: is not shared any more")
        return key

    def active_task(self, tx: sqlite3.Connection, past: Past | None = None) -> Key | None:
        return None


class GuestRecall(Recall):
    """The recall of a guest in one owner's namespace."""

    def __init__(
        self, guest: Guest, model: Model, indexer: Indexer, reranker: Callable[[], Reranker] | None = None
    ) -> None:
        super().__init__(guest, model, indexer, reranker)
        self._locator = _Within(guest, indexer)
        self._guest = guest

    def _count_waiting(self, warnings: list[str]) -> None:
        """Not told: how much of the owner's waits is not the guest's to know."""

    def _permitted(self, tx: sqlite3.Connection, pool: Pool, places: Sequence[int]) -> list[int]:
        """Asked again, by the rows themselves: those in a branch in effect, in a state that is there for the guest."""
        found = grants.places(tx, [int(pool.ids[i]) for i in places])
        kept = []
        for i in places:
            namespace, path, state = found[int(pool.ids[i])]
            if namespace != self._guest.id or not any(path.startswith(top) for top, _ in self._guest.id.branches):
                logger.error("a search reached a memory that is not shared with it; it was left out")
            elif self._guest.id.reaches(path, state):
                kept.append(i)
        return kept

    def _hits(
        self, tx: sqlite3.Connection, pool: Pool, signals: Signals, postings: Postings, places: Sequence[int],
        source: Source,
    ) -> tuple[Hit, ...]:  # fmt: skip
        hits = super()._hits(tx, pool, signals, postings, places, source)
        keys = {key.uid: key for key in tree.keys(tx, [int(pool.ids[i]) for i in places])}
        shown = []
        for hit in hits:
            node = self._guest.resolver.shown(tx, hit.node, int(self._guest.id))
            assert node is not None
            shown.append(replace(hit, node=node, path=self._titles(tx, keys[hit.id])))
        return tuple(shown)

    def _located(self, tx: sqlite3.Connection, pool: Pool, signals: Signals, source: Source) -> tuple[Located, ...]:
        return tuple(
            one for one in super()._located(tx, pool, signals, source) if tree.find(tx, self._guest.id, one.id)
        )

    def _titles(self, tx: sqlite3.Connection, key: Key) -> tuple[str, ...]:
        """Of what encloses a hit: only what is shared."""
        part = self._guest.id
        above = {one.id: one for one in tree.keys(tx, path_ids(key.path)[1:-1]) if part.reaches(one.path, one.state)}
        said = tree.openings(tx, list(above), 200)
        return tuple(tree.title(said[one]) for one in path_ids(key.path) if one in above)


class Others:
    """What others share, for the searches of one workspace."""

    def __init__(
        self, workspace: Workspace, resolver: Resolver, model: Model, indexer: Indexer,
        reranker: Callable[[], Reranker] | None,
    ) -> None:  # fmt: skip
        index = workspace.config.index
        small = index.model_copy(update={"cache_mb": index.cache_mb // KEPT})
        self._config = workspace.config.model_copy(update={"index": small})
        self._workspace = workspace
        self._resolver = resolver
        self._parts = (model, indexer, reranker)
        self._recalls: dict[int, GuestRecall] = {}

    def within(self, query: str | None, k: int, scope: str, filters: Filters, trace: bool) -> SearchResult | None:
        """The hits at and below a shared node; None: no shared node has that id."""
        with self._workspace.read() as tx:
            place = self._resolver.place(tx, scope)
        if place is None:
            return None
        found = self._asked(place.grants, place.key, query, k, filters, trace)
        if found is not None:
            self._tell_owners(place.grants, found.hits)
        return found

    def merged(self, own: SearchResult, query: str | None, k: int, filters: Filters, trace: bool) -> SearchResult:
        """One's own hits and those of everything that is shared, by score."""
        with self._workspace.read() as tx:
            given = self._resolver.in_effect(tx)
        if not given or k == 0:
            return own
        hits, warnings, located = list(own.hits), list(own.warnings), list(own.located)
        for top in tops(given):
            found = self._asked(
                [one for one in given if one.namespace == top.namespace], top.top, query, k, filters, trace
            )
            if found is not None:
                hits += found.hits
                located += found.located
                warnings += [one for one in found.warnings if one not in warnings]
        hits.sort(key=lambda hit: -hit.score)
        located.sort(key=lambda one: -one.score)
        self._tell_owners(given, hits[:k])
        return SearchResult(tuple(hits[:k]), tuple(warnings), tuple(located))

    def _tell_owners(self, given: Sequence[Granted], hits: Sequence[Hit]) -> None:
        """The audit trail of each owner: how many of the hits are theirs."""
        workspace = self._workspace
        call, spaces = workspace.trail.current, {one.owner: one.namespace for one in given}
        for owner, count in Counter(hit.node.owner for hit in hits if hit.node.owner is not None).items():
            said = Call("search" if call is None else call.verb, workspace.now(), detail={"hits": count})
            workspace.trail.visited(Visit(spaces[owner], label(workspace), said))

    def weights(self, ids: Sequence[str]) -> dict[str, float]:
        """Of those of these nodes that are shared."""
        found: dict[str, float] = {}
        for id in ids:
            with self._workspace.read() as tx:
                place = self._resolver.place(tx, id)
            if place is not None:
                try:
                    found |= self._recall(place.namespace, place.grants).weights([id])
                except NotFound:  # taken back since
                    continue
        return found

    def _asked(
        self, given: Sequence[Granted], scope: Key, query: str | None, k: int, filters: Filters, trace: bool
    ) -> SearchResult | None:
        """None: nothing there may be seen now."""
        whole = any(at_least(one.rights, "write") for one in given)
        states = filters.states if whole else tuple(one for one in STATES if one == "live" and one in filters.states)
        if not states:
            return SearchResult(())
        narrowed = filters if states == filters.states else replace(filters, states=states)
        try:
            return self._recall(given[0].namespace, given)._ranked(query, k, str(scope.id), narrowed, trace, None)
        except NotFound:  # taken back since, or over
            return None

    def _recall(self, namespace: int, given: Sequence[Granted]) -> GuestRecall:
        found = self._recalls.pop(namespace, None)
        if found is None:
            guest = Guest(self._workspace, self._resolver, namespace, given[0].owner, "read")
            guest.config = self._config
            found = GuestRecall(guest, *self._parts)
        if len(self._recalls) >= KEPT:
            self._recalls.pop(next(iter(self._recalls)), None)
        self._recalls[namespace] = found
        return found
