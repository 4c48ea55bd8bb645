"""Profiles as JSON: read back as written, bounded, and safe to read whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anyshape.policy.observations import of_int, of_sizes
from anyshape.profile import profiles
from anyshape.profile.histogram import added
from anyshape.profile.profiles import Damaged, Profile, TooNew, from_json
from tests.profile.samples import TWO_SIZES, function, profile

_FIRST = {
    "L['x']": of_sizes((1, 2), (2, 1)),
    "L['n']": of_int(-3),
    "L['y']": of_sizes(()),
    "G['z']": of_int(1),
}
_SECOND = {
    "L['x']": of_sizes((5, 2)),
    "L['n']": of_int(2**62),
    "L['y']": of_sizes((1,)),
    "G['z']": of_sizes((1,)),
}
ALL_FORMS = function(
    [_FIRST, _SECOND],
    "Tëst.<locals>.f",
    written=frozenset({"L['self'].calls"}),
    of_modules=frozenset({"L['x']"}),
)


def test_it_is_read_as_it_was_written():
    before = profile(a=TWO_SIZES, b=ALL_FORMS)
    after = from_json(before.to_json())
    assert dict(after) == dict(before) == {"a": TWO_SIZES, "b": ALL_FORMS}
    assert after.to_json() == before.to_json()


DAMAGED = [
    "",
    "{",
    "null",
    "[]",
    "{}",
    '{"anyshape_profile": 1}',
    '{"anyshape_profile": 1, "functions": []}',
    '{"anyshape_profile": "1", "functions": {}}',
    '{"anyshape_profile": 0, "functions": {}}',
    profile(a=TWO_SIZES).to_json()[:-20],
    "[" * 100_000,
    "1" * 10_000,
    "\x00" * 50,
]


@pytest.mark.parametrize("text", DAMAGED)
def test_what_is_no_profile(text: str):
    with pytest.raises(Damaged):
        from_json(text)
    with pytest.raises(Damaged):
        from_json(text.encode())
    with pytest.raises(Damaged):
        from_json(b"\xff\xfe" + text.encode())


def test_what_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiles, "MOST_BYTES_READ", 100)
    with pytest.raises(Damaged, match="too many"):
        from_json(profile(a=TWO_SIZES).to_json())


def test_a_later_version_is_not_damaged():
    with pytest.raises(TooNew, match="version 2"):
        from_json('{"anyshape_profile": 2, "anything": []}')


BAD_VALUES = [None, 1, "text", [], {}, {"a": 1}, True, 1.5, 2**70]


def _places(raw: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    )
    return [at, *(place for key, value in inner for place in _places(value, (*at, key)))]


def test_a_bad_function_leaves_the_others_alone():
    """Any value of a function, replaced by any other kind."""
    text = profile(good=TWO_SIZES, bad=ALL_FORMS).to_json()
    for place in _places(json.loads(text)["functions"]["bad"]):
        for value in BAD_VALUES:
            raw = json.loads(text)
            holder: Any = raw["functions"]
            *path, last = ("bad", *place)
            for step in path:
                holder = holder[step]
            holder[last] = value
            found = from_json(json.dumps(raw))
            assert found["good"] == TWO_SIZES
            # It is decoded or unknown, and can be written over.
            assert found.get("bad") is None or "bad" in list(found)
            repaired = from_json(found.with_records({"bad": TWO_SIZES}, added).to_json())
            assert repaired["bad"].seen("L['n']") is not None


def test_what_was_not_used_for_long_goes_first(monkeypatch: pytest.MonkeyPatch):
    functions = {f"f{i}": function([{"L['x']": of_int(i)}], used=i) for i in range(100)}
    whole = Profile().with_records(functions, added)
    monkeypatch.setattr(profiles, "MOST_BYTES", len(whole.to_json()) // 2)
    kept = from_json(whole.to_json())
    assert 30 <= len(kept) <= 50
    assert set(kept) == {f"f{i}" for i in range(100 - len(kept), 100)}


def test_uniting_is_the_same_in_any_order_and_repeatable():
    a, b = profile(f=TWO_SIZES, g=ALL_FORMS), profile(f=function([{"L['x']": of_sizes((7, 4))}]))
    both = a.united(b)
    assert dict(both) == dict(b.united(a)) == dict(both.united(a)) == dict(both.united(both))
    assert set(both) == {"f", "g"}
    assert both["f"].typical("L['x'].size()[0]") == (7, 10, 20)
