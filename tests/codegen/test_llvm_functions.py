"""Kernels call every mathematical function, on vectors and on single numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.llvm.arithmetic import ROWS
from anyshape.codegen.vector_math import FUNCTIONS, supports
from anyshape.loops.expr import fresh_scope, load
from tests.codegen.kernel_samples import AT, op, pointwise
from tests.codegen.llvm_jit import NUMPY, compiled
from tests.loops.operations import OPERATIONS
from tests.loops.oracle.arithmetic import apply

#: Python has no such function to compare with
WITHOUT_REFERENCE = {"erfinv"}
NAMES = sorted(OPERATIONS.keys() & FUNCTIONS.keys() - WITHOUT_REFERENCE)


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def test_none_is_missing() -> None:
    assert OPERATIONS.keys() - ROWS.keys() - FUNCTIONS.keys() == {"where", "cast"}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", NAMES)
def test_function(name: str, dtype: Any) -> None:
    """On vectors of x and y; and on the first y, which is the same for all lanes."""
    if not supports(name, dtype):
        pytest.skip("lowering calls torch for it")
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.05, 0.95, 37).astype(NUMPY[dtype]) for _ in range(2))
    x[::5] += 1 if name == "acosh" else 0
    one = load("k2", 0, dtype)
    args = [load("k0", AT, dtype), one][: OPERATIONS[name].arity]
    single = op(name, *[one] * OPERATIONS[name].arity)
    result = np.empty_like(x)
    compiled(pointwise(op("add", op(name, *args), single)))([x, result, y], [len(x)])
    first = float(y[0])
    for got, value in zip(result.tolist(), x.tolist(), strict=True):
        arity = OPERATIONS[name].arity
        a = apply(name, (value, first)[:arity], dtype, dtype)
        b = apply(name, (first, first)[:arity], dtype, dtype)
        wanted = float(apply("add", (a, b), dtype, dtype))
        assert got == pytest.approx(wanted, rel=1e-5 if dtype == "f32" else 1e-13, nan_ok=True)
