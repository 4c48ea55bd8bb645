"""Python's rules where values meet: both operands are asked, identity counts."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

import anyshape
from tests.boundary.running import face


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield
    anyshape.reset()


class Spot(NamedTuple):
    a: Any
    b: Any


class Less:
    """Only `<` is there."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __lt__(self, other: Any) -> bool:
        return self.n < other.n


class Shy:
    """It knows an answer about itself if its number is even."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> Any:
        return NotImplemented if self.n % 2 else "equal"

    def __add__(self, other: object) -> Any:
        return NotImplemented if self.n % 2 else f"{self.n}+"

    def __radd__(self, other: object) -> Any:
        return f"+{self.n}"

    __hash__ = None  # pyright: ignore[reportAssignmentType] as Python has it


class Special(Shy):
    """It is asked first."""

    def __eq__(self, other: object) -> Any:
        return "special"

    def __radd__(self, other: object) -> Any:
        return "special+"


class Bare:
    """It is compared by identity."""


class OnlyEqual:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnlyEqual) and self.n == other.n

    def __hash__(self) -> int:
        return self.n


BARE = Bare()
PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[Any, Any]]]] = {
    "less": (
        lambda x, a, b: (x + 1, a < b, a > b, max(a, b).n, min(a, b).n),
        [(Less(1), Less(2)), (Less(2), Less(1)), (Less(1), Less(1))],
    ),
    "sorted": (
        lambda x, a, b: (x + 1, [each.n for each in sorted([a, b, Less(0)], reverse=True)]),
        [(Less(1), Less(2)), (Less(2), Less(1))],
    ),
    "shy ==": (
        lambda x, a, b: (x + 1, a == b, b == a, a != b, a in [b], [a].count(b)),
        [(Shy(1), Shy(2)), (Shy(2), Shy(1)), (Shy(1), Shy(3)), (Special(1), Shy(1))],
    ),
    "shy +": (
        lambda x, a, b: (x + 1, a + b, 1 + a, [1] + b if type(b) is Special else 0),  # noqa: RUF005
        [(Shy(2), Shy(1)), (Shy(2), Special(1)), (Shy(4), Special(2))],
    ),
    "the same type": (lambda x, a, b: (x + 1, a + b), [(Shy(2), Shy(1)), (Shy(1), Shy(2))]),
    "identity": (
        lambda x, a, b: (x + 1, a == b, a != b, a in (b,), [a] == [b]),
        [(Bare(), Bare()), (BARE, BARE), (Bare(), BARE)],
    ),
    "keys": (
        lambda x, a, b: (x + 1, len({a, b}), {a: 1}.get(b)),
        [(Bare(), Bare()), (BARE, BARE), (Bare(), BARE)],
    ),
    "only ==": (
        lambda x, a, b: (x + 1, a != b, a == b),
        [(OnlyEqual(1), OnlyEqual(1)), (OnlyEqual(1), OnlyEqual(2))],
    ),
    "mixed": (
        lambda x, a, b: (x + 1, a == 1, 1 == a, a != None, a == "a"),  # noqa: E711, SIM300
        [(OnlyEqual(1), 0), (Shy(2), 0), (Shy(1), 0), (Bare(), 0)],
    ),
    "nan": (
        lambda x, a, b: (x + 1, a in [b], [a] == [b], a == b),
        [(float("nan"), float("nan")), (1.0, 1.0)],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_operands_are_asked(name: str) -> None:
    function, pairs = PROGRAMS[name]
    compiled = anyshape.compile(function, backend="eager")
    x = torch.ones(2)
    for pair in (*pairs, *pairs):
        assert _outcome(compiled, x, *pair) == _outcome(function, x, *pair)


def _outcome(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return face(function(*args))
    except Exception as error:
        return type(error), str(error)


def test_objects_compared_by_hooks_are_captured() -> None:
    function, pairs = PROGRAMS["less"]
    compiled = anyshape.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        compiled(torch.ones(2), *pairs[0])
    assert compiled.stats().hits == 1


def test_parts_of_slices_are_dynamic() -> None:
    def f(x: torch.Tensor, s: slice) -> tuple[torch.Tensor, Any]:
        return x[s] * 2, s.stop

    compiled = anyshape.compile(f, backend="eager", fullgraph=True)
    x = torch.arange(40.0)
    for stop in (3, 5, 8, 13, 21, 34):
        assert face(compiled(x, slice(1, stop))) == face(f(x, slice(1, stop)))
    assert compiled.stats().graphs <= 3
    assert face(compiled(x, slice(0, 9, 3))) == face(f(x, slice(0, 9, 3)))


def test_a_slice_is_returned_as_it_is() -> None:
    compiled = anyshape.compile(lambda x, s, t: (x[s], s, s is t), backend="eager")
    for stop in (3, 4, 5, 6):
        given = slice(0, stop)
        assert compiled(torch.arange(9.0), given, given)[1:] == (given, True)
        assert compiled(torch.arange(9.0), given, slice(0, stop))[2] is False


@pytest.mark.parametrize("most", [None, 2])
def test_calls_of_cached_functions_are_counted(most: int | None) -> None:
    def cached(n: int) -> int:
        return n + 1

    def uses(cache: Any) -> Callable[..., Any]:
        return lambda x, n: x * cache(n) + cache(n)

    caches = [functools.lru_cache(maxsize=most)(cached) for _ in range(2)]
    eager, compiled = uses(caches[0]), anyshape.compile(uses(caches[1]), backend="eager")
    for n in (1, 1, 2, 3, 1, 1, 2, 2):
        assert face(compiled(torch.ones(2), n)) == face(eager(torch.ones(2), n))
        assert caches[1].cache_info() == caches[0].cache_info()


def test_an_import_follows_the_table_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        import a_module  # pyright: ignore[reportMissingImports]
        from a_module import k  # pyright: ignore[reportMissingImports]

        return x * a_module.k + k

    compiled = anyshape.compile(f, backend="eager", fullgraph=True)
    for k in (1, 2):
        module = types.ModuleType("a_module")
        module.k = k  # pyright: ignore[reportAttributeAccessIssue] of this module
        monkeypatch.setitem(sys.modules, "a_module", module)
        assert compiled(torch.ones(1)).item() == 2 * k
        assert compiled(torch.ones(1)).item() == 2 * k
    module.k = 5  # pyright: ignore[reportAttributeAccessIssue] of this module
    assert compiled(torch.ones(1)).item() == 10


def test_a_shape_is_no_data_for_new() -> None:
    compiled = anyshape.compile(lambda x, size: x.new(size).shape, backend="eager")
    for size in (torch.Size([2, 3]), torch.Size([2, 3]), torch.Size([4]), torch.Size([])):
        assert compiled(torch.ones(1), size) == size


def test_a_named_tuple_is_an_index() -> None:
    places = [Spot(1, 2), Spot(0, 2), Spot(1, slice(0, 2)), Spot(0, 2.5)]
    compiled = anyshape.compile(lambda x, spot: x[spot], backend="eager")
    x = torch.arange(9.0).reshape(3, 3)
    for spot in (each for each in places for _ in range(2)):
        try:
            expected = x[spot]
        except IndexError:
            with pytest.raises(IndexError):
                compiled(x, spot)
        else:
            assert torch.equal(compiled(x, spot), expected)
