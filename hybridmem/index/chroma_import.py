"""Imports chromadb such that nothing around the program can redirect it or make it fail.

``import chromadb`` takes 1.2 s and reads ``.env`` of the current directory and a good many environment variables
(measured with chromadb 1.5.9). So it is imported at first use, and sees neither.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import threading
from types import ModuleType
from typing import Any

from hybridmem.errors import IndexUnavailable

_settings_class: Any = None


def settings(**given: Any) -> Any:
    """Chroma's Settings with these values, and the defaults for all others.

    :raises IndexUnavailable: chromadb cannot be imported.
    """
    global _settings_class
    chromadb = import_chromadb()
    if _settings_class is None:
        _settings_class = _isolated(chromadb.config.Settings)
    return _settings_class(_env_file=None, anonymized_telemetry=False, **given)


def _isolated(settings: Any) -> Any:
    """Chroma's Settings, reading neither ``.env`` nor the environment: only what is passed in, and the defaults."""
    return type(
        "Settings", (settings,), {"settings_customise_sources": classmethod(_only_arguments), "__module__": __name__}
    )


def _only_arguments(cls: Any, settings_cls: Any, init_settings: Any, *others: Any, **more: Any) -> tuple[Any, ...]:
    return (init_settings,)


def import_chromadb() -> ModuleType:
    """Imports chromadb such that the Settings it builds while it is imported are isolated too.

    :raises IndexUnavailable: it is not installed, or its import fails. While the interpreter is being taken down,
        what the import raises comes through as it is: then nothing is wrong with Chroma.
    """
    if sys.modules.get("chromadb") is not None:
        return importlib.import_module("chromadb")
    hook = _SettingsHook()
    try:
        sys.meta_path.insert(0, hook)
        return importlib.import_module("chromadb")
    except ModuleNotFoundError as error:
        raise IndexUnavailable(f"Chroma cannot be imported: {error}; run: pip install 'chromadb>=1.5.9,<2'") from error
    except Exception as error:
        if not threading.main_thread().is_alive():
            raise
        raise IndexUnavailable(f"Chroma cannot be imported: {error!r}") from error
    finally:
        if hook in sys.meta_path:
            sys.meta_path.remove(hook)
        hook.restore()


class _SettingsHook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Isolates ``chromadb.config.Settings`` right after its module ran, and lets go of it after the import.

    A program that uses chromadb itself thus gets its own ``.env`` back; only the import is not at its mercy.
    """

    def __init__(self) -> None:
        self._real: Any = None
        self._settings: Any = None
        self._env_file: Any = None

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != "chromadb.config":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            self._real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        self._settings = module.Settings
        # Both are needed: the file is read before anybody asks which sources count.
        self._env_file = self._settings.model_config.get("env_file")
        self._settings.model_config["env_file"] = None
        self._settings.settings_customise_sources = classmethod(_only_arguments)

    def restore(self) -> None:
        if self._settings is not None:
            self._settings.model_config["env_file"] = self._env_file
            del self._settings.settings_customise_sources


def version() -> str:
    """Which chromadb is installed, without importing it; '' if none is."""
    try:
        return importlib.metadata.version("chromadb")
    except importlib.metadata.PackageNotFoundError:
        return ""
