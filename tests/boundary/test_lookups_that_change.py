"""Ways in which an attribute gets another value that are not a plain assignment to it."""

from __future__ import annotations

import types
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import anyshape


class Plain:
    n: int


class WithSlot:
    __slots__ = ("__dict__", "kept")
    n: int


def by_update(o: Any, x: torch.Tensor) -> torch.Tensor:
    o.__dict__.update(n=o.n + 1)
    return x * o.n


def by_vars(o: Any, x: torch.Tensor) -> torch.Tensor:
    vars(o)["n"] += 1
    return x * o.n


def by_item(o: Any, x: torch.Tensor) -> torch.Tensor:
    held = o.__dict__
    held["n"] = held["n"] + 1
    return x * o.n


def by_both(o: Any, x: torch.Tensor) -> torch.Tensor:
    o.n = o.n + 1
    vars(o).update({"n": o.n + 1})
    return x * vars(o)["n"] + o.n


@pytest.mark.parametrize("kind", [SimpleNamespace, Plain, WithSlot, torch.nn.Module, ValueError])
@pytest.mark.parametrize("function", [by_update, by_vars, by_item, by_both])
def test_through_the_dictionary(kind: type, function: Any) -> None:
    mine, others = kind(), kind()
    mine.n = others.n = 0
    compiled: Any = anyshape.compile(function)
    for size in (1, 2, 3, 4, 5, 6):
        x = torch.ones(size)
        assert torch.equal(compiled(mine, x), function(others, x))
        assert mine.n == others.n


@pytest.mark.parametrize("through", ["attribute", "dictionary"])
def test_objects_that_share_a_dictionary(through: str) -> None:
    def function(a: Any, b: Any, x: torch.Tensor) -> torch.Tensor:
        if through == "attribute":
            a.n = a.n + 1
        else:
            vars(a)["n"] = a.n + 1
        return x * b.n

    first, second = Plain(), Plain()
    second.__dict__ = first.__dict__
    first.n = 1
    compiled = anyshape.compile(function)
    for wanted in (2, 3, 4, 5, 6):
        assert compiled(first, second, torch.ones(wanted))[0] == wanted


def test_a_metaclass_gets_methods() -> None:
    class Meta(type):
        pass

    class Kind(metaclass=Meta):
        k = 2.0

    thing = Plain()

    def function(x: torch.Tensor) -> Any:
        return x * Kind.k, isinstance(thing, Kind), issubclass(int, Kind)

    meta: Any = Meta
    compiled = anyshape.compile(function)
    x = torch.ones(2)
    for name, method in (
        ("__instancecheck__", lambda kind, instance: True),
        ("__subclasscheck__", lambda kind, other: True),
        (
            "__getattribute__",
            lambda kind, name: 11.0 if name == "k" else type.__getattribute__(kind, name),
        ),
    ):
        assert str(compiled(x)) == str(function(x))
        setattr(meta, name, method)
        assert str(compiled(x)) == str(function(x))


def test_a_module_gets_another_class() -> None:
    module: Any = types.ModuleType("held")
    module.k = 2.0

    class Answers(types.ModuleType):
        k = property(lambda self: 9.0)

    compiled = anyshape.compile(lambda x: x * module.k)
    assert compiled(torch.ones(1)).item() == 2.0
    module.__class__ = Answers
    assert compiled(torch.ones(1)).item() == 9.0


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    ("before", "after"), [(3, 7), (3.0, 7.0), (torch.ones(1), torch.full((1,), 5.0))]
)
def test_keywords_of_a_partial_change(before: Any, after: Any, dynamic: bool | None) -> None:
    def function(a: float, x: torch.Tensor, k: Any = 1) -> torch.Tensor:
        return a * x + k

    made = partial(function, 2.0, k=before)
    compiled = anyshape.compile(made, dynamic=dynamic)
    for size in (2, 3):
        x = torch.ones(size)
        assert torch.equal(compiled(x), made(x))
        assert torch.equal(compiled(x, k=4), made(x, k=4))
    made.keywords["k"] = after
    for size in (2, 3, 4):
        x = torch.ones(size)
        assert torch.equal(compiled(x), made(x))
        assert torch.equal(compiled(x, k=4), made(x, k=4))


def test_names_that_a_module_makes_up() -> None:
    """Its `__getattr__` runs once for each look-up, also in the call that is captured."""

    def made() -> tuple[Any, list[int]]:
        module: Any = types.ModuleType("made_up")
        asked = [0]

        def answer(name: str) -> float:
            asked[0] += 1
            return float(asked[0])

        module.__getattr__ = answer
        return module, asked

    def function(module: Any, x: torch.Tensor) -> torch.Tensor:
        return x * module.first + module.second

    mine, others = made(), made()
    compiled = anyshape.compile(function)
    for size in (1, 2, 3, 4, 5):
        x = torch.ones(size)
        assert torch.equal(compiled(mine[0], x), function(others[0], x))
        assert mine[1] == others[1]


def test_a_keyword_that_is_called_self() -> None:
    def function(x: torch.Tensor, **named: float) -> torch.Tensor:
        return x * named["self"]

    compiled = anyshape.compile(function)
    for value in (3.0, 4.0):
        assert torch.equal(compiled(torch.ones(2), self=value), torch.full((2,), value))
