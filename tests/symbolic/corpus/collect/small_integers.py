"""Questions tried by Python itself, on small integers and near their constants."""

from __future__ import annotations

import ast
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator

from tests.symbolic.corpus.collect.rows import Row

POINTS = 60_000


def brute_force(row: Row) -> tuple[bool, bool]:
    """(example found, counterexample found)."""
    holds_at = python_function(row)
    found = [False, False]
    for point in _points(row):
        try:
            given, answer = holds_at(*point)
        except ZeroDivisionError:
            continue
        if given:
            found[not answer] = True
            if all(found):
                break
    return found[0], found[1]


def python_function(row: Row) -> Callable[..., tuple[bool, bool]]:
    """A function of the symbols' values: (all facts hold, the question holds).

    Every subexpression is evaluated (no short circuit): a zero divisor anywhere raises.
    """
    names = ", ".join(row["symbols"])
    facts = [_compiled(fact, names) for fact in row["given"]]
    ask = _compiled(row["ask"], names)

    def holds_at(*values: int) -> tuple[bool, bool]:
        given = [fact(*values) for fact in facts]
        return all(given), ask(*values)

    return holds_at


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


_NAMES = {"ceildiv": _ceildiv, "all_of": all, "any_of": any, "min": min, "max": max}


def _compiled(text: str, names: str) -> Callable[..., bool]:
    tree = _Strict().visit(ast.parse(f"lambda {names}: ({text})", mode="eval"))
    return eval(compile(ast.fix_missing_locations(tree), "question", "eval"), dict(_NAMES))


class _Strict(ast.NodeTransformer):
    """`and`, `or` and chained comparisons as calls, which evaluate all of their arguments."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return _call("all_of" if isinstance(node.op, ast.And) else "any_of", node.values)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        pairs = itertools.pairwise([node.left, *node.comparators])
        return _call(
            "all_of",
            [ast.Compare(a, [op], [b]) for op, (a, b) in zip(node.ops, pairs, strict=True)],
        )


def _call(name: str, values: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), [ast.List(values, ast.Load())], [])


def _points(row: Row) -> Iterator[tuple[int, ...]]:
    """All of -3..12 if there are few, else samples; then samples near the constants too."""
    texts = (row["ask"], *row["given"])
    constants = {int(c) for text in texts for c in re.findall(r"(?<!\w)\d+", text)}
    wide = sorted({v for c in constants if c < 5000 for v in (c - 1, c, c + 1, 2 * c, 3 * c + 1)})
    near: list[list[int]] = []
    small: list[list[int]] = []
    for low, high in row["symbols"].values():
        lowest, highest = -math.inf if low is None else low, math.inf if high is None else high
        near.append([v for v in wide if lowest <= v <= highest])
        here = [v for v in range(-3, 13) if lowest <= v <= highest]
        small.append(here or near[-1] or [low or 0])
    rng = random.Random(0)
    if math.prod(map(len, small)) <= POINTS * 8:
        yield from itertools.product(*small)
    else:
        yield from (tuple(map(rng.choice, small)) for _ in range(POINTS))
    both = [sorted({*a, *b}) for a, b in zip(small, near, strict=True)]
    yield from (tuple(map(rng.choice, both)) for _ in range(POINTS // 6))
