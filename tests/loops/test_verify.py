"""The verifier finds what is wrong with a kernel, and nothing in a right one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anyshape.loops.expr import (
    Axis,
    Dtype,
    Scalar,
    constant,
    fresh_scope,
    index,
    load,
    operation,
    position,
    reduce,
    row,
)
from anyshape.loops.kernels import Check, Fold, Kernel, Scan, Stage, Store
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import as_symbol, symbol
from tests.codegen.random_kernels import MAKERS
from tests.loops.verify import problems

AT, R, N, M = (symbol(name) for name in ("i0", "r0", "n0", "n1"))
OUTER = Axis(as_symbol(AT), N)
INNER = Axis(as_symbol(R), M)
NONE = frozenset()


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def kernel(*stages: Stage, ordered: bool = False, **more) -> Kernel:
    return Kernel((OUTER,), stages, more.get("positions", {}), more.get("private", {}), ordered)


def pointwise(value: Scalar) -> Kernel:
    return kernel(Stage((), (Store("k1", AT, value),)))


def x(dtype: Dtype = "f32") -> Scalar:
    return load("k0", AT, dtype)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(20))
def test_right_kernels(kind: str, seed: int) -> None:
    assert problems(MAKERS[kind](seed).kernel) == []


def found(made: Kernel) -> str:
    return "\n".join(problems(made))


def test_dtypes() -> None:
    mixed = operation("add", x(), constant(1, "f64"), dtype="f32")
    assert "one dtype" in found(pointwise(mixed))
    assert "does not take i32" in found(pointwise(operation("exp", x("i32"), dtype="i32")))
    assert "is of b1, not f32" in found(pointwise(operation("lt", x(), x(), dtype="f32")))
    assert "takes 2 arguments" in found(pointwise(operation("add", x(), dtype="f32")))
    assert "is no operation" in found(pointwise(replace(x(), op="frobnicate")))
    assert "masked by f32" in found(pointwise(load("k0", AT, "f32", x(), x())))
    assert "where asks f32" in found(pointwise(operation("where", x(), x(), x(), dtype="f32")))
    both = kernel(Stage((), (Store("k0", AT, operation("cast", x(), dtype="f64")),)))
    assert "k0 is of f32 and of f64" in found(both)


def test_symbols() -> None:
    assert "r0 in an address of k0" in found(pointwise(load("k0", R, "f32")))
    assert "r0 in an index" in found(pointwise(index(R)))
    loose = position(load("k2", AT, "i64"))
    assert "is no axis, size or position" in found(pointwise(load("k0", loose, "f32")))
    assert "two loops" in found(kernel(Stage((OUTER,), (Store("k1", AT, x()),))))


def test_rows_and_private() -> None:
    total = row("s", "f32", NONE)
    assert "no earlier stage folds s" in found(pointwise(total))
    use = Stage((), (Store("k1", AT, total),))
    fold = Stage((INNER,), folds=(Fold("s", "sum", load("k0", R, "f32"), "f32"),))
    assert found(kernel(fold, use)) == ""
    private = {"p0": ("f32", M)}
    read = Stage((INNER,), (Store("k1", AT * M + R, load("p0", R, "f32")),))
    fill = Stage((INNER,), (Store("p0", R, load("k0", R, "f32")),))
    assert "read before" in found(kernel(read, fill, private=private))
    assert found(kernel(fill, read, private=private)) == ""
    apart = Stage((INNER,), (Store("p0", R + AT, load("k0", R, "f32")),))
    assert "depends on the parallel axes" in found(kernel(apart, private=private))


def test_folds_scans_and_checks() -> None:
    stage = Stage((INNER,), folds=(Fold("s", "argmax", load("k0", R, "f32"), "f32"),))
    assert "argmax of f32 is of i64" in found(kernel(stage))
    stage = Stage((INNER,), folds=(Fold("s", "any", load("k0", R, "f32"), "f32"),))
    assert "any takes b1" in found(kernel(stage))
    assert "no axis to run along" in found(
        kernel(Stage((), scans=(Scan("sum", x(), "f32", "k1", AT),)))
    )
    assert "a check is of f32" in found(kernel(Stage((), checks=(Check(x(), "bad"),))))


def test_rounds_that_meet() -> None:
    same = Stage((), (Store("k1", 0, x()),))
    assert "rounds of i0 all store to k1[0]" in found(kernel(same))
    assert found(kernel(same, ordered=True)) == ""


def test_what_is_no_operation_is_told_where_it_is_made() -> None:
    x = constant(1.0, "f32")
    with pytest.raises(ValueError, match="no operation `plus`"):
        operation("plus", x, x, dtype="f32")
    with pytest.raises(ValueError, match="no reduction `maximum`"):
        reduce("maximum", (), x, "f32")
