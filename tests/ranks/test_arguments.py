"""What is seen of a call before it is captured has the names that the capture has for it."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import anyshape
from anyshape.policy.observations import Observation, of_int, of_sizes
from anyshape.ranks.arguments import seen_in

Pair = namedtuple("Pair", "left right")


@dataclass
class Batch:
    x: Any
    n: Any = 1


def t(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes)


SEEN: list[tuple[Any, dict[str, Observation]]] = [
    (t(2, 3), {"": of_sizes((2, 3))}),
    (t(), {"": of_sizes(())}),
    (7, {"": of_int(7)}),
    (True, {}),
    (1.5, {}),
    (None, {}),
    ([t(2), 4], {"[0]": of_sizes((2,)), "[1]": of_int(4)}),
    (Pair(t(2), (t(3),)), {"[0]": of_sizes((2,)), "[1][0]": of_sizes((3,))}),
    ({"a": t(2), 5: 6, (1,): 7}, {"['a']": of_sizes((2,)), "[5]": of_int(6)}),
    (Batch([t(2)], 3), {".x[0]": of_sizes((2,)), ".n": of_int(3)}),
    (Batch, {}),
    (torch.nn.Linear(2, 2), {}),
]


@pytest.mark.parametrize(("value", "expected"), SEEN)
def test_what_is_seen(value: Any, expected: dict[str, Observation]):
    found = seen_in({"v": value})
    assert found == {f"L['v']{rest}": observation for rest, observation in expected.items()}


def test_what_holds_itself():
    ring: list[Any] = [1]
    ring.append(ring)
    assert seen_in({"v": ring}) == {"L['v'][0]": of_int(1)}


def test_a_large_argument_is_left_off():
    assert len(seen_in({"v": list(range(100_000))})) < 20_000


def first(x):
    return x + 1


def starred(*args, **kwargs):
    return args[0] + kwargs["b"].sum() * args[1]


def nested(v):
    return v["a"][0] * v["n"] + v["b"].x


CALLS = [
    (first, (t(2),), {}),
    (starred, (t(2), 3), {"b": t(4)}),
    (nested, ({"a": [t(3)], "n": 5, "b": Batch(t(3))},), {}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS)
def test_names_are_those_of_the_capture(function: Any, args: Any, kwargs: Any):
    compiled: Any = anyshape.compile(function)
    compiled(*args, **kwargs)
    state = compiled._function
    bound = state.target.signature.bind(*args, **kwargs)
    before = seen_in(bound.arguments)
    # Ranks do not tell each other strides.
    seen = {name: replace(each, strides=None) for name, each in dict(state.seen).items()}
    assert seen.items() <= before.items()
    assert state.seen
