"""Kernels that are written down: what tests and figures refer to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from anyshape.loops.attention import MEAN, PRODUCT, AttentionParts, attention_kernel
from anyshape.loops.expr import Axis, Dtype, Scalar, constant, index, load, operation, row
from anyshape.loops.kernels import Fold, Kernel, Scan, Stage, Store
from anyshape.loops.tiled import tiled
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, as_symbol, symbol

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


def softmax_in_row(dtype: Dtype = "f32", keeps: bool = True) -> Kernel:
    """Of k0 * 0.5, as lowering writes it: exponentials are kept in a private row, or computed
    again. Of halves it is computed in f32."""
    own: Dtype = "f64" if dtype == "f64" else "f32"
    x = op(
        "mul", op("cast", load("k0", AT * COLUMNS + ALONG, dtype), dtype=own), constant(0.5, own)
    )
    largest = row("m", own, NOTHING)
    above = load("row0", ALONG, own) if keeps else op("exp", op("sub", x, largest))
    share = op("cast", op("div", above, row("s", own, NOTHING)), dtype=dtype)
    last = Stage((LINE,), (Store("k1", AT * COLUMNS + ALONG, share),))
    return _exponentials(x, largest, last, keeps)


def logsumexp(dtype: Dtype = "f32") -> Kernel:
    x, largest = load("k0", AT * COLUMNS + ALONG, dtype), row("m", dtype, NOTHING)
    is_infinite = op("eq", op("abs", largest), constant(math.inf, dtype), dtype="b1")
    finite = op("where", is_infinite, constant(0.0, dtype), largest, dtype=dtype)
    value = op("add", op("log", row("s", dtype, NOTHING)), finite)
    return _exponentials(x, finite, Stage((), (Store("k1", AT, value),)))


def sum_below_largest(dtype: Dtype = "f32") -> Kernel:
    x, total = load("k0", AT * COLUMNS + ALONG, dtype), row("s", dtype, NOTHING)
    return _exponentials(x, row("m", dtype, NOTHING), Stage((), (Store("k1", AT, total),)))


def _exponentials(x: Scalar, below: Scalar, last: Stage, keeps: bool = False) -> Kernel:
    power = op("exp", op("sub", x, below))
    kept = (Store("row0", ALONG, power),) if keeps else ()
    made = kernel(
        (POINTS,),
        Stage((LINE,), folds=(Fold("m", "max", x, x.dtype),)),
        Stage((LINE,), kept, (Fold("s", "sum", power, x.dtype),)),
        last,
    )
    return replace(made, private={"row0": (x.dtype, COLUMNS)}) if keeps else made


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


HEADS, QUERIES, KEYS = (symbol(name) for name in ("n0", "n1", "n2"))
HEAD, QUERY, KEY, DEPTH, WIDTH = (symbol(name) for name in ("i0", "i1", "r0", "r1", "r2"))


def attention(
    dtype: Dtype,
    depth: int,
    width: int,
    *,
    mask: str = "",
    score: Callable[[Scalar], Scalar] = lambda product: product,
    zeros: bool = True,
    product: Dtype = "f32",
    results: Sequence[str] = (),
) -> Kernel:
    """k3 = softmax(score(k0 @ k1.T)) @ k2, of heads one behind the other; then k4, k5, ...: what is
    asked for beside; then, for the masks `numbers` and `any`, numbers of positions and truths."""
    axes = Axis(as_symbol(HEAD), HEADS), Axis(as_symbol(QUERY), QUERIES)
    inner = (
        Axis(as_symbol(KEY), KEYS),
        Axis(as_symbol(DEPTH), depth),
        Axis(as_symbol(WIDTH), width),
    )

    def read(buffer: str, place: Size, to: Dtype) -> Scalar:
        found = load(buffer, place, dtype)
        return found if dtype == to else op("cast", found, dtype=to)

    free = frozenset(as_symbol(each) for each in (HEAD, QUERY, KEY, HEADS, QUERIES, KEYS))
    made = row(PRODUCT, product, free)
    more = f"k{4 + len(results)}"
    masks: dict[str, Callable[[], Scalar]] = {
        "causal": lambda: op("ge", index(QUERY), index(KEY), dtype="b1"),
        "window": lambda: op(
            "le", op("abs", op("sub", index(QUERY), index(KEY))), constant(3, "i64"), dtype="b1"
        ),
        "numbers": lambda: op("eq", load(more, QUERY, "i64"), load(more, KEY, "i64"), dtype="b1"),
        "any": lambda: load(more, QUERY * KEYS + KEY, "b1"),
    }
    parts = AttentionParts(
        query=read("k0", (HEAD * QUERIES + QUERY) * depth + DEPTH, product),
        key=read("k1", (HEAD * KEYS + KEY) * depth + DEPTH, product),
        value=load("k2", (HEAD * KEYS + KEY) * width + WIDTH, dtype),
        score=score(made),
        product=made,
        seen=masks[mask]() if mask else None,
        finite=constant(True, "b1") if mask else None,
        is_zero_if_empty=zeros,
    )
    place = (HEAD * QUERIES + QUERY) * width + WIDTH
    stored: dict[str, tuple[str, Size, Dtype]] = {MEAN: ("k3", place, dtype)}
    for number, name in enumerate(results, start=4):
        stored[name] = f"k{number}", HEAD * QUERIES + QUERY, "f32"
    return attention_kernel(axes, inner, parts, stored)
