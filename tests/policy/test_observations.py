"""The lattice of what was seen: merging goes upwards, in any order."""

from __future__ import annotations

import itertools

import pytest

from anyshape.policy.observations import MANY, Observation, Observations, merge, of_int, of_sizes

NOTHING = Observation()

MERGED = [
    (NOTHING, of_int(3), of_int(3)),
    (of_int(3), of_int(3), of_int(3)),
    (of_int(3), of_int(4), Observation(MANY)),
    (Observation(MANY), of_int(4), Observation(MANY)),
    (NOTHING, of_sizes((2, 3)), of_sizes((2, 3))),
    (of_sizes((2, 3)), of_sizes((2, 3)), of_sizes((2, 3))),
    (of_sizes((2, 3)), of_sizes((5, 3)), Observation(sizes=(MANY, 3))),
    (Observation(sizes=(MANY, 3)), of_sizes((2, 4)), Observation(sizes=(MANY, MANY))),
    (of_sizes((2, 3)), of_sizes((2, 3, 1)), Observation(sizes=MANY)),
    (of_sizes(()), of_sizes((1,)), Observation(sizes=MANY)),
    (of_sizes(()), of_sizes(()), of_sizes(())),
    (Observation(sizes=MANY), of_sizes((2,)), Observation(sizes=MANY)),
    (of_int(3), of_sizes((3,)), Observation(MANY, MANY)),
]


@pytest.mark.parametrize(("a", "b", "both"), MERGED)
def test_merge(a: Observation, b: Observation, both: Observation):
    assert merge(a, b) == both
    assert merge(b, a) == both


EVERY = list(dict.fromkeys(part for row in MERGED for part in row))


def test_order_and_repetition_do_not_matter():
    for a, b, c in itertools.product(EVERY, repeat=3):
        assert merge(merge(a, b), c) == merge(a, merge(b, c))
        assert merge(merge(a, b), b) == merge(a, b)


def test_size_of_a_dimension():
    seen = Observation(sizes=(MANY, 3))
    assert [seen.size(dim) for dim in range(3)] == [MANY, 3, None]
    assert Observation(sizes=MANY).size(7) is MANY
    assert of_int(3).size(0) is None


TEXTS = [
    (NOTHING, "nothing"),
    (of_int(3), "scalar 3"),
    (Observation(MANY), "scalar ?"),
    (Observation(sizes=(MANY, 3)), "tensor size=[?, 3]"),
    (of_sizes(()), "tensor size=[]"),
    (Observation(sizes=MANY), "fully dynamic scalar or tensor"),
    (Observation(MANY, MANY), "fully dynamic scalar or tensor"),
]


@pytest.mark.parametrize(("observation", "text"), TEXTS)
def test_text(observation: Observation, text: str):
    assert str(observation) == text


def test_observations_of_a_function():
    seen = Observations()
    seen.add("L['x']", of_sizes((2, 3)))
    seen.add("L['n']", of_int(3))
    seen.add_all({"L['x']": of_sizes((4, 3)), "L['y']": of_sizes((1,))})
    assert dict(seen) == {
        "L['x']": Observation(sizes=(MANY, 3)),
        "L['n']": of_int(3),
        "L['y']": of_sizes((1,)),
    }
    assert len(seen) == 3
    copied = Observations(seen)
    copied.add("L['n']", of_int(4))
    assert seen["L['n']"] == of_int(3)
