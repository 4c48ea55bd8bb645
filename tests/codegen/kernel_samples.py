"""Kernels that are written down: what tests and figures refer to."""

from __future__ import annotations

from anyshape.loops.expr import Axis, Dtype, Scalar, constant, index, load, operation, row
from anyshape.loops.kernels import Fold, Kernel, Scan, Stage, Store
from anyshape.loops.tiled import tiled
from anyshape.symbolic import as_symbol, symbol

AT, ALONG, ROWS, COLUMNS = (symbol(name) for name in ("i0", "r0", "n0", "n1"))
POINTS = Axis(as_symbol(AT), ROWS)
LINE = Axis(as_symbol(ALONG), COLUMNS)
NOTHING = frozenset()


def kernel(axes: tuple[Axis, ...], *stages: Stage) -> Kernel:
    return Kernel(axes, stages, {}, {})


def op(name: str, *args: Scalar, dtype: Dtype | None = None) -> Scalar:
    return operation(name, *args, dtype=dtype or args[0].dtype)


def pointwise(value: Scalar) -> Kernel:
    """k1[i0] = value, over k0[i0]."""
    return kernel((POINTS,), Stage((), (Store("k1", AT, value),)))


def scaled_columns() -> Kernel:
    """k1[i0, r0] = k0[i0, r0] * k2[r0] + k3[i0]."""
    place = AT * COLUMNS + ALONG
    product = op("mul", load("k0", place, "f32"), load("k2", ALONG, "f32"))
    value = op("add", product, load("k3", AT, "f32"))
    return kernel((POINTS, LINE), Stage((), (Store("k1", place, value),)))


def transposed() -> Kernel:
    """k1[i0, r0] = k0[r0, i0] * 2, in tiles."""
    value = op("mul", load("k0", ALONG * ROWS + AT, "f32"), constant(2.0, "f32"))
    store = Store("k1", AT * COLUMNS + ALONG, value)
    return tiled(kernel((POINTS, LINE), Stage((), (store,))), lambda size: 100)


def softmax() -> Kernel:
    place = AT * COLUMNS + ALONG
    x = load("k0", place, "f32")
    above = op("exp", op("sub", x, row("m", "f32", NOTHING)))
    share = op("div", load("k1", place, "f32"), row("s", "f32", NOTHING))
    return kernel(
        (POINTS,),
        Stage((LINE,), folds=(Fold("m", "max", x, "f32"),)),
        Stage((LINE,), (Store("k1", place, above),), (Fold("s", "sum", above, "f32"),)),
        Stage((LINE,), (Store("k1", place, share),)),
    )


def softmax_of_columns() -> Kernel:
    place = ALONG * ROWS + AT
    x = load("k0", place, "f32")
    above = op("exp", op("sub", x, row("m", "f32", NOTHING)))
    return kernel(
        (POINTS,),
        Stage((LINE,), folds=(Fold("m", "max", x, "f32"),)),
        Stage((LINE,), folds=(Fold("s", "sum", above, "f32"),)),
        Stage((LINE,), (Store("k1", place, op("div", above, row("s", "f32", NOTHING))),)),
    )


def layer_norm() -> Kernel:
    place = AT * COLUMNS + ALONG
    x = load("k0", place, "f32")
    count = op("cast", index(COLUMNS), dtype="f32")
    off = op("sub", x, op("div", row("s", "f32", NOTHING), count))
    spread = op("add", op("div", row("v", "f32", NOTHING), count), constant(1e-5, "f32"))
    scaled = op("mul", op("mul", off, op("rsqrt", spread)), load("k2", ALONG, "f32"))
    return kernel(
        (POINTS,),
        Stage((LINE,), folds=(Fold("s", "sum", x, "f32"),)),
        Stage((LINE,), folds=(Fold("v", "sum", op("mul", off, off), "f32"),)),
        Stage((LINE,), (Store("k1", place, scaled),)),
    )


def folded(fold: str, value: Scalar, axes: tuple[Axis, ...] = (), dtype: Dtype = "f32") -> Kernel:
    """k1[i0] = the fold of a value along r0."""
    store = Store("k1", AT if axes else 0, row("x", dtype, NOTHING))
    return kernel(axes, Stage((LINE,), folds=(Fold("x", fold, value, dtype),)), Stage((), (store,)))


def sum_of_all(dtype: Dtype = "f32") -> Kernel:
    return folded("sum", load("k0", ALONG, dtype), dtype=dtype)


def sum_of_rows(dtype: Dtype = "f32") -> Kernel:
    return folded("sum", load("k0", AT * COLUMNS + ALONG, dtype), (POINTS,), dtype)


def sum_of_columns(dtype: Dtype = "f32") -> Kernel:
    """Over the first dimension: `i0 < n0` columns of `n1` elements."""
    return folded("sum", load("k0", ALONG * ROWS + AT, dtype), (POINTS,), dtype)


def running_sum(dtype: Dtype = "f32") -> Kernel:
    place = AT * COLUMNS + ALONG
    scan = Scan("sum", load("k0", place, dtype), dtype, "k1", place)
    return kernel((POINTS,), Stage((LINE,), scans=(scan,)))


SAMPLES = {
    "twice and one": lambda: pointwise(
        op("add", op("mul", load("k0", AT, "f32"), constant(2, "f32")), constant(1, "f32"))
    ),
    "gelu of bf16": lambda: pointwise(op("gelu", load("k0", AT, "bf16"))),
    "sine of f64": lambda: pointwise(op("sin", load("k0", AT, "f64"))),
    "sum of bytes": lambda: pointwise(op("add", load("k0", AT, "u8"), constant(1, "u8"))),
    "softmax": softmax,
    "layer norm": layer_norm,
    "sum of all": sum_of_all,
    "sum of rows": sum_of_rows,
    "sum of columns": sum_of_columns,
    "argmax": lambda: folded(
        "argmax", load("k0", AT * COLUMNS + ALONG, "f32"), (POINTS,), dtype="i64"
    ),
    "running sum": running_sum,
}
