"""Kernels that differ in what their outer loops run through are one, and compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from anyshape.loops.canonical import canonical
from anyshape.loops.expr import (
    Axis,
    constant,
    fresh_scope,
    index,
    load,
    operation,
    row,
)
from anyshape.loops.generalized import range_of
from anyshape.loops.kernels import Fold, Kernel, Stage, Store
from anyshape.loops.program import Launch
from anyshape.loops.text import kernel_text
from anyshape.symbolic import Range, Size, Symbol, as_symbol, evaluate, floordiv, symbol
from anyshape.symbolic.expr import symbols_of
from tests.loops.oracle.interpret import run_kernel
from tests.loops.verify import problems

BATCH, CHANNEL, PIXEL = (symbol(name) for name in ("b", "c", "p"))
S = symbol("s", Range(2, None))


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def axis(name: Size, extent: Size) -> Axis:
    return Axis(as_symbol(name), extent)


def scaled(batch: Size, channels: Size, pixels: Size, start: int = 0) -> Kernel:
    """A number for each channel times what is in it."""
    place = (BATCH * channels + CHANNEL) * pixels + PIXEL
    value = operation(
        "mul", load("x", place + start, "f32"), load("w", CHANNEL, "f32"), dtype="f32"
    )
    axes = (axis(BATCH, batch), axis(CHANNEL, channels), axis(PIXEL, pixels))
    return Kernel(axes, (Stage((), (Store("y", place, value),)),), {}, {})


def summed(batch: Size, channels: Size, pixels: Size) -> Kernel:
    place = (BATCH * channels + CHANNEL) * pixels + PIXEL
    fold = Fold("r", "sum", load("x", place, "f32"), "f32")
    name = frozenset([as_symbol(BATCH), as_symbol(CHANNEL)])
    store = Store("y", CHANNEL * batch + BATCH, row("r", "f32", name))
    axes = (axis(BATCH, batch), axis(CHANNEL, channels))
    stages = (Stage((axis(PIXEL, pixels),), (), (fold,)), Stage((), (store,)))
    return Kernel(axes, stages, {}, {})


def centred(batch: Size, channels: Size, pixels: Size, across: bool = False) -> Kernel:
    """Less their mean: of the pixels of a channel, or `across` the channels of a pixel."""
    place = (BATCH * channels + CHANNEL) * pixels + PIXEL
    outer, inner = axis(CHANNEL, channels), axis(PIXEL, pixels)
    if across:
        outer, inner = inner, outer
    kept = frozenset([as_symbol(BATCH), outer.symbol])
    fold = Fold("r", "sum", load("x", place, "f32"), "f32")
    count = (
        constant(inner.extent, "f32")
        if isinstance(inner.extent, int)
        else operation("cast", index(inner.extent), dtype="f32")
    )
    mean = operation("div", row("r", "f32", kept), count, dtype="f32")
    value = operation("sub", load("x", place, "f32"), mean, dtype="f32")
    stages = (Stage((inner,), (), (fold,)), Stage((inner,), (Store("y", place, value),)))
    return Kernel((axis(BATCH, batch), outer), stages, {}, {})


def bound_of(kernel: Kernel) -> Launch:
    found = canonical(kernel, lambda a, b: a == b, lambda size: evaluate(size, {as_symbol(S): 64}))
    assert not list(problems(found.kernel))
    return found


def text(kernel: Kernel) -> tuple[str, list[Range]]:
    found = bound_of(kernel)
    return kernel_text(found.kernel), list(map(range_of, found.sizes))


def test_channels_are_passed() -> None:
    one = text(scaled(2, 24, S))
    assert one == text(scaled(2, 151, S))
    assert text(scaled(2, 24, floordiv(S, 4))) == text(scaled(2, 96, floordiv(S + 7, 8)))
    assert text(summed(2, 24, S)) == text(summed(2, 151, S))
    # Another place in memory is another size, wherever it is.
    assert text(scaled(2, 24, S, 100)) == text(scaled(2, 24, S, 1000)) != one


def test_what_vectors_run_along_stays() -> None:
    """Whole vectors need no rest, and short rows go another way."""
    assert text(scaled(2, 24, 64)) == text(scaled(2, 40, 128)) != text(scaled(2, 24, 65))
    assert text(scaled(2, 24, 65)) == text(scaled(2, 24, 49)) != text(scaled(2, 24, 48))
    assert text(scaled(2, 24, 3)) != text(scaled(2, 24, 4))
    assert text(summed(2, 24, 64)) != text(summed(2, 24, 65))


def test_what_is_folded_is_passed() -> None:
    """With the number that it is divided by; not whether it is of whole vectors, or is long."""
    one = text(centred(2, 24, 64))
    assert one == text(centred(2, 40, 192)) == text(centred(3, 24, 4096))
    assert one != text(centred(2, 24, 65))
    assert one != text(centred(2, 24, 8192)) == text(centred(2, 24, 16384))
    assert text(centred(2, 24, 5)) != text(centred(2, 24, 6))
    across = text(centred(2, 24, S, across=True))
    assert across == text(centred(2, 151, S, across=True)) != text(centred(2, 257, S, across=True))
    assert text(centred(2, 300, S, across=True)) == text(centred(2, 257, S, across=True))


def test_sizes_that_may_be_negative_are_told_apart() -> None:
    """Kernels rely on the ranges of sizes."""
    less = symbol("u", Range(None, None))
    address = BATCH * floordiv(less, 3) + CHANNEL
    other = BATCH * floordiv(S, 3) + CHANNEL
    kernels = [
        Kernel(
            (axis(BATCH, 4), axis(CHANNEL, 16)),
            (Stage((), (Store("y", BATCH * 16 + CHANNEL, load("x", size, "f32")),)),),
            {},
            {},
        )
        for size in (address, other)
    ]
    found = [canonical(kernel) for kernel in kernels]
    assert kernel_text(found[0].kernel) == kernel_text(found[1].kernel)
    assert text(kernels[1])[1] != list(map(range_of, found[0].sizes))


@pytest.mark.parametrize("channels", [9, 16])
@pytest.mark.parametrize("pixels", [3, 16, 17, S, floordiv(S + 1, 2), S * 2])
@pytest.mark.parametrize("make", [scaled, summed, centred, partial(centred, across=True)])
def test_it_computes_the_same(
    make: Callable[[Size, Size, Size], Kernel], channels: int, pixels: Size
) -> None:
    kernel = make(2, channels, pixels)
    found = bound_of(kernel)
    values = {as_symbol(S): 7}
    count = 2 * channels * evaluate(pixels, values)
    data = {"x": [float(n % 11) for n in range(count)], "w": [float(n) for n in range(channels)]}
    expected = {**data, "y": [0.0] * count}
    run_kernel(kernel, expected, values)
    given = {**data, "y": [0.0] * count}
    own = {
        each: evaluate(found.sizes[int(each.name[1:])], values)
        for each in _symbols(found.kernel)
        if each.name.startswith("n")
    }
    run_kernel(found.kernel, {f"k{n}": given[name] for n, name in enumerate(found.buffers)}, own)
    assert given["y"] == expected["y"]


def _symbols(kernel: Kernel) -> set[Symbol]:
    sizes: list[Size] = [axis.extent for axis in kernel.axes]
    for stage in kernel.stages:
        sizes += [axis.extent for axis in stage.axes]
        sizes += [store.address for store in stage.stores]
        for value in (*(s.value for s in stage.stores), *(f.value for f in stage.folds)):
            stack = [value]
            while stack:
                scalar = stack.pop()
                stack += scalar.args
                if scalar.op == "load":
                    sizes.append(scalar.data[1])
    return {each for size in sizes for each in symbols_of(size)}
