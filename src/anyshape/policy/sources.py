"""The list of dynamic sources: `config.dynamic_sources`.

    L['x'],L['y']:1,L['self']._parameters\\['w.*'\\]

Names separated by commas (not those in quotes or braces): exact, or a regular expression that fits
the beginning of a name, each with an optional `:dim`. A subscript with a quoted key is meant as it
stands: `L['self']` needs no backslashes, and typographic quotes, which texts about it have, are
quotes. What names nothing is no error: lists are copied from other runs.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_ENTRY = re.compile(r"(?P<name>.*?)(?::(?P<dim>\d+))?", re.DOTALL)


#: `['key']` without a backslash. As a set of characters it would be of no use to anybody.
_SUBSCRIPT = re.compile(r"""(?<!\\)\[('[^']*'|"[^"]*")\]""")


#: Up to the next comma: `L['a, b']`, `L\['w.{1,2}'\]`.
_PART = re.compile(r"""(?:'[^']*'|"[^"]*"|\{[^{}]*\}|[^,])+""")

_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


class DynamicSource(NamedTuple):
    """One entry of the list."""

    #: as it was written
    text: str
    name: str
    #: None for an entry that can only be taken literally
    pattern: re.Pattern[str] | None
    #: None for all dimensions, and for integers
    dim: int | None

    def names(self, source: str, dim: int | None) -> bool:
        if self.dim is not None and self.dim != dim:
            return False
        if source == self.name:
            return True
        return self.pattern is not None and self.pattern.match(source) is not None


@lru_cache(maxsize=64)
def parse_dynamic_sources(text: str) -> tuple[DynamicSource, ...]:
    return tuple(
        _parse_entry(part.strip())
        for part in _PART.findall(text.translate(_QUOTES))
        if part.strip()
    )


def _parse_entry(text: str) -> DynamicSource:
    found = _ENTRY.fullmatch(text)
    assert found is not None, "the pattern takes any text"
    name, dim = found["name"], found["dim"]
    try:
        pattern = re.compile(_SUBSCRIPT.sub(r"\\[\1\\]", name))
    except re.error:
        pattern = None
    return DynamicSource(text, name, pattern, None if dim is None else int(dim))


def names_source(text: str, source: str, dim: int | None = None) -> bool:
    """Whether the list names this dimension of a tensor, or (without `dim`) this integer."""
    return any(entry.names(source, dim) for entry in parse_dynamic_sources(text))
