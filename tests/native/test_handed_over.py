"""What torch's convolutions give is handed out as it is, where it is laid out as eager's is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from tests import devices


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


def _network(kernel: int, channels: int, groups: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=groups),
        nn.ReLU(),
        nn.Conv2d(channels, 1, kernel, padding=kernel // 2),
    )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("kernel", "channels", "groups"), [(3, 4, 1), (1, 4, 1), (3, 4, 4), (1, 1, 1)]
)
def test_gradients_and_their_strides(kernel: int, channels: int, groups: int, last: bool) -> None:
    found: list[Any] = []
    for compiles in (False, True):
        model: nn.Module = _network(kernel, channels, groups)
        run: Any = anyshape.compile(model, dynamic=True) if compiles else model
        results: list[Any] = []
        for size in ((2, 8), (3, 5), (1, 1), (2, 1)):
            x: Tensor = torch.randn(
                size[0], channels, size[1], size[1], generator=devices.generator(1)
            )
            if last:
                x = x.to(memory_format=torch.channels_last)
            x = x.requires_grad_()
            model.zero_grad()
            run(x)
            y = run(x)
            grads = torch.autograd.grad(y.sum(), [x, *model.parameters()])
            results.append([y.detach(), *grads])
        found.append(results)
    for eager, own in zip(*found, strict=True):
        torch.testing.assert_close(own, eager, rtol=1e-4, atol=1e-4)
        assert own[0].stride() == eager[0].stride()
        for each in own:
            # Theirs alone: they may be written to, and torch may add to them.
            assert not each._is_view()
            assert each.untyped_storage().nbytes() == 4 * each.numel()
            each.add_(1)


@pytest.mark.parametrize("size", [1, 6])
def test_forward_alone(size: int) -> None:
    model = _network(3, 4, 1).eval().requires_grad_(False)
    run = anyshape.compile(model, dynamic=True)
    for n in (2, 3, 1):
        x = torch.randn(n, 4, size, size, generator=devices.generator(n))
        run(x)
        y, wanted = run(x), model(x)
        torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-5)
        assert y.stride() == wanted.stride()
        assert not y.requires_grad
