"""Embedding models behind one small port. Importing this loads none of them; each is imported by exactly one file."""

from hybridmem.embed.probe import Probe, probe, same_model
from hybridmem.embed.registry import create, create_from_identity, create_reranker
from hybridmem.embed.vectors import Checked, checked

__all__ = ["Checked", "Probe", "checked", "create", "create_from_identity", "create_reranker", "probe", "same_model"]
