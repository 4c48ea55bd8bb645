"""Which temporaries share memory, and that those alive at once never do."""

from __future__ import annotations

import random

from anyshape.loops.memory_plan import Life, bytes_of, plan_memory
from anyshape.loops.program import Buffer
from anyshape.loops.scalars import Dtype
from anyshape.symbolic import Range, Size, as_symbol, evaluate, maximum, symbol

S0, S1 = symbol("s0"), symbol("s1")
S2 = symbol("s2", Range(2, None))


def shares(*lives: tuple[Size, int, int]) -> list[int]:
    """The slot of each."""
    named = [Life(f"b{k}", *life) for k, life in enumerate(lives)]
    plan = plan_memory(named)
    check(named, plan)
    return [plan.places[life.name] for life in named]


def check(lives, plan):
    for a in lives:
        for b in lives:
            apart = a.last < b.first or b.last < a.first
            assert a is b or apart or plan.places[a.name] != plan.places[b.name]
    for values in ((0, 0, 2), (1, 5, 3), (7, 2, 100), (1000, 1, 2)):
        known = dict(zip(map(as_symbol, (S0, S1, S2)), values, strict=True))
        slots = [evaluate(size, known) for size in plan.slots]
        for life in lives:
            assert slots[plan.places[life.name]] >= evaluate(life.size, known)


def test_equal_sizes_take_turns():
    assert shares((4 * S0, 0, 1), (4 * S0, 1, 2), (4 * S0, 2, 3)) == [0, 1, 0]


def test_same_step_is_not_shared():
    assert shares((S0, 0, 1), (S0, 1, 1)) == [0, 1]


def test_smaller_fits_into_larger():
    assert shares((4 * S0, 0, 0), (2 * S0, 1, 1)) == [0, 0]


def test_slot_grows():
    assert shares((2 * S0, 0, 0), (4 * S0, 1, 1)) == [0, 0]


def test_unrelated_sizes_lie_apart():
    assert shares((S0, 0, 0), (S1, 1, 1)) == [0, 1]


def test_ranges_count():
    assert shares((S0 * S2, 0, 0), (2 * S0, 1, 1)) == [0, 0]


def test_best_fit():
    slots = shares((8 * S0, 0, 0), (4 * S0, 0, 0), (3 * S0, 1, 1), (4 * S0, 1, 1))
    assert slots[2:] == [1, 0]


def test_random_plans_are_right():
    chance = random.Random(7)
    sizes = [S0, 4 * S0, S0 * S1, S1, 4 * S1 + 4, S0 * S2, 64, 4096, maximum(S0, S1)]
    for _ in range(200):
        lives = []
        for k in range(chance.randrange(1, 12)):
            first = chance.randrange(10)
            life = Life(f"b{k}", chance.choice(sizes), first, first + chance.randrange(4))
            lives.append(life)
        check(lives, plan_memory(lives))


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
