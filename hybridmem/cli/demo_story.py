"""Who acts in the demo, and in which languages."""

from __future__ import annotations

from hybridmem.cli.demo_en import EN
from hybridmem.cli.demo_types import Story
from hybridmem.cli.demo_zh import ZH

NAMESPACE = ("acme", "zhang-san")
AGENT = "claims-bot"
STORIES: dict[str, Story] = {"zh": ZH, "en": EN}
