"""Python itself as the judge of canonical forms: every text is evaluated on all small integers,
negatives, 0 and 1 included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from random import Random
from typing import Any

from anyshape.symbolic import EVERYTHING, Expr, Range, Symbol, as_symbol, symbol

#: Declared ranges by the first letter: sizes, positive sizes, integers of any sign, unbacked sizes.
_RANGES = {"s": Range(0, None), "t": Range(0, None), "p": Range(1, None), "u": Range(0, None)}
_FUNCTIONS = {"ceildiv": lambda a, b: -(-a // b), "min": min, "max": max, "abs": abs}


def named(name: str) -> Expr:
    """The symbol of that name: s… and t… a size, p… a positive size, u… an unbacked size, others
    any integer."""
    return symbol(name, _RANGES.get(name[0], EVERYTHING), backed=not name.startswith("u"))


NAMES = (
    "a",
    "b",
    "c",
    "k",
    "m",
    "n",
    "p",
    "q",
    "s",
    "t",
    "s0",
    "s1",
    "s2",
    "s3",
    "p0",
    "p1",
    "u0",
    "u1",
)
SYMBOLS: dict[str, Expr] = {name: named(name) for name in NAMES}


def names_in(text: str) -> list[str]:
    code = compile(text, "question", "eval")
    return sorted(name for name in code.co_names if name in SYMBOLS)


def assignments(
    names: list[str], low: int = -5, high: int = 9, most: int = 20_000
) -> Iterator[dict[str, int]]:
    """All values within the declared ranges; a fixed random choice of them where there are too
    many."""
    domains: list[range] = []
    for name in names:
        lower = as_symbol(SYMBOLS[name]).declared.lower
        domains.append(range(low if lower is None else lower, high + 1))
    count = 1
    for domain in domains:
        count *= len(domain)
    if count <= most:
        points: Iterator[tuple[int, ...]] = product(*domains)
    else:
        random = Random(0)
        points = (tuple(random.choice(domain) for domain in domains) for _ in range(most))
    for point in points:
        yield dict(zip(names, point, strict=True))


def python_value(text: str, values: Mapping[str, int]) -> Any:
    """What Python makes of the text; None where it divides by zero."""
    try:
        return eval(text, {**_FUNCTIONS, **values})
    except ZeroDivisionError:
        return None


def by_symbol(values: Mapping[str, int]) -> dict[Symbol, int]:
    return {as_symbol(SYMBOLS[name]): value for name, value in values.items()}
