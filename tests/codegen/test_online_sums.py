"""Sums of exponentials that are folded with their maximum: what two readings of a row give,
whatever the elements are."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from anyshape.codegen.nvptx.choice import GpuChoice
from anyshape.codegen.nvptx.plan import gpu_plans
from anyshape.loops.expr import Dtype, load, row
from anyshape.loops.kernels import Fold, Kernel
from anyshape.loops.online_sums import with_online_sums
from anyshape.support.lazy_dataclass import replace
from tests.codegen import kernel_samples as samples
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.kernel_samples import ALONG, AT, COLUMNS, NOTHING, op


def _expected(x: torch.Tensor) -> torch.Tensor:
    return (x - x.max(-1, keepdim=True).values).exp().sum(-1)


KERNELS: dict[str, tuple[Callable[[Dtype], Kernel], Callable[[torch.Tensor], torch.Tensor]]] = {
    "kept": (samples.softmax_in_row, lambda x: (x * 0.5).softmax(-1)),
    "computed again": (lambda d: samples.softmax_in_row(d, False), lambda x: (x * 0.5).softmax(-1)),
    "logsumexp": (samples.logsumexp, lambda x: x.logsumexp(-1)),
    "sum": (samples.sum_below_largest, _expected),
}
PLACE = AT * COLUMNS + ALONG
#: One block a row, several warps or a part of one, and rows that blocks share.
SIZES = ((3, 1), (5, 4), (2, 31), (9, 129), (1, 4096), (1, 1027), (2, 1000), (3, 130))
CHOICES = (GpuChoice(held=0), GpuChoice(held=0, share=0, access=32, each=4))


def _rows(kind: str, rows: int, length: int) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((rows, length)) * 6
    if kind == "rising":
        x = np.sort(x, axis=1)
    elif kind == "falling":
        x = -np.sort(x, axis=1)
    elif kind == "masked":
        x[:, : length // 2] = -np.inf
        x[:, -(length // 3) - 1 : -1] = -np.inf
    elif kind == "nothing":
        x[:] = -np.inf
    elif kind == "infinite":
        x[:, length // 3] = np.inf
    elif kind == "nan":
        x[:, length // 2] = np.nan
        x[0, 0] = np.inf
    elif kind == "far":
        x = x * 1e30
    return x


@pytest.mark.parametrize(
    ("name", "dtype", "choice"),
    [
        ("kept", "f32", 0),
        ("kept", "f64", 1),
        ("logsumexp", "f32", 0),
        ("logsumexp", "f64", 0),
        ("sum", "f32", 1),
        *(
            pytest.param(name, dtype, choice, marks=pytest.mark.slow)
            for name in KERNELS
            for dtype in ("f32", "f64")
            for choice in range(2)
        ),
    ],
)
def test_whatever_the_elements_are(name: str, dtype: Dtype, choice: int) -> None:
    make, eager = KERNELS[name]
    runner = Emulated(make(dtype), (2, 2, 0), choice=CHOICES[choice], room=6)
    kinds = ("any", "rising", "falling", "masked", "nothing", "infinite", "nan", "far")
    for number, kind in enumerate(kinds):
        for rows, length in (SIZES[number], (2, 5)):
            x = _rows(kind, rows, length).astype({"f32": np.float32, "f64": np.float64}[dtype])
            # In twice the digits: sums of many are not the point here.
            want = eager(torch.from_numpy(x.astype(np.float64))).numpy()
            got = np.zeros(want.shape, x.dtype)
            runner([x, got], (rows, length))
            close = 2e-6 if dtype == "f32" else 1e-14
            np.testing.assert_allclose(got, want, rtol=8 * close, atol=close, equal_nan=True)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_of_halves(dtype: Dtype) -> None:
    runner = Emulated(samples.softmax_in_row(dtype), (2, 2, 0), choice=CHOICES[0])
    of = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    for rows, length in SIZES:
        x = torch.from_numpy(_rows("any", rows, length)).to(of)
        got = torch.zeros_like(x)
        runner([x.view(torch.int16).numpy(), got.view(torch.int16).numpy()], (rows, length))
        torch.testing.assert_close(got, (x.float() * 0.5).softmax(-1).to(of))


def test_a_row_of_nothing() -> None:
    runner = Emulated(samples.logsumexp(), (2, 2, 0), choice=CHOICES[0])
    got = np.full(3, 7, np.float32)
    runner([np.zeros((3, 0), np.float32), got], (3, 0))
    assert (got == -math.inf).all()


def test_rows_are_read_once_less_where_they_are_not_held() -> None:
    """Registers are read again for nothing; and nothing private is left."""
    for make, _ in KERNELS.values():
        kernel = make("f32")
        for plan in gpu_plans(kernel):
            assert len(plan.plan.kernel.stages) == len(kernel.stages) - (plan.each == 0)
            assert not (plan.plan.kernel.private and plan.each == 0)


def test_what_is_something_else_stays() -> None:
    kernel = samples.softmax_in_row("f32")
    first, second, last = kernel.stages
    (total,) = second.folds
    x = load("k0", PLACE, "f32")
    others = {
        "another exponent": Fold(
            "s", "sum", op("exp", op("sub", x, row("m", "f32", NOTHING))), "f32"
        ),
        "another base": replace(total, value=op("exp2", total.value.args[0])),
        "a product": replace(total, fold="prod"),
        "a sum of f64": replace(total, dtype="f64"),
        "the other way round": replace(
            total, value=op("exp", op("sub", *reversed(total.value.args[0].args)))
        ),
    }
    for name, fold in others.items():
        made = replace(kernel, stages=(first, replace(second, folds=(fold,)), last))
        assert with_online_sums(made) is made, name
    minimum = replace(first, folds=(replace(first.folds[0], fold="min"),))
    stored = replace(second, stores=(replace(second.stores[0], buffer="k1", address=PLACE),))
    in_place = replace(last, stores=(replace(last.stores[0], buffer="k0"),))
    for stages in ((minimum, second, last), (first, stored, last), (first, second, in_place)):
        made = replace(kernel, stages=stages)
        assert with_online_sums(made) is made
