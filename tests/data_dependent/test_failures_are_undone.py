"""Runs of trees and parts that fail or are for another entry: all that they did is undone, once."""

from __future__ import annotations

import contextlib
import gc
import io
import math
import operator
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from tests.zoo.compare import difference

Program = Callable[..., Any]


def _outcome(call: Program, args: tuple[Any, ...]) -> Any:
    try:
        return call(*args)
    except Exception as error:
        return type(error)


def compare(function: Program, calls: list[Callable[[], tuple[Any, ...]]], **options: Any) -> Any:
    """Call eager and compiled twins; arguments are made anew for each, and compared as well."""
    compiled = anyshape.compile(function, **options)
    for index, make in enumerate(calls):
        seen = []
        for each in (function, compiled):
            torch.manual_seed(index)
            args = make()
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                result = _outcome(each, args)
            tensors = [arg for arg in args if isinstance(arg, Tensor)]
            versions = [None if each.is_inference() else each._version for each in tensors]
            error = isinstance(result, type) and result
            seen.append((printed.getvalue(), error, versions, result, tensors))
            seen.append(torch.rand(1))
        (eager, random, found, other) = seen
        assert found[:3] == eager[:3]
        assert torch.equal(random, other)
        assert not difference(eager[3:], found[3:])
    return compiled


# -- an error that the program catches ------------------------------------------------------------

READS: dict[str, Program] = {
    "item": lambda x: x.item(),
    "bool": bool,
    "not": lambda x: float(not x),
    "int": int,
    "float": float,
    "index": lambda x: operator.index(x.long()),
    "is_nonzero": torch.is_nonzero,
    "max": lambda x: max(x, x * 2).sum(),
    "any": lambda x: any([x]),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_that_fails_for_some_sizes(read: Program) -> None:
    def function(x: Tensor) -> Tensor:
        try:
            value = read(x)
        except (RuntimeError, ValueError, TypeError):
            value = 7.0
        return x * value

    sizes = (3, 1, 2, 1)
    compare(function, [lambda n=n: (torch.full((n,), 2.0),) for n in sizes], dynamic=True)


NUMBERS: dict[str, Program] = {
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": lambda v: math.exp(v * 400),
    "fmod": lambda v: math.fmod(1.0, v - 4),
    "gamma": math.gamma,
    "int of nan": lambda v: int(v if v > 0 else math.nan),
    "power": lambda v: 10.0 ** (v * 100),
}


@pytest.mark.parametrize("of_size", [False, True])
@pytest.mark.parametrize("function", NUMBERS.values(), ids=NUMBERS)
def test_a_function_of_numbers_that_fails_for_some(function: Program, of_size: bool) -> None:
    def program(x: Tensor) -> Tensor:
        value = x.shape[0] - 2 if of_size else x[0].item()
        try:
            result = float(function(value))
        except (ValueError, OverflowError):
            result = -5.0
        return x * result

    values = (-1.0, 4.0, 1.0, -1.0, 0.0)
    if of_size:
        calls = [lambda n=n: (torch.ones(n),) for n in (1, 6, 3, 2)]
    else:
        calls = [lambda v=v: (torch.tensor([v]),) for v in values]
    compare(program, calls, dynamic=True)


# -- what is undone, and what is not done twice ---------------------------------------------------


@pytest.mark.parametrize("size", [2, 200_000])
@pytest.mark.parametrize("caught", [False, True])
def test_a_graph_that_fails_after_a_change(size: int, caught: bool) -> None:
    def plain(x: Tensor, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        if x.sum() > 0:
            total.add_(1)
            return a // b
        return b

    def guarded(x: Tensor, total: Tensor, a: Tensor, b: Tensor) -> Tensor:
        total.add_(1)
        try:
            return a // b
        except RuntimeError:
            return b - 1

    def call(divisor: int, sign: float) -> tuple[Tensor, ...]:
        a = torch.tensor([7])
        return torch.tensor([sign]), torch.zeros(size), a, torch.tensor([divisor])

    calls = [lambda d=d, s=s: call(d, s) for d, s in ((2, 1.0), (3, 1.0), (0, 1.0), (2, -1.0))]
    compare(guarded if caught else plain, [*calls, *calls])


def test_requires_grad_is_undone() -> None:
    def function(x: Tensor, sign: Tensor) -> Tensor:
        weight = 5 if x.requires_grad else 1
        x.requires_grad_()
        return (x * 2 * weight if sign.sum() > 0 else x * 3 * weight).detach()

    signs = (1.0, 1.0, -1.0, 1.0)
    compare(function, [lambda s=s: (torch.ones(2), torch.tensor(s)) for s in signs])


STATISTICS: dict[str, Program] = {
    "views": lambda x, b: F.batch_norm(x, b[0], b[1], training=True),
    "named": lambda x, b: F.batch_norm(x, running_mean=b[0], running_var=b[1], training=True),
    "instance": lambda x, b: F.instance_norm(x[None], b[0], b[1]),
    "update": lambda x, b: torch.batch_norm_update_stats(x, b[0], b[1], 0.1),
    "overload": lambda x, b: torch.ops.aten.native_batch_norm.default(
        x, None, None, b[0], b[1], True, 0.1, 1e-5
    ),
}


@pytest.mark.parametrize("norm", STATISTICS.values(), ids=STATISTICS)
def test_running_statistics_are_updated_once(norm: Program) -> None:
    def function(x: Tensor, buffer: Tensor, sign: Tensor) -> Tensor:
        norm(x, buffer)
        return buffer * 2 if sign.sum() > 0 else buffer * 3

    def call(sign: float) -> tuple[Tensor, ...]:
        return torch.randn(4, 4), torch.ones(2, 4), torch.tensor(sign)

    compare(function, [lambda s=s: call(s) for s in (1.0, 1.0, -1.0, -1.0)])


def test_random_numbers_of_a_run_that_fails() -> None:
    def function(x: Tensor, index: Tensor) -> Tensor:
        noise = torch.rand(3)
        y = x + noise if x.sum() > 0 else x - noise
        return y[index]

    calls = [
        lambda s=s, i=i: (torch.full((3,), s), torch.tensor([i]))
        for s, i in ((1.0, 0), (-1.0, 1), (1.0, 2), (1.0, 9), (-1.0, 9), (1.0, 0))
    ]
    compare(function, calls)


# -- functions with their own gradient ------------------------------------------------------------


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 20


class Thrice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 3

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 30


def test_functions_with_their_own_gradient_run_compiled() -> None:
    def function(x: Tensor) -> Tensor:
        return Twice.apply(x) + 1 if x.sum() > 0 else Thrice.apply(x) + 1

    compiled = anyshape.compile(function, dynamic=True)
    for call in range(8):
        for sign in (1.0, -1.0):
            x = torch.full((2 + call,), sign, requires_grad=True)
            compiled(x).sum().backward()
            other = x.detach().clone().requires_grad_()
            function(other).sum().backward()
            assert not difference(x.grad, other.grad)
    stats = compiled.stats()
    assert stats.captures <= 3
    assert stats.hits >= 12


class Noisy(torch.autograd.Function):
    """Draws random numbers and changes what it is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.add_(torch.rand(x.shape[0]))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


def test_what_a_function_with_its_own_gradient_did_is_undone() -> None:
    def function(x: Tensor, sign: Tensor) -> Tensor:
        y = Noisy.apply(x)
        return y * 2 if sign.sum() > 0 else y * 3

    sizes = ((0, 1.0), (3, 1.0), (3, -1.0), (2, -1.0), (0, -1.0), (4, 1.0))
    calls = [lambda n=n, s=s: (torch.ones(n), torch.tensor(s)) for n, s in sizes]
    compare(function, calls, dynamic=True)


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("module", [False, True])
def test_errors_of_the_program_have_no_context_of_ours(branches: bool, module: bool) -> None:
    def function(x: Tensor, index: Tensor) -> Tensor:
        if branches and x.sum() > 0:
            x = x + 1
        return x[index]

    class Module(nn.Module):
        def forward(self, x: Tensor, index: Tensor) -> Tensor:
            return function(x, index)

    compiled = anyshape.compile(Module() if module else function)
    for sign in (1.0, 1.0, -1.0, -1.0):
        compiled(torch.full((3,), sign), torch.tensor([0]))
    with pytest.raises(IndexError) as caught:
        compiled(torch.ones(3), torch.tensor([9]))
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


# -- parts -----------------------------------------------------------------------------------------


class Foreign(nn.Module):
    """Runs in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x.detach().numpy()
        return self.linear(x) * 2


@pytest.mark.parametrize("everywhere", [False, True])
def test_hooks_of_modules_in_parts(everywhere: bool) -> None:
    module, seen = Foreign(), []
    if everywhere:
        handle = nn.modules.module.register_module_forward_hook(lambda *args: seen.append(1))
    else:
        handle = module.register_full_backward_hook(lambda *args: seen.append(1))
    try:
        compiled = anyshape.compile(module)
        counts = []
        for _ in range(5):
            seen.clear()
            compiled(torch.randn(2, 3, requires_grad=True)).sum().backward()
            counts.append(len(seen))
        assert len(set(counts)) == 1
        assert counts[0] > 0
    finally:
        handle.remove()


def test_parts_keep_no_module_and_no_closure_alive() -> None:
    held: list[weakref.ref[Any]] = []

    def outer(x: Tensor) -> Tensor:
        x.detach().numpy()
        offset = torch.ones(3)
        held.append(weakref.ref(offset))

        def inner(y: Tensor) -> Tensor:
            return torch.relu(y * 2 + offset) * 3 - y

        return inner(x)

    compiled = anyshape.compile(outer)
    for _ in range(20):
        compiled(torch.randn(3))
    gc.collect()
    assert sum(each() is not None for each in held) <= 8


# -- the rest --------------------------------------------------------------------------------------


def test_settings_of_torch_are_guarded() -> None:
    def function(x: Tensor) -> Tensor:
        return x * torch.get_num_threads()

    compiled, x, before = anyshape.compile(function), torch.ones(2), torch.get_num_threads()
    try:
        for threads in (1, 2, 1):
            torch.set_num_threads(threads)
            assert torch.equal(compiled(x), x * threads)
    finally:
        torch.set_num_threads(before)


def test_a_list_is_printed_as_it_was() -> None:
    def function(x: Tensor) -> Tensor:
        values = [1]
        print(values, (values, 2))
        values.append(2)
        return x + len(values)

    compare(function, [lambda: (torch.ones(2),)] * 3)


def test_copies_that_are_none_at_other_sizes() -> None:
    def function(x: Tensor) -> tuple[Tensor, bool]:
        turned = x.t()
        copy = turned.contiguous()
        return copy, copy is turned

    calls = [lambda s=s: (torch.ones(s),) for s in ((4, 3), (1, 3), (4, 1), (2, 2))]
    compare(function, calls, dynamic=True)
