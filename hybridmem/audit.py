"""Who did what, when: which calls leave an entry in the audit trail, and what it says of them. Pure.

An entry never holds what a memory says: neither contents, metadata, titles, labels nor paths of files. Of the arguments
it has numbers, flags, and words that this file knows; of the subject its id; of a query, by default, a keyed hash.

A call that writes has its entry in its own transaction (hybridmem.store.workspace). Entries of reading calls wait here
in memory, so that reading waits for nobody, and go to the store with the next write of the handle, by flush(), close()
or audit(), or after ``audit.flush_seconds``. A process that dies loses those that wait, and nothing else.
"""

from __future__ import annotations

import inspect
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar, cast

from hybridmem.config import AuditConfig

P = ParamSpec("P")
T = TypeVar("T")

OK = "ok"
#: Entries that wait at a time; beyond them, only how many more there were is kept.
MOST = 10_000
#: Longest text that is taken for an id.
MAX_ID = 512
#: What an argument may say in an entry besides numbers and flags: nothing that a user has made up.
WORDS = frozenset({
    "auto", "namespace", "task", "text", "markdown", "messages", "json", "tree", "time", "score", "jsonl", "chat",
    "lines", "live", "archived", "superseded", "forgotten", "open", "paused", "done", "failed", "configured", "decay",
    "read", "write", "admin", "least_weight", "age", "least_recently_used", "newest", "random",
})  # fmt: skip
#: Arguments that narrow a search: an entry says that they were given, not what they were.
FILTERS = ("types", "states", "since", "until", "metadata", "as_of")
#: Words in the place of an id.
PLACES = frozenset({"task", "decision", "node", "root", "active", "auto", "namespace"})
#: What is counted of a reply, by the name of its field.
COUNTED = (
    "hits", "tokens", "ids", "groups_found", "different_found", "findings", "mended", "pruned", "held", "branches",
    "kept", "dropped", "added", "skipped", "embedded", "resumed", "failed", "removed",
)  # fmt: skip


@dataclass(slots=True)
class Call:
    """One call, on its way into the trail.

    ``at``: microseconds since 1970 UTC; None: when it is written. ``node``: the id it is about, as it was given; None:
    about none, or with ``makes`` the one that the log tells of. ``sequence``: of its entry, once that is written.
    """

    verb: str
    at: int | None
    node: str | None = None
    makes: bool = False
    detail: dict[str, Any] = field(default_factory=dict)
    query: str | None = None
    outcome: str = OK
    sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """What the trail of another namespace is to have: that a guest has read what is shared there.

    ``namespace``: its internal id. ``agent``: what the guest is called there.
    """

    namespace: int
    agent: str
    call: Call


@dataclass(frozen=True, slots=True)
class Rule:
    """What an entry says of the calls of one method."""

    verb: str
    reads: bool
    node: tuple[str, ...]
    keep: tuple[str, ...]
    query: str | None
    makes: bool
    filters: tuple[str, ...]
    places: Mapping[str, int]

    def call(self, arguments: Sequence[Any], named: Mapping[str, Any], at: int | None) -> Call:
        """An entry of a call with these arguments."""
        node = next(
            (one for name in self.node if (one := as_id(self._given(name, arguments, named))) is not None), None
        )
        detail = {name: said for name in self.keep if (said := plain(self._given(name, arguments, named))) is not None}
        narrowed = [name for name in self.filters if self._given(name, arguments, named) is not None]
        if narrowed:
            detail["filters"] = narrowed
        query = None if self.query is None else self._given(self.query, arguments, named)
        return Call(self.verb, at, node, self.makes, detail, query if isinstance(query, str) else None)

    def _given(self, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        if name in named:
            return named[name]
        place = self.places.get(name, sys.maxsize)
        return arguments[place] if place < len(arguments) else None


class Trail:
    """What the calls of one handle leave, until it is in the store; and which call each thread is in.

    Threads may share it. ``opened``: when the handle was opened, in microseconds since 1970 UTC.
    """

    def __init__(self, rule: AuditConfig, opened: int) -> None:
        self.rule = rule
        self._opened = opened
        self._waiting: list[Call] = []
        self._visits: list[Visit] = []
        self._dropped = 0
        self._guard = threading.RLock()  # a signal handler may search in the middle of a search
        self._local = threading.local()
        self._is_begun = False
        self._is_over = not rule.enabled

    def __len__(self) -> int:
        """How many entries wait."""
        return len(self._waiting) + len(self._visits)

    @property
    def is_on(self) -> bool:
        """Whether entries are taken."""
        return not self._is_over

    def wants(self, reads: bool) -> bool:
        """Whether a call that begins now is to leave an entry: not one that is part of another."""
        return not self._is_over and (self.rule.reads or not reads) and self.current is None

    @property
    def current(self) -> Call | None:
        """The call that this thread is in. One that an interrupt has thrown out of its function is over."""
        found: Call | None = getattr(self._local, "call", None)
        if found is None:
            return None
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self._local.frame:
            frame = frame.f_back
        if frame is None:
            self.leave()
            return None
        return found

    def enter(self, call: Call) -> None:
        """From now on the caller's function is the call that this thread is in."""
        self._local.frame = sys._getframe(1)
        self._local.call = call

    def leave(self) -> None:
        self._local.call = self._local.frame = None

    def say(self, detail: Mapping[str, Any]) -> None:
        """Adds to what the entry of the call that this thread is in says."""
        call = self.current
        if call is not None:
            call.detail.update(detail)

    def place(self) -> tuple[Call | None, FrameType | None]:
        """Where this thread is, for ``go_back``."""
        return self.current, getattr(self._local, "frame", None)

    def go_back(self, place: tuple[Call | None, FrameType | None]) -> None:
        self._local.call, self._local.frame = place

    def wait(self, call: Call) -> None:
        """Keeps an entry until it is written."""
        with self._guard:
            if self._is_over:
                return
            self.begin()
            if len(self._waiting) < MOST:
                self._waiting.append(call)
            else:
                self._dropped += 1

    def visited(self, visit: Visit) -> None:
        """Keeps an entry for another namespace until it is written."""
        with self._guard:
            if self.rule.reads and not self._is_over and len(self._visits) < MOST:
                self._visits.append(visit)

    def visits(self) -> list[Visit]:
        """Those that wait, in their order."""
        with self._guard:
            return list(self._visits)

    def begin(self) -> None:
        """The first entry of a handle comes after one that says when it was opened."""
        with self._guard:
            if not self._is_begun:
                self._is_begun = True
                self._waiting.append(Call("open", self._opened))

    def end(self) -> None:
        """The handle is being closed: says so, if it has done anything, and takes no more."""
        with self._guard:
            if self._is_begun:
                self.wait(Call("close", None))
            self._is_over = True

    def waiting(self) -> list[Call]:
        """The entries that wait, in their order."""
        with self._guard:
            dropped = [Call("dropped", None, detail={"entries": self._dropped})] if self._dropped else []
            return [*self._waiting, *dropped]

    def written(self, entries: Sequence[Call], visits: Sequence[Visit]) -> None:
        """These, which ``waiting`` and ``visits`` gave, are in the store."""
        with self._guard:
            told = {id(one) for one in visits}
            self._visits = [one for one in self._visits if id(one) not in told]
            known = {id(one) for one in entries}
            self._waiting = [one for one in self._waiting if id(one) not in known]
            self._dropped -= sum(one.detail["entries"] for one in entries if one.verb == "dropped")


def audited(
    *node: str,
    reads: bool = False,
    keep: Sequence[str] = (),
    query: str | None = None,
    makes: bool = False,
    verb: str | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Each call of the method leaves one entry, whatever it calls itself; also one that fails.

    :param node: the arguments that name what it is about; the first that is an id.
    :param reads: its entry may wait. :param keep: arguments whose numbers, flags and known words the entry has.
    :param query: the argument that is a query. :param makes: what it is about, where no argument says so, is what the
        last operation is about that it logs. :param verb: None: the name of the method.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        names = list(inspect.signature(function).parameters)
        rule = Rule(
            verb=function.__name__.strip("_") if verb is None else verb,
            reads=reads,
            node=node,
            keep=tuple(keep),
            query=query,
            makes=makes,
            filters=tuple(name for name in FILTERS if name in names and name not in keep) if reads else (),
            places={name: place - 1 for place, name in enumerate(names)},
        )
        return cast("Callable[P, T]", audited_by(rule, function))

    return decorate


def audited_by(rule: Rule, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with an entry of each call by this rule."""
    made = _generating(function, rule) if inspect.isgeneratorfunction(function) else _calling(function, rule)
    made.audited = rule  # type: ignore[attr-defined]
    return made


def _calling(function: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    @wraps(function)
    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        workspace = self._workspace
        trail: Trail = workspace.trail
        if not trail.wants(rule.reads):
            return function(self, *arguments, **named)
        call = rule.call(arguments, named, workspace.now() if rule.reads else None)
        try:
            trail.enter(call)
            result = function(self, *arguments, **named)
        except BaseException as error:
            trail.leave()
            workspace.failed(call, error, may_wait=rule.reads)
            raise
        finally:
            trail.leave()
        workspace.succeeded(call, counts(result), may_wait=rule.reads)
        return result

    return run


def _generating(function: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    """One that is read from bit by bit: its entry comes with its end, and says how far it was read."""

    @wraps(function)
    def run(self: Any, *arguments: Any, **named: Any) -> Iterator[Any]:
        workspace = self._workspace
        if not workspace.trail.wants(rule.reads):
            yield from function(self, *arguments, **named)
            return
        call = rule.call(arguments, named, workspace.now())
        found = 0
        try:
            for one in function(self, *arguments, **named):
                found += 1
                yield one
        except GeneratorExit:
            workspace.succeeded(call, {"found": found}, may_wait=True)
            raise
        except BaseException as error:
            workspace.failed(call, error, may_wait=True)
            raise
        workspace.succeeded(call, {"found": found}, may_wait=True)

    return run


def called(workspace: Any, verb: str, action: Callable[[], T], **detail: Any) -> T:
    """Does what is no call of a method, such as what is done by itself, with an entry of its own; also in the middle of
    a call."""
    trail: Trail = workspace.trail
    if not trail.is_on:
        return action()
    call, place = Call(verb, None, detail=detail), trail.place()
    try:
        trail.enter(call)
        result = action()
    except BaseException as error:
        trail.go_back(place)
        workspace.failed(call, error, may_wait=False)
        raise
    finally:
        trail.go_back(place)
        del place  # a frame that knows this one
    workspace.succeeded(call, {}, may_wait=False)
    return result


def as_id(value: Any) -> str | None:
    """The id that an argument names, None if it names none: a word, or nothing that could be one."""
    text = getattr(value, "id", value)
    return text if isinstance(text, str) and 0 < len(text) <= MAX_ID and text not in PLACES else None


def plain(value: Any) -> Any:
    """What an entry may say of an argument; None: nothing."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if value in WORDS else None
    if isinstance(value, (list, tuple)):
        return [one for one in value[:10] if isinstance(one, str) and one in WORDS] or None
    return None


def counts(result: Any) -> dict[str, Any]:
    """The numbers of a reply."""
    if isinstance(result, (list, dict)):
        return {"found": len(result)}
    if isinstance(result, int) and not isinstance(result, bool):
        return {"count": result}
    said = ((name, getattr(result, name, None)) for name in COUNTED)
    found = {name: len(one) if isinstance(one, Sized) else one for name, one in said if one is not None}
    return {name: one for name, one in found.items() if isinstance(one, int)}
