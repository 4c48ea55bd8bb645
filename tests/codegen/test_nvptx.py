"""Kernels for GPUs, without one: they do what the interpreter does, run thread by thread on this
processor, and the assembler takes them for every GPU that we know."""

from __future__ import annotations

import ctypes
import importlib.util
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyshape.codegen.ir_builder import join_module
from anyshape.codegen.nvptx.held_rows import sure_elements
from anyshape.codegen.nvptx.launch import DECLARATIONS, TABLE, failures, launch_function
from anyshape.codegen.nvptx.module import functions_of, module_text, nvptx_target
from anyshape.codegen.nvptx.plan import GpuPlan, gpu_plans
from anyshape.codegen.target import Target
from anyshape.loops.expr import FLOAT8, FLOATS, Dtype, fresh_scope, load, reached
from anyshape.loops.kernels import Kernel
from anyshape.loops.stages import all_roots
from anyshape.runtime.loader.engine import assembly
from tests.codegen import kernel_samples as samples
from tests.codegen.geometry import chosen, geometry
from tests.codegen.gpu_emulator import Emulated, Gpu, Started
from tests.codegen.random_kernels import MAKERS
from tests.codegen.test_llvm_kernels import choose_sizes, compare, has_empty_extreme

#: Compute capability, and the version of PTX that knows it.
GPUS = ((7, 5, 63), (8, 0, 70), (8, 6, 71), (8, 9, 78), (9, 0, 78), (10, 0, 86), (12, 0, 87))

CASTS: tuple[tuple[Dtype, Dtype], ...] = (
    ("f32", "f8e4m3fn"),
    ("bf16", "f8e5m2"),
    ("f8e4m3fn", "f32"),
    ("f8e5m2fnuz", "f8e4m3fnuz"),
)


def cast(source: Dtype, target: Dtype) -> Kernel:
    return samples.pointwise(samples.op("cast", load("k0", samples.AT, source), dtype=target))


SAMPLES: dict[str, tuple[Kernel, tuple[int, int, int]]] = {
    "sin": (samples.pointwise(samples.op("sin", load("k0", samples.AT, "f32"))), (2, 1, 0)),
    "exp of halves": (
        samples.pointwise(samples.op("exp", load("k0", samples.AT, "bf16"))),
        (2, 1, 0),
    ),
    "scaled columns": (samples.scaled_columns(), (4, 2, 0)),
    "transposed": (samples.transposed(), (2, 2, 0)),
    "softmax": (samples.softmax(), (2, 2, 0)),
    "softmax in a row": (samples.softmax_in_row(), (2, 2, 0)),
    "logsumexp": (samples.logsumexp(), (2, 2, 0)),
    "layer_norm": (samples.layer_norm(), (3, 2, 0)),
    "sum of rows": (samples.sum_of_rows(), (2, 2, 0)),
    "sum of columns": (samples.sum_of_columns("f64"), (2, 2, 0)),
    "sum of all": (samples.sum_of_all("bf16"), (2, 2, 0)),
    "softmax of columns": (samples.softmax_of_columns(), (2, 2, 0)),
    "running sum": (samples.running_sum(), (2, 2, 0)),
    "running sum of halves": (samples.running_sum("bf16"), (2, 2, 0)),
    **{f"{source} as {target}": (cast(source, target), (2, 1, 0)) for source, target in CASTS},
}


def casts_floats_to_integers(kernel: Kernel) -> bool:
    """What does not fit becomes what the processor makes of it, and this is another one."""
    numbers = FLOATS | FLOAT8
    return any(
        scalar.op == "cast" and scalar.dtype not in numbers and scalar.args[0].dtype in numbers
        for scalar in reached(all_roots(kernel))
    )


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(3))
def test_random(kind: str, seed: int) -> None:
    rng = random.Random(seed)
    with fresh_scope():
        made = MAKERS[kind](seed)
        if casts_floats_to_integers(made.kernel):
            pytest.skip("floats become integers, which processors do in their own ways")
        runner = Emulated(made.kernel, (len(made.buffers), made.symbols, 1))
        for _ in range(4):
            sizes = choose_sizes(made, rng)
            if not has_empty_extreme(made, sizes):
                compare(made, runner, sizes, seed)


@pytest.mark.parametrize("kind", MAKERS)
def test_coordinates_of_64_bits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs where there are more elements than memory here."""
    monkeypatch.setattr(GpuPlan, "divides", False)
    test_random(kind, 1)


@pytest.mark.parametrize("name", ["scaled columns", "transposed"])
def test_coordinates_have_32_bits_where_all_sizes_have(name: str) -> None:
    kernel, counts = SAMPLES[name]
    rules = [each.rule for each in functions_of("kernel", kernel)]
    bits = [rule.index_bits for rule in rules]
    if name == "transposed":
        assert bits == [64] * len(rules), "tiles divide nothing"
        return
    assert bits == [32, 64] * (len(rules) // 2)
    runner = Emulated(kernel, counts, runs=False)
    for rows, length, is_near in (
        (7, 64, True),
        ((1 << 15) - 1, 1 << 15, True),
        (1 << 16, 1 << 15, False),
        (1 << 31, 0, False),
        (1, 1 << 31, False),
        (1 << 40, 4, False),
    ):
        runner.gpu.started.clear()
        given = [4096] * counts[0]
        assert runner.start(given, (rows, length)) == 0
        found = runner.gpu.started[0].name if runner.gpu.started else ""
        assert not found or found.endswith("_i32") is is_near


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(3, 24))
def test_more_at_random(kind: str, seed: int) -> None:
    test_random(kind, seed)


def ptx_of(sample: Any, gpu: tuple[int, int, int] = (9, 0, 78)) -> dict[str, str]:
    """By the name of the function."""
    (kernel, counts), (major, minor, version) = sample, gpu
    target = nvptx_target((major, minor), version)
    return {
        each.rule.name: assembly(module_text(each, counts, target), *_machine(target))
        for each in functions_of("kernel", kernel)
    }


def _machine(target: Target) -> tuple[str, str, str]:
    return target.triple, target.cpu, target.features


@pytest.mark.parametrize("name", SAMPLES)
def test_ptx(name: str) -> None:
    for entry, ptx in ptx_of(SAMPLES[name]).items():
        assert f".visible .entry {entry}(" in ptx
        assert ".local" not in ptx, "a thread's own variables are in registers"
        assert "ld.global" in ptx
        assert "\tld.b" not in ptx, "every load knows which memory it is from"


@pytest.mark.parametrize("name", ["sin", "softmax", "layer_norm"])
def test_wide_code_moves_16_bytes(name: str) -> None:
    ptx = next(iter(ptx_of(SAMPLES[name]).values()))
    assert "ld.global.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx


def assembler() -> Path | None:
    found = importlib.util.find_spec("nvidia.cuda_nvcc") if has_nvidia() else None
    places = [] if found is None else list(found.submodule_search_locations or ())
    paths = [Path(place) / "bin" / "ptxas" for place in places]
    return next((path for path in paths if path.exists()), None)


def has_nvidia() -> bool:
    return importlib.util.find_spec("nvidia") is not None


@pytest.mark.slow
@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: f"sm_{gpu[0]}{gpu[1]}")
def test_assembled(gpu: tuple[int, int, int], tmp_path: Path) -> None:
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("ptxas is not installed (the package nvidia-cuda-nvcc-cu12 has it)")
    ptxas.chmod(0o755)
    major, minor, _ = gpu
    for name, sample in SAMPLES.items():
        for entry, ptx in ptx_of(sample, gpu).items():
            source = tmp_path / f"{entry}.ptx"
            source.write_text(ptx)
            done = subprocess.run(
                [ptxas, f"-arch=sm_{major}{minor}", "-o", tmp_path / "cubin", source],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{name} {entry}: {done.stderr}"


def started(runner: Emulated, rows: int, length: int, first: int = 0) -> Started | None:
    """How a softmax of so many rows is launched that begins so many elements late."""
    x = np.zeros(rows * length + 8, np.float32)
    begin = -(x.ctypes.data // 4) % 4 + first
    runner.gpu.started.clear()
    given = x[begin : begin + rows * length]
    result = np.zeros(rows * length + 4, np.float32)
    late = -(result.ctypes.data // 4) % 4
    runner([given, result[late:]], (rows, length))
    return runner.gpu.started[0] if runner.gpu.started else None


def test_odd_sizes_and_addresses_take_the_narrow_code() -> None:
    runner = Emulated(*SAMPLES["softmax"], runs=False)
    names = [rule.name for rule in runner.gpu.rules[0]]
    wide, narrow = names
    for rows, length, first, name in ((3, 64, 0, wide), (3, 63, 0, narrow), (3, 64, 1, narrow)):
        found = started(runner, rows, length, first)
        assert found is not None
        assert found.name == name


def test_geometry() -> None:
    runner = Emulated(*SAMPLES["softmax"], runs=False)
    assert started(runner, 0, 64) is None, "nothing to do"
    for rows, length, block in ((1, 4, (32, 1)), (300, 16, (32, 2)), (2, 4096, (128, 1))):
        found = started(runner, rows, length)
        assert found is not None
        assert found.block == block
        assert found.grid == -(-rows // block[1])


@pytest.mark.parametrize("name", SAMPLES)
def test_python_starts_kernels_as_machine_code_does(name: str) -> None:
    kernel, counts = SAMPLES[name]
    gpu = Gpu([(kernel, counts)], shared=1024, runs=False, room=40)
    text = launch_function("start", gpu.rules[0], counts, 0, 0)
    host = gpu.host(join_module([DECLARATIONS, text]))
    start = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(host.address("start") or 0)
    rng = random.Random(0)
    for _ in range(200):
        sizes = [int(2 ** (rng.random() * 16)) - 1 for _ in range(counts[1])]
        addresses = [4096 * (k + 1) + rng.choice((0, 0, 0, 4, 8)) for k in range(counts[0])]
        rule = chosen(gpu.rules[0], sizes, addresses)
        shape = geometry(rule, sizes, 1024, room=40)
        gpu.started.clear()
        buffers = (ctypes.c_void_p * counts[0])(*addresses)
        assert start(buffers, (ctypes.c_int64 * counts[1])(*sizes), None, None) == 0
        expected = [
            Started(rule.name, each.grid, each.block, each.shared, each.together)
            for each in [shape]
            if each is not None
        ]
        assert gpu.started == expected


def test_odd_rows_one_behind_the_other() -> None:
    """Vectors begin in one row and end in the next."""
    rng = np.random.default_rng(0)
    runner = Emulated(*SAMPLES["scaled columns"])
    for rows, length in ((1, 3), (7, 3), (5, 4), (3, 5), (9, 7), (40, 33), (2, 1), (6, 2)):
        memory = [rng.standard_normal(rows * length + 4).astype(np.float32) for _ in range(2)]
        x, result = (each[-(each.ctypes.data // 4) % 4 :][: rows * length] for each in memory)
        scale, more = (rng.standard_normal(n).astype(np.float32) for n in (length, rows))
        runner.gpu.started.clear()
        runner([x, result, scale, more], (rows, length))
        want = x.reshape(rows, length) * scale + more[:, None]
        np.testing.assert_allclose(result.reshape(rows, length), want, rtol=1e-5, atol=1e-6)
        (launch,) = runner.gpu.started
        assert launch.name == ("kernel_w1_i32" if length < 3 else launch.name)
        assert length % 4 == 0 or length < 3 or launch.name == "kernel_w4_flat_i32"


def test_rows_in_registers() -> None:
    """From a part of a warp to many, at lengths that leave vectors, lanes and rows over."""
    rng = np.random.default_rng(0)
    runner = Emulated(*SAMPLES["layer_norm"])
    assert [rule.name for rule in runner.gpu.rules[0]][:2] == ["kernel_w4x4t32", "kernel_w4x4t512"]
    sizes = ((5, 4), (33, 100), (3, 128), (2, 516), (2, 4096), (1, 4100), (3, 1), (5, 63))
    sizes += ((9, 5), (2, 4095), (1, 130), (2, 1001), (5, 513), (1, 2050), (1, 16388), (1, 17411))
    for rows, length in sizes:
        x = rng.standard_normal((rows, length)).astype(np.float32)
        scale = rng.standard_normal(length).astype(np.float32)
        result = np.zeros_like(x)
        runner([x, result, scale], (rows, length))
        off = x - x.mean(1, keepdims=True)
        want = off / np.sqrt((off * off).mean(1, keepdims=True) + 1e-5) * scale
        np.testing.assert_allclose(result, want, rtol=2e-4, atol=2e-5)
    assert any("x" in each.name for each in runner.gpu.started)


def test_vectors_that_every_row_has() -> None:
    for each in (4, 8, 16, 20, 24, 32):
        for shorter in (0, 128, 512, 640, 8192, 16384):
            sure = sure_elements(each, shorter)
            lengths = range(shorter + 1, min(2 * shorter + 4096, 1024 * each) + 1)
            warps = ((length, -(-length // (32 * each))) for length in lengths)
            assert all(length >= 32 * count * sure for length, count in warps)
    assert [sure_elements(*each) for each in ((16, 0), (32, 512), (32, 16384))] == [0, 16, 30]


def test_geometry_of_rows_in_registers() -> None:
    runner = Emulated(*SAMPLES["layer_norm"], runs=False)
    rules = runner.gpu.rules[0]
    for rows, length, name, block in (
        (1, 4, "kernel_w4x4t32", (8, 4)),
        (100000, 256, "kernel_w4x4t32", (16, 8)),
        (100000, 1024, "kernel_w4x4t512", (64, 2)),
        (100000, 4096, "kernel_w4x4t512", (256, 1)),
        (100000, 12288, "kernel_w4x8t512", (384, 1)),
        (10, 16384, "kernel_w4x8t512", (512, 1)),
        (10, 16388, "kernel_w4x8t1024", (544, 1)),
        (10, 32772, "kernel_w4", (1024, 1)),
        (10, 4095, "kernel_w1x16t512", (256, 1)),
        (10, 5, "kernel_w1x16t32", (8, 4)),
        (10, 3, "kernel_w1x16t32", (8, 4)),
        (10, 32769, "kernel_w1", (1024, 1)),
        (10, 0, "kernel_w4", (32, 1)),
    ):
        rule = chosen(rules, (rows, length), (0, 0, 0))
        shape = geometry(rule, (rows, length), 1 << 16)
        assert shape is not None
        assert (rule.name, shape.block) == (name, block)


def test_long_rows_take_several_vectors_a_round() -> None:
    rng = np.random.default_rng(0)
    runner = Emulated(*SAMPLES["softmax"])
    for rows, length in ((2, 1000), (3, 516), (1, 4100), (2, 1001), (1, 127), (1, 129)):
        x = rng.standard_normal((rows, length)).astype(np.float32)
        result = np.zeros_like(x)
        runner([x, result], (rows, length))
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_rows_that_are_too_long_for_shared_memory() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 300)).astype(np.float32)
    result = np.zeros_like(x)
    for shared in (1 << 16, 256):
        runner = Emulated(*SAMPLES["softmax"], shared=shared)
        runner([x, result], (5, 300))
        assert runner.gpu.started[0].shared <= shared
        e = np.exp(x - x.max(1, keepdims=True))
        np.testing.assert_allclose(result, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_a_launch_that_fails() -> None:
    kernel, counts = SAMPLES["sin"]
    gpu = Gpu([(kernel, counts)], fails=719)
    text = launch_function("start", gpu.rules[0], counts, 0, 0)
    host = gpu.host(join_module([DECLARATIONS, text]))
    words = (ctypes.c_int64 * 2)(4, 4)
    start = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(host.address("start") or 0)
    buffer = np.zeros(4, np.float32)
    addresses = (ctypes.c_void_p * 2)(buffer.ctypes.data, buffer.ctypes.data)
    assert start(addresses, words, None, None) == 1
    assert gpu.table[TABLE.index("error")] == 719
    assert failures("kernel")[0] == "cuda: kernel kernel could not be started"


def test_scattered_sums_are_atomic_or_in_order() -> None:
    with fresh_scope():
        forms = {
            (plan.form, plan.atomic, plan.serial)
            for seed in range(30)
            for plan in gpu_plans(MAKERS["scatters"](seed).kernel)
            if MAKERS["scatters"](seed).kernel.ordered
        }
    assert all(atomic or serial or form != "points" for form, atomic, serial in forms)
