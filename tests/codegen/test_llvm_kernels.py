"""Compiled kernels do what the interpreter does: at random, at all sizes, with threads or not."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import torch

from anyshape.codegen.target import Target
from anyshape.loops.expr import FLOAT8, fresh_scope
from anyshape.loops.text import kernel_text
from anyshape.runtime.loader.torch_abi import TORCH_DTYPE
from anyshape.symbolic import as_symbol, symbol
from tests.codegen.llvm_jit import compiled, host
from tests.codegen.random_kernels import MAKERS, Made
from tests.loops.oracle.interpret import run_kernel

SIZES = (0, 1, 2, 7, 16, 17, 31, 64, 100, 1000)
MOST = 3000
NUMBER = 0.75


def numbers_of(array: np.ndarray, dtype: str) -> list:
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).tolist()
    if dtype in FLOAT8:
        return torch.from_numpy(array).view(TORCH_DTYPE[dtype]).float().tolist()
    return array.tolist()


def choose_sizes(made: Made, rng: random.Random) -> list[int]:
    """Not more elements than the interpreter does in a moment."""
    while True:
        sizes = [rng.choice(SIZES) for _ in range(made.symbols)]
        if math.prod(max(1, size) for size in sizes) <= MOST:
            return sizes


def is_same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def has_empty_extreme(made: Made, sizes: list[int]) -> bool:
    """The extreme of nothing has no value: eager raises an error before."""
    folds = {fold.fold for stage in made.kernel.stages for fold in stage.folds}
    return 0 in sizes and bool(folds & {"max", "min", "argmax", "argmin"})


def compare(made: Made, runner, sizes: list[int], seed: int) -> None:
    arrays = made.arrays(sizes, seed)
    lists = {
        f"k{i}": numbers_of(array, dtype)
        for i, (array, (dtype, _, _)) in enumerate(zip(arrays, made.buffers, strict=True))
    }
    values = {as_symbol(symbol(f"n{i}")): size for i, size in enumerate(sizes)}
    message = run_kernel(made.kernel, lists, values, {"f0": NUMBER})
    result = runner(arrays, sizes, [NUMBER])
    checks = [check.message for stage in made.kernel.stages for check in stage.checks]
    assert (checks[result - 1] if result else None) == message
    for i, (array, (dtype, _, _)) in enumerate(zip(arrays, made.buffers, strict=True)):
        got = numbers_of(array, dtype)
        for place, (a, b) in enumerate(zip(got, lists[f"k{i}"], strict=True)):
            assert is_same(a, b), (
                f"k{i}[{place}] is {a}, not {b}, at sizes {sizes}\n{kernel_text(made.kernel)}"
            )


def check_kernel(kind: str, seed: int, target: Target) -> None:
    rng = random.Random(seed)
    with fresh_scope():
        made = MAKERS[kind](seed)
        runner = compiled(made.kernel, target)
        for _ in range(6):
            sizes = choose_sizes(made, rng)
            if not has_empty_extreme(made, sizes):
                compare(made, runner, sizes, seed)


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(12))
def test_random(kind: str, seed: int) -> None:
    check_kernel(kind, seed, host())
