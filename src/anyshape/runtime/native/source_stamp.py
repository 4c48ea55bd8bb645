"""Which version of our own sources runs: code that they made before is not taken for theirs."""

from __future__ import annotations

import functools
from pathlib import Path

from anyshape.runtime.native.disk_cache import key_of

_PACKAGE = Path(__file__).parents[2]


@functools.cache
def source_stamp(*parts: str) -> str:
    """Of these folders and files of the package: names, sizes and times. An edit changes it, and so
    does an upgrade; a new process does not."""
    lines: list[str] = []
    for part in parts:
        place = _PACKAGE / part
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            found = file.stat()
            lines.append(f"{file.relative_to(_PACKAGE)} {found.st_size} {found.st_mtime_ns}")
    return key_of(*lines)
