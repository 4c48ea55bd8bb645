"""Range arithmetic holds every value, and no more where that is possible."""

from __future__ import annotations

import operator
from itertools import product

import pytest

from anyshape.symbolic import ranges
from anyshape.symbolic.ranges import Range

_ENDS = (None, -3, -1, 0, 1, 2, 4)
RANGES = [
    Range(low, high)
    for low in _ENDS
    for high in _ENDS
    if low is None or high is None or low <= high
]


def members(r: Range) -> range:
    return range(-9 if r.lower is None else r.lower, 10 if r.upper is None else r.upper + 1)


@pytest.mark.parametrize(
    ("of_ranges", "of_integers"),
    [
        (ranges.add, operator.add),
        (ranges.multiply, operator.mul),
        (ranges.floordiv, operator.floordiv),
        (ranges.modulo, operator.mod),
        (ranges.minimum, min),
        (ranges.maximum, max),
    ],
)
def test_every_value_is_in_the_range(of_ranges, of_integers):
    for a, b in product(RANGES, RANGES):
        found = of_ranges(a, b)
        for x, y in product(members(a), members(b)):
            if y or of_integers not in (operator.floordiv, operator.mod):
                assert found.contains(of_integers(x, y)), (a, b, x, y, found)


@pytest.mark.parametrize(
    ("of_ranges", "of_integers"),
    [
        (ranges.add, operator.add),
        (ranges.multiply, operator.mul),
        (ranges.minimum, min),
        (ranges.maximum, max),
    ],
)
def test_bounded_ranges_are_exact(of_ranges, of_integers):
    for a, b in product(RANGES, RANGES):
        if None in (*a, *b):
            continue
        values = [of_integers(x, y) for x, y in product(members(a), members(b))]
        assert of_ranges(a, b) == Range(min(values), max(values))


@pytest.mark.parametrize("exponent", [1, 2, 3, 4])
def test_powers(exponent):
    for a in RANGES:
        found = ranges.power(a, exponent)
        assert all(found.contains(x**exponent) for x in members(a)), (a, found)


@pytest.mark.parametrize("factor", [-3, -1, 0, 1, 5])
def test_multiples(factor):
    for a in RANGES:
        found = ranges.scale(a, factor)
        assert all(found.contains(x * factor) for x in members(a)), (a, found)


def test_infinities_are_exact_beyond_floats():
    huge = 10**400
    assert ranges.add(Range(huge, None), Range(1, None)) == Range(huge + 1, None)
    assert ranges.multiply(Range(huge, huge), Range(None, -1)) == Range(None, -huge)


def test_intersection_may_be_empty():
    assert ranges.is_empty(ranges.intersect(Range(3, None), Range(None, 2)))
    assert ranges.intersect(Range(3, None), Range(None, 3)) == Range(3, 3)


def test_text():
    assert str(Range(0, None)) == "[0, int_oo]"
    assert str(Range(None, 7)) == "[-int_oo, 7]"
