"""Whatever is chosen of a kernel's plan, it computes the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

from anyshape.codegen.llvm import choice as cpu
from anyshape.codegen.llvm.choice import CpuChoice
from anyshape.codegen.nvptx import choice as gpu
from anyshape.codegen.nvptx.choice import GpuChoice
from anyshape.codegen.nvptx.module import functions_of
from anyshape.loops.expr import fresh_scope
from anyshape.support.lazy_dataclass import asdict, replace
from tests.codegen.geometry import chosen, geometry
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.llvm_jit import compiled, host
from tests.codegen.random_kernels import MAKERS
from tests.codegen.test_llvm_kernels import choose_sizes, compare, has_empty_extreme
from tests.codegen.test_nvptx import SAMPLES, casts_floats_to_integers

CPU = (CpuChoice(1, 1), CpuChoice(-1, 2, -2), CpuChoice(1, -1, 2))
GPU = (
    GpuChoice(access=8, threads=128, held=8, each=4, share=1),
    GpuChoice(access=32, threads=512, held=32, each=16, share=16),
    GpuChoice(access=32, held=0, share=0),
)


@pytest.mark.parametrize("choice", CPU, ids=str)
@pytest.mark.parametrize("kind", MAKERS)
def test_random_on_the_cpu(kind: str, choice: CpuChoice) -> None:
    _check(kind, 1, lambda made: compiled(made.kernel, host(), choice))


@pytest.mark.slow
@pytest.mark.parametrize("choice", CPU, ids=str)
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(2, 14))
def test_more_at_random_on_the_cpu(kind: str, choice: CpuChoice, seed: int) -> None:
    _check(kind, seed, lambda made: compiled(made.kernel, host(), choice))


@pytest.mark.parametrize("choice", GPU, ids=str)
@pytest.mark.parametrize("kind", MAKERS)
def test_random_on_a_gpu(kind: str, choice: GpuChoice) -> None:
    _check(kind, 1, lambda made: _emulated(made, choice))


@pytest.mark.slow
@pytest.mark.parametrize("choice", GPU, ids=str)
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(2, 8))
def test_more_at_random_on_a_gpu(kind: str, choice: GpuChoice, seed: int) -> None:
    _check(kind, seed, lambda made: _emulated(made, choice))


def _emulated(made, choice: GpuChoice) -> Emulated:
    if casts_floats_to_integers(made.kernel):
        pytest.skip("floats become integers, which processors do in their own ways")
    return Emulated(made.kernel, (len(made.buffers), made.symbols, 1), choice=choice)


def _check(kind: str, seed: int, make) -> None:
    rng = random.Random(seed)
    with fresh_scope():
        made = MAKERS[kind](seed)
        runner = make(made)
        for _ in range(2):
            sizes = choose_sizes(made, rng)
            if not has_empty_extreme(made, sizes):
                compare(made, runner, sizes, seed)


@pytest.mark.parametrize("module", [cpu, gpu])
def test_alternatives_are_of_parameters_and_no_defaults(module) -> None:
    usual = asdict(module.USUAL)
    assert module.ALTERNATIVES.keys() == usual.keys()
    assert all(usual[name] not in values for name, values in module.ALTERNATIVES.items())


def test_every_parameter_matters_to_some_kernel() -> None:
    """What the tuner takes for the same code is equal in its rules."""
    for name, values in gpu.ALTERNATIVES.items():
        for value in values:
            other = replace(gpu.USUAL, **{name: value})
            found = [
                tuple(each.rule for each in functions_of("kernel", kernel, choice))
                for kernel, _ in SAMPLES.values()
                for choice in (gpu.USUAL, other)
            ]
            assert any(a != b for a, b in zip(found[::2], found[1::2], strict=True)), (name, value)
    only_points = functions_of("kernel", SAMPLES["sin"][0], replace(gpu.USUAL, held=0, share=0))
    assert [each.rule for each in only_points] == [
        each.rule for each in functions_of("kernel", SAMPLES["sin"][0])
    ]


@pytest.mark.parametrize("choice", GPU, ids=str)
def test_rows_that_are_held_with_other_plans(choice: GpuChoice) -> None:
    rng = np.random.default_rng(0)
    runner = Emulated(*SAMPLES["layer_norm"], choice=choice)
    for rows, length in ((5, 4), (3, 128), (2, 516), (3, 1), (2, 63), (1, 1001)):
        x = rng.standard_normal((rows, length)).astype(np.float32)
        scale = rng.standard_normal(length).astype(np.float32)
        result = np.zeros_like(x)
        runner([x, result, scale], (rows, length))
        off = x - x.mean(1, keepdims=True)
        want = off / np.sqrt((off * off).mean(1, keepdims=True) + 1e-5) * scale
        np.testing.assert_allclose(result, want, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("choice", [*GPU, GpuChoice(held=24)], ids=str)
@pytest.mark.parametrize("name", ["layer_norm", "softmax", "sin", "sum of all", "transposed"])
def test_blocks_have_as_many_threads_as_code_is_for(name: str, choice: GpuChoice) -> None:
    kernel, counts = SAMPLES[name]
    rules = [each.rule for each in functions_of("kernel", kernel, choice)]
    for length in (1, 7, 64, 1000, 4096, 8192, 16368, 16384, 16388, 100000):
        for rows in (1, 100, 100000):
            rule = chosen(rules, (rows, length)[-counts[1] :], [0] * counts[0])
            shape = geometry(rule, (rows, length)[-counts[1] :], 1 << 16)
            assert shape is not None
            assert shape.block[0] * shape.block[1] <= max(rule.row_threads, rule.block)
