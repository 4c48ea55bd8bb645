"""Sizes that a contract allows and a fact excludes: the proof that a program breaks its contract.

What cannot be proved is not therefore broken, so a break is only reported with sizes that show it.
The sizes tried are those where facts about shapes change: ends of ranges, numbers of the fact and
their neighbours, multiples of its numbers, small sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from random import Random
from typing import Final

from anyshape.errors import AnyshapeError
from anyshape.shapes.shape_string import numbers_in
from anyshape.symbolic import Fact, Size, Symbol, evaluate, holds, to_text

_MOST_TRIED: Final = 20_000
_SMALL: Final = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 24, 64, 100, 128, 1000)
#: No tensor has as many elements: a dim without a maximum is not taken to be beyond it. A program
#: that is right up to there (floats of sizes are exact) is not said to break its contract, and a
#: call beyond it is refused by what is checked of every call.
_LARGEST: Final = 2**48
_Values = dict[Symbol, int]


def counterexample(
    fact: Fact,
    relations: Sequence[Fact],
    meanings: Mapping[Symbol, Size],
    values: Mapping[Symbol, int],
) -> _Values | None:
    """Values of dims for which the relations hold and the fact does not; None if none was found.

    `meanings` says what the symbols of the fact are in terms of dims; one without a meaning is a
    dim itself. `values` are those of the call at hand, for dims that do not matter.
    """
    dims = _linked(_dims_of(fact, meanings), relations)
    numbers = {number for each in (fact, *relations) for number in numbers_in(to_text(each))}
    candidates = {dim: _candidates(dim, numbers, values.get(dim)) for dim in dims}
    for tried in _combinations(candidates):
        if _breaks(fact, relations, meanings, {**values, **tried}):
            return tried
    return None


def _dims_of(fact: Fact, meanings: Mapping[Symbol, Size]) -> frozenset[Symbol]:
    found: set[Symbol] = set()
    for symbol in fact.symbols:
        meaning = meanings.get(symbol)
        if meaning is None:
            found.add(symbol)
        elif not isinstance(meaning, int):
            found |= meaning.symbols
    return frozenset(found)


def _linked(dims: frozenset[Symbol], relations: Iterable[Fact]) -> list[Symbol]:
    """The dims, and those that relations tie them to."""
    found = set(dims)
    waiting = list(relations)
    while tied := [each for each in waiting if each.symbols & found]:
        waiting = [each for each in waiting if each not in tied]
        found |= {dim for each in tied for dim in each.symbols}
    return sorted(found, key=lambda dim: dim.name)


def _candidates(dim: Symbol, numbers: set[int], now: int | None) -> list[int]:
    low, high = dim.declared
    tried = [*_SMALL]
    if low is not None:
        tried += [low, low + 1, low + 2]
    if now is not None:
        tried += [now + 1, 2 * now, now - 1, now]
    for number in sorted(numbers):
        tried += [number - 1, number, number + 1, 2 * number, 3 * number]
    if high is not None:
        tried += [high, high - 1, high // 2]
    most = _LARGEST if high is None else high
    return [
        value for value in dict.fromkeys(tried) if value <= most and dim.declared.contains(value)
    ]


def _combinations(candidates: Mapping[Symbol, Sequence[int]]) -> Iterator[_Values]:
    dims = list(candidates)
    yield from islice(
        (dict(zip(dims, values, strict=True)) for values in product(*candidates.values())),
        _MOST_TRIED,
    )
    # The product may have been cut, and it does not have everything: some at random.
    chance = Random(0)
    for _ in range(1000):
        yield {dim: _at_random(dim, chance) for dim in dims}


def _at_random(dim: Symbol, chance: Random) -> int:
    low = dim.declared.lower or 0
    high = low + 4096 if dim.declared.upper is None else dim.declared.upper
    return chance.randint(low, high)


def _breaks(
    fact: Fact, relations: Sequence[Fact], meanings: Mapping[Symbol, Size], values: _Values
) -> bool:
    try:
        if not all(holds(each, values) for each in relations):
            return False
        known = {symbol: evaluate(size, values) for symbol, size in meanings.items()}
        return not holds(fact, {**values, **known})
    except AnyshapeError:
        return False  # a division by a size that is 0, or a dim without a value
