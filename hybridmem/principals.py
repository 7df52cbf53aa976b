"""Who memories can be shared with, and what sharing says of it. Pure.

A principal is a user (whoever opens a namespace, with any agent), one agent in a namespace, or a group that the owner
of the shared memories has defined. As text: ``user:acme/li-si``, ``agent:acme/li-si:bot``, ``group:claims-team``; names
with ``/``, ``:`` or ``[`` in them are given as JSON: ``user:["acme/x","li-si"]``, ``agent:[["acme/x","li-si"],"a:b"]``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from hybridmem import inputs
from hybridmem.errors import InvalidInput, shown
from hybridmem.types import Namespace, Node, jsonable

Rights = Literal["read", "write", "admin"]
#: Each includes those before it.
RIGHTS: tuple[Rights, ...] = get_args(Rights)
_KINDS = ("user", "agent", "group")
_FORMS = "user:acme/li-si, agent:acme/li-si:bot or group:claims-team (see hybridmem.principals for other names)"


@dataclass(frozen=True, slots=True)
class Principal:
    """Made by :meth:`user`, :meth:`agent`, :meth:`group` or :meth:`parse`. ``names``: the namespace of a user or agent;
    ``name``: that of the agent or group, '' for a user."""

    kind: Literal["user", "agent", "group"]
    names: Namespace
    name: str

    @classmethod
    def user(cls, namespace: Sequence[str]) -> Principal:
        """Whoever opens this namespace, with whatever agent."""
        return cls("user", inputs.namespace(namespace), "")

    @classmethod
    def agent(cls, namespace: Sequence[str], agent: str) -> Principal:
        """This agent in this namespace alone."""
        return cls("agent", inputs.namespace(namespace), inputs.name("agent", agent))

    @classmethod
    def group(cls, name: str) -> Principal:
        """A group that the namespace which shares has defined; it means nothing in another."""
        return cls("group", (), inputs.name("group", name))

    @classmethod
    def parse(cls, text: Any) -> Principal:
        """A principal from its text form; a Principal as it is.

        :raises InvalidInput: it is neither, or can be read in two ways.
        """
        if isinstance(text, Principal):
            return text
        kind, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        if kind not in _KINDS or not colon:
            raise InvalidInput(f"principal: must be {_FORMS}, not {shown(text)}")
        if kind == "group":
            return cls.group(rest)
        value = _json(text, rest) if rest.startswith("[") else None
        if kind == "user":
            return cls.user(rest.split("/") if value is None else value)
        if value is None:
            where, *others = rest.split(":")
            value = [where.split("/"), *others]
        if len(value) != 2:
            forms = 'agent:acme/li-si:bot or agent:[["acme","li-si"],"bot"]'
            raise InvalidInput(f"principal: must be {forms}, not {shown(text)}")
        return cls.agent(value[0], value[1])

    def __str__(self) -> str:
        """The text form that :meth:`parse` reads: the short one if that says the same."""
        if self.kind == "group":
            return f"group:{self.name}"
        where, rest = "/".join(self.names), f":{self.name}" if self.kind == "agent" else ""
        if not any(mark in one for one in (*self.names, self.name) for mark in "/:["):
            return f"{self.kind}:{where}{rest}"
        value: Any = list(self.names) if self.kind == "user" else [list(self.names), self.name]
        return f"{self.kind}:{json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"


def _json(text: str, rest: str) -> list[Any]:
    try:
        value = json.loads(rest)
    except (ValueError, RecursionError):
        raise InvalidInput(f"principal: what follows the colon is not a JSON array: {shown(text)}") from None
    if not isinstance(value, list):
        raise InvalidInput(f"principal: what follows the colon is not a JSON array: {shown(text)}")
    return value


def at_least(rights: str, need: str) -> bool:
    """Whether a right includes another: admin includes write, and write read."""
    return RIGHTS.index(rights) >= RIGHTS.index(need)


@dataclass(frozen=True, slots=True)
class Grant:
    """That a subtree is shared: with whom, for what and until when (None: until it is revoked). ``id`` is that of the
    grant, ``node_id`` that of the top of the subtree, ``agent`` who gave it; ``expired``: it is over already."""

    id: str
    node_id: str
    principal: Principal
    rights: Rights
    expires: datetime | None
    created_at: datetime
    agent: str
    expired: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "node_id": self.node_id,
            "principal": str(self.principal),
            "rights": self.rights,
            "expires": jsonable(self.expires),
            "created_at": jsonable(self.created_at),
            "agent": self.agent,
            "expired": self.expired,
        }


@dataclass(frozen=True, slots=True)
class SharedSubtree:
    """What another namespace shares with this one: its owner, the node at its top, the rights, and until when."""

    owner: Namespace
    root: Node
    rights: Rights
    expires: datetime | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "owner": list(self.owner),
            "root": self.root.to_dict(),
            "rights": self.rights,
            "expires": jsonable(self.expires),
        }
