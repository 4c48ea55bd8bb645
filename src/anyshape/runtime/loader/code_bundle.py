"""Code that is kept beside the disk cache: what a package brings, and what it is to take along."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from anyshape.support.lazy_dataclass import dataclass, field


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
