"""The names of ``consolidation.summarizer`` and what each makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hybridmem.config import ConsolidationConfig
from hybridmem.ports import Summarizer
from hybridmem.summarize.extractive import ExtractiveSummarizer
from hybridmem.summarize.openai import ChatSummarizer

SUMMARIZERS: Mapping[str, Callable[[ConsolidationConfig], Summarizer]] = {
    "extractive": lambda config: ExtractiveSummarizer(),
    "openai": ChatSummarizer.from_config,
}


def create(config: ConsolidationConfig) -> Summarizer:
    """Makes the summariser that the configuration names; nothing is loaded or asked before it is used."""
    return SUMMARIZERS[config.summarizer](config)
