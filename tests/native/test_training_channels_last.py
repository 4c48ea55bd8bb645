"""Graphs with gradients store images with their channels last where convolutions are faster so;
what the program sees of results and gradients, strides included, is as eager's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from anyshape.graph import lowering
from anyshape.graph.training_layout import TrainingLayout
from tests import devices

#: The first is what is captured.
SIZES = (
    (2, 12, 14),
    (3, 9, 11),
    (1, 16, 16),
    (2, 8, 1),
    (1, 5, 3),
    (1, 1, 1),
    (0, 8, 8),
    (5, 7, 23),
)


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many results each graph stores so."""
    found: list[int] = []

    class Seen(TrainingLayout):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            found.append(len(self.stored))

    monkeypatch.setattr(lowering, "TrainingLayout", Seen)
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    return found


class Normed(nn.Module):
    """Convolutions, norms and a sum, as a residual block has them."""

    def __init__(self, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 3, padding=1)
        self.conv1 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm1, self.norm2 = norm(8), norm(8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x).relu()
        z = F.silu(self.norm1(self.conv1(y)))
        return F.relu_(self.norm2(self.conv2(z)) + y)


class Joined(nn.Module):
    """A step down and up again, and what is joined and cut apart."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 3, padding=1)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.short = nn.Conv2d(8, 8, 1, stride=2)
        self.last = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.enter(x)
        low = self.down(y.tanh()) * self.short(y)
        high = F.interpolate(low, size=y.shape[-2:], mode="nearest")
        a, b = self.last(torch.cat([y, high], 1)).chunk(2, 1)
        return a * b.sigmoid()


class Between(nn.Module):
    """Something between two convolutions that are computed with channels last."""

    def __init__(self, between: Callable[[Tensor], Any], channels: int = 8) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 3, padding=1)
        self.last = nn.Conv2d(channels, 4, 3, padding=1)
        self.between = between

    def forward(self, x: Tensor) -> Any:
        found = self.between(self.enter(x))
        if isinstance(found, tuple):
            y, *others = found
            return (self.last(y), *others)
        return self.last(found)


def _written(y: Tensor) -> Tensor:
    y = y * 2
    y[:, 1] = y[:, 0] * 3
    y.add_(1)
    return y


def _conv(
    *args: Any, kind: Callable[..., nn.Module] = nn.Conv2d, **options: Any
) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        first = kind(8, 8, *args, **options)
        return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), first, nn.Tanh())

    return made


NETS: dict[str, Callable[[], nn.Module]] = {
    "batch norm": lambda: Normed(nn.BatchNorm2d),
    "batch norm, eval": lambda: Normed(nn.BatchNorm2d).eval(),
    "batch norm, plain": lambda: Normed(
        lambda n: nn.BatchNorm2d(n, affine=False, track_running_stats=False)
    ),
    "group norm": lambda: Normed(lambda n: nn.GroupNorm(2, n)),
    "group norm, plain": lambda: Normed(lambda n: nn.GroupNorm(4, n, affine=False)),
    "instance norm": lambda: Normed(nn.InstanceNorm2d),
    "joined": Joined,
    "permuted": lambda: Between(lambda y: y.permute(0, 1, 3, 2).exp()),
    "flattened": lambda: Between(lambda y: (y, y.flatten(1).cumsum(1), y.mean((2, 3)))),
    "sliced": lambda: Between(lambda y: y[:, ::2] + y[:, 1::2], 4),
    "padded": lambda: Between(lambda y: F.pad(y, (1, 2, 0, 1)).square()),
    "returned": lambda: Between(lambda y: (y.relu(), y.relu(), y, y.transpose(1, 2))),
    "written": lambda: Between(_written),
    "pooled": lambda: Between(lambda y: F.avg_pool2d(F.max_pool2d(y, 3, 1, 1), 3, 1, 1)),
    "weighted": lambda: Between(lambda y: y * y.mean((2, 3), keepdim=True).sigmoid()),
    "1 x 1": _conv(1),
    "1 x 1, stride": _conv(1, stride=2),
    "5 x 5": _conv(5, padding=4),
    "wide": _conv((3, 1), padding=(2, 3), stride=(1, 2)),
    "padded by more": _conv(3, padding=3),
    "same": _conv(3, padding="same"),
    "patches": _conv(2, stride=2, padding=1),
    "grouped": _conv(3, groups=2, padding=1),
    "depthwise": _conv(3, groups=8, padding=1),
    "dilated": _conv(3, dilation=2, padding=2),
    "transposed": _conv(3, kind=nn.ConvTranspose2d, padding=1),
    "transposed, stride": _conv(3, kind=nn.ConvTranspose2d, stride=2, output_padding=1),
}


def _results(run: Any, model: nn.Module, x: Tensor) -> tuple[list[Tensor], list[Tensor | None]]:
    """Results, then gradients and buffers."""
    model.zero_grad()
    x.grad = None
    found = run(x)
    results = list(found) if isinstance(found, tuple) else [found]
    sum(((each * each).sum() for each in results), torch.zeros(())).backward()
    state = [*(each.grad for each in model.parameters()), *model.buffers()]
    return [each.detach() for each in results], [x.grad, *state]


def _close(found: Any, expected: Any, wide: float = 1e-3) -> None:
    assert [each is None for each in found] == [each is None for each in expected]
    # What is nothing but for rounding says nothing.
    largest = [_largest(each) for each in expected if each is not None]
    for own, other in zip(found, expected, strict=True):
        if other is None:
            continue
        assert own.stride() == other.stride()
        bound = wide * max(_largest(other), 1e-3 * max(largest))
        torch.testing.assert_close(own, other, rtol=wide, atol=bound, equal_nan=True)


def _largest(tensor: Tensor) -> float:
    return float(tensor.detach().abs().max()) if tensor.numel() else 0.0


def _twins(make: Callable[[], nn.Module], **to: Any) -> tuple[nn.Module, nn.Module]:
    found: list[nn.Module] = []
    for _ in range(2):
        torch.manual_seed(0)
        found.append(make().to(**to))
    return found[0], found[1]


def _image(size: tuple[int, ...], **options: Any) -> Tensor:
    batch, high, wide = size
    found = torch.randn(batch, 3, high, wide, generator=devices.generator(sum(size)))
    return found.to(**options).requires_grad_()


@pytest.mark.parametrize("name", NETS)
def test_results_and_gradients_are_eagers(name: str, stored: list[int]) -> None:
    model, twin = _twins(NETS[name])
    run = anyshape.compile(model, dynamic=True)
    for size in (SIZES[0], *SIZES):
        try:
            expected = _results(twin, twin, _image(size))
        except (ValueError, RuntimeError) as error:
            # Statistics of one value, a kernel that does not fit.
            with pytest.raises(type(error)):
                _results(run, model, _image(size))
            continue
        for own, other in zip(_results(run, model, _image(size)), expected, strict=True):
            _close(own, other)
    assert any(stored), "nothing was stored with channels last"


@pytest.mark.parametrize("name", ["batch norm", "5 x 5", "dilated"])
@pytest.mark.parametrize(
    "to",
    [{"memory_format": torch.channels_last}, {"dtype": torch.float64}, {"dtype": torch.bfloat16}],
)
def test_other_layouts_and_dtypes(name: str, to: dict[str, Any]) -> None:
    model, twin = _twins(NETS[name], **to)
    run = anyshape.compile(model, dynamic=True)
    wide = 8e-2 if to.get("dtype") is torch.bfloat16 else 1e-3
    for size in (SIZES[0], *SIZES[:3]):
        expected = _results(twin, twin, _image(size, **to))
        for own, other in zip(_results(run, model, _image(size, **to)), expected, strict=True):
            _close(own, other, wide)


@pytest.mark.parametrize("name", ["batch norm", "group norm", "joined"])
def test_frozen_parameters(name: str, stored: list[int]) -> None:
    model, twin = _twins(NETS[name])
    for each in (model, twin):
        for number, parameter in enumerate(each.parameters()):
            parameter.requires_grad_(number % 3 == 0)
    run = anyshape.compile(model, dynamic=True)
    for size in (SIZES[0], *SIZES[:3]):
        expected = _results(twin, twin, _image(size))
        for own, other in zip(_results(run, model, _image(size)), expected, strict=True):
            _close(own, other)
    assert any(stored)


@pytest.mark.parametrize("name", ["batch norm", "group norm", "joined"])
def test_a_graph_that_is_retained_and_gradients_of_gradients(name: str) -> None:
    model, twin = _twins(NETS[name])
    run = anyshape.compile(model, dynamic=True)
    for size in SIZES[:3]:
        found: list[list[Tensor]] = []
        for call, own in ((run, model), (twin, twin)):
            x = _image(size)
            loss = call(x).square().sum()
            weights = list(own.parameters())
            once = torch.autograd.grad(loss, [x, *weights], retain_graph=True)
            again = torch.autograd.grad(loss, [weights[0], x], create_graph=True)
            twice = torch.autograd.grad(again[1].square().sum(), [weights[0]])
            found.append([each.detach() for each in (*once, *again, *twice)])
        _close(found[0], found[1])


@pytest.mark.parametrize("name", ["batch norm", "joined"])
def test_what_hooks_save_may_be_laid_out_otherwise(name: str) -> None:
    model, twin = _twins(NETS[name])
    run = anyshape.compile(model, dynamic=True)
    copied: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        copied.append(tensor)
        return tensor.detach().clone(memory_format=torch.contiguous_format)

    for size in SIZES[:3]:
        expected = _results(twin, twin, _image(size))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
            found = _results(run, model, _image(size))
        for own, other in zip(found, expected, strict=True):
            _close(own, other)
    assert copied


def test_results_that_get_gradients_one_after_the_other() -> None:
    model, twin = _twins(NETS["returned"])
    run = anyshape.compile(model, dynamic=True)
    for size in SIZES[:3]:
        for used in range(3):
            found: list[list[Tensor]] = []
            for call, own in ((run, model), (twin, twin)):
                x = _image(size)
                loss = call(x)[used].square().sum()
                loss.backward()
                assert x.grad is not None
                found.append([x.grad, *(e.grad for e in own.parameters() if e.grad is not None)])
                own.zero_grad()
            _close(found[0], found[1])
