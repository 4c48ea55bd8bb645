from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.native.checks import check, floats

DTYPES = (torch.float32, torch.float64, torch.bfloat16)
Calls = list[list[torch.Tensor]]


def rows_and_scales(dtype: torch.dtype) -> Calls:
    shapes = ((4, 7), (3, 65), (5, 1), (1, 16), (0, 5))
    return [floats(shape, shape[1:], shape[1:], dtype=dtype) for shape in shapes]


def images(dtype: torch.dtype) -> Calls:
    shapes = ((2, 6, 5, 4), (3, 6, 7, 1), (1, 12, 2, 2))
    return [floats(shape, shape[1:2], shape[1:2], dtype=dtype) for shape in shapes]


def with_statistics(dtype: torch.dtype) -> Calls:
    return [
        [x, w, torch.rand_like(w) + 0.5, w, b]
        for x, w, b in [*images(dtype), floats((0, 6, 5, 4), (6,), (6,), dtype=dtype)]
    ]


NORMS: dict[str, tuple[Callable[..., Any], Callable[[torch.dtype], Calls]]] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), rows_and_scales),
    "layer_norm alone": (lambda x, w, b: F.layer_norm(x, x.shape[1:]), rows_and_scales),
    "layer_norm of all": (lambda x, w, b: F.layer_norm(x, x.shape), rows_and_scales),
    "layer_norm without a shift": (lambda x, w, b: F.layer_norm(x, w.shape, w), rows_and_scales),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, (x.shape[-1],), w), rows_and_scales),
    "rms_norm alone": (lambda x, w, b: F.rms_norm(x, x.shape[1:], eps=1e-3), rows_and_scales),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), images),
    "group_norm alone": (lambda x, w, b: F.group_norm(x, 2), images),
    "batch_norm": (lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), with_statistics),
    "batch_norm alone": (lambda x, m, v, w, b: F.batch_norm(x, m, v), with_statistics),
    "normalize": (lambda x, w, b: F.normalize(x), rows_and_scales),
    "normalize by the first": (lambda x, w, b: F.normalize(x, 1.0, 0), rows_and_scales),
    "softmax": (lambda x, w, b: torch.softmax(x, -1), rows_and_scales),
    "log_softmax": (lambda x, w, b: F.log_softmax(x, 0), rows_and_scales),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_as_eager_and_one_kernel(name: str, dtype: torch.dtype) -> None:
    function, calls = NORMS[name]
    plans = check(function, calls(dtype))
    for plan in plans.made:
        assert len(plan.steps) == 1


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_instance_norm(dtype: torch.dtype) -> None:
    plans = check(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), images(dtype))
    assert len(plans.kernels) == len(plans.made)


def test_statistics_of_layer_norm() -> None:
    def program(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        return torch.native_layer_norm(x, (x.shape[-1],), w, b, 1e-5)

    check(program, rows_and_scales(torch.float32))


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
@pytest.mark.filterwarnings("ignore:Mismatch dtype")
def test_scales_in_f32_of_floats_of_two_bytes(norm: Any) -> None:
    calls = [[x, w.float()] for x, w, _ in rows_and_scales(torch.bfloat16)]
    check(lambda x, w: norm(x, (x.shape[-1],), w), calls)


def test_training_is_called_out() -> None:
    def program(x: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> Any:
        y = F.batch_norm(x * 2, m, v, training=True)
        return y + 1, m * 1, v * 1

    calls = [[x, w, v] for x, w, v, *_ in with_statistics(torch.float32)[:2]]
    check(program, calls, called=["functional_batch_norm"])


def test_no_less_exact_than_eager() -> None:
    import anyshape

    x = floats((50, 1000))[0] + 100
    function: Any = lambda x: F.layer_norm(x, (x.shape[-1],))  # noqa: E731
    compiled: Any = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        exact = function(x.double())
        compiled(x)
        error, eager = ((each - exact).abs().max() for each in (compiled(x), function(x)))
    assert error <= 2 * eager
