"""Where an example happens: a copy of one store in a directory of its own, and what must hold of it afterwards."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridmem import HybridMemError, Memory
from hybridmem.cli import main
from hybridmem.errors import EncryptionError

from . import state
from .documents import CHAT, LINES, SECRETS, TREE
from .worlds import OTHER_KEY, WORLDS, Clock, World, text_of

#: What an error says has to be readable, whatever it is about.
MAX_MESSAGE = 4_500
#: Stands for the id of the grant that the store has, which is another one in each.
GRANT = "@grant"


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    out: bytes
    err: str


@dataclass(frozen=True)
class Example:
    """The directory of one example: a store, and files beside it."""

    folder: Path
    world: World

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def grant(self) -> str:
        return (self.folder / "grant").read_text(encoding="utf-8")

    def opened(self, namespace: Sequence[str] = ("default",)) -> Memory:
        return self._opened(namespace, self.world.key)

    def _opened(self, namespace: Sequence[str], key: bytes | None) -> Memory:
        return Memory.open(self.store, namespace=namespace, config=self.world.config, clock=Clock(), master_key=key)

    def rows(self) -> state.Rows:
        return state.rows_of(self.store)

    def files(self) -> dict[str, tuple[int, int]]:
        return state.listing(self.folder)

    def sound(self, namespace: Sequence[str] = ("default",), *, keys: Sequence[bytes] = ()) -> None:
        """Nothing is damaged, the tree is what the log says, the next call works, and what is encrypted says nothing.

        :param keys: one of which may be the master key by now."""
        with self._opened_by_one_of(namespace, [self.world.key, OTHER_KEY, *keys, None]) as memory:
            report = memory.verify(replay=True)
            assert not report.findings, report.findings
            written = memory.add("继续 carry on", parent="root")
            assert memory.get(written.id).content == "继续 carry on"
            is_sealed = memory._workspace.connections.keyring is not None
        if self.world.key is not None and is_sealed:
            assert not state.readable(self.store, SECRETS), state.readable(self.store, SECRETS)

    def _opened_by_one_of(self, namespace: Sequence[str], keys: Sequence[bytes | None]) -> Memory:
        for key in keys[:-1]:
            with contextlib.suppress(EncryptionError):
                return self._opened(namespace, key)
        return self._opened(namespace, keys[-1])

    def call(self, namespace: Sequence[str], run: Callable[[Memory], Any]) -> HybridMemError | None:
        """Runs it; what fails must fail by an error of ours that can be read, and leave every row as it was."""
        with self.opened(namespace):
            pass  # so that the namespace is there
        before, files = self.rows(), self.files()
        try:
            with self.opened(namespace) as memory:
                run(memory)
            return None
        except HybridMemError as error:
            readable(str(error))
            assert self.rows() == before, "a call that failed has written"
            assert self.files() == files, "a call that failed has left a file"
            return error
        finally:
            self.sound(namespace)

    def command(
        self, arguments: Sequence[str], stdin: bytes | None = None, environment: Mapping[str, str] | None = None
    ) -> Ended:
        """Runs the program in this process, in the directory of the example.

        :param environment: what it is told beside what the world says."""
        streams = [io.TextIOWrapper(io.BytesIO(given), encoding="utf-8") for given in (stdin or b"", b"", b"")]
        before, here = (sys.stdin, sys.stdout, sys.stderr), Path.cwd()
        with _environment({**self.world.environment, **(environment or {})}):
            os.chdir(self.folder)
            try:
                sys.stdin, sys.stdout, sys.stderr = streams
                code = main([self.grant if one == GRANT else one for one in arguments])
            finally:
                sys.stdin, sys.stdout, sys.stderr = before
                os.chdir(here)
        for stream in streams[1:]:
            stream.flush()
        out, err = (stream.buffer.getvalue() for stream in streams[1:])
        return Ended(code, out, err.decode("utf-8"))


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """These variables of ours, and no others."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("HYBRIDMEM_")}
    for name in kept:
        del os.environ[name]
    os.environ |= variables
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ |= kept


class Arena:
    """One store, copied for each example."""

    def __init__(self, folder: Path, world: str = "plain") -> None:
        self._made = Example(folder / world / "made", WORLDS[world])
        self._example = Example(folder / world / "example", WORLDS[world])
        make(self._made)

    @contextlib.contextmanager
    def example(self) -> Iterator[Example]:
        """The directory of an example, with a fresh copy of the store; taken away afterwards."""
        shutil.rmtree(self._example.folder, ignore_errors=True)
        shutil.copytree(self._made.folder, self._example.folder, symlinks=True)
        try:
            yield self._example
        finally:
            shutil.rmtree(self._example.folder, ignore_errors=True)


class Arenas:
    """One of each world, made when the first example happens in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arenas: dict[str, Arena] = {}

    def __getitem__(self, world: str) -> Arena:
        if world not in self._arenas:
            self._arenas[world] = Arena(self._folder, world)
        return self._arenas[world]


def make(made: Example) -> None:
    """The store that each example begins with, and the files beside it."""
    folder = made.folder
    texts = {
        "lines.jsonl": "\n".join(json.dumps(line, ensure_ascii=False) for line in LINES),
        "tree.json": json.dumps(TREE),
        "chat.json": json.dumps(CHAT[:4]),
        "config.yaml": json.dumps(made.world.config),  # JSON is YAML
        "other.key": text_of(OTHER_KEY),
    }
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "folder").mkdir()
    (folder / "folder" / "kept").touch()
    (folder / "empty").touch()
    (folder / "link.db").symlink_to("store/tree.db")
    (folder / "linked").symlink_to("store")
    (folder / "loop").symlink_to("loop")
    with made.opened() as memory:
        memory.import_(folder / "lines.jsonl")
        memory.export(folder / "sealed.jsonl")
        memory.export(folder / "sealed.json", format="tree")
        memory.merge_duplicates("note1", ["twin1"])
        memory.checkpoint("taken")
        erased = memory.add("被抹去的 to be erased", id="erased1", parent="root")
        receipt = memory.erase(erased.id)
        (folder / "receipt.json").write_text(json.dumps(receipt.to_dict()), encoding="utf-8")
        shared = "" if made.world.layout == "separate" else memory.share("fact1", "user:acme/张三", "write").id
        (folder / "grant").write_text(shared, encoding="utf-8")
        memory.flush()
        memory.backup(folder / "taken.db")
    with made.opened(("acme", "张三")) as memory:
        memory.add("邻居的 neighbour's", id="fact1")


def readable(message: str) -> None:
    """Says something, in a length that somebody reads."""
    assert message.strip()
    assert len(message) <= MAX_MESSAGE, f"{len(message)} characters: {message[:200]}"
