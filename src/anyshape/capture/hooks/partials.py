"""Arguments of partials, with the places that Python 3.14 lets them leave open."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

#: Stands for an argument that the call fills in.
_PLACE: Final = getattr(functools, "Placeholder", None)


def filled(given: Sequence[object], args: tuple[object, ...]) -> tuple[object, ...]:
    """The arguments of the function behind a partial."""
    places = 0 if _PLACE is None else sum(each is _PLACE for each in given)
    if len(args) < places:
        raise TypeError(
            "missing positional arguments in 'partial' call;"
            f" expected at least {places}, got {len(args)}"
        )
    fill = iter(args[:places])
    first = (next(fill) if _PLACE is not None and each is _PLACE else each for each in given)
    return (*first, *args[places:])
