"""What a compiled function makes: closures, parameters, tensors by old constructors, generators."""

# The functions below are what users write, not what we would.
# pyright: basic, reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from tests.api.programs import check, heard, numbers
from tests.zoo.compare import difference

PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


# -- tensors ---------------------------------------------------------------------------------------


@program
def old_constructors(x):
    picked = x[:, torch.LongTensor([0, 1])]
    flags = x[:, torch.BoolTensor([True, False, True, False])]
    filled = torch.FloatTensor(x.shape[0], 2).fill_(2), torch.Tensor(*x.shape).zero_()
    sized = torch.DoubleTensor(x.size()).fill_(1), torch.IntTensor(3).zero_()
    return picked, flags, filled, sized, x + torch.Tensor([1, 2, 3, x.shape[0]])


@program
def new(x):
    sizes = x.new(x.shape[0], 2).zero_(), x.new(x.shape).fill_(3), x.new(x.size()[:1]).zero_()
    return sizes, x + x.new([1, 2, 3, 4]), x.new().shape, torch.Tensor.new(x, 2).zero_()


@program
def types_of_tensors(x):
    y = x.type(torch.LongTensor), x.type("torch.DoubleTensor"), x.type(torch.float16)
    return y, x.type() == "torch.FloatTensor"


@program
def parameters(x):
    w = nn.Parameter(torch.ones(x.shape[1]) * 2)
    frozen = nn.Parameter(x * 2, requires_grad=False)
    return x * w, w, isinstance(w, nn.Parameter), w.is_leaf, frozen, frozen.requires_grad


@program
def parameter_shares_memory(x):
    y = x * 2
    p = nn.Parameter(y, requires_grad=False)
    y += 1
    return p, p + 1, p.sum()


# -- functions -------------------------------------------------------------------------------------


@program
def closures(x):
    y, n = x * 2, x.shape[0]

    def inner(z, k=n, *, flip=False):
        return z.sum() * k + y.sum() + n

    return inner(x), Called(inner), Called(lambda z: z * n), [Called(lambda z: z + 1)]


@program
def closures_share_variables(x):
    count = x.shape[0]

    def up(z):
        nonlocal count
        count += 1
        return z + count

    def read(z):
        return z * count

    return x + 1, Called(up, read, up, read)


@program
def recursive_closure(x):
    def factorial(z, n=3):
        return z if n == 0 else factorial(z * n, n - 1)

    return x.sum(), Called(factorial), Called(functools.partial(factorial, n=x.shape[0]))


@program
def partials(x):
    return Called(functools.partial(torch.add, torch.ones(2) * x.shape[0], alpha=2)), x + 1


class Called:
    """Functions that are compared by what they return, called in order."""

    def __init__(self, *functions: Any) -> None:
        self.functions = functions


def results(value: Any) -> Any:
    if isinstance(value, Called):
        return [each(torch.ones(2)) for each in value.functions]
    if isinstance(value, (list, tuple)):
        return [results(each) for each in value]
    return value


@pytest.mark.parametrize("name", PROGRAMS)
def test_made_inside(name: str) -> None:
    def f(x):
        return PROGRAMS[name](x)

    compiled = anyshape.compile(f)
    for size in (3, 3, 5, 7, 4):
        found, expected = compiled(numbers(size)), f(numbers(size))
        problem = difference(results(found), results(expected), name)
        assert not problem, f"at size {size}: {problem}"
    assert compiled.stats().graphs == 2
    assert compiled.stats().eager_calls == 0, compiled.explain()


def test_a_returned_closure_is_the_users_function() -> None:
    outer = [1.0]

    def f(x):
        def inner(z: int = 3) -> Tensor:
            """Doc."""
            return x.sum() * z + outer[0]

        inner.mark = x.shape[0]
        return inner

    compiled = anyshape.compile(f)
    compiled(numbers(3))
    expected, found = f(numbers(3)), compiled(numbers(3))
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__code__", "__defaults__"):
        assert getattr(found, name) == getattr(expected, name)
    assert (found.__annotations__, found.mark) == (expected.__annotations__, 3)
    outer[0] = 5.0
    assert found() == expected()
    assert anyshape.compile(found)(2) == expected(2)
    assert compiled(numbers(3)) is not found


def test_a_closure_that_is_stored() -> None:
    class Holder:
        pass

    holder = Holder()

    def f(x):
        holder.function = lambda z: z + x.sum()
        return x + 1

    compiled = anyshape.compile(f)
    for size in (3, 3, 5, 7):
        compiled(numbers(size))
        assert torch.equal(holder.function(torch.ones(2)), torch.ones(2) + numbers(size).sum())
    assert compiled.stats().eager_calls == 0


def test_gradients_of_a_parameter_made_inside() -> None:
    def f(x):
        w = nn.Parameter(torch.ones(4))
        return (x * w).sum(), w

    compiled = anyshape.compile(f)
    for size in (3, 3, 5):
        (loss, w), (other, v) = compiled(numbers(size)), f(numbers(size))
        loss.backward()
        other.backward()
        assert torch.equal(w.grad, v.grad)
    assert compiled.stats().eager_calls == 0


# -- random numbers --------------------------------------------------------------------------------

outside = torch.Generator(torch.get_default_device())
RANDOM: dict[str, Callable[..., Any]] = {}


def draws(function: Callable[..., Any]) -> Callable[..., Any]:
    RANDOM[function.__name__] = function
    return function


@draws
def seeds(x):
    first = torch.rand(2)
    torch.manual_seed(x.shape[0])
    return first, x + torch.randn(4), torch.dropout(x, 0.5, True)


@draws
def states(x):
    state = torch.get_rng_state()
    first = torch.randn_like(x)
    torch.set_rng_state(state)
    return first, torch.randn_like(x), torch.rand(1)


@draws
def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        inner = torch.randn_like(x)
    return inner, torch.randn_like(x)


@draws
def generators(x):
    made = torch.Generator(x.device).manual_seed(3)
    other = torch.Generator(device=x.device)
    other.manual_seed(x.shape[0])
    outside.manual_seed(5)
    first = torch.randn(x.shape, generator=made)
    return first, torch.rand(x.shape[0], 1, generator=other), torch.rand(2, generator=outside)


@draws
def seed_of_python(x):
    random.seed(4)
    return x + 1


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name: str) -> None:
    def after(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Tensor) -> Any:
            random.seed(1)
            outside.manual_seed(9)
            said = function(x)
            return said, torch.rand(1), torch.rand(1, generator=outside), random.random()

        return call

    compiled = anyshape.compile(RANDOM[name])
    for size in (3, 3, 5, 7, 4):
        expected = heard(after(RANDOM[name]), numbers(size))
        found = heard(after(compiled), numbers(size))
        problem = difference(vars(found), vars(expected), name)
        assert not problem, problem
    assert compiled.stats().graphs == 2
    assert compiled.stats().eager_calls == 0


# -- operators of the program ----------------------------------------------------------------------


@torch.library.custom_op("anyshape_tests::scaled", mutates_args=())
def scaled(x: Tensor, k: float) -> Tensor:
    return x * k


@scaled.register_fake
def _(x, k):
    return torch.empty_like(x)


@torch.library.custom_op("anyshape_tests::first_rows", mutates_args=())
def first_rows(x: Tensor, n: int) -> Tensor:
    return x[:n].clone()


@torch.library.custom_op("anyshape_tests::increment", mutates_args={"x"})
def increment(x: Tensor) -> None:
    x.add_(1)


def test_custom_operators_by_their_handle() -> None:
    def f(x):
        y = scaled(x, 2.0) + first_rows(x, 2).sum()
        increment(y)
        return y, first_rows(y, x.shape[0] - 1) * 2

    check(f)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, others, size, options, function):
        ctx.size = size
        ctx.scale = options["scale"]
        return function(x) * ctx.scale + sum(others) * size.numel()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale * ctx.size.numel(), None, None, None, None


class Changing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seen):
        seen.append(x.shape[0])
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


def test_functions_with_a_gradient_of_their_own_take_containers() -> None:
    def f(x):
        y = Scale.apply(x, [x.detach(), 1], x.shape, {"scale": 2}, torch.relu)
        return y, *torch.autograd.grad(y.sum(), x)

    def forward(x):
        return Scale.apply(x, [x.detach(), 1], x.shape, {"scale": 2}, torch.relu)

    compiled = anyshape.compile(forward)
    for size in (3, 3, 5, 7):
        x, z = numbers(size, grad=True), numbers(size, grad=True)
        found = compiled(x)
        found.sum().backward()
        assert torch.equal(found, f(z)[0])
        assert torch.equal(x.grad, f(z)[1])
    assert compiled.stats().eager_calls == 0


def test_a_list_that_is_changed_by_a_function_with_a_gradient() -> None:
    def f(x):
        seen = []
        y = Changing.apply(x, seen)
        return y, seen

    compiled = anyshape.compile(f)
    for size in (3, 3, 5):
        assert compiled(numbers(size))[1] == [size]
