"""Updates of what the caller has: a kernel for each tensor, whatever stands between its writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from tests import devices
from tests.native.plans import watched


@pytest.fixture(autouse=True)
def _fresh() -> None:
    anyshape.reset()


OPTIMIZERS: dict[str, tuple[Callable[..., Any], int]] = {
    # The counter, and all that is done to elements.
    "AdamW": (lambda own: torch.optim.AdamW(own, 0.1), 2),
    "Adam with decay": (lambda own: torch.optim.Adam(own, 0.1, weight_decay=0.1), 2),
    "SGD": (lambda own: torch.optim.SGD(own, 0.1, momentum=0.9, weight_decay=0.1), 1),
    "RMSprop": (lambda own: torch.optim.RMSprop(own, 0.1, momentum=0.9), 2),
    "Adagrad": (lambda own: torch.optim.Adagrad(own, 0.1), 2),
    "Adadelta": (lambda own: torch.optim.Adadelta(own, 0.1), 2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_has_a_kernel_a_parameter(name: str) -> None:
    make, most = OPTIMIZERS[name]
    shapes = (8, 5), (7,), (1,), ()
    own = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    twins = [nn.Parameter(each.detach().clone()) for each in own]
    ours, eager = make(own), make(twins)
    step = anyshape.compile(ours.step)
    with watched() as plans:
        for _ in range(4):
            for mine, theirs in zip(own, twins, strict=True):
                mine.grad = torch.randn(mine.shape)
                theirs.grad = mine.grad.clone()
            step()
            eager.step()
            for mine, theirs in zip(own, twins, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)
    assert len(plans.launches) <= most * len(shapes)
    assert not plans.called


def test_clipping_and_the_step_are_one_call() -> None:
    """Each function of torch's changes the grad mode and back: nothing between kernels asks."""
    own = [nn.Parameter(torch.randn(6, 5)) for _ in range(3)]
    twins = [nn.Parameter(each.detach().clone()) for each in own]
    optimizers = torch.optim.AdamW(own), torch.optim.AdamW(twins)

    def finish(parameters: list[nn.Parameter], optimizer: Any) -> Tensor:
        norm = nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return norm

    compiled = anyshape.compile(finish)
    with watched() as plans:
        for _ in range(4):
            for mine, theirs in zip(own, twins, strict=True):
                mine.grad = torch.randn(6, 5)
                theirs.grad = mine.grad.clone()
            torch.testing.assert_close(
                compiled(own, optimizers[0]), finish(twins, optimizers[1]), rtol=1e-6, atol=0
            )
            assert torch.is_grad_enabled()
            for mine, theirs in zip(own, twins, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)
                torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-7)
    assert [len(made.parts) for made in plans.scheduled] == [2], "kernels, and the mode at the end"
    stats = compiled.stats()
    assert (stats.graphs, stats.graph_breaks) == (1, 0)


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("norm", [2.0, float("inf"), 1])
def test_gradients_of_several_dtypes_are_clipped(norm: float, foreach: bool | None) -> None:
    """They are grouped by device and dtype, which is known of every tensor that is read."""

    def clip(parameters: list[nn.Parameter]) -> Tensor:
        return nn.utils.clip_grad_norm_(parameters, 0.5, norm, foreach=foreach)

    compiled = anyshape.compile(clip)
    for dtypes in ((torch.float32, torch.float64, torch.float32), (torch.float64,)):
        for has_first in (True, True, False):
            own = [nn.Parameter(torch.zeros(3, 2, dtype=dtype)) for dtype in (*dtypes, *dtypes)]
            twins = [nn.Parameter(each.detach().clone()) for each in own]
            for mine, theirs in zip(own[not has_first :], twins[not has_first :], strict=True):
                mine.grad = torch.randn(3, 2, dtype=mine.dtype)
                theirs.grad = mine.grad.clone()
            torch.testing.assert_close(compiled(own), clip(twins))
            for mine, theirs in zip(own, twins, strict=True):
                torch.testing.assert_close(mine.grad, theirs.grad)
    assert compiled.stats().graph_breaks == 0


def _program(seed: int) -> Callable[..., list[Tensor]]:
    """Writes of one tensor into another, whole or in parts, with results between."""
    chance = random.Random(seed)
    steps = [
        (chance.choice(_FORMS), chance.choices(range(4), k=3))
        for _ in range(chance.randrange(3, 11))
    ]

    def run(*tensors: Tensor) -> list[Tensor]:
        made: list[Tensor] = []
        for form, (a, b, c) in steps:
            x, y, z = tensors[a], tensors[b], tensors[c]
            match form:
                case "mul":
                    x.mul_(0.5)
                case "lerp":
                    x.lerp_(y, 0.25)
                case "addcmul":
                    x.addcmul_(y, z, value=0.5)
                case "copy":
                    x.copy_(y)
                case "row":
                    x[:1].add_(y[:1])
                case "turned":
                    x.add_(y.flip(0))
                case "sum":
                    x.sub_(y.mean())
                case "masked":
                    x.masked_fill_(y > 0.5, 0.5)
                case "result":
                    made.append(x * y)
                case _:
                    x.add_(z.sum(0))
        return made

    return run


_FORMS = (
    *("mul", "lerp", "addcmul", "copy", "row", "turned", "sum", "masked", "result", "broadcast"),
    *("mul", "lerp", "addcmul", "result"),
)


@pytest.mark.parametrize("start", range(0, 120, 12))
def test_writes_come_in_their_order(start: int) -> None:
    for seed in range(start, start + 12):
        program = _program(seed)
        compiled = anyshape.compile(program, dynamic=True)
        for rows in (5, 1, 0, 9):
            generator = devices.generator(seed)
            given = [torch.randn(rows, 6, generator=generator) for _ in range(4)]
            twins = [each.clone() for each in given]
            found, expected = compiled(*given), program(*twins)
            torch.testing.assert_close((found, given), (expected, twins), equal_nan=True)
        assert compiled.stats().eager_calls == 0
