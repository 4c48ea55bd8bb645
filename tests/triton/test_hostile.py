"""Programs that show it if a launch is moved, left out, repeated or given something else."""

from __future__ import annotations

import copy
import gc
import threading
import types
import weakref
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import anyshape
from tests.triton.kernels import (
    activate_kernel,
    add_kernel,
    clip_kernel,
    copied,
    double_,
    double_kernel,
    repeat_kernel,
)


def _grid(x: torch.Tensor) -> tuple[int, ...]:
    return (triton.cdiv(x.numel(), 16),)


# -- order, aliases, effects -----------------------------------------------------------------------


def returned_and_written(x):
    double_(x)
    return x, x * 2


def read_before_and_after(x):
    before = x.sin()
    double_(x)
    after = x.sin()
    x.add_(1)
    double_(x)
    return before, after, x.sin(), before + after


def two_views(x):
    """Of the same memory, one written through the other."""
    head, tail = x[:4], x[2:]
    low = head + 0
    double_kernel[(1,)](tail, 2, BLOCK=16)
    return low, head * 1, x + 0


def a_view_that_stays(x):
    y = x * 1
    view = y[1:]
    double_(y)
    return view + 1, y


def written_by_the_program_in_between(x):
    y = torch.zeros_like(x)
    for k in range(3):
        y[k : k + 2] += k
        double_(y)
    return y


def overlapping_arguments(x):
    y = x + 1
    add_kernel[_grid(y)](y, y, y, y.numel(), BLOCK=16)
    return y


def unused_result(x):
    double_(x.clone())
    double_(x)
    return x.shape[0]


def only_a_launch(x):
    double_(x)


def conditional(x, flag):
    if flag:
        double_(x)
    return x + 1


def branches_on_data(x):
    y = x * 2
    if y.sum() > 0:
        double_(y)
    else:
        y = y - 1
    double_(y)
    return y


def size_of_data(x):
    n = int((x > 0).sum())
    out = torch.zeros_like(x)
    double_kernel[(triton.cdiv(n, 16),)](x, n, BLOCK=16)
    add_kernel[(1,)](x, x, out, n, BLOCK=64)
    return out


def reshaped(x):
    y = x.reshape(-1)
    double_(y)
    return x + y.view(x.shape)


def through_data(x):
    double_(x.data)
    return x + 1


def many_launches(x):
    total = x * 0
    for k in range(20):
        y = x + k
        double_(y)
        total = total + y
    return total


def of_one_row(x):
    return copied(x[None])[0]


PROGRAMS = [
    returned_and_written, read_before_and_after, two_views, a_view_that_stays,
    written_by_the_program_in_between, overlapping_arguments, unused_result, only_a_launch,
    branches_on_data, size_of_data, reshaped, through_data, many_launches, of_one_row,
]  # fmt: skip


def _compare(program: Any, compiled: Any, device: str, sizes: Any = (6, 6, 9, 33, 7)) -> None:
    for seed, n in enumerate(sizes):
        torch.manual_seed(seed)
        theirs = torch.randn(n, device=device)
        ours = theirs.clone()
        expected = program(theirs)
        torch.testing.assert_close(compiled(ours), expected)
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_order_and_aliases(program: Any, backend: Any, dynamic: Any, device: str) -> None:
    compiled = anyshape.compile(program, dynamic=dynamic, backend=backend)
    _compare(program, compiled, device)
    assert compiled.stats().eager_calls == 0


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_arguments_that_share_memory(backend: Any, device: str) -> None:
    def program(x, y):
        before = y + 1
        double_(x)
        return before, y + 1

    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for n in (5, 5, 8):
        for make in (lambda x: (x, x), lambda x: (x[1:], x[:-1]), lambda x: (x, x.clone())):
            theirs = torch.arange(n, dtype=torch.float32, device=device)
            ours = theirs.clone()
            expected = program(*make(theirs))
            torch.testing.assert_close(compiled(*make(ours)), expected)
            torch.testing.assert_close(ours, theirs)


def test_gradients_are_as_in_eager(device: str) -> None:
    """A launch is nothing that autograd sees: what it reads has a gradient by other ways alone."""

    def program(x, w):
        y = x * w
        out = torch.empty_like(x)
        add_kernel[_grid(x)](y.detach(), x, out, x.numel(), BLOCK=16)
        return (y * out).sum()

    compiled = anyshape.compile(program, dynamic=True)
    for n in (5, 5, 9):
        torch.manual_seed(n)
        x = torch.randn(n, device=device)
        theirs, ours = (torch.linspace(1, 2, n, device=device, requires_grad=True) for _ in "ab")
        program(x, theirs).backward()
        compiled(x, ours).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    assert compiled.stats().eager_calls == 0


def test_a_kernel_reads_what_requires_a_gradient(device: str) -> None:
    def program(x):
        y = x * 2
        out = torch.empty_like(x)
        add_kernel[_grid(x)](x, y, out, x.numel(), BLOCK=16)
        return out, y

    compiled = anyshape.compile(program, dynamic=True)
    for n in (5, 5, 9):
        x = torch.linspace(1, 2, n, device=device, requires_grad=True)
        found, expected = compiled(x), program(x)
        torch.testing.assert_close(found, expected)
        assert [each.requires_grad for each in found] == [False, True]


@triton.jit
def by_address_kernel(addresses, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(x + at, tl.load(x + at, mask=at < n) * 10, mask=at < n)


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_a_kernel_that_follows_addresses(backend: Any, device: str) -> None:
    """It writes to tensors that the launch is not given."""

    def program(x, y, addresses):
        before = x + 1
        z = (y * 2).sin()
        by_address_kernel[(2,)](addresses, x.numel(), BLOCK=16)
        return before, z, x + y

    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for n in (5, 5, 7):
        found = []
        for each in (program, compiled):
            x, y = torch.ones(n, device=device), torch.ones(n, device=device) * 2
            addresses = torch.tensor([x.data_ptr(), y.data_ptr()], device=device)
            found.append((each(x, y, addresses), x, y))
        torch.testing.assert_close(found[1], found[0])


class InPlace(torch.autograd.Function):
    """Writes to what it is given, and tells nobody."""

    @staticmethod
    def forward(ctx, x):
        n = x.numel()
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731 as users write it
        double_kernel[grid](x, n, BLOCK=16)
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return grad


@pytest.mark.parametrize("backend", ["native", "eager"])
def test_a_function_that_writes_before_a_decision(backend: Any, device: str) -> None:
    def program(x):
        before = x + 1
        total = InPlace.apply(x)
        if total > 0:
            return before, x + total
        return before - 1, x

    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    _compare(program, compiled, device, (6, 6, 9, 33, 7, 6, 5, 4))
    assert compiled.stats().eager_calls == 0


# -- arguments -------------------------------------------------------------------------------------


def test_integers_arrive_as_they_are(device: str) -> None:
    def program(x, times, flag):
        out = torch.empty_like(x)
        repeat_kernel[_grid(x)](x, out, x.numel(), times, flag, BLOCK=16)
        return out

    compiled = anyshape.compile(program, dynamic=True)
    x = torch.randn(5, device=device)
    for times in (1, 2, 16, 17, 3, 1):
        for flag in (False, True):
            torch.testing.assert_close(compiled(x, times, flag), program(x, times, flag))
    # One for each truth value: an integer is an argument, whatever Triton makes of it.
    assert compiled.stats().graphs == 2


def test_floats_are_arguments(device: str) -> None:
    def program(x, low):
        out = torch.empty_like(x)
        clip_kernel[_grid(x)](x, out, x.numel(), low, 0.5)
        return out

    compiled = anyshape.compile(program, dynamic=True)
    x = torch.randn(5, device=device)
    with anyshape.config.patch(specialize_float=False):
        for low in (-0.5, -0.25, -0.75, -1.5, 0.0):
            torch.testing.assert_close(compiled(x, low), program(x, low))
    assert compiled.stats().graphs <= 2


def test_flags_texts_and_none(device: str) -> None:
    def program(x, bias, activation):
        out = torch.empty_like(x)
        activate_kernel[_grid(x)](x, bias, out, x.numel(), bias is not None, activation, 16)
        return out

    compiled = anyshape.compile(program, dynamic=True)
    x = torch.randn(5, device=device)
    for bias in (None, x * 2):
        for activation in ("relu", "square", "none", None):
            torch.testing.assert_close(compiled(x, bias, activation), program(x, bias, activation))
    assert compiled.stats().eager_calls == 0


def test_a_grid_from_outside(device: str) -> None:
    def program(x, grid):
        out = torch.zeros_like(x)
        add_kernel[grid](x, x, out, x.numel(), BLOCK=4)
        return out

    compiled = anyshape.compile(program)
    x = torch.randn(9, device=device)
    for grid in ((1,), (2,), (3, 1), (3, 1, 1), lambda meta: (2,), lambda meta: (3,)):
        torch.testing.assert_close(compiled(x, grid), program(x, grid))


def test_a_grid_function_with_state(device: str) -> None:
    class Grid:
        blocks = 1

        def __call__(self, meta):
            return (self.blocks,)

    grid = Grid()

    def program(x):
        out = torch.zeros_like(x)
        add_kernel[grid](x, x, out, x.numel(), BLOCK=4)
        return out

    compiled = anyshape.compile(program)
    x = torch.randn(9, device=device)
    for grid.blocks in (1, 2, 3):
        torch.testing.assert_close(compiled(x), program(x))


def test_grid_functions_that_ask_for_more(device: str) -> None:
    def by_get(meta):
        return (triton.cdiv(9, meta.get("BLOCK", 1)),)

    def by_name(meta):
        return (1 if "BLOCK" in meta else 3,)

    def unpacked(meta):
        return (len({**meta}),)

    for grid in (by_get, by_name, unpacked):

        def program(x, grid=grid):
            out = torch.zeros_like(x)
            add_kernel[grid](x, x, out, x.numel(), BLOCK=4)
            return out

        compiled = anyshape.compile(program)
        x = torch.randn(9, device=device)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), program(x))


# -- which kernel ----------------------------------------------------------------------------------


@triton.jit
def triple_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 3, mask=at < n)


def _made():
    @triton.jit
    def made_kernel(x, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + at, tl.load(x + at, mask=at < n) * 5, mask=at < n)

    return made_kernel


def test_kernels_are_told_apart(device: str) -> None:
    def program(x, kernel):
        kernel[_grid(x)](x, x.numel(), BLOCK=16)
        return x + 1

    compiled = anyshape.compile(program, dynamic=True)
    kernels = [double_kernel, triple_kernel, _made(), _made()]
    for kernel in (*kernels, *kernels):
        x = torch.randn(5, device=device)
        y = x.clone()
        torch.testing.assert_close(compiled(x, kernel), program(y, kernel))
        torch.testing.assert_close(x, y)
    assert compiled.stats().graphs == 4


def test_a_kernel_that_is_replaced(device: str) -> None:
    held = {"kernel": double_kernel}

    def program(x):
        held["kernel"][_grid(x)](x, x.numel(), BLOCK=16)
        return x + 1

    compiled = anyshape.compile(program, dynamic=True)
    for held["kernel"] in (double_kernel, triple_kernel, _made()):
        for _ in range(2):
            x = torch.randn(5, device=device)
            y = x.clone()
            torch.testing.assert_close(compiled(x), program(y))


def test_what_was_compiled_goes_with_its_kernel(device: str) -> None:
    kernel = _made()

    def program(x):
        kernel[_grid(x)](x, x.numel(), BLOCK=16)
        return x + 1

    compiled = anyshape.compile(program)
    compiled(torch.ones(5, device=device))
    held = [weakref.ref(each) for each in compiled.entries[0].graphs[0].graph.nodes]
    steps = [weakref.ref(each().target) for each in held if "launch" in each().name]
    assert steps
    del compiled
    gc.collect()
    assert all(step() is None for step in steps)


def test_a_launch_that_is_kept(device: str) -> None:
    def program(x):
        launch = double_kernel[_grid(x)]
        launch(x, x.numel(), BLOCK=16)
        launch(x, x.numel(), BLOCK=16)
        return x

    compiled = anyshape.compile(program, dynamic=True)
    _compare(program, compiled, device)
    assert compiled.stats().graphs == 1


def test_what_a_launch_returns_is_not_followed(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiled kernel, where there is a GPU; the interpreter returns None."""
    if device == "cpu":
        own, made = type(double_kernel).run, types.SimpleNamespace(num_warps=4)
        monkeypatch.setattr(
            type(double_kernel), "run", lambda *args, **kwargs: own(*args, **kwargs) or made
        )

    def looking(x):
        found = double_kernel[_grid(x)](x, x.numel(), BLOCK=16)
        return x + (4 if hasattr(found, "num_warps") else 0)

    def returning(x):
        y = x + 1
        return y, double_kernel[_grid(x)](y, x.numel(), BLOCK=16)

    def launching(x):
        y = x + 1
        return y, double_kernel[_grid(x)]

    for program in (looking, returning, launching):
        compiled = anyshape.compile(program, dynamic=True)
        for n in (5, 7, 7):
            x, y = torch.ones(n, device=device), torch.ones(n, device=device)
            found, expected = compiled(x), program(y)
            torch.testing.assert_close(x, y)
            if program is looking:
                torch.testing.assert_close(found, expected)
            else:
                torch.testing.assert_close(found[0], expected[0])
                assert type(found[1]) is type(expected[1])


def test_a_program_that_cannot_be_followed_after_a_subscript(device: str) -> None:
    class Strange:
        def __str__(self) -> str:
            return "strange"

    def program(x):
        launch = double_kernel[(triton.cdiv(x.shape[0], 16),)]
        print(Strange(), end="", file=None)
        launch(x, x.shape[0], BLOCK=16)
        return x + 1, launch is None

    _compare(program, anyshape.compile(program, dynamic=True), device)


def test_an_error_of_a_launch_reaches_the_handler_of_the_program(device: str) -> None:
    def program(x, block):
        y = x * 2
        try:
            add_kernel[_grid(x)](x, x, y, x.numel(), BLOCK=block)
        except Exception:
            return y - 100
        return y + 1

    compiled = anyshape.compile(program, dynamic=True)
    x = torch.randn(5, device=device)
    for block in (16, 3, 16, 3):  # `arange` wants a power of 2.
        torch.testing.assert_close(compiled(x, block), program(x, block))


def test_copies_and_threads(device: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            double_(y)
            return y

    model = Model()
    compiled = anyshape.compile(model, dynamic=True)
    compiled(torch.ones(3, device=device))
    another = copy.deepcopy(compiled)
    wrong: list[int] = []

    def work(which: Any, n: int) -> None:
        for _ in range(5):
            x = torch.randn(n, device=device)
            if not torch.equal(which(x), (x + 1) * 2):
                wrong.append(n)

    # The interpreter keeps the program at hand in one place: one thread at a time launches there.
    is_interpreted = device == "cpu"
    threads = [
        threading.Thread(target=work, args=(which, n))
        for which in (compiled, another)
        for n in (3, 5, 17)
    ]
    for thread in threads:
        thread.start()
        if is_interpreted:
            thread.join()
    for thread in threads:
        thread.join()
    assert not wrong
