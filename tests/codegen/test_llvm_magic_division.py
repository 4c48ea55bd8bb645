"""Bytes divided by a constant: the same bits as a division gives, for all bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from anyshape.codegen.target import Target
from anyshape.loops.expr import Axis, Dtype, constant, fresh_scope, load
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.symbolic import as_symbol, symbol
from tests.codegen.kernel_samples import kernel, op
from tests.codegen.llvm_jit import AVX2, NUMPY, compiled, host
from tests.codegen.one_module import module

AT, N0 = symbol("i0"), symbol("n0")
DIVISORS = (255.0, 127.5, 1.0, 2.0, 3.0, 7.0, 10.0, 0.1, 57.375, 1 / 3, 1e-9, 1e9, 16777215.0)
ODD_ONES = (-255.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e-30, 1e30, 3e38)


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def divided(divisor: float, source: Dtype, dtype: Dtype = "f32") -> Kernel:
    value = op("cast", load("k0", AT, source), dtype=dtype)
    store = Store("k1", AT, op("div", value, constant(divisor, dtype)))
    return kernel((Axis(as_symbol(AT), N0),), Stage((), (store,)))


def check(divisor: float, source: Dtype, target: Target) -> None:
    limits = np.iinfo(NUMPY[source])
    x = np.arange(limits.min, limits.max + 1).astype(NUMPY[source])
    found = np.empty(x.size, np.float32)
    assert compiled(divided(divisor, source), target)([x, found], [x.size]) == 0
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float32) / np.float32(divisor)
    same = (found.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all(), (x[~same], found[~same], wanted[~same])


@pytest.mark.parametrize("target", [host(), AVX2], ids=["host", "avx2"])
@pytest.mark.parametrize("source", ["u8", "i8"])
def test_all_bytes(source: Dtype, target: Target) -> None:
    rng = np.random.default_rng(0)
    for divisor in (*DIVISORS, *ODD_ONES, *np.exp(rng.normal(0, 5, 8)).tolist()):
        check(float(divisor), source, target)


@pytest.mark.parametrize("divisor", DIVISORS)
def test_no_division_is_left(divisor: float) -> None:
    text = module({"f": divided(divisor, "u8")}, host())
    assert "fdiv" not in text


@pytest.mark.parametrize("divisor", ODD_ONES)
def test_odd_divisors_divide(divisor: float) -> None:
    text = module({"f": divided(float(divisor), "u8")}, host())
    assert "fdiv" in text


@pytest.mark.parametrize(("source", "dtype"), [("i16", "f32"), ("u8", "f64"), ("u8", "f16")])
def test_others_divide(source: Dtype, dtype: Dtype) -> None:
    assert "fdiv" in module({"f": divided(255.0, source, dtype)}, host())
