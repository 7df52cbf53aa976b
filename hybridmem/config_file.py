"""The YAML of configuration files and of ``--set``: plain values of bounded size, or one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from hybridmem.errors import ConfigError

#: Bytes of one file.
MAX_BYTES = 1_000_000


def read(path: Path) -> dict[str, Any]:
    """The keys and values of a file.

    :raises ConfigError: there is none, it cannot be read, or holds something else.
    """
    try:
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: is larger than {MAX_BYTES:,} bytes; that is no configuration")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such configuration file") from None
    except (OSError, ValueError) as error:  # not UTF-8, or no name of a file
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{str(path)!r}: cannot be read: {error}") from error
    data = parse_yaml(str(path), text)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: must hold keys and values, not a {type(data).__name__}")
    return data


def parse_yaml(name: str, text: str) -> Any:
    """A YAML text as plain values: no tags of Python, no aliases, which can make a short text enormous.

    :raises ConfigError: it is something else; the message begins with ``name``.
    """
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise ConfigError(f"{name}: has an alias (*{event.anchor}); write the value where it belongs")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: is not valid YAML: {error}") from error
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        # What PyYAML makes of scalars that only look like a number or a date, and of deep nesting.
        raise ConfigError(f"{name}: is not a YAML value: {type(error).__name__}: {error}") from error
