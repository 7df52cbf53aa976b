"""Commands that say what became of a memory: supersede, feedback."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from hybridmem.cli.memories import Confidence, Content, Id, Importance, Metadata, Version, index_if_many, node_reply
from hybridmem.cli.options import Options, command, given_object, given_text
from hybridmem.cli.output import Reply


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    command(app, "supersede")(supersede)


def supersede(
    options: Options,
    id: Id,
    content: Content,
    type: Annotated[Optional[str], typer.Option("--type", help="Default: that of the old one.")] = None,  # noqa: UP045
    importance: Importance = None,
    confidence: Confidence = None,
    metadata: Metadata = None,
    expected_version: Version = None,
) -> Reply:
    """Write what holds now in the place of a memory.

    The old one is marked superseded and not found any more, unless asked for with --state superseded; history has it.
    What hangs below it moves to the new one.
    """
    text, details = given_text("content", content), given_object("metadata", metadata)
    with options.open() as memory:
        node = memory.supersede(
            id,
            text,
            type=type,
            importance=importance,
            confidence=confidence,
            metadata=details,
            expected_version=expected_version,
        )
        index_if_many(memory)
    return node_reply(node, f"superseded {id} by", created=node.created, superseded=id)
