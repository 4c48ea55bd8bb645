"""Notes on errors: of what they are, for whoever reads only their text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noting(where: str) -> Iterator[None]:
    """An error that is no word of the package's own gets the note where it was raised."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("anyshape."):
            error.add_note(where)
        raise


def with_notes(error: BaseException) -> str:
    """The error and its notes, in one line."""
    return " ".join([repr(error), *getattr(error, "__notes__", ())])
