"""A tiny data set in the shape of the public LoCoMo file, written by the tests: Chinese, English and mixed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

ENGLISH = [
    "I adopted a grey cat called Pepper last week.",
    "How lovely, I have been painting the harbour again.",
    "My sister moved to Lisbon for a new job.",
    "The marathon training is going badly, my knee hurts.",
    "We should book the cabin by the lake in autumn.",
    "I baked sourdough bread for the first time.",
    "My laptop broke and I lost the thesis draft.",
    "The violin concert on Sunday was wonderful.",
]
CHINESE = [
    "财务退回了报销单，原因是发票信息不清晰。",
    "用户张三在研发部工作，喜欢短信通知。",
    "数据库要迁移到 PostgreSQL 15，停机窗口是周六凌晨。",
    "客户投诉物流延迟，要求退款。",
    "下周二和李经理开会讨论预算。",
    "我上个月开始学习小提琴。",
    "妹妹搬到杭州去了，在那里教书。",
    "周末我们去湖边露营，下了大雨。",
]


def _turns(session: int, speakers: tuple[str, str], texts: list[str]) -> list[dict[str, str]]:
    return [
        {"speaker": speakers[place % 2], "dia_id": f"D{session}:{place + 1}", "text": text, "blip_caption": "a photo"}
        for place, text in enumerate(texts)
    ]


@pytest.fixture
def sample() -> list[dict[str, Any]]:
    """Two conversations of two sessions with eight turns each; among the evidence every way LoCoMo's is broken."""
    english = {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        # Sessions are numbered, not ordered: 10 comes before 2 in the file. A date without a session happens too.
        "session_10_date_time": "12:05 am on 3 June, 2023",
        "session_10": _turns(10, ("Ann", "Bob"), [f"Later, {text}" for text in ENGLISH]),
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": _turns(2, ("Ann", "Bob"), ENGLISH),
        "session_11_date_time": "1:00 pm on 9 June, 2023",
    }
    chinese = {
        "speaker_a": "小王",
        "speaker_b": "小李",
        "session_1_date_time": "9:00 am on 1 March, 2024",
        "session_1": _turns(1, ("小王", "小李"), CHINESE),
        "session_2_date_time": "9:00 am on 2 March, 2024",
        "session_2": _turns(2, ("小王", "小李"), [f"mixed 混合: {text}" for text in ENGLISH]),
    }
    return [
        {
            "sample_id": "conv-en",
            "conversation": english,
            "qa": [
                {"question": "What is the cat called?", "evidence": ["D2:1"], "category": 4, "answer": "Pepper"},
                {"question": "Where did her sister move?", "evidence": ["D2:3; D10:3"], "category": 1},
                {"question": "What did they bake and break?", "evidence": ["D2:6 D:10:7", "D2:06"], "category": 2},
                {"question": "What does nobody know?", "evidence": ["D"], "category": 3},
                {"question": "What was never said?", "evidence": ["D77:1"], "category": 3},
                {"question": "What is the cat called?", "evidence": ["D2:1"], "category": 4},
                {"question": "An adversarial one?", "evidence": ["D2:2"], "category": 5},
            ],
        },
        {
            "sample_id": "conv-zh",
            "conversation": chinese,
            "qa": [
                {"question": "发票为什么被退回？", "evidence": ["D1:1"], "category": 4},
                {"question": "什么时候停机", "evidence": ["D1:3"], "category": 2},
                {"question": "谁在 Lisbon 工作？", "evidence": ["D2:3", "D1:7"], "category": 1},
            ],
        },
    ]


@pytest.fixture
def data_folder(tmp_path: Path, sample: list[dict[str, Any]]) -> Path:
    """A folder that holds the sample as ``locomo10.json.gz``."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "locomo10.json.gz").write_bytes(gzip.compress(json.dumps(sample).encode()))
    return folder


@pytest.fixture
def experiment_file(tmp_path: Path) -> Path:
    """Four systems with the hashing embedder, and cut-offs below the sample's 16 turns."""
    file = tmp_path / "tiny.yaml"
    file.write_text(
        "name: tiny\ndatasets: locomo\nsystems: [hybridmem, chroma, bm25, newest]\nks: [1, 5, 10]\nbudgets: [60, 120]\n"
        "seeds: 7\nmemory:\n  embedding: {provider: hashing}\n  index: {background: false}\n",
        encoding="utf-8",
    )
    return file
