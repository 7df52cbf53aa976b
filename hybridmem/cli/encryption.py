"""Commands about encryption: encrypt, reencrypt, decrypt, rotate-key, new-key."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hybridmem import inputs
from hybridmem.cli.memories import progress_bar
from hybridmem.cli.options import Options, command
from hybridmem.cli.output import Reply, console, one_line

if TYPE_CHECKING:
    from rich.console import Console

    from hybridmem.reencrypt import Progress, ReencryptReport


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    commands = (
        ("new-key", new_key), ("encrypt", encrypt), ("reencrypt", reencrypt), ("decrypt", decrypt),
        ("rotate-key", rotate_key),
    )  # fmt: skip
    for name, function in commands:
        command(app, name)(function)


def new_key(
    options: Options, file: Annotated[str, typer.Argument(metavar="FILE", help="A new file, for its owner alone.")]
) -> Reply:
    """Make a master key: 32 random bytes as base64.

    Whoever loses it loses the store: keep a copy where no store and no backup of one is.
    """
    from hybridmem.keys import new_key_file
    from hybridmem.store.directory import refuse_own

    target = inputs.path("file", file)
    refuse_own(target)
    found = new_key_file(target)
    return Reply(
        {"file": file, "key": found}, lambda screen: screen.print(f"key {found} in {one_line(file)}", soft_wrap=True)
    )


def encrypt(options: Options) -> Reply:
    """Encrypt a store that is not, by the master key of the configuration (HYBRIDMEM_KEY).

    Nobody else may have it open when it begins. May be interrupted at any time: run again, it goes on where it stopped.
    """
    return _run(options, "encrypted")


def reencrypt(options: Options) -> Reply:
    """Give an encrypted store new data keys, and seal everything anew by them.

    May be interrupted at any time: run again, it goes on where it stopped. The old data keys are destroyed.
    """
    return _run(options, "new")


def decrypt(options: Options) -> Reply:
    """Make an encrypted store a plain one.

    Nobody else may have it open when it ends. May be interrupted at any time: run again, it goes on where it stopped.
    """
    return _run(options, "plain")


def rotate_key(
    options: Options,
    new: Annotated[str, typer.Option("--new-key", help="The new master key: env:NAME or file:PATH.")],
) -> Reply:
    """Wrap the data keys of all namespaces by another master key; contents are not touched.

    Where each namespace has a directory of its own, it may be interrupted: run again, it goes on where it stopped.
    """
    from hybridmem import keys, rotation
    from hybridmem.store import layout

    provider = keys.named(new)
    if layout.is_separate(options.path):
        count = rotation.rotate_each(options.path, provider, config=options.configuration(), agent=options.who)
    else:
        with options.open() as memory:
            count = memory.rotate_master_key(provider)
    data = {"data_keys": count, "key": provider.id}
    return Reply(
        data, lambda screen: screen.print(f"{count} data keys are wrapped by the master key {provider.id} now")
    )


def _run(options: Options, to: Literal["encrypted", "new", "plain"]) -> Reply:
    from hybridmem import reencrypt as job

    def call(progress: Progress | None) -> ReencryptReport:
        return job.encrypt(options.path, to=to, config=options.configuration(), progress=progress)

    screen = console(sys.stderr)
    if screen.is_terminal:
        with progress_bar(screen, "sealing" if to != "plain" else "opening") as progress:
            bar = progress.add_task("sealing", total=None)
            report = call(lambda done, total: progress.update(bar, completed=done, total=total))
    else:
        report = call(None)
    before = "was made before and stays as it was, plain or under the old keys"
    warnings = [*report.notes, *(f"{one}: {before}" for one in report.copies)]
    return Reply(report.to_dict(), lambda out: _print(out, report), warnings)


def _print(screen: Console, report: ReencryptReport) -> None:
    end = "the files are cleansed" if report.cleansed else "the files are not cleansed: run it again"
    screen.print(f"{report.sealed} memories rewritten, roots counted; {end}", soft_wrap=True)
