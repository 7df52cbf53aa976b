"""The verbs of Memory that share, and the doors through which the others reach what is shared with it.

A call that names an id which is not in the namespace is done again by a guest (hybridmem.guest), if that id is shared
for it: by the same code, on a workspace that reaches nothing else.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from hybridmem.audit import Call, audited, audited_by, counts
from hybridmem.changes import Change, HistoryEntry
from hybridmem.embed.model import Model
from hybridmem.errors import AccessDenied, InvalidInput, NotFound
from hybridmem.forget import Forgetting
from hybridmem.guest import Guest, Place, Resolver
from hybridmem.history import history
from hybridmem.indexing import Indexer
from hybridmem.intake import MAX_MESSAGES
from hybridmem.intake_verbs import IntakeVerbs
from hybridmem.ports import Extractor, ImportanceEstimator, Reranker
from hybridmem.principals import Grant, Principal, SharedSubtree, at_least
from hybridmem.recall import Recall
from hybridmem.results import Observed
from hybridmem.sharing import Others, Sharing
from hybridmem.store import log, tree
from hybridmem.store.workspace import Workspace
from hybridmem.types import Node, StateChange
from hybridmem.verbs import TreeVerbs
from hybridmem.weight_verbs import WeightVerbs
from hybridmem.write import PARENT_WORDS

T = TypeVar("T")

#: Verb → the argument that names the shared node, and the right that it needs. All others find one's own alone.
DOORS = {
    "get": ("id", "read"), "children": ("id", "read"), "ancestors": ("id", "read"), "walk": ("id", "read"),
    "history": ("id", "write"), "add": ("parent", "write"), "add_many": ("items", "write"),
    "observe": ("parent", "write"), "update": ("id", "write"), "supersede": ("id", "write"),
    "feedback": ("id", "write"), "pin": ("id", "write"), "move": ("id", "admin"), "forget": ("id", "admin"),
    "restore_forgotten": ("id", "admin"), "archive": ("id", "admin"), "unarchive": ("id", "admin"),
    "share": ("id", "admin"),
}  # fmt: skip
#: Those of them that leave the owner an entry here; the others have theirs in their own transaction.
READING = frozenset({"get", "children", "ancestors", "walk", "history"})
_QUOTED = re.compile(r"'([^']*)'")


class ShareVerbs:
    """See :class:`hybridmem.Memory`."""

    if TYPE_CHECKING:  # of TreeVerbs

        def _written(self, result: T) -> T: ...

    def __init__(
        self, workspace: Workspace, indexer: Indexer, model: Model, recall: Recall,
        reranker: Callable[[], Reranker] | None, estimator: ImportanceEstimator | None, extractor: Extractor | None,
    ) -> None:  # fmt: skip
        self._resolver = Resolver(workspace)
        self._sharing = Sharing(workspace, self._resolver)
        self._others = recall.others = Others(workspace, self._resolver, model, indexer, reranker)
        self._guest_parts = (indexer, model, estimator, extractor)

    @audited("id", keep=("rights",))
    def share(self, id: str, principal: Principal | str, rights: str = "read", expires: Any = None) -> Grant:
        """Shares a memory with all below it, as it is and as it will be, with a user, an agent or a group.

        They find it from their next call on, by :meth:`search`, :meth:`context` and by id, marked with its owner; of
        everything beside and above it they learn nothing. Sharing the same again changes rights and expiry.

        :param id: the top of what is shared; the root shares everything. What supersedes it is the top then.
        :param principal: a :class:`hybridmem.Principal` or its text, such as ``"user:acme/li-si"``. It is a name
            and need not be there yet: one that is misspelt shares with whoever opens that namespace some day.
        :param rights: ``"read"``: live memories. ``"write"``: those in every state too, and history, add, add_many,
            observe, update, supersede, feedback, pin. ``"admin"``: also move, forget, restore_forgotten, archive,
            unarchive, and sharing further.
        :param expires: until when: a datetime (naive means UTC) or ISO 8601 text that lies ahead; None: until
            :meth:`unshare`. By the clock of the store, and by the latest time in the log: set back, a clock does not
            bring back what was over.
        :raises NotFound: there is no such node here. InvalidInput: the principal, the rights or the time are wrong; or
            each namespace has a directory of its own (``store.layout: separate``), where nobody finds anything shared.
        """
        return self._sharing.share(id, principal, rights, expires)

    @audited()
    def unshare(self, grant_id: str) -> None:
        """Takes a grant back, with all that were given by virtue of it: the next call of the other finds nothing any
        more, in whatever process.

        :raises NotFound: there is no such grant of this namespace, nor one that this handle has given as an admin.
        """
        self._sharing.unshare(grant_id)

    @audited(reads=True)
    def grants(self) -> list[Grant]:
        """What this namespace has given, also by admins of a subtree; those that are over are marked ``expired``."""
        return self._sharing.grants()

    @audited(reads=True)
    def shared(self) -> list[SharedSubtree]:
        """What others share with this agent in this namespace now, in the order in which it was given."""
        return self._sharing.shared()

    @audited()
    def set_group(self, name: str, members: Sequence[Principal | str]) -> None:
        """Defines a group of this namespace to share with, or changes who is in it; takes effect at once.

        :param members: users and agents; none: there is no such group any more.
        """
        self._sharing.set_group(name, members)

    @audited(reads=True)
    def groups(self) -> dict[str, tuple[Principal, ...]]:
        """The groups of this namespace with their members."""
        return self._sharing.groups()

    def _through(self, name: str, given: Mapping[str, Any]) -> Callable[..., Any] | None:
        """The verb of a guest that reaches what a call names; None: nothing that is shared.

        :raises AccessDenied: it is shared, but not for that.
        """
        argument, need = DOORS[name]
        value = given.get(argument)
        if given.get("as_of") is not None:  # the past is the owner's
            return None
        ids = _parents(value) if name == "add_many" else [value]
        place: Place | None = None
        with self._workspace.read() as tx:  # type: ignore[attr-defined]
            for one in ids:
                id = one.id if isinstance(one, Node) else one
                found = self._resolver.place(tx, id) if isinstance(id, str) and id not in PARENT_WORDS else None
                place = place or found
                if place is not None and (found is None or found.namespace != place.namespace):
                    raise InvalidInput(
                        "parent: a batch that names a shared memory must name one for every item"
                    ) from None
        if place is None:
            return None
        workspace: Workspace = self._workspace  # type: ignore[attr-defined]
        guest = Guest(workspace, self._resolver, place.namespace, place.owner, need)
        if not at_least(place.rights, need):
            guest.told_owner(Call(name, guest.now(), place.key.uid, outcome=AccessDenied.__name__))
            who = "/".join(place.owner)
            raise AccessDenied(
                f"{argument}: {place.key.uid!r} is shared with this namespace by {who} for {place.rights}; "
                f"{name} needs {need}, which {who} can give with share()"
            ) from None
        _refuse_odd(name, given)
        verbs = _GuestVerbs(guest, *self._guest_parts)
        return functools.partial(self._done, guest, name, place.key.uid, getattr(verbs, name))

    def _done(self, guest: Guest, name: str, id: str, verb: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            result = verb(*args, **kwargs)
            shown = _GuestPages(self, guest, result) if isinstance(result, Iterator) else self._shown(guest, result)
            if name in READING:
                guest.told_owner(Call(name, guest.now(), id, detail=counts(shown)))
            return shown
        except InvalidInput as error:
            raise type(error)(self._silenced(guest, str(error))) from None

    def _shown(self, guest: Guest, value: Any) -> Any:
        """A result without what is not shared."""
        if isinstance(value, Node):
            with guest.connections.read() as tx:
                found = self._resolver.shown(tx, value, int(guest.id))
            if found is None:
                raise NotFound(f"id: there is no node {value.id!r} in this namespace")
            return found
        if isinstance(value, StateChange):
            return replace(value, sequence=None)
        if isinstance(value, Observed):
            return replace(value, nodes=tuple(self._shown(guest, list(value.nodes))))
        if isinstance(value, list) and value and isinstance(value[0], HistoryEntry):
            return self._told(guest, value)
        if isinstance(value, list):
            with guest.connections.read() as tx:
                nodes = [self._resolver.shown(tx, one, int(guest.id)) for one in value]
            return [one for one in nodes if one is not None]
        return value

    def _told(self, guest: Guest, entries: list[HistoryEntry]) -> list[HistoryEntry]:
        """A history, numbered by itself, without the ids of what is not shared and with whom else it is."""
        with guest.read() as tx:

            def seen(id: Any) -> Any:
                return id if isinstance(id, str) and tree.find(tx, guest.id, id) is not None else None

            kept = [one for one in entries if one.kind not in log.SHARING]
            told = []
            for number, one in enumerate(kept, 1):
                changes = dict(one.changes)
                for field in {"parent_id", "replaced_by"} & changes.keys():
                    changes[field] = Change(seen(changes[field].before), seen(changes[field].after))
                reasons = {
                    name: seen(value) if name in ("confirmed_by", "contradicted_by") else value
                    for name, value in one.reasons.items()
                }
                told.append(replace(one, sequence=number, changes=changes, reasons=reasons))
            return told

    def _silenced(self, guest: Guest, message: str) -> str:
        """A message without the ids of what is not shared."""

        def said(match: re.Match[str]) -> str:
            hidden = tree.find(tx, int(guest.id), match[1]) and not tree.find(tx, guest.id, match[1])
            return "a memory that is not shared" if hidden else match[0]

        try:
            with guest.read() as tx:
                return _QUOTED.sub(said, message)
        except NotFound:
            return "id: is not shared any more"


class _GuestPages:
    """walk() of a guest: each node is asked for again when it comes."""

    def __init__(self, door: ShareVerbs, guest: Guest, nodes: Iterator[Node]) -> None:
        self._door, self._guest, self._nodes = door, guest, nodes

    def __iter__(self) -> Iterator[Node]:
        for node in self._nodes:
            yield from self._door._shown(self._guest, [node])


class _GuestVerbs(TreeVerbs, WeightVerbs, IntakeVerbs):
    """The verbs of a guest; see DOORS."""

    def __init__(
        self, guest: Guest, indexer: Indexer, model: Model, estimator: ImportanceEstimator | None,
        extractor: Extractor | None,
    ) -> None:  # fmt: skip
        TreeVerbs.__init__(self, guest, indexer, estimator)
        WeightVerbs.__init__(self, guest, self._writer)
        IntakeVerbs.__init__(self, guest, indexer, self._writer, model, extractor)
        self._forgets = Forgetting(guest)
        self._sharing = Sharing(guest, guest.resolver)

    @audited("id", keep=("subtree", "dry_run"))
    def forget(self, id: str, *, subtree: bool = False, dry_run: bool = False, **others: Any) -> StateChange:
        return self._state_changed("forget", id, subtree, dry_run)

    def history(self, id: str) -> list[HistoryEntry]:
        return history(self._workspace, id)

    @audited("id", keep=("rights",))
    def share(self, id: str, principal: Any, rights: str = "read", expires: Any = None) -> Grant:
        return self._sharing.share(id, principal, rights, expires)

    def _written(self, result: T) -> T:
        """Policies of forgetting are the owner's: nothing is tended here."""
        if self._workspace.config.index.background:
            self._indexer.start()
            self._indexer.notify()
        return result


def _parents(items: Any) -> list[Any]:
    """The parents that the items of a batch name; a position names none of its own."""
    found = [item.get("parent", "task") for item in items if isinstance(item, Mapping)]
    return [one for one in found if not isinstance(one, int)]


def _refuse_odd(name: str, given: Mapping[str, Any]) -> None:
    """:raises InvalidInput: what would tell of what is not shared, or lead there."""
    items = given.get("items") if name == "add_many" else [given] if name == "add" else []
    if any(item.get("id") is not None for item in items or [] if isinstance(item, Mapping)):
        raise InvalidInput("id: of a memory that is written to a shared subtree cannot be chosen; leave it out")
    if name == "move" and given.get("parent") in PARENT_WORDS:
        raise InvalidInput("parent: where a shared memory is to hang has to be named by its id")


def with_doors(cls: type[T]) -> type[T]:
    """Lets the verbs of a class reach what is shared, each by its door."""
    for name in DOORS:
        audited_own = getattr(cls, name)  # whose entry says how the call ended, by whichever way
        setattr(cls, name, audited_by(audited_own.audited, _opened(name, audited_own.__wrapped__)))
    return cls


def _opened(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(own)

    @functools.wraps(own)
    def verb(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            return own(self, *args, **kwargs)  # which says what is wrong
        given = bound.arguments
        for argument in ("items", "messages"):  # which may be read twice
            if isinstance(given.get(argument), Iterator):
                most = MAX_MESSAGES + 1 if argument == "messages" else None
                given[argument] = list(itertools.islice(given[argument], most))
        try:
            return own(*bound.args, **bound.kwargs)
        except NotFound:  # not kept: with its traceback it would keep the handle
            through = self._through(name, given)
            if through is None:
                raise
        return through(*bound.args[1:], **bound.kwargs)

    @functools.wraps(own)
    def pages(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        nodes = iter(own(self, *args, **kwargs))
        try:
            first = [next(nodes)]
        except NotFound:
            through = self._through(name, given)
            if through is None:
                raise
            nodes, first = iter(through(*args, **kwargs)), []
        yield from itertools.chain(first, nodes)

    return pages if name == "walk" else verb
