"""Code that is kept beside the disk cache: what a package brings, and what it is to take along.

A name on a shelf says all that code depends on, as in the cache, but for the place where our own
sources are installed: their contents count.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

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
