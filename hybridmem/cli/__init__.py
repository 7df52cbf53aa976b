"""The command line of hybridmem: each command parses, calls one method of Memory, and prints."""

from hybridmem.cli.app import main

__all__ = ["main"]
