"""Running folds along rows that the threads of a block share, or several blocks do, and along
columns: what one thread would give, whatever is left over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from anyshape.codegen.nvptx.plan import gpu_plans
from anyshape.loops.expr import Axis, Dtype, Scalar, constant, load, row
from anyshape.loops.kernels import Fold, Kernel, Scan, Stage, Store
from anyshape.symbolic import Size, as_symbol, symbol
from tests.codegen import kernel_samples as samples
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.kernel_samples import ALONG, AT, COLUMNS, LINE, NOTHING, POINTS, ROWS, op

PLACE = AT * COLUMNS + ALONG
#: Of a part of a warp to many, with vectors, lanes and tiles left over.
SIZES = ((3, 0), (1, 1), (5, 3), (2, 4), (33, 5), (3, 31), (2, 32), (9, 33), (2, 64), (3, 129))
SIZES += ((140, 8), (1, 516), (2, 261))
#: Multiples of the vectors of each dtype, and not of those that are twice as wide.
SIZES += ((5, 6), (3, 48))
DTYPES: dict[Dtype, torch.dtype] = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
}
FOLDS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.cumsum,
    "prod": torch.cumprod,
    "max": lambda x, dim: torch.cummax(x, dim).values,
    "min": lambda x, dim: torch.cummin(x, dim).values,
}


def scanned(
    fold: str, dtype: Dtype, place: Size = PLACE, axes: tuple[Axis, ...] = (LINE,)
) -> Kernel:
    scan = Scan(fold, load("k0", place, dtype), dtype, "k1", place)
    return samples.kernel((POINTS,), Stage(axes, scans=(scan,)))


def memory(tensor: torch.Tensor) -> np.ndarray:
    """The same memory, of a dtype that numpy has."""
    return (tensor.view(torch.int16) if tensor.element_size() == 2 else tensor).numpy()


def random_tensor(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return made.to(dtype) if dtype.is_floating_point else (made * 9).to(torch.int64).to(dtype)


def check(runner: Emulated, fold: str, x: torch.Tensor, dim: int, sizes: tuple[int, ...]) -> None:
    got = torch.full(x.shape, 7, dtype=x.dtype)
    runner([memory(x), memory(got)], sizes)
    wide = x.double() if x.is_floating_point() else x
    want = FOLDS[fold](wide, dim).to(x.dtype) if x.numel() else x
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_running_sums_of_rows(dtype: Dtype) -> None:
    kernel = scanned("sum", dtype)
    assert {plan.form for plan in gpu_plans(kernel)} == {"rows"}
    runner = Emulated(kernel, (2, 2, 0))
    for rows, length in SIZES:
        check(runner, "sum", random_tensor(DTYPES[dtype], rows, length), 1, (rows, length))
    lanes = {rule.name: rule.lanes for rule in runner.gpu.rules[0]}
    assert {lanes[each.name] for each in runner.gpu.started} == set(lanes.values())


@pytest.mark.parametrize("fold", ["prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64", "u8"])
def test_other_folds(fold: str, dtype: Dtype) -> None:
    runner = Emulated(scanned(fold, dtype), (2, 2, 0))
    for rows, length in ((3, 5), (2, 64), (3, 129), (1, 516), (7, 1)):
        x = random_tensor(DTYPES[dtype], rows, length)
        if fold == "prod" and x.is_floating_point():
            x = x.sign()
        check(runner, fold, x, 1, (rows, length))


def test_any_of_booleans() -> None:
    runner = Emulated(scanned("any", "b1"), (2, 2, 0))
    for rows, length in ((3, 5), (2, 64), (4, 300), (1, 2048)):
        x = np.random.default_rng(0).random((rows, length)) < 0.01
        got = np.zeros_like(x)
        runner([x, got], (rows, length))
        np.testing.assert_array_equal(got, np.logical_or.accumulate(x, 1))


@pytest.mark.parametrize("fold", FOLDS)
def test_what_is_no_number(fold: str) -> None:
    runner = Emulated(scanned(fold, "f32"), (2, 2, 0))
    for rows, length in ((2, 64), (2, 129), (1, 516)):
        x = random_tensor(torch.float32, rows, length).sign()
        x[0, length // 2] = torch.nan
        x[-1, length // 3] = torch.inf
        check(runner, fold, x, 1, (rows, length))


@pytest.mark.parametrize(
    ("dtype", "rows", "length", "room"),
    [
        *(("f32", 1, 4100, 4), ("f32", 1, 1027, 4), ("f32", 2, 4096, 8), ("i64", 1, 2100, 5)),
        ("bf16", 1, 8200, 4),
        pytest.param("f32", 1, 2601, 10, marks=pytest.mark.slow),
    ],
)
def test_rows_that_blocks_share(dtype: Dtype, rows: int, length: int, room: int) -> None:
    """Parts of whole tiles, of which the last one may have nothing."""
    runner = Emulated(scanned("sum", dtype), (2, 2, 0), room=room)
    check(runner, "sum", random_tensor(DTYPES[dtype], rows, length), 1, (rows, length))
    assert all(each.together for each in runner.gpu.started)


def test_shared_rows_in_place() -> None:
    """Blocks read what others write, but not before all have read it."""
    scan = Scan("sum", load("k0", PLACE, "f32"), "f32", "k0", PLACE)
    kernel = samples.kernel((POINTS,), Stage((LINE,), scans=(scan,)))
    runner = Emulated(kernel, (1, 2, 0), room=4)
    for rows, length in ((1, 4100), (1, 1027), (3, 130)):
        x = random_tensor(torch.float32, rows, length)
        want = x.cumsum(1)
        runner([memory(x)], (rows, length))
        torch.testing.assert_close(x, want)


def test_all_elements() -> None:
    """Of a tensor with one dimension there is one row."""
    scan = Scan("sum", load("k0", ALONG, "f32"), "f32", "k1", ALONG)
    runner = Emulated(samples.kernel((), Stage((LINE,), scans=(scan,))), (2, 2, 0), room=4)
    for length in (0, 1, 63, 1024, 4100, 1500):
        check(runner, "sum", random_tensor(torch.float32, length), 0, (1, length))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64"])
def test_columns(dtype: Dtype) -> None:
    """A thread for each; neighbours have neighbouring ones."""
    kernel = scanned("sum", dtype, ALONG * ROWS + AT)
    assert [(plan.form, plan.lanes) for plan in gpu_plans(kernel)] == [("columns", 1)]
    runner = Emulated(kernel, (2, 2, 0))
    for columns, depth in ((4, 4), (5, 33), (257, 3), (8, 1), (40, 0), (1, 100)):
        check(runner, "sum", random_tensor(DTYPES[dtype], depth, columns), 0, (columns, depth))


@pytest.mark.parametrize(("points", "depth", "length"), [(3, 7, 5), (2, 4, 64), (1, 2, 4100)])
def test_rows_of_two_axes(points: int, depth: int, length: int) -> None:
    """A scan begins anew where an outer axis of its stage moves."""
    deep, count = symbol("r1"), symbol("n2")
    first = Axis(as_symbol(deep), count)
    kernel = scanned("sum", "f32", (AT * count + deep) * COLUMNS + ALONG, (first, LINE))
    runner = Emulated(kernel, (2, 3, 0), room=4)
    x = random_tensor(torch.float32, points, depth, length)
    check(runner, "sum", x, 2, (points, length, depth))


# -- beside folds, stores and private memory -----------------------------------------------------


def mixed(private: bool, in_one_stage: bool) -> Kernel:
    """The running sums of `exp(x - max)`, each by the last one, and the sum of `x` beside."""
    x = load("k0", PLACE, "f32")
    above = op("exp", op("sub", x, row("m", "f32", NOTHING)))
    buffer, place = ("p0", ALONG) if private else ("k3", PLACE)
    first = Stage((LINE,), folds=(Fold("m", "max", x, "f32"),))
    between = Stage((LINE,), (Store(buffer, place, above),), (Fold("s", "sum", above, "f32"),))
    given = above if in_one_stage else load(buffer, place, "f32")
    scan = Scan("sum", given, "f32", "k1", PLACE)
    many = Scan("max", op("mul", x, constant(2.0, "f32")), "f32", "k4", PLACE)
    total = Fold("t", "sum", x, "f32")
    if in_one_stage:
        stage = Stage((LINE,), between.stores, (*between.folds, total), (scan, many))
        stages = (first, stage)
    else:
        stages = (first, between, Stage((LINE,), (), (total,), (scan, many)))
    share: Scalar = op("div", load("k1", PLACE, "f32"), row("s", "f32", NOTHING))
    ends = (
        Stage((LINE,), (Store("k1", PLACE, share),)),
        Stage((), (Store("k2", AT, row("t", "f32", NOTHING)),)),
    )
    kept: dict[str, Any] = {"p0": ("f32", COLUMNS)} if private else {}
    return Kernel((POINTS,), (*stages, *ends), {}, kept)


@pytest.mark.parametrize(
    ("private", "in_one_stage", "shared"),
    [
        *((False, True, 1 << 16), (True, False, 256)),
        pytest.param(False, False, 1 << 16, marks=pytest.mark.slow),
        pytest.param(True, False, 1 << 16, marks=pytest.mark.slow),
        pytest.param(True, True, 256, marks=pytest.mark.slow),
    ],
)
def test_beside_folds(private: bool, in_one_stage: bool, shared: int) -> None:
    kernel = mixed(private, in_one_stage)
    assert {plan.form for plan in gpu_plans(kernel)} == {"rows"}
    runner = Emulated(kernel, (5, 2, 0), room=4, shared=shared)
    for rows, length in ((1, 4), (5, 33), (2, 260), (1, 1101)):
        x = random_tensor(torch.float32, rows, length)
        running, total, kept, extremes = (torch.zeros_like(x) for _ in range(4))
        total = torch.zeros(rows)
        runner([memory(each) for each in (x, running, total, kept, extremes)], (rows, length))
        e = (x - x.amax(1, keepdim=True)).double().exp()
        want = (e.cumsum(1) / e.sum(1, keepdim=True)).float()
        torch.testing.assert_close(running, want, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(total, x.sum(1), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(extremes, (x * 2).cummax(1).values)
        if not private:
            torch.testing.assert_close(kept, e.float(), rtol=1e-5, atol=1e-6)
    assert any(each.together for each in runner.gpu.started)


def test_equal_runs_give_equal_results() -> None:
    x = random_tensor(torch.float32, 2, 260)
    found: list[torch.Tensor] = []
    for _ in range(2):
        got = torch.zeros_like(x)
        Emulated(scanned("sum", "f32"), (2, 2, 0))([memory(x), memory(got)], (2, 260))
        found.append(got)
    assert torch.equal(*found)


def test_short_rows_share_a_warp() -> None:
    runner = Emulated(scanned("sum", "f32"), (2, 2, 0), runs=False)
    x = np.zeros((1000, 32), np.float32)
    runner([x, x], (1000, 32))
    assert runner.gpu.started[0].block[0] == 8
