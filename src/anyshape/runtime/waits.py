"""Who is told of the seconds that runs wait for native code: the function that it is made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Told = Callable[[float], None]

_told: Final[ContextVar[Told | None]] = ContextVar("waits", default=None)


def told_of_waits() -> Told | None:
    return _told.get()


@contextmanager
def telling_waits(told: Told) -> Iterator[None]:
    """For what is built meanwhile."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)
