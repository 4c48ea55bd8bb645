"""`torch.autograd.Function`s where no gradients are taken: `forward` is captured as any other code,
and its result is what `apply` makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape


class Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.rows = x.shape[0]
        return torch.sqrt(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] / x.sqrt()


class Several(torch.autograd.Function):
    """An argument handed back, a tensor, and a size."""

    @staticmethod
    def forward(x: Tensor, factor: int) -> Any:
        return x, x * factor, x.shape[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0], None


class Configured(torch.autograd.Function):
    """Takes a dictionary, which its gradient hands on."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, config: dict[str, Any]) -> Tensor:
        ctx.config = config
        ctx.set_materialize_grads(False)
        return x * config["factor"] + any(ctx.needs_input_grad)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return doubled(grads[0], ctx.config), None


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.add_(1)
        marks(ctx, x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def marks(ctx: Any, x: Tensor) -> None:
    ctx.mark_dirty(x)


def doubled(grad: Tensor, config: dict[str, Any]) -> Tensor:
    return grad * config["factor"]


def asks_for_a_size(x: Tensor) -> Tensor:
    y = Root.apply(x.abs())
    return y.reshape(y.shape[1], -1) * y.shape[0]


def has_several_results(x: Tensor) -> Any:
    same, more, rows = Several.apply(x, 3)
    return same is x, same.requires_grad, more * rows, same + 1


def hands_a_dictionary(x: Tensor) -> Tensor:
    return Configured.apply(x, {"factor": x.shape[0]})


def marks_an_argument(x: Tensor) -> Any:
    y = x * 2
    z = Marked.apply(y)
    return z + y, z is y


def without_gradients_inside(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = Root.apply(x.abs())
    return y * x.detach()


def _agree(program: Callable[[Tensor], Any], compiled: Any) -> None:
    for rows in (3, 1, 4):
        for x in (torch.randn(rows, 5), torch.randn(rows, 5, requires_grad=True)):
            want, got = program(x), compiled(x)
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("program", [asks_for_a_size, has_several_results, hands_a_dictionary])
def test_captured_whole(program: Callable[[Tensor], Any]) -> None:
    compiled = anyshape.compile(program, dynamic=True)
    with torch.no_grad():
        _agree(program, compiled)
    stats = compiled.stats()
    assert not stats.eager_calls
    assert not stats.in_parts
    assert stats.graphs == 2  # one of them for an argument that has a gradient elsewhere


@pytest.mark.parametrize("program", [marks_an_argument, without_gradients_inside])
def test_right(program: Callable[[Tensor], Any]) -> None:
    compiled = anyshape.compile(program, dynamic=True)
    with torch.no_grad():
        _agree(program, compiled)
    _agree(program, compiled)


def test_with_gradients_afterwards() -> None:
    compiled = anyshape.compile(asks_for_a_size, dynamic=True)
    with torch.no_grad():
        _agree(asks_for_a_size, compiled)
    for rows in (3, 2):
        x = torch.rand(rows, 5) + 1
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(ours).sum().backward()
        asks_for_a_size(theirs).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_forward_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = anyshape.compile(asks_for_a_size, dynamic=True)
    x = torch.rand(3, 5)
    with torch.no_grad():
        compiled(x)
        monkeypatch.setattr(Root, "forward", staticmethod(lambda ctx, x: x * 2))
        torch.testing.assert_close(compiled(x), asks_for_a_size(x))
