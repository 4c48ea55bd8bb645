"""The corpus as rows: dictionaries, as they lie in `questions.jsonl`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Row = dict[str, Any]

OUT = Path(__file__).parents[1] / "questions.jsonl"


def corpus() -> list[Row]:
    return [json.loads(line) for line in OUT.read_text().splitlines()]


def symbols_in(*texts: str) -> list[str]:
    return list(dict.fromkeys(name for text in texts for name in re.findall(r"\b[su]\d+\b", text)))
