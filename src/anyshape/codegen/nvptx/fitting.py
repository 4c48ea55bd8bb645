"""Which function of a kernel the host will choose: the same questions as `launch.py` writes."""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.codegen.nvptx.module import LaunchRule
from anyshape.codegen.nvptx.narrow_integers import COORDINATES
from anyshape.symbolic import Size, Symbol, evaluate
from anyshape.symbolic.expr import symbols_of


def fits(rule: LaunchRule, sizes: Sequence[int]) -> bool:
    """Whether a function is for a launch with these sizes, wherever its buffers begin."""
    return (
        all(value_of(size, sizes) % rule.lanes == 0 for size in rule.multiples)
        and all(value_of(size, sizes) >= rule.lanes - 1 for size in rule.at_least)
        and (not rule.fewest_points or _points(rule, sizes) >= rule.fewest_points)
        and ((rule.index_bits == 64 and not rule.near) or _is_near(rule, sizes))
        and all(value_of(size, sizes) < COORDINATES for size in rule.near)
        and (not rule.each or rule.lanes <= value_of(rule.length, sizes) <= _longest(rule))
    )


def place_of_first(rules: Sequence[LaunchRule], sizes: Sequence[int]) -> int:
    """The place of the first function that fits. The last one is for all."""
    return next((n for n, rule in enumerate(rules) if fits(rule, sizes)), len(rules) - 1)


def value_of(size: Size, sizes: Sequence[int]) -> int:
    """`n0`, `n1`, ... are the sizes of the launch."""
    values: dict[Symbol, int] = {each: sizes[int(each.name[1:])] for each in symbols_of(size)}
    return evaluate(size, values)


def _points(rule: LaunchRule, sizes: Sequence[int]) -> int:
    """Rows, or points and vectors that a thread takes each."""
    points = value_of(rule.points, sizes)
    vectors = -(-value_of(rule.length, sizes) // rule.lanes) if rule.form == "columns" else 1
    return points * vectors


def _is_near(rule: LaunchRule, sizes: Sequence[int]) -> bool:
    points, length = value_of(rule.points, sizes), value_of(rule.length, sizes)
    return all(0 <= each < 1 << 31 for each in (*sizes, points * (length + rule.lanes)))


def _longest(rule: LaunchRule) -> int:
    return rule.each * rule.lanes * rule.row_threads
