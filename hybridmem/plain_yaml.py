"""YAML as the configuration is written in it: plain values. No tags, no aliases, bounded in size and depth. Pure.

An alias lets a few lines stand for gigabytes, or for a value inside itself; nothing here needs one.
"""

from __future__ import annotations

from typing import Any

import yaml

from hybridmem.errors import InvalidInput

#: Characters of one document.
MAX_CHARACTERS = 1_000_000
#: Lists and objects inside each other.
MAX_NESTING = 32


def read(text: str) -> Any:
    """The value of one YAML document.

    :raises InvalidInput: it is none, too large, too deep, or has an alias; the message says what, without a field.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(f"has {len(text):,} characters, {MAX_CHARACTERS:,} are accepted")
    try:
        _check(text)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(f"is not valid YAML: {error}") from error
    except InvalidInput:
        raise
    except (ValueError, OverflowError) as error:  # what looks like a time or a number and is none
        raise InvalidInput(f"is not valid YAML: {error}") from error


def _check(text: str) -> None:
    """Looks at the pieces of the document in order, before anything recursive does."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidInput("has an alias (*name); write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_NESTING:
            raise InvalidInput(f"is nested more than {MAX_NESTING} levels deep")
