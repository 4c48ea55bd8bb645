"""Observations as JSON: what a rank writes into the store, and reads from it.

    {"L['n']": [3, null], "L['x']": [null, [8, "?"]]}

The pair is the integer and the sizes; "?" is "many", null is "unset".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anyshape.policy.observations import MANY, Observation, Seen


class Damaged(ValueError):
    """The text is not what another rank of this version writes."""


def as_json(seen: Mapping[str, Observation]) -> dict[str, Any]:
    return {source: [_plain(o.integer), _plain_sizes(o)] for source, o in seen.items()}


def _plain(seen: Seen | None) -> int | str | None:
    return "?" if seen is MANY else seen


def _plain_sizes(observation: Observation) -> list[int | str | None] | str | None:
    sizes = observation.sizes
    return [_plain(size) for size in sizes] if isinstance(sizes, tuple) else _plain(sizes)  # pyright: ignore[reportReturnType] sizes is no int


def from_json(value: Any) -> dict[str, Observation]:
    if not isinstance(value, dict):
        raise Damaged(f"{type(value).__name__} where observations were expected")
    return {str(source): _observation(pair) for source, pair in value.items()}


def _observation(pair: Any) -> Observation:
    if not isinstance(pair, list) or len(pair) != 2:
        raise Damaged(f"{pair!r} where an observation was expected")
    integer, sizes = pair
    if isinstance(sizes, list):
        known = tuple(_seen(size) for size in sizes)
        if None in known:
            raise Damaged(f"an unset size in {sizes!r}")
        return Observation(_seen(integer), known)  # pyright: ignore[reportArgumentType] none is None
    if isinstance(sizes, int):
        raise Damaged(f"{sizes!r} where sizes were expected")
    return Observation(_seen(integer), _seen(sizes))  # pyright: ignore[reportArgumentType] no int


def _seen(value: Any) -> Seen | None:
    if value == "?":
        return MANY
    if value is None or type(value) is int:
        return value
    raise Damaged(f"{value!r} where a number was expected")


def dumps(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def loads(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Damaged(str(error)) from error
    if not isinstance(value, dict):
        raise Damaged(f"{type(value).__name__} where an object was expected")
    return value
