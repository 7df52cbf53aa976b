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
    command(app, "feedback")(feedback)


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


def feedback(
    options: Options,
    id: Id,
    helpful: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option("--helpful/--not-helpful", help="Importance goes a tenth of the way to 1, or to 0."),
    ] = None,
    confirmed: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option("--confirmed/--contradicted", help="Half of the doubt goes, or half of the confidence."),
    ] = None,
    importance: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--importance", help="In [0, 1]: from now on this."),
    ] = None,
    confirmed_by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--confirmed-by", metavar="ID", help="The memory that confirms it."),
    ] = None,
    contradicted_by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--contradicted-by", metavar="ID", help="The memory that contradicts it."),
    ] = None,
    note: Annotated[Optional[str], typer.Option("--note", help="Why.")] = None,  # noqa: UP045
) -> Reply:
    """Say what a memory was worth.

    hybridmem history shows every feedback, and what it moved from what to what.
    """
    with options.open() as memory:
        node = memory.feedback(
            id,
            helpful=helpful,
            confirmed=confirmed,
            importance=importance,
            confirmed_by=confirmed_by,
            contradicted_by=contradicted_by,
            note=note,
        )
    return node_reply(node, f"importance {node.importance:.2f}, confidence {node.confidence:.2f}, uses {node.uses}:")
