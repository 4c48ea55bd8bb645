"""Which temporaries share memory, and that those alive at once never do."""

from __future__ import annotations

import random

import pytest

from anyshape.loops.expr import Axis, Dtype, constant, load, operation
from anyshape.loops.kernels import Kernel, Store
from anyshape.loops.memory_plan import Life, bytes_of, in_place, merged, plan_memory
from anyshape.loops.program import Buffer, Launch
from anyshape.loops.stages import kernel_of
from anyshape.symbolic import Range, Size, as_symbol, evaluate, maximum, symbol

S0, S1 = symbol("s0"), symbol("s1")
S2 = symbol("s2", Range(2, None))


VALUES = ((0, 0, 2), (1, 5, 3), (7, 2, 100), (1000, 1, 2), (64, 64, 64))


def laid(lives: list[Life], values: tuple[int, ...] = VALUES[-1]) -> dict[str, tuple[int, int]]:
    """Where each begins and ends for these sizes."""
    plan = plan_memory(lives)
    known = dict(zip(map(as_symbol, (S0, S1, S2)), values, strict=True))
    places: dict[str, tuple[int, int]] = {}
    for name, size in plan.sizes.items():
        start = max((places[other][1] for other in plan.below[name]), default=0)
        places[name] = start, start + evaluate(size, known)
    return places


def highest(*lives: tuple[Size, int, int]) -> int:
    """The bytes of the workspace at usual sizes."""
    named = [Life(f"b{k}", *life) for k, life in enumerate(lives)]
    check(named)
    return max(end for _, end in laid(named).values())


def check(lives: list[Life]) -> None:
    for values in VALUES:
        places = laid(lives, values)
        assert places.keys() == {life.name for life in lives}
        for a in lives:
            for b in lives:
                if a is b or a.last < b.first or b.last < a.first:
                    continue
                (begin, end), (other, last) = places[a.name], places[b.name]
                assert end <= other or last <= begin, (values, a, b)


def test_equal_sizes_take_turns():
    assert highest((4 * S0, 0, 1), (4 * S0, 1, 2), (4 * S0, 2, 3)) == 2 * 256


def test_same_step_is_not_shared():
    assert highest((S0, 0, 1), (S0, 1, 1)) == 128


def test_unrelated_sizes_share():
    assert highest((S0, 0, 0), (S1, 1, 1)) == 64


def test_several_small_ones_share_with_a_large_one():
    small = [(S0, 1, 1)] * 4
    assert highest((4 * S0, 0, 0), *small, (4 * S0, 2, 2)) == 256


def test_long_lives_do_not_stand_in_the_way():
    steps = [(4 * S0, k, k + 1) for k in range(10)]
    assert highest((S0, 0, 10), *steps) == 64 + 2 * 256


def test_only_those_directly_below_count():
    lives = [Life(f"b{k}", 4 - k, 0, 1) for k in range(4)]
    assert list(plan_memory(lives).below.values()) == [(), ("b0",), ("b1",), ("b2",)]


def test_random_plans_are_right():
    chance = random.Random(7)
    sizes = [S0, 4 * S0, S0 * S1, S1, 4 * S1 + 4, S0 * S2, 0, 64, 4096, maximum(S0, S1)]
    for _ in range(200):
        lives = []
        for k in range(chance.randrange(1, 12)):
            first = chance.randrange(10)
            life = Life(f"b{k}", chance.choice(sizes), first, first + chance.randrange(4))
            lives.append(life)
        check(lives)


def test_bytes():
    def of(sizes: tuple[Size, ...], strides: tuple[Size, ...], dtype: Dtype = "f32") -> Size:
        return bytes_of(Buffer("b", dtype, sizes, strides, "temporary"))

    assert of((S0, S1), (S1, 1)) == 4 * S0 * S1
    assert of((S0, S1), (1, S0)) == 4 * S0 * S1
    assert of((), (), "i64") == 8
    assert of((S0, 1, 3), (3, 999, 1), "b1") == 3 * S0
    padded = of((S0, S1), (S1 + 8, 1))
    for a, b in ((1, 1), (5, 7), (0, 3), (4, 0)):
        got = evaluate(padded, {as_symbol(S0): a, as_symbol(S1): b})
        assert got >= (4 * ((a - 1) * (b + 8) + b) if a and b else 0)


AT = symbol("i0")


def over_elements(stores: list[Store]) -> Kernel:
    return kernel_of([Axis(as_symbol(AT), symbol("n0"))], stores)


X, FIRST = load("k0", AT, "f32"), load("k0", 0, "f32")
IN_PLACE = {
    "element by element": ([Store("k1", AT, X)], True),
    "shifted": ([Store("k1", AT, load("k0", AT + 1, "f32"))], False),
    "two elements": (
        [Store("k1", AT, operation("add", X, load("k0", 0, "f32"), dtype="f32"))],
        False,
    ),
    "twice": ([Store("k1", 2 * AT, X), Store("k1", 2 * AT + 1, X)], False),
    "read and written": ([Store("k1", AT, X), Store("k0", AT, X)], False),
    "adding": ([Store("k1", AT, X, "add")], False),
}


@pytest.mark.parametrize(("stores", "expected"), IN_PLACE.values(), ids=list(IN_PLACE))
def test_in_place(stores: list[Store], expected: bool) -> None:
    step = Launch(over_elements(stores), ("a", "b"), (S0,), ())
    fill = Launch(over_elements([Store("k0", AT, constant(0.0, "f32"))]), ("a",), (S0,), ())
    steps = (fill, step, fill)
    lives = [Life("a", 4 * S0, 0, 1), Life("b", 4 * S0, 1, 2)]
    found = in_place(lives, steps, {"a": 4, "b": 4})
    assert found == ({"b": "a"} if expected else {})
    assert merged(lives, found) == ([Life("a", 4 * S0, 0, 2)] if expected else lives)
    # who is needed later, is larger, or of wider elements keeps its place
    longer = [Life("a", 4 * S0, 0, 2), lives[1]]
    assert not in_place(longer, steps, {"a": 4, "b": 4})
    assert not in_place([lives[0], Life("b", 2 * S0, 1, 2)], steps, {"a": 4, "b": 2})
    assert not in_place(lives, steps, {"a": 4, "b": 8})
