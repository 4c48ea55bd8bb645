"""Code that is kept beside the disk cache: what a package brings, and what it is to take along. And
which version of our own sources runs: code that they made before is not taken for theirs.

A name in a bundle says all that code depends on, as in the cache, but for the place where our own
sources are installed: their contents count.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from anyshape.runtime.loader.disk_cache import key_of
from anyshape.support.lazy_dataclass import dataclass, field

_PACKAGE: Final = Path(__file__).parents[2]


@dataclass(slots=True, eq=False)
class CodeBundle:
    """Code by name. What is `given` becomes machine code of this process: whoever gives it trusts
    it."""

    given: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    #: all that was asked for while the shelf was open
    used: dict[str, bytes] = field(default_factory=dict[str, bytes])


_open: Final[ContextVar[CodeBundle | None]] = ContextVar("shelf", default=None)


def open_bundle() -> CodeBundle | None:
    return _open.get()


@contextmanager
def opened(shelf: CodeBundle) -> Iterator[None]:
    """Look for code on the shelf meanwhile, and put there what is made."""
    token = _open.set(shelf)
    try:
        yield
    finally:
        _open.reset(token)


@functools.cache
def contents_hash(*parts: str) -> str:
    """Of these folders and files of the package: what is in them."""
    digest = hashlib.sha256()
    for part in parts:
        place = _PACKAGE / part
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(str(file.relative_to(_PACKAGE)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@functools.cache
def source_hash(*parts: str) -> str:
    """Of these folders and files of the package: names, sizes and times. An edit changes it, and so
    does an upgrade; a new process does not."""
    lines: list[str] = []
    for part in parts:
        place = os.path.join(_PACKAGE, part)
        if os.path.isdir(place):
            lines += sorted(_in_folder(place, part))
        else:
            lines.append(_line(part, os.stat(place)))
    return key_of(*lines)


def _in_folder(place: str, name: str) -> Iterator[str]:
    """Not by `Path.rglob`, which takes five times as long: this runs in every first call."""
    with os.scandir(place) as entries:
        for entry in entries:
            inner = f"{name}/{entry.name}"
            if entry.name.endswith(".py"):
                yield _line(inner, entry.stat())
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _in_folder(entry.path, inner)


def _line(name: str, found: os.stat_result) -> str:
    return f"{name} {found.st_size} {found.st_mtime_ns}"
