"""Attention on GPUs, without one: kernels run thread by thread, their products by what stands for
tensor cores, and the assembler takes them."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import torch
from torch import Tensor

from anyshape.codegen.nvptx.module import functions_of
from anyshape.codegen.nvptx.narrow_integers import COORDINATES
from anyshape.loops.attention import LARGEST, LOGSUMEXP
from anyshape.loops.expr import Dtype, Scalar, constant, fresh_scope, index, load
from anyshape.loops.kernels import Kernel
from tests.codegen import kernel_samples as samples
from tests.codegen.geometry import chosen
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.kernel_samples import op
from tests.codegen.test_nvptx import GPUS, assembler, ptx_of

DTYPES: Final[dict[Dtype, torch.dtype]] = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
#: Heads, queries, keys.
SIZES: Final = ((1, 33, 70), (0, 3, 3), (1, 5, 0))
MORE_SIZES: Final = ((2, 17, 33), (1, 129, 17), (3, 1, 1), (1, 16, 130))


def scaled(product: Scalar) -> Scalar:
    return op("mul", product, constant(0.25, product.dtype))


def negative(product: Scalar) -> Scalar:
    return op("mul", product, constant(-1.5, product.dtype))


def alibi(product: Scalar) -> Scalar:
    distance = op("sub", index(samples.KEY), index(samples.QUERY))
    return op("add", scaled(product), op("mul", op("cast", distance, dtype="f32"), HALF()))


def HALF() -> Scalar:
    return constant(0.5, "f32")


def bias(product: Scalar) -> Scalar:
    """Of a tensor, at positions that all exist."""
    place = samples.QUERY * samples.KEYS + samples.KEY
    return op("add", product, op("cast", load("k4", place, "b1"), dtype="f32"))


def capped(product: Scalar) -> Scalar:
    return op("mul", op("tanh", product), constant(2.0, "f32"))


class Case(NamedTuple):
    dtype: Dtype
    depth: int
    width: int
    mask: str = ""
    score: Callable[[Scalar], Scalar] = scaled
    zeros: bool = True
    product: Dtype = "f32"
    results: Sequence[str] = ()

    def kernel(self) -> Kernel:
        made = self._replace()._asdict()
        return samples.attention(made.pop("dtype"), made.pop("depth"), made.pop("width"), **made)

    @property
    def counts(self) -> tuple[int, int, int]:
        reads = self.mask in ("numbers", "any") or self.score is bias
        return 4 + len(self.results) + reads, 3, 0


CASES: Final[dict[str, Case]] = {
    "bf16": Case("bf16", 16, 16),
    "f16": Case("f16", 24, 8, "causal"),
    "f32": Case("f32", 16, 16, "causal"),
    "f32, odd": Case("f32", 5, 3, "window", negative),
    "bf16, odd": Case("bf16", 12, 7, "causal"),
    "bf16, rounded": Case("bf16", 16, 16, "causal", product="bf16"),
    "wide": Case("bf16", 72, 16, "causal"),
    "wider": Case("f16", 136, 8),
    "negative": Case("bf16", 8, 8, "window", negative),
    "alibi": Case("bf16", 8, 8, "causal", alibi),
    "bias": Case("f16", 8, 8, "", bias),
    "capped": Case("bf16", 8, 8, "causal", capped),
    "numbers": Case("bf16", 8, 8, "numbers"),
    "numbers, f32": Case("f32", 8, 8, "numbers"),
    "any": Case("bf16", 8, 8, "any"),
    "any, NaN": Case("bf16", 8, 8, "any", zeros=False),
    "any, NaN, f32": Case("f32", 8, 8, "any", zeros=False),
    "rows": Case("bf16", 8, 8, "any", results=(LOGSUMEXP,)),
    "rows, f16": Case("f16", 8, 8, "causal", results=(LARGEST, LOGSUMEXP)),
    "rows, f32": Case("f32", 8, 8, "any", results=(LOGSUMEXP, LARGEST)),
}
_SCORES: Final[dict[object, Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
    scaled: lambda x, q, k: x * 0.25,
    negative: lambda x, q, k: x * -1.5,
    alibi: lambda x, q, k: x * 0.25 + (k - q) * 0.5,
    capped: lambda x, q, k: x.tanh() * 2,
}


class Inputs(NamedTuple):
    heads: tuple[Tensor, Tensor, Tensor]
    #: numbers of positions, or truths
    more: Tensor | None


def _inputs(case: Case, heads: int, queries: int, keys: int, large: float = 1.0) -> Inputs:
    torch.manual_seed(queries)
    sizes = ((queries, case.depth), (keys, case.depth), (keys, case.width))
    made = [torch.randn(heads, *size).mul(large).to(DTYPES[case.dtype]) for size in sizes]
    more = None
    if case.mask == "numbers":
        more = torch.arange(max(queries, keys)) // 7
    elif case.counts[0] > 4 + len(case.results):
        more = torch.rand(queries, keys) > 0.7
    return Inputs((made[0], made[1], made[2]), more)


def _expected(case: Case, inputs: Inputs) -> dict[str, Tensor]:
    query, key, value = (each.double() for each in inputs.heads)
    scores = query @ key.mT
    if case.product != "f32":
        scores = scores.to(DTYPES[case.product]).double()
    q, k = torch.arange(query.shape[1])[:, None], torch.arange(key.shape[1])
    if case.score is bias:
        assert inputs.more is not None
        scores = scores + inputs.more
    else:
        scores = _SCORES[case.score](scores, q, k)
    if case.mask:
        more = inputs.more
        seen = (
            q >= k
            if case.mask == "causal"
            else (q - k).abs() <= 3
            if case.mask == "window"
            else more
            if case.mask == "any" or more is None
            else more[q] == more[k]
        )
        assert seen is not None
        scores = scores.masked_fill(~seen, -math.inf)
    weights = scores.softmax(-1)
    if case.zeros:
        weights = weights.nan_to_num(0.0)
    found = {"": weights @ value, LOGSUMEXP: scores.logsumexp(-1)}
    if scores.shape[-1]:
        found[LARGEST] = scores.amax(-1)
    return found


def _run(case: Case, runner: Emulated, inputs: Inputs) -> list[Tensor]:
    query, key, value = inputs.heads
    heads, queries, _ = query.shape
    dtype = DTYPES[case.dtype]
    results = [torch.full((heads, queries, case.width), 7.0, dtype=dtype)]
    results += [torch.full((heads, queries), 7.0) for _ in case.results]
    given = [query, key, value, *results, *([] if inputs.more is None else [inputs.more])]
    sizes = heads, queries, key.shape[1]
    assert runner.start([each.data_ptr() for each in given], sizes) == 0
    return results


def _check(case: Case, runner: Emulated, sizes: tuple[int, int, int], large: float = 1.0) -> None:
    inputs = _inputs(case, *sizes, large)
    want = _expected(case, inputs)
    names = ("", *case.results)
    rounding = 1e-5 if case.dtype == "f32" else 2e-3 if case.dtype == "f16" else 2e-2
    for name, found in zip(names, _run(case, runner, inputs), strict=True):
        if name not in want:
            continue
        close = rounding if name == "" else 1e-5 if case.product == "f32" else rounding
        torch.testing.assert_close(
            found.double(), want[name], atol=close * large, rtol=close, equal_nan=True
        )


@pytest.mark.parametrize("name", CASES)
def test_attention(name: str) -> None:
    _check_sizes(CASES[name], SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_more_sizes(name: str) -> None:
    _check_sizes(CASES[name], MORE_SIZES)


def _check_sizes(case: Case, given: Sequence[tuple[int, int, int]]) -> None:
    with fresh_scope():
        runner = Emulated(case.kernel(), case.counts)
        for sizes in given:
            _check(case, runner, sizes)
        ran = {each.name for each in runner.gpu.started}
    is_whole = case.dtype != "f32" and not (case.depth % 8 or case.width % 8)
    assert ran == {"kernel_tensor" if is_whole else "kernel_plain"}


def test_maxima_that_grow_by_much() -> None:
    """From tile to tile, beyond what sums wait for."""
    case = CASES["f16"]
    with fresh_scope():
        runner = Emulated(case.kernel(), case.counts)
        inputs = _inputs(case, 1, 17, 200)
        growing = torch.linspace(0.1, 30, 200)[None, :, None]
        inputs.heads[1].mul_(growing.half())
        (found,) = _run(case._replace(mask=""), runner, inputs)
        want = _expected(case, inputs)[""]
    torch.testing.assert_close(found.double(), want, atol=5e-3, rtol=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numbers", "numbers, f32"])
def test_tiles_that_are_far_behind_each_other(name: str) -> None:
    case, keys = CASES[name], 2200
    with fresh_scope():
        runner = Emulated(case.kernel(), case.counts)
        inputs = _inputs(case, 1, 10, keys)
        assert inputs.more is not None
        inputs.more.copy_(torch.arange(keys) + 50)
        # Of some queries one of them, of some the other, of others none; one tile as a whole.
        for first, last, number in (
            (0, 4, 1),
            (4, 8, 2),
            (700, 720, 1),
            (1344, 1416, 1),
            (2190, keys, 2),
        ):
            inputs.more[first:last] = number
        inputs.more[8] = 3
        (found,) = _run(case, runner, inputs)
        want = _expected(case, inputs)[""]
    close = 1e-5 if case.dtype == "f32" else 2e-2
    torch.testing.assert_close(found.double(), want, atol=close, rtol=close)


def test_infinite_values_are_seen_behind_a_mask() -> None:
    """A weight of zero makes NaN of them: tiles are left out only where all values are finite."""
    case = CASES["f32"]
    with fresh_scope():
        kernel = case.kernel()
        runner = Emulated(kernel, case.counts)
        inputs = _inputs(case, 1, 20, 100)
        _, _, value = inputs.heads
        value[0, 19, 2] = math.inf
        (found,) = _run(case, runner, inputs)
    # In the tile that is looked at: as the softmax of the whole row would be.
    assert found[0, :19, 2].isnan().all()
    assert found[0, 19, 2].isinf()
    assert found[0, :, :2].isfinite().all()


def test_sums_of_large_values_are_finite() -> None:
    case = Case("bf16", 8, 8)
    with fresh_scope():
        runner = Emulated(case.kernel(), case.counts)
        inputs = _inputs(case, 1, 3, 130)
        inputs.heads[2].fill_(3e38)
        (found,) = _run(case, runner, inputs)
    assert found.isfinite().all()
    torch.testing.assert_close(
        found.double(), torch.full_like(found, 3e38).double(), rtol=2e-2, atol=0
    )


def test_which_code_runs() -> None:
    case = CASES["bf16"]
    with fresh_scope():
        rules = [each.rule for each in functions_of("kernel", case.kernel())]
        fast, plain = rules
        near = (4, 1000, 1000)
        assert chosen(rules, near, (0, 16, 32, 48)) is fast
        for place in range(4):
            addresses = [8 if place == n else 0 for n in range(4)]
            assert chosen(rules, near, addresses) is plain
        assert chosen(rules, (1, COORDINATES, 8), (0,) * 4) is plain
        assert chosen(rules, (1, 8, COORDINATES), (0,) * 4) is plain
        assert chosen(rules, (COORDINATES, 300, 8), (0,) * 4) is plain
        runner = Emulated(case.kernel(), case.counts, runs=False)
        for sizes, by, name in ((near, 0, "tensor"), (near, 8, "plain")):
            runner.gpu.started.clear()
            assert runner.start([4096 + by] * 4, sizes) == 0
            (launch,) = runner.gpu.started
            assert launch.name == f"kernel_{name}"
            rule = fast if name == "tensor" else plain
            assert launch.grid == 4 * -(-1000 // (rule.block // 2 if name == "plain" else 128))
            assert launch.shared == rule.private


#: Head widths of code that is assembled.
ASSEMBLED: Final = {
    **{f"{width}": Case("bf16", width, width, "causal") for width in (8, 40, 64, 128, 200, 256)},
    **{f"{width}, f32": Case("f32", width, width, "causal") for width in (4, 64, 128, 256)},
    "f16": Case("f16", 64, 64, "any", alibi, results=(LOGSUMEXP,)),
    "numbers": Case("f16", 128, 64, "numbers", capped, results=(LOGSUMEXP, LARGEST)),
}


@pytest.mark.parametrize("name", ASSEMBLED)
def test_ptx(name: str) -> None:
    case = ASSEMBLED[name]
    with fresh_scope():
        for entry, ptx in ptx_of((case.kernel(), case.counts)).items():
            assert ".local" not in ptx, "a thread's own variables are in registers"
            assert ("mma.sync" in ptx) is ("tensor" in entry)
            assert ("cp.async" in ptx) is ("tensor" in entry)
            assert ".tf32" not in ptx


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [gpu for gpu in GPUS if gpu >= (8, 0, 0)], ids=str)
def test_assembled(gpu: tuple[int, int, int], tmp_path: Path) -> None:
    ptxas = assembler()
    if ptxas is None:
        pytest.skip("ptxas is not installed (the package nvidia-cuda-nvcc-cu12 has it)")
    ptxas.chmod(0o755)
    for name, case in ASSEMBLED.items():
        with fresh_scope():
            texts = ptx_of((case.kernel(), case.counts), gpu)
        for entry, ptx in texts.items():
            source = tmp_path / f"{entry}.ptx"
            source.write_text(ptx)
            target = f"-arch=sm_{gpu[0]}{gpu[1]}"
            command = [ptxas, target, "-v", "-o", tmp_path / "cubin", source]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{name} {entry}: {done.stderr}"
            if name == "64":
                assert "0 bytes spill stores" in done.stdout + done.stderr
