"""Views of dictionaries from outside whose values are dynamic numbers.

Python's own views would show the plain numbers. These go through the dictionary as a program would,
so that every step is watched, and they follow the dictionary also when the capture has ended.
"""

from __future__ import annotations

from collections.abc import ItemsView, ValuesView
from typing import Any, Final


class FollowingValues(ValuesView[Any]):
    """`values()`."""

    # A private slot: such an object is not made again from its parts, as its class is ours.
    __slots__ = ("__unused",)


class FollowingItems(ItemsView[Any, Any]):
    """`items()`."""

    __slots__ = ("__unused",)


FOLLOWING: Final[dict[str, Any]] = {"values": FollowingValues, "items": FollowingItems}

_OWN: Final[dict[type, str]] = {FollowingValues: "values", FollowingItems: "items"}


def own_view(view: Any) -> object:
    """Python's view for one of ours; None for anything else."""
    name = _OWN.get(type(view))
    return None if name is None else getattr(view._mapping, name)()
