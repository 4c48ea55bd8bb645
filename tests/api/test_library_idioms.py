"""What models of other libraries do besides tensors: captured whole, and guarded by what is read.

Each program is called at several sizes as one graph; then what it has read is changed, and the next
answer has to be the new one.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree

import anyshape


def helper(a: int, b: str = "x", *, c: int = 3) -> int:
    """Doubles."""
    return a * c + len(b)


NUMBERS = re.compile(r"(\d+)x")
ITEMS = typing.List[int]  # noqa: UP006 the old spelling is an object of `typing`
ORDERED = OrderedDict(a=1, b=2)


def checks_a_size(x: Tensor) -> Tensor:
    torch._assert(x.shape[0] % 2 == 0, f"{x.shape[0]} rows of {x.shape} are odd")
    return x * 2


def checks_a_tensor(x: Tensor) -> Tensor:
    torch._assert((x > 0).all(), "not positive")
    return x * 2


def decorates(x: Tensor) -> Tensor:
    @functools.wraps(helper)
    def inner(y: Tensor) -> Tensor:
        return y * helper(2)

    inner.factor = 3  # pyright: ignore[reportAttributeAccessIssue] as decorators do
    told = (
        (inner.__name__ == "helper")
        + 2 * (inner.__wrapped__ is helper)
        + (inner.__doc__ == "Doubles.")
    )
    return inner(x) * inner.factor + told  # pyright: ignore[reportAttributeAccessIssue] set above


def asks_for_a_signature(x: Tensor) -> Tensor:
    parameters = inspect.signature(helper).parameters
    known = set(parameters.keys()) & {"a", "b", "z"}
    return x * len(parameters) + len(known) + parameters["c"].default


def binds_arguments(x: Tensor) -> Tensor:
    bound = inspect.signature(helper).bind(x.shape[0], c=x)
    bound.apply_defaults()
    return bound.arguments["c"] * bound.args[0] + len(bound.kwargs)


def matches_text(x: Tensor) -> Tensor:
    found = NUMBERS.fullmatch("12x")
    if found is None:
        raise ValueError
    return x * int(found.group(1)) + (0 if re.match("a", "b") else 1)


def asks_about_types(x: Tensor) -> Tensor:
    is_list = typing.get_origin(ITEMS) is list
    return x * len(typing.get_args(ITEMS)) + is_list + (typing.Optional[int] is not None)  # noqa: UP045


def looks_at_views(x: Tensor) -> Tensor:
    made = OrderedDict(ORDERED)
    made["c"] = 3
    shared = made.keys() & {"a", "c"}
    return x * len(shared) + len(made.keys()) + ("a" in ORDERED.keys())  # noqa: SIM118 the view


def asks_what_a_function_is(x: Tensor) -> Tensor:
    return x * (1 + (helper.__class__ is types.FunctionType)) + len(helper.__annotations__)


def maps_a_tree(x: Tensor) -> Tensor:
    leaves, shape = _pytree.tree_flatten({"a": x, "b": [x + 1, (x.shape[0],)]})
    again = _pytree.tree_unflatten(leaves, shape)
    return _pytree.tree_map(lambda leaf: leaf * 2, again["b"])[0] + again["b"][1][0]


def imports_inside(x: Tensor) -> Tensor:
    import math
    import os.path as paths
    from collections import OrderedDict as Ordered
    from math import pi

    return Ordered(a=x)["a"] * pi * math.e + len(paths.sep)


@functools.lru_cache
def halves(shape: tuple[int, ...], names: tuple[str, ...]) -> tuple[list[int], int]:
    return [size // 2 for size in shape], len(names)


def calls_a_cache_with_a_shape(x: Tensor) -> Tensor:
    sizes, count = halves(x.shape, ("a", "b"))
    return x[: sizes[0]] * count + sizes[0]


class Plan:
    """How to cut, as a cached function makes it of a text: compared by identity."""

    def __init__(self, text: str) -> None:
        self.parts = text.split()


@functools.lru_cache
def plan_of(text: str) -> Plan:
    return Plan(text)


@functools.lru_cache
def cut(plan: Plan, shape: tuple[int, ...]) -> tuple[list[int], dict[int, int]]:
    return [shape[0] // len(plan.parts), len(plan.parts)], {0: shape[0]}


def calls_a_cache_with_what_another_made(x: Tensor) -> Tensor:
    sizes, more = cut(plan_of("a b"), x.shape)
    return x.reshape(*sizes, 3).sum(1) * more[0]


PROGRAMS: tuple[Callable[[Tensor], Tensor], ...] = (
    checks_a_size,
    decorates,
    asks_for_a_signature,
    binds_arguments,
    matches_text,
    asks_about_types,
    looks_at_views,
    asks_what_a_function_is,
    maps_a_tree,
    imports_inside,
    calls_a_cache_with_a_shape,
    calls_a_cache_with_what_another_made,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_for_all_sizes(program: Callable[[Tensor], Tensor]) -> None:
    compiled = anyshape.compile(program, fullgraph=True, dynamic=True)
    for rows in (4, 6, 10, 2):
        x = torch.rand(rows, 3)
        assert torch.equal(compiled(x), program(x))
    assert compiled.stats().graphs == 1


def test_checks_of_tensors() -> None:
    compiled = anyshape.compile(checks_a_tensor, fullgraph=True, dynamic=True)
    for x in (torch.rand(4) + 1, torch.rand(7) + 1):
        assert torch.equal(compiled(x), x * 2)
    with pytest.raises(AssertionError, match="not positive"):
        compiled(-torch.ones(5))


def test_a_check_that_fails_shows_the_numbers_of_the_call() -> None:
    compiled = anyshape.compile(checks_a_size, dynamic=True)
    compiled(torch.ones(4, 3))
    for rows in (3, 5, 7):
        with pytest.raises(AssertionError, match=f"^{rows} rows of .*{rows}, 3.* are odd"):
            compiled(torch.ones(rows, 3))
    assert torch.equal(compiled(torch.ones(6, 3)), torch.full((6, 3), 2.0))


def test_a_function_of_the_same_name_gets_its_message() -> None:
    def _assert(condition: bool, message: str) -> int:
        return len(message) if condition else 0

    def program(x: Tensor) -> Tensor:
        return x + _assert(x.shape[0] > 0, f"{x.shape[0]} rows")

    compiled = anyshape.compile(program, fullgraph=True, dynamic=True)
    for rows in (2, 10, 100):
        assert torch.equal(compiled(torch.zeros(rows)), program(torch.zeros(rows)))


# -- what is read may change ----------------------------------------------------------------------


def made(text: str) -> Any:
    """A function of its own, whose parts a test may change."""
    namespace: dict[str, Any] = {}
    exec(compile(text, "<made>", "exec", dont_inherit=True), namespace)
    return namespace["made"]


Step = Callable[[Any], None]


def _set(name: str, value: Any) -> Step:
    return lambda function: setattr(function, name, value)


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (lambda f: len(inspect.signature(f).parameters), _set("__wrapped__", lambda: None)),
        (lambda f: inspect.signature(f).parameters["b"].default, _set("__defaults__", (7,))),
        (lambda f: inspect.signature(f).parameters["c"].default, _set("__kwdefaults__", {"c": 9})),
        (
            lambda f: inspect.signature(f).parameters["a"].annotation is int,
            lambda f: f.__annotations__.update(a=str),
        ),
        (lambda f: len(f.__annotations__), lambda f: f.__annotations__.update(z=str)),
        (lambda f: f.__defaults__[0], _set("__defaults__", (7,))),
        (lambda f: len(f.__dict__), _set("more", 1)),
        (lambda f: getattr(functools.wraps(f)(lambda: 0), "mark"), _set("mark", 5)),  # noqa: B009
        (lambda f: len(functools.wraps(f)(lambda: 0).__name__), _set("__name__", "another")),
        (lambda f: len(types.MethodType(f, 1).__name__), _set("__name__", "another")),
    ],
)
def test_what_a_function_says_of_itself_is_guarded(read: Any, change: Step) -> None:
    function = made("def made(a: int, b=2, *, c=3): pass\nmade.mark = 1")
    program = _reader(function, read)
    compiled = anyshape.compile(program)
    x = torch.ones(3)
    for _ in range(2):
        assert torch.equal(compiled(x), program(x))
    before = program(x)
    change(function)
    assert not torch.equal(program(x), before)
    assert torch.equal(compiled(x), program(x))


def _reader(function: Any, read: Any) -> Callable[[Tensor], Tensor]:
    def program(x: Tensor) -> Tensor:
        return x * (1 + read(function))

    return program


def test_a_function_that_an_earlier_capture_made_is_outside() -> None:
    def make(x: Tensor) -> Any:
        @functools.wraps(helper)
        def inner(y: Tensor) -> Tensor:
            return y + x

        inner.factor = 2.0  # pyright: ignore[reportAttributeAccessIssue] as decorators do
        return inner

    def use(x: Tensor, function: Any) -> Tensor:
        return x * function.factor

    inner = anyshape.compile(make)(torch.ones(3))
    compiled = anyshape.compile(use)
    x = torch.ones(2)
    for factor in (2.0, 5.0):
        inner.factor = factor
        for _ in range(2):
            assert torch.equal(compiled(x, inner), x * factor)


def test_modules_replaced_in_sys_modules() -> None:
    def program(x: Tensor) -> Tensor:
        import replaced_module  # pyright: ignore[reportMissingImports] made below
        from replaced_module import factor  # pyright: ignore[reportMissingImports] made below

        return x * factor + replaced_module.factor

    def module(factor: float) -> types.ModuleType:
        found = types.ModuleType("replaced_module")
        found.factor = factor  # pyright: ignore[reportAttributeAccessIssue] a module has any
        return found

    compiled = anyshape.compile(program, fullgraph=True)
    x = torch.ones(2)
    try:
        for factor in (2.0, 3.0, 5.0):
            sys.modules["replaced_module"] = module(factor)
            for _ in range(2):
                assert torch.equal(compiled(x), x * factor + factor)
        sys.modules["replaced_module"].factor = 7.0  # pyright: ignore[reportAttributeAccessIssue]
        assert torch.equal(compiled(x), x * 7 + 7)
    finally:
        del sys.modules["replaced_module"]
    with pytest.raises(ModuleNotFoundError):
        compiled(x)


def test_other_patterns_and_types_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2)
    matching = anyshape.compile(matches_text)
    asking = anyshape.compile(asks_about_types)
    for _ in range(2):
        assert torch.equal(matching(x), matches_text(x))
        assert torch.equal(asking(x), asks_about_types(x))
    this = sys.modules[__name__]
    monkeypatch.setattr(this, "NUMBERS", re.compile(r"(\d)\dx"))
    monkeypatch.setattr(this, "ITEMS", typing.Dict[str, int])  # noqa: UP006
    assert torch.equal(matching(x), x + 1)
    assert torch.equal(asking(x), x * 2 + 1)


def test_a_cache_of_tensors_is_asked_and_not_run_again() -> None:
    runs: list[int] = []

    @functools.lru_cache
    def noise(rows: int) -> Tensor:
        runs.append(rows)
        return torch.randn(rows)

    def program(x: Tensor) -> Tensor:
        return x + noise(x.shape[0])

    compiled = anyshape.compile(program, dynamic=True)
    for rows in (3, 4, 3, 4, 3):
        assert torch.equal(compiled(torch.zeros(rows)), noise(rows))
    assert runs == [3, 4]


def test_a_cache_that_reads_a_variable_keeps_what_it_knew() -> None:
    def program(x: Tensor) -> Tensor:
        return x * _scaled(x.shape[0])

    global _scale
    compiled = anyshape.compile(program, dynamic=True)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 6.0))
    _scale = 5
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 6.0))
    assert torch.equal(compiled(torch.ones(4)), torch.full((4,), 20.0))


@functools.lru_cache
def _listed(rows: int) -> tuple[list[int], dict[str, list[int]]]:
    return [rows, rows + 1], {"a": [rows]}


def _appends(x: Tensor) -> Any:
    sizes, _ = _listed(x.shape[0])
    sizes.append(3)
    return x.sum() + len(sizes)


def _changes_what_is_inside(x: Tensor) -> Any:
    _listed(x.shape[0])[1]["a"] += [x.shape[0] * 2]
    return x.sum() + len(_listed(x.shape[0])[1]["a"])


def _changes_and_raises(x: Tensor) -> Any:
    sizes, _ = _listed(x.shape[0])
    sizes.append(3)
    if len(sizes) > 3:
        raise ValueError(str(len(sizes)))
    return x.sum() + len(sizes)


def _returns(x: Tensor) -> Any:
    return x.sum(), [_listed(x.shape[0])[0]]


@pytest.mark.parametrize(
    "program", [_appends, _changes_what_is_inside, _changes_and_raises, _returns]
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_containers_of_a_cache_are_shared(program: Any, dynamic: bool | None) -> None:
    def results(function: Any) -> list[Any]:
        _listed.cache_clear()
        found: list[Any] = []
        for rows in (2, 3, 4, 4, 4, 5, 5, 2, 2):
            try:
                answer = function(torch.zeros(rows))
            except ValueError as error:
                answer = str(error)
            if isinstance(answer, tuple):
                assert answer[1][0] is _listed(rows)[0]
                answer[1][0].append(1)
            found.append(str(answer))
        return [*found, *map(_listed, (2, 3, 4, 5))]

    assert results(anyshape.compile(program, dynamic=dynamic)) == results(program)


_scale = 2


@functools.lru_cache
def _scaled(rows: int) -> int:
    return rows * _scale
