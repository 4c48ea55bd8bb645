"""Operators of `torch.library` in compiled functions: their shapes, writes, gradients and names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape
from tests.devices import dispatch_key

SIZES = (5, 5, 7, 1, 0, 33)


@torch.library.custom_op("anyshape_ops::pair", mutates_args=())
def pair(x: Tensor, k: int = 2, scale: float = 1.5) -> tuple[Tensor, Tensor]:
    return x.repeat(k) * scale, x.sum(dim=-1, keepdim=True)


@pair.register_fake
def _(x: Tensor, k: int = 2, scale: float = 1.5) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0] * k), x.new_empty(1)


@torch.library.custom_op("anyshape_ops::positives", mutates_args=())
def positives(x: Tensor) -> Tensor:
    return x[x > 0].clone()


@positives.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("anyshape_ops::shift_", mutates_args={"x"})
def shift_(x: Tensor, by: Tensor | None = None, *, times: int = 1) -> None:
    x.add_(times if by is None else by * times)


@torch.library.custom_op("anyshape_ops::total", mutates_args=())
def total(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(parts)).sum(0)


@total.register_fake
def _(parts: Sequence[Tensor]) -> Tensor:
    return torch.empty_like(parts[0])


@torch.library.custom_op("anyshape_ops::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return x * x * x


cube.register_fake(torch.empty_like)
cube.register_autograd(
    lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@torch.library.custom_op("anyshape_ops::by_device", mutates_args=(), device_types="cpu")
def by_device(x: Tensor) -> Tensor:
    return x.sinh()


@by_device.register_kernel("cuda")
def _(x: Tensor) -> Tensor:
    return x.sinh()


by_device.register_fake(torch.empty_like)


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    made = torch.library.Library("anyshape_library", "DEF")
    made.define("halves(Tensor x, SymInt n) -> (Tensor, Tensor)")
    made.define("swap_(Tensor(a!) x, Tensor(b!) y) -> ()")
    made.define("into_(Tensor(a!) x, Tensor y) -> Tensor(a!)")

    def swap(x: Tensor, y: Tensor) -> None:
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)

    made.impl("halves", lambda x, n: (x[:n].clone(), x[n:].clone()), dispatch_key())
    made.impl("swap_", swap, dispatch_key())
    made.impl("into_", lambda x, y: x.mul_(y), dispatch_key())
    torch.library.register_fake(
        "anyshape_library::halves",
        lambda x, n: (x.new_empty(n), x.new_empty(x.shape[0] - n)),
        lib=made,
    )
    yield
    made._destroy()


def defaults(x):
    first, second = pair(x + 1)
    return first * 2, second, pair(x, 3, scale=0.5)


def unbacked(x):
    found = positives(x * 2)
    return found + 1, found.shape[0]


def mutated(x):
    y = x * 2
    before = y + 0
    shift_(y)
    shift_(x=y, by=x, times=3)
    shift_(by=before, x=x)
    return before, y, x + 1


def listed(x):
    return total([x, x * 2, x + 1]) * 2


def of_device(x):
    return by_device(x + 1) * torch.ops.anyshape_ops.by_device.default(x)


def of_a_library(x):
    ops = torch.ops.anyshape_library
    first, second = ops.halves(x, x.shape[0] // 2)
    return first.sum() + second.sum(), second


def swapped(x):
    y, z = x + 1, x + 2
    before = y * z
    torch.ops.anyshape_library.swap_(y, z)
    return before, y, z, y - z


def swapped_by_name(x):
    y, z = x + 1, x * 2
    torch.ops.anyshape_library.swap_(y=z, x=y)
    return y, z


def returned(x):
    y = x + 1
    z = torch.ops.anyshape_library.into_(y, x)
    z.add_(1)
    return y, z


PROGRAMS = [
    *(defaults, unbacked, mutated, listed, of_device, of_a_library, swapped, swapped_by_name),
    returned,
]


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph_for_all_sizes(program: Any, backend: Any) -> None:
    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for n in SIZES:
        theirs = torch.randn(n)
        ours = theirs.clone()
        expected = program(theirs)
        torch.testing.assert_close(compiled(ours), expected)
        torch.testing.assert_close(ours, theirs)
    stats = compiled.stats()
    assert (stats.graphs, stats.graph_breaks, stats.eager_calls) == (1, 0, 0)


@pytest.mark.parametrize("form", [cube, torch.ops.anyshape_ops.cube])
def test_gradients_of_their_own(form: Any) -> None:
    def program(x, w):
        return (form(x * w).sin() * w).sum()

    compiled = anyshape.compile(program, dynamic=True)
    for n in SIZES:
        x = torch.randn(n)
        theirs, ours = (torch.linspace(1, 2, n, requires_grad=True) for _ in range(2))
        program(x, theirs).backward()
        compiled(x, ours).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    stats = compiled.stats()
    assert (stats.graphs, stats.graph_breaks, stats.eager_calls) == (1, 0, 0)


def test_the_graph_and_the_explanation_name_them() -> None:
    compiled = anyshape.compile(listed, dynamic=True)
    compiled(torch.randn(5))
    (graph,) = compiled.entries[0].graphs
    assert "torch.ops.anyshape_ops.total" in graph.code
    assert "`total" in str(compiled.explain())


@pytest.mark.parametrize("program", [defaults, listed, of_device, swapped, mutated, unbacked])
def test_exported(program: Any) -> None:
    exported = anyshape.export(program, (torch.randn(5),), dynamic_shapes={"x": "n"})
    for n in SIZES:
        x, y = (torch.linspace(-1, 1, n) for _ in range(2))
        torch.testing.assert_close(exported(x), program(y))
        torch.testing.assert_close(x, y)


@torch.library.custom_op("anyshape_ops::without_fake", mutates_args=())
def without_fake(x: Tensor, n: int) -> Tensor:
    return x[:n].clone()


def test_without_a_shape_function_the_run_tells_the_sizes() -> None:
    def program(x, n):
        return without_fake(x, n) * 2

    compiled = anyshape.compile(program, dynamic=True)
    for n in (3, 3, 2, 5, 1, 0):
        x = torch.randn(7)
        torch.testing.assert_close(compiled(x, n), program(x, n))
    assert compiled.stats().eager_calls == 0


# -- shape functions that are wrong for other sizes than those of the capture ----------------------


def _joined(x: Tensor) -> Tensor:
    half = x.shape[0] // 2
    return x[:half] * x[half : 2 * half]


def _joined_backward(ctx: Any, grad: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    half = x.shape[0] // 2
    rest = x[2 * half :] * 0
    return torch.cat([grad * x[half : 2 * half], grad * x[:half], rest])


def _pieces(x: Tensor) -> list[Tensor]:
    return [each.clone() for each in x.split(2)]


for _name, _function, _fake in (
    ("rounds_up", _joined, lambda x: x.new_empty(((x.shape[0] + 1) // 2, *x.shape[1:]))),
    ("fixed", _joined, lambda x: x.new_empty((2, *x.shape[1:]))),
    ("fixed_pieces", _pieces, lambda x: [x.new_empty((2, *x.shape[1:])) for _ in range(2)]),
):
    _op = torch.library.custom_op(f"anyshape_ops::{_name}", _function, mutates_args=())
    _op.register_fake(_fake)
    if _function is _joined:
        _op.register_autograd(
            _joined_backward,
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
        )


def rounds_up(x):
    y = torch.ops.anyshape_ops.rounds_up(x * 2)
    return y * 3 + 1, y.shape[0]


def fixed(x):
    y = torch.ops.anyshape_ops.fixed(x * 2)
    return y * 3 + 1, y.numel()


def fixed_pieces(x):
    pieces = torch.ops.anyshape_ops.fixed_pieces(x * 2)
    return [each + 1 for each in pieces], len(pieces)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("program", [rounds_up, fixed, fixed_pieces])
def test_a_wrong_shape_function_is_told_and_changes_no_answer(program: Any, training: bool):
    compiled = anyshape.compile(program, dynamic=True)
    with (
        anyshape.config.patch(on_compile_error="warn"),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        for size in (4, 6, 7, 1, 0, 9, 4):
            x = torch.randn(size, 3000, requires_grad=training and program is not fixed_pieces)
            y = x.detach().clone().requires_grad_(x.requires_grad)
            expected, got = program(x), compiled(y)
            torch.testing.assert_close(got, expected)
            if x.requires_grad:
                expected[0].sum().backward()
                got[0].sum().backward()
                torch.testing.assert_close(y.grad, x.grad)
    assert sum("AS304" in str(each.message) for each in told) == 1


#: What an operator gives of many rows, where its shape function says what it gives of few.
DTYPES: dict[str, Callable[[Tensor], Any]] = {
    "wider": lambda x: x.double(),
    "narrower": lambda x: x.half(),
    "whole": lambda x: x.long(),
    "in pieces": lambda x: [x.clone(), x.bfloat16()],
}

for _name, _many in DTYPES.items():

    def _by_rows(x: Tensor, many: Callable[[Tensor], Any] = _many) -> Any:
        if x.shape[0] < 5:
            return [x.clone(), x.clone()] if isinstance(many(x), list) else x.clone()
        return many(x)

    _returned = "Tensor[]" if _name == "in pieces" else "Tensor"
    _op = torch.library.custom_op(
        f"anyshape_ops::{_name.replace(' ', '_')}",
        _by_rows,
        mutates_args=(),
        schema=f"(Tensor x) -> {_returned}",
    )
    _op.register_fake(
        (lambda x: [torch.empty_like(x), torch.empty_like(x)])
        if _name == "in pieces"
        else torch.empty_like
    )


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_that_a_shape_function_does_not_state(name: str, backend: Any) -> None:
    op = getattr(torch.ops.anyshape_ops, name.replace(" ", "_"))

    def program(x):
        made = op(x * 2)
        each = made if isinstance(made, list) else [made]
        return [(part * 3, part, part.dtype) for part in each]

    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    with (
        anyshape.config.patch(on_compile_error="warn"),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        for rows in (3, 4, 5, 7, 2):
            x = torch.randn(rows, 6)
            for found, expected in zip(compiled(x), program(x), strict=True):
                torch.testing.assert_close(found[:2], expected[:2])
                assert found[2:] == expected[2:]
    assert sum("AS304" in str(each.message) for each in told) == 1


def test_a_wrong_shape_function_is_an_error_where_that_is_wanted():
    compiled = anyshape.compile(rounds_up, dynamic=True)
    compiled(torch.randn(4, 3))
    with pytest.raises(anyshape.errors.WrongShapeFunction, match="register_fake"):
        compiled(torch.randn(7, 3))


def test_a_wrong_shape_function_is_found_behind_a_write():
    def program(x, kept):
        kept.add_(1)
        return torch.ops.anyshape_ops.rounds_up(x) + kept.sum()

    compiled = anyshape.compile(program, dynamic=True)
    for size in (4, 6):
        found = compiled(torch.ones(size, 3), torch.zeros(2))
        torch.testing.assert_close(found, torch.full((size // 2, 3), 3.0))
    with anyshape.config.patch(on_compile_error="warn"):
        kept = torch.zeros(2)
        try:
            found = compiled(torch.ones(7, 3), kept)
        except anyshape.errors.WrongShapeFunction:
            return
        torch.testing.assert_close(found, torch.full((3, 3), 3.0))
        assert kept.tolist() == [1.0, 1.0]


def test_an_artifact_checks_shape_functions(tmp_path):
    exported = anyshape.export(
        lambda x: torch.ops.anyshape_ops.rounds_up(x) + 1,
        (torch.ones(4, 3),),
        dynamic_shapes={"x": "batch 3"},
    )
    exported.save(tmp_path / "net.zip")
    loaded = anyshape.load(tmp_path / "net.zip")
    assert [loaded(torch.ones(size, 3)).shape[0] for size in (4, 6, 8)] == [2, 3, 4]
    with pytest.raises(anyshape.errors.WrongShapeFunction):
        loaded(torch.ones(7, 3))
