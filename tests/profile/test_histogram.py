"""Sizes are counted in few numbers, and frequent ones are never lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anyshape.profile.histogram import MOST_VALUES, Histogram, added, most_seen, united

SIZES = st.lists(st.integers(0, 40), max_size=80)
HISTOGRAMS = st.dictionaries(st.integers(0, 20), st.integers(1, 9), max_size=MOST_VALUES // 2)


def counted(sizes: list[int]) -> Histogram:
    result: Histogram = {}
    for size in sizes:
        result = added(result, {size: 1})
    return result


@given(SIZES)
def test_it_stays_small_counts_all_and_keeps_what_is_frequent(sizes: list[int]):
    found = counted(sizes)
    assert len(found) <= MOST_VALUES
    assert sum(found.values()) == len(sizes)
    frequent = {size for size in sizes if sizes.count(size) * MOST_VALUES > len(sizes)}
    assert frequent <= set(found)


@given(HISTOGRAMS, HISTOGRAMS)
def test_uniting_counts_nothing_twice(a: Histogram, b: Histogram):
    both = united(a, b)
    assert both == united(b, a) == united(both, a) == united(both, both)
    assert all(both[value] >= count for value, count in a.items())


def test_the_most_frequent_comes_first():
    assert most_seen({8: 1, 64: 5, 16: 5}) == (16, 64, 8)
