"""The comments that describe the fields of a class, as text for people.

    # -- recompiling ----
    #: after so many entries a function runs eagerly
    recompile_limit: int = 64

They are read from the source when somebody asks for help, so that nothing is written twice.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_GROUP: Final = re.compile(r"# -- (.+?) -*$")
_FIELD: Final = re.compile(r"(\w+): ")


class FieldComment(NamedTuple):
    name: str
    #: what the comment says, as sentences; empty if there is none
    text: str
    #: the heading above
    group: str


def field_comments(owner: type) -> Iterator[FieldComment]:
    """Of the fields of a class, in their order; nothing where its source is not at hand."""
    try:
        lines = inspect.getsource(owner).splitlines()
    except (OSError, TypeError):
        return
    group, said = "", list[str]()
    for line in map(str.strip, lines):
        if line.startswith("#:"):
            said.append(line.removeprefix("#:").strip())
        elif found := _GROUP.match(line):
            group = found[1]
        elif found := _FIELD.match(line):
            yield FieldComment(found[1], _sentences(" ".join(said)), group)
            said.clear()
        elif line.startswith("def "):
            return


def _sentences(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
