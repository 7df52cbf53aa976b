"""Summaries of branches behind one small port. The default picks sentences and needs no model; see the registry."""

from hybridmem.summarize.extractive import ExtractiveSummarizer
from hybridmem.summarize.registry import create

__all__ = ["ExtractiveSummarizer", "create"]
