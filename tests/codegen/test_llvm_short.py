"""Short axes: vectors along two axes at once, or along a parallel one, chosen as kernels run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from anyshape.codegen.target import Target
from anyshape.loops.collapsed_axes import flattened
from anyshape.loops.expr import Axis, Dtype, Scalar, constant, fresh_scope, index, load, row
from anyshape.loops.kernels import Fold, Kernel, Stage, Store
from anyshape.symbolic import Size, as_symbol, symbol
from tests.codegen.kernel_samples import POINTS, folded, kernel, op
from tests.codegen.llvm_jit import AVX2, NUMPY, compiled, host, runs
from tests.codegen.one_module import module
from tests.loops.oracle.interpret import run_kernel

AT, ROW, CHANNEL, N0, N1, N2 = (symbol(name) for name in ("i0", "i1", "i2", "n0", "n1", "n2"))


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def short(store: Store, width: Size = N2) -> Kernel:
    axes = (Axis(as_symbol(AT), N0), Axis(as_symbol(ROW), N1), Axis(as_symbol(CHANNEL), width))
    return replace(kernel(axes, Stage((), (store,))), short=True)


def value(width: Size = N2) -> Scalar:
    """What is read in order, per channel, per row, transposed, and under a mask; the point itself;
    and a function, some of whose results are inexact."""
    place = (AT * N1 + ROW) * width + CHANNEL
    inside = op("lt", index(ROW), index(N1 - 1), dtype="b1")
    masked = load("k0", place + width, "f32", inside, constant(5.0, "f32"))
    parts = [
        op("mul", load("k0", place, "f32"), load("k2", CHANNEL, "f32")),
        op("exp", load("k3", AT * N1 + ROW, "f32")),
        op("add", load("k0", (AT * width + CHANNEL) * N1 + ROW, "f32"), masked),
        op("cast", op("sub", index(ROW * 10), index(CHANNEL)), dtype="f32"),
    ]
    total = parts[0]
    for part in parts[1:]:
        total = op("add", total, part)
    return total


def check(made: Kernel, target: Target, sizes: tuple[int, int, int]) -> None:
    runner = compiled(made, target)
    rng = np.random.default_rng(0)
    count = sizes[0] * sizes[1] * sizes[2]
    shapes = (count, count + 1, sizes[2], sizes[0] * sizes[1])
    buffers = [rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]
    lists = {f"k{n}": buffer.tolist() for n, buffer in enumerate(buffers)}
    run_kernel(made, lists, runs(made, sizes))
    assert runner(buffers, sizes) == 0
    np.testing.assert_allclose(buffers[1], lists["k1"], rtol=1e-5, atol=1e-5)


SIZES = [(1, 1, 1), (2, 3, 1), (1, 33, 2), (3, 7, 3), (2, 50, 5), (4, 1, 7), (5, 4, 8), (2, 3, 20)]
SIZES += [(3, 9, 4), (0, 4, 3), (4, 0, 3), (4, 3, 0)]


@pytest.mark.parametrize("target", [host(), AVX2], ids=["host", "avx2"])
def test_all_widths_are_right(target: Target) -> None:
    for sizes in SIZES:
        check(short(Store("k1", (AT * N1 + ROW) * N2 + CHANNEL, value())), target, sizes)


@pytest.mark.parametrize("width", [3, 4])
def test_a_width_that_is_known(width: int) -> None:
    made = short(Store("k1", (AT * N1 + ROW) * width + CHANNEL, value(width)), width)
    text = module({"f": made}, host())
    assert "f.short.part" not in text
    for rows in (1, 6, 41):
        check(made, host(), (3, rows, width))


def test_both_are_there_and_the_axes_are_one() -> None:
    made = short(Store("k1", (AT * N1 + ROW) * N2 + CHANNEL, value()))
    text = module({"f": made}, host())
    assert "@f.short.part" in text
    assert "@f.long.part" in text
    flat = flattened(made)
    assert flat is not None
    assert [str(axis.extent) for axis in flat.kernel.axes] == ["n0", "n1*n2"]
    assert str(flat.kernel.stages[0].stores[0].address) == "i0*n1*n2 + i2"


def test_what_would_not_be_dense_stays_as_it_is() -> None:
    assert flattened(short(Store("k1", (AT * N2 + CHANNEL) * N1 + ROW, value()))) is None


@pytest.mark.parametrize("target", [host(), AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize("fold", ["sum", "max", "argmin", "prod"])
def test_short_reductions(fold: str, target: Target) -> None:
    place = symbol("i0") * N1 + symbol("r0")
    value = op("mul", load("k0", place, "f32"), load("k2", symbol("r0"), "f32"))
    dtype: Dtype = "i64" if fold == "argmin" else "f32"
    made = replace(folded(fold, value, (POINTS,), dtype), short=True)
    text = module({"f": made}, target)
    assert "@f.short.part" in text
    runner = compiled(made, target)
    rng = np.random.default_rng(0)
    for rows in (0, 1, 5, 16, 50):
        for width in (1, 2, 3, 7, 8, 40):
            x, y = (rng.integers(-3, 4, n).astype(np.float32) for n in (rows * width, width))
            given = [x, np.zeros(rows, NUMPY[dtype]), y]
            lists = {f"k{n}": buffer.tolist() for n, buffer in enumerate(given)}
            run_kernel(made, lists, runs(made, (rows, width)))
            assert runner(given, (rows, width)) == 0
            np.testing.assert_allclose(given[1], lists["k1"], rtol=1e-6)


def test_threads_share_a_short_reduction() -> None:
    """Few points and much work; a stage has a long axis around the short one."""
    line, inner = Axis(as_symbol(symbol("r0")), N1), Axis(as_symbol(symbol("r1")), N2)
    at = (symbol("i0") * N1 + symbol("r0")) * N2 + symbol("r1")
    fold = Fold("x", "sum", op("exp", load("k0", at, "f32")), "f32")
    store = Store("k1", symbol("i0"), row("x", "f32", frozenset()))
    made = kernel((POINTS,), Stage((line, inner), folds=(fold,)), Stage((), (store,)))
    runner = compiled(replace(made, short=True))
    x = np.random.default_rng(0).normal(0, 1, (2, 40_000, 3)).astype(np.float32)
    result = np.empty(2, np.float32)
    assert runner([x, result], x.shape) == 0
    np.testing.assert_allclose(result, np.exp(x.astype(np.float64)).sum((1, 2)), rtol=1e-5)


def periodic(width: Size = N2) -> Kernel:
    """What depends on the channel alone, or on the channel and on what is around: read, computed,
    under a condition, and as a number."""
    place = (AT * N1 + ROW) * width + CHANNEL
    first = op("lt", index(CHANNEL), index(width - 1), dtype="b1")
    parts = [
        load("k0", place, "f32"),
        op("exp", load("k2", CHANNEL, "f32")),
        load("k2", AT * width + CHANNEL, "f32"),
        load("k2", CHANNEL + 1, "f32", first, constant(5.0, "f32")),
        op("cast", index(CHANNEL), dtype="f32"),
        op("cast", load("k3", CHANNEL, "u8"), dtype="f32"),
    ]
    total = parts[0]
    for part in parts[1:]:
        total = op("add", total, part)
    return short(Store("k1", place, total), width)


@pytest.mark.parametrize("target", [host(), AVX2], ids=["host", "avx2"])
def test_what_repeats_itself(target: Target) -> None:
    made = periodic()
    runner = compiled(made, target)
    for sizes in [*SIZES, (3, 100, 3), (2, 31, 7), (40, 1, 5), (1, 400, 6)]:
        rng = np.random.default_rng(0)
        count = sizes[0] * sizes[1] * sizes[2]
        buffers = [
            *(rng.normal(0, 1, count).astype(np.float32) for _ in range(2)),
            rng.normal(0, 1, sizes[0] * sizes[2]).astype(np.float32),
            rng.integers(0, 256, sizes[2]).astype(np.uint8),
        ]
        lists = {f"k{n}": buffer.tolist() for n, buffer in enumerate(buffers)}
        run_kernel(made, lists, runs(made, sizes))
        assert runner(buffers, sizes) == 0
        np.testing.assert_allclose(buffers[1], lists["k1"], rtol=1e-5, atol=1e-5)


def test_what_repeats_itself_is_not_gathered() -> None:
    """Lanes do not have to know where they are, but for the table."""
    place = (AT * N1 + ROW) * N2 + CHANNEL
    value = op("mul", load("k0", place, "f32"), load("k2", CHANNEL, "f32"))
    text = module({"f": short(Store("k1", place, value))}, host()).split("@f.short.part(")[1]
    assert "phi <16 x i64>" not in text.split("define")[0]
