"""What every command accepts: which store, whose memory, which configuration, and ``--json``.

Each option may stand before or after the name of the command (the later one counts), or come from an environment
variable. :func:`command` gives a function of a command all of them; it takes them as one :class:`Options`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_type_hints

import typer

from hybridmem import inputs
from hybridmem.cli.output import Reply
from hybridmem.errors import ConfigError, InvalidInput, NotFound, shown

if TYPE_CHECKING:
    from hybridmem.config import Config
    from hybridmem.memory import Memory

DEFAULT_STORE = "agent-memory"
PREFIX = "HYBRIDMEM_"
VARIABLES = (
    "HYBRIDMEM_STORE", "HYBRIDMEM_NAMESPACE", "HYBRIDMEM_AGENT", "HYBRIDMEM_CONFIG", "HYBRIDMEM_DEBUG", "HYBRIDMEM_KEY",
    "HYBRIDMEM_NEW_KEY",
)  # fmt: skip
#: What a store has inside; without it the directory is not one.
DATABASE = "tree.db"

_PANEL = "Every command"
# Optional[...] because typer reads these at run time, also on Python 3.10 with older releases of typer.
GLOBAL_OPTIONS: dict[str, Any] = {
    "store": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--store",
            metavar="PATH",
            rich_help_panel=_PANEL,
            help=f"The directory of the store (HYBRIDMEM_STORE; default ./{DEFAULT_STORE}).",
        ),
    ],
    "namespace": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--namespace",
            metavar="NAME/NAME",
            rich_help_panel=_PANEL,
            help="Whose memory: names with slashes between, e.g. acme/zhang-san (HYBRIDMEM_NAMESPACE).",
        ),
    ],
    "agent": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--agent",
            metavar="NAME",
            rich_help_panel=_PANEL,
            help="Who writes; each agent has its own active task (HYBRIDMEM_AGENT; default 'default').",
        ),
    ],
    "config": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--config",
            metavar="FILE",
            rich_help_panel=_PANEL,
            help="A YAML file with the keys that differ from the defaults (HYBRIDMEM_CONFIG).",
        ),
    ],
    "settings": Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            rich_help_panel=_PANEL,
            help="One key of the configuration, e.g. --set retrieval.k=5; the value is YAML. Repeatable.",
        ),
    ],
    "as_json": Annotated[
        bool,
        typer.Option("--json", rich_help_panel=_PANEL, help="One JSON document on stdout, also on failure."),
    ],
}
#: Those that take a value; the others are flags.
_VALUED = ("store", "namespace", "agent", "config", "settings")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of every command; None where one was not given."""

    store: str | None = None
    namespace: str | None = None
    agent: str | None = None
    config: str | None = None
    settings: tuple[str, ...] = ()
    as_json: bool = False

    def with_given(self, given: Mapping[str, Any]) -> Options:
        """These options with those given further right on the command line; they win, settings add up."""
        names = ("store", "namespace", "agent", "config")
        values = {name: given[name] for name in names if given.get(name) is not None}
        settings = (*self.settings, *(given.get("settings") or ()))
        return replace(self, **values, settings=settings, as_json=self.as_json or bool(given.get("as_json")))

    @property
    def path(self) -> Path:
        return inputs.path("store", _chosen(self.store, "HYBRIDMEM_STORE", DEFAULT_STORE))

    @property
    def who(self) -> str:
        """The agent that writes."""
        return _chosen(self.agent, "HYBRIDMEM_AGENT", "default")

    @property
    def names(self) -> tuple[str, ...]:
        """The namespace."""
        return tuple(_chosen(self.namespace, "HYBRIDMEM_NAMESPACE", "default").split("/"))

    def configuration(self, **defaults: Any) -> Config:
        """The effective configuration.

        :param defaults: what a command sets by itself, over the file and under ``--set``; ``__`` for the dot of a key.
        :raises ConfigError: a file, key or value is wrong.
        """
        from hybridmem import config as configuration

        overrides = {name.replace("__", "."): value for name, value in defaults.items()}
        for setting in self.settings:
            key, separator, value = setting.partition("=")
            if not separator or not key.strip():
                raise InvalidInput(f"--set: must be KEY=VALUE, e.g. retrieval.k=5, not {shown(setting)}")
            overrides[key.strip()] = _yaml_value(key.strip(), value)
        return configuration.load(_chosen(self.config, "HYBRIDMEM_CONFIG", "") or None, overrides)

    def open(self, *, create: bool = False) -> Memory:
        """Opens the memory for one command: nothing runs behind it, so that short commands stay short.

        :param create: make the store and the namespace if they are not there.
        :raises NotFound: one is not there and ``create`` is False; nothing is made.
        """
        from hybridmem.memory import Memory
        from hybridmem.store.layout import is_store

        settings = self.configuration(index__background=False)
        if not create and not is_store(self.path):
            raise NotFound(
                f"there is no store at {self.path}; name one with --store PATH or HYBRIDMEM_STORE, or create it by "
                f"writing: hybridmem add 'text' --store {self.path}"
            )
        return Memory.open(self.path, namespace=self.names, agent=self.who, config=settings, create=create)


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., Reply]], Callable[..., Reply]]:
    """Registers ``function(options, …)`` as a command; it gets the options of every command besides its own."""

    def register(function: Callable[..., Reply]) -> Callable[..., Reply]:
        @functools.wraps(function)
        def run(ctx: typer.Context, **given: Any) -> Reply:
            options = inherited(ctx).with_given({key: given.pop(key) for key in GLOBAL_OPTIONS})
            check_environment()
            return function(options, **given)

        _take_global_options(run, function, {})
        app.command(name, help=_help(function))(run)
        return function

    return register


def group_options(
    app: typer.Typer, *, help: str, epilog: str | None = None, extra: Mapping[str, Any] | None = None
) -> None:
    """Lets the options of every command stand before the name of a sub-command of ``app`` too.

    :param extra: further options of the group, each a flag that acts by its own callback.
    """

    def remember(ctx: typer.Context, **given: Any) -> None:
        ctx.obj = inherited(ctx).with_given(given)

    _take_global_options(remember, None, extra or {})
    app.callback(help=help, epilog=epilog)(remember)


def inherited(ctx: typer.Context) -> Options:
    """The options given before the name of the command."""
    return ctx.obj if isinstance(ctx.obj, Options) else Options()


def check_environment() -> None:
    """A misspelt variable must not be passed over in silence.

    :raises ConfigError: there is a variable HYBRIDMEM_… that means nothing.
    """
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in VARIABLES:
            near = difflib.get_close_matches(name, VARIABLES, n=1, cutoff=0.0)[0]
            raise ConfigError(
                f"environment: unknown variable {name}; did you mean {near}? Known: {', '.join(VARIABLES)}"
            )


def given_text(field: str, value: str) -> str:
    """The argument itself, or all of stdin for ``-``, byte for byte.

    :raises InvalidInput: stdin is not UTF-8.
    """
    if value != "-":
        return value
    try:
        buffer = getattr(sys.stdin, "buffer", None)
        return str(buffer.read().decode("utf-8")) if buffer is not None else sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{field}: stdin is not valid UTF-8: {error}") from None


def given_object(field: str, value: str | None) -> dict[str, Any] | None:
    """A JSON object from an argument. :raises InvalidInput: it is something else."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{field}: is not JSON ({error}): {shown(value)}") from None
    if not isinstance(found, dict):
        raise InvalidInput(f'{field}: must be a JSON object such as {{"source": "mail"}}, not {shown(value)}')
    return found


def _chosen(given: str | None, variable: str, default: str) -> str:
    """What was given, else the environment variable unless it is empty, else the default."""
    return given if given is not None else (os.environ.get(variable) or default)


def _yaml_value(key: str, value: str) -> Any:
    from hybridmem.config_file import parse_yaml

    return parse_yaml(f"--set {key}", value)


def _help(function: Callable[..., Any]) -> str:
    """The docstring with the lines of a paragraph joined: typer would keep their ends."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _take_global_options(
    run: Callable[..., Any], function: Callable[..., Any] | None, extra: Mapping[str, Any]
) -> None:
    """Gives ``run`` the signature that typer reads: the context, the parameters of ``function``, the global options."""
    own = list(inspect.signature(function).parameters.values())[1:] if function is not None else []
    hints = get_type_hints(function, include_extras=True) if function is not None else {}
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = {**extra, **GLOBAL_OPTIONS}
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        *(item.replace(kind=keyword, annotation=hints[item.name]) for item in own),
        *(
            inspect.Parameter(name, keyword, annotation=shared[name], default=None if name in _VALUED else False)
            for name in shared
        ),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
