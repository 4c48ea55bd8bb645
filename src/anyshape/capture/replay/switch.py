"""Whether captures replay: for tests that compare the two ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Switch:
    """On, but for tests."""

    def __init__(self) -> None:
        self.on = True
        #: how many calls were replayed, since the process began
        self.replayed = 0

    @contextmanager
    def off(self) -> Iterator[None]:
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before


switch = Switch()
