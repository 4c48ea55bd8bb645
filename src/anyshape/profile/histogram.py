"""How often which size was seen, in at most sixteen numbers.

A size that is new when all places are taken gets the place of the rarest, and its count: so any
size that makes up more than a sixteenth of all calls counted is among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Histogram = Mapping[int, int]

MOST_VALUES: Final = 16


def added(before: Histogram, more: Histogram) -> Histogram:
    """Both counted together: `more` are other calls than `before`."""
    result = dict(before)
    for value, count in more.items():
        if value not in result and len(result) >= MOST_VALUES:
            rarest = min(result, key=lambda each: (result[each], each))
            result[value] = result.pop(rarest)
        result[value] = result.get(value, 0) + count
    return result


def united(a: Histogram, b: Histogram) -> Histogram:
    """Two copies that may have counted the same calls: none is counted twice."""
    result = {value: max(a.get(value, 0), b.get(value, 0)) for value in {*a, *b}}
    return {value: result[value] for value in most_seen(result)[:MOST_VALUES]}


def most_seen(histogram: Histogram) -> tuple[int, ...]:
    """The sizes, the most frequent first."""
    return tuple(sorted(histogram, key=lambda value: (-histogram[value], value)))
