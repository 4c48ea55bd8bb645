"""Stages that read a row again ask for the next one; where there is none, nothing happens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from anyshape.codegen.target import Target
from anyshape.loops.expr import Axis, fresh_scope, load, row
from anyshape.loops.kernels import Fold, Kernel, Stage, Store
from anyshape.symbolic import Size, as_symbol, symbol
from tests.codegen.kernel_samples import kernel, op
from tests.codegen.llvm_jit import AVX2, NEON, assembly, compiled, host, runs
from tests.codegen.one_module import module
from tests.codegen.test_llvm_index_set_splitting import Fenced
from tests.loops.oracle.interpret import run_kernel

ROW, COLUMN, N0, N1 = (symbol(name) for name in ("i0", "i1", "n0", "n1"))


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def centred(width: Size = N1, times: int = 2, step: Size | None = None) -> Kernel:
    """k0 less the greatest of its row, in so many stages that read it."""
    element = load("k0", ROW * (width if step is None else step) + COLUMN, "f32")
    axes = (Axis(as_symbol(COLUMN), width),)
    free = frozenset([as_symbol(ROW)])
    value = element
    stages: list[Stage] = []
    for number in range(times - 1):
        stages.append(Stage(axes, folds=(Fold(f"%{number}", "max", value, "f32"),)))
        value = op("sub", element, row(f"%{number}", "f32", free))
    stages.append(Stage(axes, (Store("k1", ROW * width + COLUMN, value),)))
    return kernel((Axis(as_symbol(ROW), N0),), *stages)


def asked(made: Kernel, target: Target | None = None) -> int:
    return module({"f": made}, target or host()).count("call void @llvm.prefetch")


def test_the_second_reading_asks() -> None:
    assert asked(centred(times=1)) == 0
    assert asked(centred(times=2)) == 1
    # The third finds what the second has asked for.
    folds = asked(centred(times=3))
    assert folds == asked(centred(512, times=3)) > 0


def test_rows_that_are_too_long_are_left() -> None:
    assert asked(centred(1 << 16)) == 1
    assert asked(centred((1 << 16) + 1)) == 0
    assert "select i1" in module({"f": centred()}, host()).split("@f.part(")[1]


def test_one_row_for_all_is_not_asked_for() -> None:
    assert asked(centred(step=0)) == 0


@pytest.mark.parametrize("target", [host(), AVX2], ids=["host", "avx2"])
def test_the_end_of_memory(target: Target) -> None:
    """What comes after the last row is asked for, and never touched."""
    runner = compiled(centred(times=3), target)
    for sizes in [(1, 1), (3, 16), (2, 130), (5, 33), (0, 4), (4, 0), (2, 70_000)]:
        fenced = Fenced()
        rng = np.random.default_rng(0)
        count = sizes[0] * sizes[1]
        arrays = [fenced.array(rng.normal(0, 1, count).astype(np.float32)) for _ in range(2)]
        assert runner(arrays, sizes) == 0
        if count < 1000:
            lists = {f"k{n}": array.tolist() for n, array in enumerate(arrays)}
            made = centred(times=3)
            run_kernel(made, lists, runs(made, sizes))
            np.testing.assert_array_equal(arrays[1], np.array(lists["k1"], np.float32))


def test_other_machines() -> None:
    assert "prefetch" in assembly(centred(), AVX2)
    assert "prfm" in assembly(centred(), NEON)
