"""Two records of one function, and what the policy and the hints take from them."""

from __future__ import annotations

from anyshape.policy.observations import MANY, Observation, of_int, of_sizes
from anyshape.profile.histogram import added, united
from anyshape.profile.records import (
    MOST_SOURCES,
    NOTHING,
    FunctionRecord,
    combine,
    is_worth_keeping,
)
from tests.profile.samples import TWO_SIZES, function


def test_what_was_seen():
    assert TWO_SIZES.seen("L['x']") == Observation(sizes=(MANY, 4), strides=(4, 1))
    assert TWO_SIZES.seen("L['n']") == of_int(3)
    assert TWO_SIZES.seen("L['y']") is None
    assert NOTHING.seen("L['x']") is None


def test_typical_sizes():
    again = combine(TWO_SIZES, function([{"L['x']": of_sizes((20, 4))}]), added)
    assert again.typical("L['x'].size()[0]") == (20, 10)
    assert again.typical("L['x'].size()[7]") == ()
    assert again.typical("L['n']") == (3,)
    assert again.typical("L['y']") == ()


def test_a_copy_of_a_record_adds_nothing_to_it():
    assert combine(TWO_SIZES, TWO_SIZES, united) == TWO_SIZES


def test_the_later_one_knows_the_place():
    old = FunctionRecord("f", "old.py", 1, used=10, written=frozenset({"L['a']"}))
    new = FunctionRecord("f", "new.py", 2, used=11, written=frozenset({"L['b']"}))
    for both in (combine(old, new, added), combine(new, old, added)):
        assert (both.file, both.line, both.used) == ("new.py", 2, 11)
        assert both.written == {"L['a']", "L['b']"}


def test_sources_that_change_are_kept_before_others():
    many = function([{f"L['x{i}']": of_int(0) for i in range(MOST_SOURCES)}])
    changing = function([{"L['n']": of_int(0)}, {"L['n']": of_int(1)}])
    both = combine(many, changing, added)
    assert len(both.sources) == MOST_SOURCES
    assert both.seen("L['n']") == Observation(integer=MANY)


def test_names_that_another_process_cannot_have():
    assert is_worth_keeping("L['x']")
    assert not is_worth_keeping("L['d'][<object at 0x7f00>]")
    assert not is_worth_keeping(f"L['{'x' * 1000}']")
