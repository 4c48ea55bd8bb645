"""Long rows that do not begin with a vector: results are eager's, and nothing is written beside
them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from anyshape.codegen.nvptx import plan as plans
from anyshape.codegen.nvptx.choice import GpuChoice
from anyshape.loops.expr import Dtype, fresh_scope, load, row
from anyshape.loops.kernels import Fold, Kernel, Stage, Store
from anyshape.support.lazy_dataclass import replace
from tests.codegen import kernel_samples as samples
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.kernel_samples import ALONG, AT, COLUMNS, LINE, NOTHING, POINTS, kernel, op
from tests.codegen.random_kernels import MAKERS
from tests.codegen.test_llvm_kernels import choose_sizes, compare, has_empty_extreme
from tests.codegen.test_nvptx import casts_floats_to_integers, ptx_of

READ_AGAIN = GpuChoice(held=0)
PLACE = AT * COLUMNS + ALONG
TORCH: dict[Dtype, torch.dtype] = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i64": torch.int64,
}
#: With room for one block a row, and with more, which share a row if it is long.
SIZES = ((5, 449), (3, 1023), (2, 1026), (1, 5003))


def log_softmax(source: Dtype, result: Dtype, own: Dtype = "f32") -> Kernel:
    x = op("cast", load("k0", PLACE, source), dtype=own)
    largest, total = row("m", own, NOTHING), row("s", own, NOTHING)
    value = op("cast", op("sub", op("sub", x, largest), op("log", total)), dtype=result)
    above = op("exp", op("sub", x, largest))
    return kernel(
        (POINTS,),
        Stage((LINE,), folds=(Fold("m", "max", x, own),)),
        Stage((LINE,), folds=(Fold("s", "sum", above, own),)),
        Stage((LINE,), (Store("k1", PLACE, value),)),
    )


def shares(source: Dtype, result: Dtype) -> Kernel:
    """Of squares, which are kept in between."""
    x = op("cast", load("k0", PLACE, source), dtype="f32")
    share = op("div", load("row0", ALONG, "f32"), row("s", "f32", NOTHING))
    made = kernel(
        (POINTS,),
        Stage((LINE,), (Store("row0", ALONG, x),)),
        Stage(
            (LINE,),
            (Store("row0", ALONG, op("mul", *[load("row0", ALONG, "f32")] * 2)),),
            (Fold("s", "sum", x, "f32"),),
        ),
        Stage((LINE,), (Store("k1", PLACE, op("cast", share, dtype=result)),)),
    )
    return replace(made, private={"row0": ("f32", COLUMNS)})


def weighed(source: Dtype, result: Dtype) -> Kernel:
    """By what all rows have in common, above a limit: the others are left as they are."""
    x = op("cast", load("k0", PLACE, source), dtype="f32")
    value = op("cast", op("mul", x, load("k2", ALONG, "f32")), dtype=result)
    is_above = op("gt", x, row("x", "f32", NOTHING), dtype="b1")
    return kernel(
        (POINTS,),
        Stage((LINE,), folds=(Fold("x", "min", x, "f32"),)),
        Stage((LINE,), (Store("k1", PLACE, value, mask=is_above),)),
    )


def position(fold: str) -> Kernel:
    value = load("k0", PLACE, "f32")
    store = Store("k1", AT, row("x", "i64", NOTHING))
    fold_ = Fold("x", fold, value, "i64")
    return kernel((POINTS,), Stage((LINE,), folds=(fold_,)), Stage((), (store,)))


WEIGHTS = torch.linspace(0.5, 2, 10000)


def _shares(x: torch.Tensor) -> torch.Tensor:
    return x * x / x.sum(-1, keepdim=True)


def _weighed(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > x.amin(-1, keepdim=True), x * WEIGHTS[: x.shape[-1]], 77)


Eager = Callable[[torch.Tensor], torch.Tensor]
KERNELS: dict[str, tuple[Kernel, Dtype, Dtype, Eager]] = {
    "log_softmax": (log_softmax("f32", "f32"), "f32", "f32", lambda x: x.log_softmax(-1)),
    "of halves": (log_softmax("bf16", "bf16"), "bf16", "bf16", lambda x: x.log_softmax(-1)),
    "to halves": (log_softmax("f32", "bf16"), "f32", "bf16", lambda x: x.log_softmax(-1)),
    "from halves": (log_softmax("bf16", "f32"), "bf16", "f32", lambda x: x.log_softmax(-1)),
    "of doubles": (log_softmax("f64", "f64", "f64"), "f64", "f64", lambda x: x.log_softmax(-1)),
    "kept": (shares("f32", "f32"), "f32", "f32", _shares),
    "kept of halves": (shares("bf16", "bf16"), "bf16", "bf16", _shares),
    "weighed": (weighed("f32", "f32"), "f32", "f32", _weighed),
    "weighed halves": (weighed("bf16", "f32"), "bf16", "f32", _weighed),
    "argmax": (position("argmax"), "f32", "i64", lambda x: x.argmax(-1)),
    "argmin": (position("argmin"), "f32", "i64", lambda x: x.argmin(-1)),
    "logsumexp": (samples.logsumexp(), "f32", "f32", lambda x: x.logsumexp(-1)),
}
LATE = 48


def _within(count: int, dtype: torch.dtype, late: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Elements that begin so many behind a multiple of 64 bytes, and all of the memory."""
    memory = torch.full((count + 2 * LATE,), 77, dtype=dtype)
    first = -(memory.data_ptr() // dtype.itemsize) % (64 // dtype.itemsize) + late
    return memory[first:][:count], memory


def _bits(x: torch.Tensor) -> np.ndarray:
    return x.view(torch.int16).numpy() if x.dtype == torch.bfloat16 else x.numpy()


def _check(runner: Emulated, name: str, rows: int, length: int, late: int = 0) -> str:
    """The function that was taken."""
    _, source, result, eager = KERNELS[name]
    torch.manual_seed(length)
    # Equal ones: of those the first is meant.
    values = (torch.rand(rows, length) * 40).round() / 8 + 1
    x, _ = _within(rows * length, TORCH[source], late)
    x.copy_(values.flatten())
    want = eager(x.reshape(rows, length).to(torch.float64)).to(TORCH[result])
    got, memory = _within(want.numel(), TORCH[result], 0)
    rest = memory.clone()
    runner.gpu.started.clear()
    runner(
        [_bits(x), _bits(got), _bits(WEIGHTS.clone())][: 3 if "weigh" in name else 2],
        (rows, length),
    )
    close = 8e-3 if torch.bfloat16 in (TORCH[source], TORCH[result]) else 2e-5
    torch.testing.assert_close(got.reshape(want.shape), want, rtol=close, atol=close)
    got.fill_(77)
    assert torch.equal(memory, rest)
    return runner.gpu.started[0].name


@pytest.mark.parametrize("name", KERNELS)
def test_rows_of_any_length(name: str) -> None:
    made, source, result, _ = KERNELS[name]
    counts = (3 if "weigh" in name else 2, 2, 0)
    widest = max(TORCH[source].itemsize, TORCH[result].itemsize if "arg" not in name else 0)
    for room in (0, 12):
        runner = Emulated(made, counts, choice=READ_AGAIN, room=room)
        for rows, length in SIZES if room == 0 else SIZES[-2:]:
            taken = _check(runner, name, rows, length)
            assert taken == f"kernel_{'s' if length % (16 // widest) else 'w'}{16 // widest}"
    assert _check(runner, name, 3, 1001, late=1) == "kernel_w1"
    assert _check(runner, name, 9, 33) == "kernel_w1", "all ends"


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("seed", range(1))
def test_random(kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_FEWEST_SHIFTED", 1)
    rng = random.Random(seed)
    with fresh_scope():
        made = MAKERS[kind](seed)
        if casts_floats_to_integers(made.kernel):
            pytest.skip("floats become integers, which processors do in their own ways")
        counts = len(made.buffers), made.symbols, 1
        runner = Emulated(made.kernel, counts, choice=READ_AGAIN)
        for _ in range(4):
            sizes = choose_sizes(made, rng)
            if not has_empty_extreme(made, sizes):
                compare(made, runner, sizes, seed)


def test_vectors_are_whole_accesses() -> None:
    """Both where rows are read and where they are written."""
    made = ptx_of((log_softmax("bf16", "bf16"), (2, 2, 0)))
    ptx = made["kernel_s8"]
    wide = made["kernel_w8"]
    for access in (r"ld\.global\.v4\.b32", r"st\.global\.v4\.b32"):
        assert len(re.findall(access, ptx)) == len(re.findall(access, wide)) > 0
    assert ".local" not in ptx


def test_rows_that_move_apart_are_taken_element_by_element() -> None:
    """Vectors of one of them would begin anywhere."""
    further = load("k0", AT * (COLUMNS + 1) + ALONG, "f32")
    for value, is_shifted in (
        (load("k0", PLACE, "f32"), True),
        (load("k0", PLACE + 4, "f32"), True),
        (load("k0", PLACE + 1, "f32"), False),
        (further, False),
    ):
        made = kernel(
            (POINTS,),
            Stage((LINE,), folds=(Fold("m", "max", value, "f32"),)),
            Stage((LINE,), (Store("k1", PLACE, op("sub", value, row("m", "f32", NOTHING))),)),
        )
        found = [each.shifted is not None for each in plans.gpu_plans(made, READ_AGAIN)]
        assert any(found) is is_shifted


def test_what_is_kept_may_be_too_long_for_shared_memory() -> None:
    made, *_ = KERNELS["kept"]
    runner = Emulated(made, (2, 2, 0), choice=READ_AGAIN, shared=1024)
    for rows, length in ((5, 449), (3, 1023)):
        assert _check(runner, "kept", rows, length) == "kernel_s4"
    assert runner.gpu.started[0].shared == 0
