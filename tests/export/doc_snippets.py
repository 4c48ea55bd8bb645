"""Programs in documents, each with what the document shows of its output."""

from __future__ import annotations

import re
from typing import NamedTuple

_BLOCK = re.compile(r"```python ?(\w*)\n(.*?)```(?:\n\n((?:    [^\n]*\n)+))?", re.DOTALL)


class Snippet(NamedTuple):
    """`kind` is the word behind `python`; `shown` is the text that stands below the block."""

    kind: str
    code: str
    shown: str


def snippets_of(document: str) -> list[Snippet]:
    return [
        Snippet(kind, code, re.sub(r"^    ", "", shown, flags=re.MULTILINE).rstrip())
        for kind, code, shown in _BLOCK.findall(document)
    ]
