"""What a log cannot say when it is replayed: the entries of earlier versions said less."""

from __future__ import annotations

from typing import Any

from hybridmem.store import log


class Unsaid:
    """Collects what a log cannot say: the entries of earlier versions said less."""

    def __init__(self, namespaces: dict[int, tuple[str, ...]]) -> None:
        self._names = {number: "/".join(names) for number, names in namespaces.items()}
        self._problems: dict[int, list[str]] = {}
        self._imported: dict[int, int] = {}
        #: The last entry of an earlier version.
        self._older: dict[int, int] = {}
        #: Who may stand elsewhere than the log says → since which entry.
        self._lost: dict[tuple[int, str], int] = {}

    def add(self, namespace: int, problem: str) -> None:
        self._problems.setdefault(namespace, []).append(f"{self._names.get(namespace, namespace)}: {problem}")

    def note(self, namespace: int, sequence: int, kind: str, agent: str, payload: dict[str, Any]) -> None:
        for who in payload.get("active", {}):
            self._lost.pop((namespace, who), None)
        if "version" not in payload and kind in log.POINTING:
            self._lost.setdefault((namespace, agent), sequence)
            self._older[namespace] = sequence
        if "version" not in payload and kind == "add" and "uses" in payload:
            self._imported[namespace] = self._imported.get(namespace, 0) + 1
        if kind == "import" and "active" not in payload:
            self.add(
                namespace,
                f"operation {sequence} (import) was logged by an earlier version, which noted neither the versions, "
                f"times and agents of the {self._imported.pop(namespace, 0)} nodes, nor the active pointers that came "
                "along",
            )

    def problems(self) -> dict[int, tuple[str, ...]]:
        for (namespace, agent), sequence in self._lost.items():
            self.add(
                namespace,
                f"where the agent {agent!r} stands is not known: operation {sequence} was logged by an earlier version",
            )
        for namespace, sequence in self._older.items():
            self.add(
                namespace,
                f"operations up to {sequence} were logged by an earlier version, in which the times of nodes could be "
                "other ones than that of the operation, by microseconds",
            )
        return {namespace: tuple(told) for namespace, told in self._problems.items()}
