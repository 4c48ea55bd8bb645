"""Observations survive the way through the store; what no rank writes is refused."""

from __future__ import annotations

import pytest

from anyshape.policy.observations import MANY, Observation, of_int, of_sizes
from anyshape.ranks.wire import Damaged, as_json, dumps, from_json, loads

OBSERVATIONS = [
    Observation(),
    of_int(-3),
    Observation(MANY),
    of_sizes(()),
    of_sizes((8, 0)),
    Observation(sizes=(8, MANY)),
    Observation(sizes=MANY),
    Observation(MANY, MANY),
]


@pytest.mark.parametrize("observation", OBSERVATIONS, ids=str)
def test_there_and_back(observation: Observation):
    seen = {"L['x'][\"\u00fc\"]": observation}
    assert from_json(loads(dumps(as_json(seen)).encode())) == seen


DAMAGED = [
    b"",
    b"{",
    b"\xff",
    b"[]",
    b'{"x": 3}',
    b'{"x": [3]}',
    b'{"x": [null, 3]}',
    b'{"x": [true, null]}',
    b'{"x": [null, [1.5]]}',
    b'{"x": [null, [null]]}',
    b'{"x": ["8", null]}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged(text: bytes):
    with pytest.raises(Damaged):
        from_json(loads(text))
