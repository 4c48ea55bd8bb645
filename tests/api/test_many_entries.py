"""Functions with so many entries that their dispatcher has several pages."""

# pyright: basic
from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

MANY = 70


def _plain(x: Tensor, n: Any) -> Any:
    return x * len(n), n


def _all_kinds(x: Tensor, /, n: Any, *rest: Any, scale: Any = 3, **named: Any) -> Any:
    return x * len(n) * scale, rest, sorted(named.items())


def _calls(count: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    return [((torch.ones(2), "a" * each), {}) for each in range(count)]


def _more_kinds(count: int) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    rests = ((), ("r",), ("r", "s"))
    return [
        ((torch.ones(2), "a" * each, *rests[each % 3]), {"scale": 2, "k": each} if each % 2 else {})
        for each in range(count)
    ]


@pytest.mark.parametrize(("program", "made"), [(_plain, _calls), (_all_kinds, _more_kinds)])
def test_each_entry_serves_its_calls(program: Any, made: Any) -> None:
    compiled = anyshape.compile(program, dynamic=False, backend="eager")
    for _ in range(2):
        for args, kwargs in made(MANY):
            assert str(compiled(*args, **kwargs)) == str(program(*args, **kwargs))
    stats = compiled.stats()
    assert (stats.graphs, stats.hits, stats.eager_calls) == (MANY, MANY, 0)


def test_a_page_that_is_full_is_kept() -> None:
    compiled: Any = anyshape.compile(_plain, dynamic=False, backend="eager")
    first: Any = None
    for number, (args, _) in enumerate(_calls(MANY)):
        compiled(*args)
        if number == 33:
            first = compiled._function.dispatch
    assert compiled._function.dispatch is first
    compiled._function.reset()
    assert compiled._function.dispatch is not first
    assert compiled(torch.ones(2), "abc")[0].tolist() == [3, 3]
    assert compiled.stats().graphs == 1


def test_other_defaults() -> None:
    def program(x: Tensor, n: Any, scale: float = 2.0) -> Any:
        return x * len(n) * scale

    compiled = anyshape.compile(program, dynamic=False, backend="eager")
    for scale in (2.0, 5.0):
        program.__defaults__ = (scale,)
        for args, _ in _calls(40):
            assert torch.equal(compiled(*args), program(*args))


def test_errors_name_the_function() -> None:
    compiled: Any = anyshape.compile(_plain, dynamic=False, backend="eager")
    for args, _ in _calls(40):
        compiled(*args)
    with pytest.raises(TypeError, match=r"_plain\(\) missing 1 required positional argument: 'n'"):
        compiled(torch.ones(2))
