"""Columns that the threads of a block share, rows and columns that several blocks do: they fold
what one thread would, whatever is left over."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from anyshape.codegen.nvptx.plan import gpu_plans
from anyshape.loops.expr import Axis, Dtype, load, row
from anyshape.loops.kernels import Fold, Kernel, Stage, Store
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import as_symbol, symbol
from tests.codegen import kernel_samples as samples
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.kernel_samples import ALONG, AT, COLUMNS, LINE, NOTHING, POINTS, ROWS, op

_DEEP, _DEPTH = symbol("r1"), symbol("n2")
_FIRST = Axis(as_symbol(_DEEP), _DEPTH)


def folded_over_two(place: object, fold: str = "sum", dtype: Dtype = "f32") -> Kernel:
    """k1[i0] = the fold over r1 < n2, r0 < n1."""
    value = load("k0", place, "f32")  # pyright: ignore[reportArgumentType]
    store = Store("k1", AT, row("x", dtype, NOTHING))
    folds = (Fold("x", fold, value, dtype),)
    return samples.kernel((POINTS,), Stage((_FIRST, LINE), folds=folds), Stage((), (store,)))


def run(kernel: Kernel, x: np.ndarray, result: np.ndarray, sizes: tuple[int, ...]) -> bool:
    """Whether blocks shared points."""
    runner = Emulated(kernel, (2, len(sizes), 0), room=6)
    runner([x, result], sizes)
    return any(each.together for each in runner.gpu.started)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("rows", "length"), [(1, 4096), (1, 1027), (1, 5001), (2, 999), (3, 8)])
@pytest.mark.parametrize("make", [samples.softmax, samples.layer_norm], ids=lambda m: m.__name__)
def test_long_rows(make: Callable[[], Kernel], rows: int, length: int) -> None:
    x, result = numbers(rows, length), np.zeros((rows, length), np.float32)
    scale = numbers(length)
    if make is samples.softmax:
        together = run(make(), x, result, (rows, length))
        e = np.exp(x - x.max(1, keepdims=True))
        want = e / e.sum(1, keepdims=True)
    else:
        runner = Emulated(make(), (3, 2, 0), room=6)
        runner([x, result, scale], (rows, length))
        together = any(each.together for each in runner.gpu.started)
        off = x - x.mean(1, keepdims=True)
        want = off / np.sqrt((off * off).mean(1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(result, want, rtol=2e-4, atol=2e-5)
    if make is samples.softmax:
        assert together == (rows == 1)


@pytest.mark.parametrize("length", [0, 1, 1023, 40001])
@pytest.mark.parametrize("fold", ["sum", "max", "argmax", "any"])
def test_all_by_several_blocks(fold: str, length: int) -> None:
    if not length and fold in ("max", "argmax"):
        pytest.skip("nothing has no largest element")
    dtype: Dtype = {"argmax": "i64", "any": "b1"}.get(fold, "f32")  # pyright: ignore[reportAssignmentType]
    x = np.zeros(length, np.float32) if fold == "any" else numbers(length)
    value = load("k0", ALONG, "f32")
    if fold == "any":
        value = op("gt", value, samples.constant(0.0, "f32"), dtype="b1")
        x[length - 1 :] = 1
    kernel = samples.folded(fold, value, dtype=dtype)
    kinds = {"argmax": np.int64, "any": np.uint8}
    result = np.zeros(1, kinds.get(fold, np.float32))
    together = run(kernel, x, result, (1, length))
    # The sample's row is as long as its second size.
    want = {"sum": np.sum, "max": np.max, "argmax": np.argmax, "any": np.any}[fold](x)
    np.testing.assert_allclose(result[0], want, rtol=1e-5, atol=1e-5)
    assert together == (length == 40001)


@pytest.mark.parametrize(
    ("columns", "depth", "shared"),
    [
        *((4, 4, False), (5, 33, False), (64, 7, False), (257, 9, False), (8, 1, False)),
        *((40, 0, False), (128, 64, True), (132, 40, True), (3, 200, True), (1, 700, True)),
    ],
)
def test_columns(columns: int, depth: int, shared: bool) -> None:
    x, result = numbers(depth, columns), np.full(columns, 7, np.float32)
    together = run(samples.sum_of_columns(), x, result, (columns, depth))
    np.testing.assert_allclose(result, x.sum(0), rtol=1e-4, atol=1e-5)
    assert together == shared


@pytest.mark.parametrize(("columns", "depth"), [(4, 64), (7, 100), (64, 33), (130, 5)])
def test_softmax_of_columns(columns: int, depth: int) -> None:
    x, result = numbers(depth, columns), np.zeros((depth, columns), np.float32)
    run(samples.softmax_of_columns(), x, result, (columns, depth))
    e = np.exp(x - x.max(0))
    np.testing.assert_allclose(result, e / e.sum(0), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("fold", ["sum", "argmax"])
@pytest.mark.parametrize(
    ("points", "depth", "length"), [(1, 40, 100), (3, 7, 5), (2, 300, 4), (5, 1, 64), (4, 9, 130)]
)
def test_rows_of_two_axes(fold: str, points: int, depth: int, length: int) -> None:
    """As batch norm's: over the first and the last dimension."""
    x = numbers(depth, points, length)
    place = _DEEP * ROWS * COLUMNS + AT * COLUMNS + ALONG
    kernel = folded_over_two(place, fold, "i64" if fold == "argmax" else "f32")
    result = np.zeros(points, np.int64 if fold == "argmax" else np.float32)
    run(kernel, x, result, (points, length, depth))
    flat = x.transpose(1, 0, 2).reshape(points, -1)
    want = flat.argmax(1) if fold == "argmax" else flat.sum(1)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("points", "depth", "length"), [(4, 5, 6), (8, 40, 3), (33, 2, 7)])
def test_columns_of_two_axes(points: int, depth: int, length: int) -> None:
    x, result = numbers(depth, length, points), np.zeros(points, np.float32)
    kernel = folded_over_two(_DEEP * (ROWS * COLUMNS) * 1 + ALONG * ROWS + AT)
    assert gpu_plans(kernel)[0].form == "strips"
    run(kernel, x, result, (points, length, depth))
    np.testing.assert_allclose(result, x.sum((0, 1)), rtol=1e-4, atol=1e-4)


def test_a_launch_together_that_is_refused() -> None:
    """Then blocks are launched that have a row each."""
    runner = Emulated(samples.softmax(), (2, 2, 0), room=6)
    refused: list[int] = []

    def refuse(*given: object) -> int:
        refused.append(1)
        return 720

    runner.gpu.launch_together = refuse
    x, result = numbers(1, 4096), np.zeros((1, 4096), np.float32)
    runner([x, result], (1, 4096))
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=2e-4)
    assert refused
    assert [each.together for each in runner.gpu.started] == [False]


@pytest.mark.parametrize("along_rows", [True, False])
def test_rounds_that_meet_stay_in_one_thread(along_rows: bool) -> None:
    """Each point adds its elements to one place of its own: in order, in one thread."""
    value = load("k0", AT * COLUMNS + ALONG if along_rows else ALONG * ROWS + AT, "bf16")
    stage = Stage((LINE,), (Store("k1", AT, value, "add"),))
    kernel = replace(samples.kernel((POINTS,), stage), ordered=True)
    assert {plan.form for plan in gpu_plans(kernel)} <= {"points", "columns"}


@pytest.mark.parametrize(("columns", "depth"), [(4, 64), (7, 100), (64, 40)])
def test_what_is_kept_is_not_computed_again_of_what_was_written(columns: int, depth: int) -> None:
    """`p = exp(x); x += sum(p); y = p`: the kept exponentials are those of the old x."""
    place = ALONG * ROWS + AT
    x = load("k0", place, "f32")
    kept = Store("p0", ALONG, op("exp", x))
    total = row("s", "f32", NOTHING)
    kernel = samples.kernel(
        (POINTS,),
        Stage((LINE,), (kept,), (Fold("s", "sum", op("exp", x), "f32"),)),
        Stage((LINE,), (Store("k0", place, op("add", x, total)),)),
        Stage((LINE,), (Store("k1", place, load("p0", ALONG, "f32")),)),
    )
    kernel = replace(kernel, private={"p0": ("f32", COLUMNS)})
    assert "strips" not in {plan.form for plan in gpu_plans(kernel)}
    given = numbers(depth, columns)
    x_, y = given.copy(), np.zeros_like(given)
    run(kernel, x_, y, (columns, depth))
    np.testing.assert_allclose(y, np.exp(given), rtol=1e-5)
    np.testing.assert_allclose(x_, given + np.exp(given).sum(0), rtol=1e-4, atol=1e-4)
