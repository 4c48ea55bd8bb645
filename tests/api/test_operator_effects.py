"""What operators do beside giving a result, in compiled functions: they fail on numbers in tensors,
and write to arguments, as they do in eager."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import anyshape
from anyshape.capture.record.op_kinds import may_raise
from anyshape.ops.meta import Dense, Meta
from tests import devices

X = torch.arange(64.0).reshape(8, 8) - 30
#: What torch's stubs do not have.
OWN: Any = torch


def nuclear_norm(count: torch.Tensor, x: torch.Tensor) -> Any:
    count.add_(1)
    try:
        return torch.norm(x, p="nuc")
    except RuntimeError:
        return count + 7


def narrowed(count: torch.Tensor, x: torch.Tensor, start: torch.Tensor) -> Any:
    count.add_(1)
    try:
        return torch.narrow(x, 0, start, 2) + 1
    except (IndexError, RuntimeError):
        return x[:1, :2] + count


def quantized(count: torch.Tensor, x: torch.Tensor, zero: torch.Tensor) -> Any:
    count.add_(1)
    try:
        return OWN.fake_quantize_per_channel_affine(x, torch.ones(8), zero, 1, -8, 7) + count
    except RuntimeError:
        return x - count


def subscripted(count: torch.Tensor, x: torch.Tensor, place: torch.Tensor) -> Any:
    count.add_(1)
    try:
        x[place, 1] = 5
        return x[place + 1] + 1
    except IndexError:
        return x[0, :2] + count


def statistics(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
    before = mean + 1
    normal = OWN._native_batch_norm_legit(x, None, None, mean, var, True, 0.5, 1e-5)
    return normal[0], mean + before


def noise(x: torch.Tensor, drawn: torch.Tensor) -> Any:
    before = drawn + 1
    leaky = OWN._C._nn.rrelu_with_noise(x, drawn, 0.1, 0.3, True)
    return leaky, drawn + before


def transposed(x: torch.Tensor) -> Any:
    """Of one operand, of which nothing is summed, `einsum` gives a view."""
    made = x + 1
    seen = torch.einsum("ij->ji", made)
    before = made * 2
    seen.add_(5)
    return made + before


def diagonal(x: torch.Tensor) -> Any:
    made = x + 1
    seen = torch.einsum("ii->i", made)
    made.add_(5)
    return seen + 1


def _finite() -> Any:
    return torch.zeros(2), X.clone()


def _not_finite() -> Any:
    return torch.zeros(2), X / 0


def _inside() -> Any:
    return torch.zeros(2), X.clone(), torch.tensor(3)


def _outside() -> Any:
    return torch.zeros(2), X.clone(), torch.tensor(7)


def _zeros(value: int) -> Any:
    return torch.zeros(1), X.clone(), torch.full((8,), value, dtype=torch.int32)


def _with_statistics() -> Any:
    return X.clone(), torch.zeros(8), torch.ones(8)


def _alone() -> Any:
    return (X.clone(),)


def _with_room() -> Any:
    return X.clone(), torch.zeros(8, 8)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (nuclear_norm, [_finite, _finite, _not_finite, _finite]),
        (narrowed, [_inside, _inside, _outside, _inside]),
        (quantized, [lambda: _zeros(3), lambda: _zeros(0), lambda: _zeros(9), lambda: _zeros(7)]),
        (subscripted, [_inside, _inside, _outside, lambda: (*_inside()[:2], torch.tensor(9))]),
        (statistics, [_with_statistics] * 3),
        (noise, [_with_room] * 3),
        (transposed, [_alone] * 3),
        (diagonal, [_alone] * 3),
    ],
)
def test_as_eager_does(function: Callable[..., Any], calls: list[Callable[[], Any]]) -> None:
    compiled = anyshape.compile(function)
    for make in calls:
        ended: list[Any] = []
        for called in (function, compiled):
            arguments = make()
            torch.manual_seed(0)
            ended.append((called(*arguments), arguments, devices.random_state()))
        torch.testing.assert_close(ended[1], ended[0], equal_nan=True)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_looked_at_on_the_host_fails_there(device: str) -> None:
    """Of most positions a GPU tells later, when nothing can be made again."""

    def fails(function: Callable[..., Any], *args: Any) -> bool:
        call: Any = SimpleNamespace(plain_args=args, plain_kwargs={}, metas=args, meta_kwargs={})
        return may_raise(function, call)

    x, start, places = (
        Meta(shape, dtype, Dense(tuple(range(len(shape)))), torch.device(device))
        for shape, dtype in (((8, 8), torch.float32), ((), torch.int64), ((8,), torch.int32))
    )
    assert fails(torch.narrow, x, 0, start, 2)
    assert fails(OWN.fake_quantize_per_channel_affine, x, x, places, 1, -8, 7)
    assert fails(torch.Tensor.__getitem__, x, start)
    assert fails(torch.Tensor.__setitem__, x, (0, start), 1.0)
    assert fails(torch.Tensor.__getitem__, x, places) is (device == "cpu")
    assert fails(torch.index_select, x, 0, places) is (device == "cpu")
    assert not fails(torch.add, x, start)
