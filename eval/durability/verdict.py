"""What was acknowledged against what is there.

A call that was under way when its process died may be there whole or not at all; which of the two is found out here,
and from then on it counts as acknowledged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval.durability.agent import FOUNDER, SHARED, first_content
from eval.durability.expected import Agent, Expected

#: How many decisions resume() tells of at most.
SHOWN = 10
Entries = Sequence[Mapping[str, Any]]


@dataclass
class Finding:
    """What one look at a store found. The lists say it in words; ``lost``, ``extra`` and ``wrong`` are of what calls
    had acknowledged, ``disagree`` of tree, words and vectors among themselves, ``astray`` of resume()."""

    acknowledged: int = 0
    whole: int = 0
    absent: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    disagree: list[str] = field(default_factory=list)
    astray: list[str] = field(default_factory=list)
    resumes: int = 0
    right: Counter[str] = field(default_factory=Counter)

    @property
    def problems(self) -> list[str]:
        kinds = ("lost", "extra", "wrong", "disagree", "astray")
        return [f"{kind}: {text}" for kind in kinds for text in getattr(self, kind)]


@dataclass
class Shared:
    """A node that all agents change: each version that is known, with its content; and how many calls may have made
    one that nobody was told of."""

    known: dict[int, str]
    untold: int = 0

    def problems(self, id: str, version: int, content: str, under_way: Sequence[str]) -> tuple[list[str], list[str]]:
        """(lost, wrong), given what is there; ``under_way``: contents that may or may not have been written."""
        self.untold += len(under_way)
        lost = [f"{id} was at version {one}, is at {version}" for one in self.known if one > version]
        missing = version - sum(one <= version for one in self.known)
        wrong = [f"{id} has {missing} versions that nobody made"] if missing > self.untold else []
        if content not in ([self.known[version]] if version in self.known else under_way):
            wrong.append(f"{id} is at version {version} with {content!r}")
        self.known[version] = content
        return lost, wrong


class Judge:
    """Of one store, for its whole life."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.agents = tuple(agents)
        self.expected: Expected | None = None
        #: Whether the shared nodes have been made.
        self.founded = False
        self._shared: dict[str, Shared] = {}
        #: Whether the last run of an agent that wrote anything was cut off; None: not known.
        self._cut: dict[str, bool | None] = dict.fromkeys(agents, False)

    def judge(self, journals: Mapping[str, Entries], seen: Mapping[str, Any]) -> Finding:
        """What a round of runs, one of each agent at most, has left."""
        finding = Finding(disagree=list(seen["problems"]))
        if self.expected is None:
            self.expected = Expected(seen["root"], {seen["root"]: seen["nodes"][seen["root"]]})
        if self.founded and not self._shared:
            self.expected.nodes |= dict.fromkeys(SHARED, self._shared_node())
            self._shared = {id: Shared({1: first_content(id)}) for id in SHARED}
        shared: dict[str, list[str]] = {id: [] for id in SHARED}
        for name in self.agents:
            under_way = self._follow(name, journals.get(name, ()), finding)
            came = self._settle(name, under_way, seen, finding)
            if under_way is not None and under_way["verb"] == "update_shared":
                shared[under_way["given"]["id"]].append(under_way["given"]["content"])
            self._session(name, journals.get(name, ()), came)
            self._resume(name, seen["resumed"][name], finding, "a fresh process")
        for id, node in self._shared.items():
            there = seen["nodes"].get(id)
            if there is None:
                finding.lost.append(f"{id} is not there")
                continue
            lost, wrong = node.problems(id, there["version"], there["content"], shared[id])
            finding.lost += lost
            finding.wrong += wrong
        known = {*self.agents, FOUNDER}
        finding.extra += [f"{id} is there" for id, node in seen["nodes"].items() if node["agent"] not in known]
        if finding.lost or finding.extra or finding.wrong:
            self._give_in(seen)
        return finding

    def _shared_node(self) -> dict[str, Any]:
        """As far as others depend on it; what it holds is for :class:`Shared` to say."""
        assert self.expected is not None
        known = {"parent": self.expected.root, "agent": FOUNDER, "type": "note", "state": "live", "status": None}
        return {**known, "content": "", "beat": None}

    def _follow(self, name: str, entries: Entries, finding: Finding) -> Mapping[str, Any] | None:
        """Applies what was acknowledged; the call that was under way at the end, if any."""
        assert self.expected is not None
        under_way: Mapping[str, Any] | None = None
        for entry in entries:
            if "verb" in entry:
                under_way = entry
            elif "resumed" in entry:
                self._resume(name, entry["resumed"], finding, "the agent itself")
            elif "failed" in entry:
                finding.wrong.append(entry["failed"])
            elif "refused" in entry:
                finding.refused[entry["refused"]] += 1
                under_way = None
            elif "made" in entry and under_way is not None:
                self._acknowledge(name, under_way, entry, finding)
                under_way = None
        return under_way

    def _acknowledge(self, name: str, call: Mapping[str, Any], answer: Mapping[str, Any], finding: Finding) -> None:
        assert self.expected is not None
        verb, given = call["verb"], call["given"]
        finding.acknowledged += 1
        finding.verbs[verb] += 1
        self.expected.apply(name, verb, given, answer["made"])
        if verb == "update_shared":
            known = self._shared[given["id"]].known
            if answer["version"] in known:
                finding.lost.append(f"two updates of {given['id']} both made version {answer['version']}")
            known[answer["version"]] = given["content"]
        elif answer["version"] is not None and answer["version"] != self.expected.nodes[answer["made"]]["version"]:
            finding.wrong.append(f"{verb} of {answer['made']} answered version {answer['version']}")
        if verb == "checkpoint":
            finding.right["checkpoints"] += 1
            task = self.expected.agent(name).task
            if answer["more"] != (self.expected.decisions(name) if task else []):
                finding.astray.append(f"a checkpoint of {name} has the decisions {answer['more']}")
            else:
                finding.right["paths"] += 1

    def _settle(
        self, name: str, under_way: Mapping[str, Any] | None, seen: Mapping[str, Any], finding: Finding
    ) -> bool:
        """Compares what belongs to one agent; whether the call that was under way had come to be."""
        assert self.expected is not None
        without = _differences(self.expected, name, seen)
        came = False
        if under_way is not None:
            after = _with(self.expected, name, under_way, seen)
            found = _differences(after, name, seen) if after is not None else None
            # Where neither fits, half of it is there: what is missing of it says more than what is too much.
            if found is not None and any(without) and sum(map(len, found)) <= sum(map(len, without)):
                assert after is not None
                self.expected, without, came = after, found, True
            finding.whole += came
            finding.absent += not came
        for kind, found_ones in zip(("lost", "extra", "wrong"), without, strict=True):
            getattr(finding, kind).extend(found_ones)
        return came

    def _session(self, name: str, entries: Entries, came: bool) -> None:
        """What resume() has to say about the end of this run from now on."""
        keys = [key for entry in entries for key in ("made", "closing", "closed") if key in entry]
        if "closed" in keys:
            self._cut[name] = False if "made" in keys else self._cut[name]
        elif "closing" in keys:  # it died in close(): whether the end is noted already is for it to say
            self._cut[name] = None
        elif came or "made" in keys:
            self._cut[name] = True

    def _resume(self, name: str, said: Mapping[str, Any], finding: Finding, who: str) -> None:
        """Holds what resume() says against what is expected at that moment."""
        assert self.expected is not None
        agent = self.expected.agent(name)
        task = self.expected.nodes[agent.task] if agent.task else None
        if self._cut[name] is None:
            self._cut[name] = said["interrupted"]
        wanted: dict[str, Any] = {
            "task": agent.task,
            "node": agent.node,
            "next_step": task["next_step"] if task else None,
            "interrupted": self._cut[name],
        }
        if agent.task:  # without one, all agents' decisions are told
            wanted["decisions"] = self.expected.decisions(name)[-SHOWN:]
        finding.resumes += 1
        for key, value in wanted.items():
            if said[key] == value:
                finding.right[key] += 1
            else:
                finding.astray.append(f"resume() of {name} told {who} {key} {said[key]!r}, right is {value!r}")
        if "decisions" not in wanted:
            finding.right["decisions"] += 1

    def _give_in(self, seen: Mapping[str, Any]) -> None:
        """Goes on from what is there, so that nothing is counted twice."""
        assert self.expected is not None
        logs = {name: [(kind, id) for kind, id in seen["log"].get(name, [])] for name in self.agents}
        order = {id: place for place, id in enumerate(self.expected.nodes)}
        nodes = sorted(seen["nodes"].items(), key=lambda item: order.get(item[0], len(order)))
        self.expected = Expected(seen["root"], dict(nodes))
        for name in self.agents:
            said = seen["resumed"][name]
            self.expected.agents[name] = Agent(
                said["task"], said["node"], list(seen["labels"].get(name, [])), logs[name]
            )
        for id, node in self._shared.items():
            if id in seen["nodes"]:
                node.known, node.untold = {seen["nodes"][id]["version"]: seen["nodes"][id]["content"]}, 10**6


def _with(expected: Expected, name: str, call: Mapping[str, Any], seen: Mapping[str, Any]) -> Expected | None:
    """What must be there if a call that was never acknowledged came to be; None: it cannot have."""
    made = call["given"].get("id")
    if call["verb"] == "start_task":
        title = call["given"]["title"]
        made = next((id for id, node in seen["nodes"].items() if node["content"] == title), None)
        if made is None:
            return None
    result = expected.copy()
    result.apply(name, call["verb"], call["given"], made)
    return result


def _differences(expected: Expected, name: str, seen: Mapping[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """(lost, extra, wrong) among what belongs to one agent."""
    lost: list[str] = []
    extra: list[str] = []
    wrong: list[str] = []
    agent, said = expected.agent(name), seen["resumed"][name]
    mine = {id: node for id, node in expected.nodes.items() if node["agent"] == name and node["type"] != "root"}
    for id, node in mine.items():
        there = seen["nodes"].get(id)
        if there is None:
            lost.append(f"{id} is not there")
        elif there != node:
            differ = {key: (value, there[key]) for key, value in node.items() if there[key] != value}
            (lost if there["version"] < node["version"] else wrong).append(f"{id} (expected, there): {differ}")
    extra += [
        f"{id} is there"
        for id, node in seen["nodes"].items()
        if node["agent"] == name and id not in mine and node["type"] != "root"
    ]
    if (agent.task, agent.node) != (said["task"], said["node"]):
        wrong.append(f"{name} stands at {(said['task'], said['node'])}, not {(agent.task, agent.node)}")
    for what, one, other in (
        ("log", agent.log, [(kind, id) for kind, id in seen["log"].get(name, [])]),
        ("checkpoints", agent.labels, list(seen["labels"].get(name, []))),
    ):
        if one != other:
            place = next(
                (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            text = (
                f"{what} of {name} at {place}: expected {one[place : place + 3]}, there is {other[place : place + 3]}"
            )
            (lost if len(other) < len(one) else extra if len(other) > len(one) else wrong).append(text)
    return lost, extra, wrong
