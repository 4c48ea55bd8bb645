"""Programs whose results are something to autograd: views and copies of each other, modes inside,
writes, tensors that are handed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch

Program = Callable[[torch.Tensor], Any]

VIEWS: dict[str, Program] = {
    "permute": lambda x: x.permute(1, 0, 2),
    "transpose": lambda x: x.transpose(0, 2),
    "mT": lambda x: x.mT,
    "expand": lambda x: x[:1].expand(5, -1, -1),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "movedim": lambda x: x.movedim(0, -1),
    "slice": lambda x: x[:, ::2],
    "select": lambda x: x[:, 1],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "as_strided": lambda x: x.as_strided((2, 3), (1, 2)),
    "chunk": lambda x: x.chunk(2, 2)[1],
    "view_as": lambda x: x.view_as(x),
    "detach": lambda x: x.detach(),
}

COPIES: dict[str, Program] = {
    "reshape": lambda x: x.reshape(-1, 2),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "contiguous": lambda x: x.contiguous(),
    "clone": lambda x: x.clone(),
    "repeat": lambda x: x.repeat(*(2 for _ in x.shape)),
    "double": lambda x: x.double(),
    "itself": lambda x: x.to(x.dtype),
    "cat": lambda x: torch.cat([x, x]),
    "index": lambda x: x[[0, 0]],
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
}


def composed(view: str, copy: str) -> Program:
    """A copy of a view, and a view of that."""
    first, second = VIEWS[view], COPIES[copy]

    def program(x: torch.Tensor) -> Any:
        shown = first(x)
        copied = second(shown)
        return shown, copied, copied.transpose(0, -1)

    return program


def no_grad_inside(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
        z = x.transpose(0, 1)
        copied = z.reshape(-1)
    return y, z, copied, y + 1, z + 1, copied + 1


def grad_inside(x: torch.Tensor) -> Any:
    with torch.enable_grad():
        y = x * 2
        z = x.transpose(0, 1).reshape(-1)
    return y, z, y + 1, z.view(2, -1)


def grad_switched_off(x: torch.Tensor) -> Any:
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x.sin()
    torch.set_grad_enabled(before)
    return y, y.cos(), x.cos()


def inference_inside(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x * 2
        shown = y.transpose(0, 1)
        given = x.transpose(0, 1)
    return y, shown, given


def inference_used(x: torch.Tensor) -> Any:
    before = x * 3
    with torch.inference_mode():
        y = before.detach() * 2
    return y * 2, before + 1, before


def inference_left_inside(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x * 2
        with torch.inference_mode(False):
            z = torch.ones(3) * 2
        return y, z, z + 1


@torch.no_grad()
def decorated(x: torch.Tensor) -> Any:
    return x * 2, x.mT.reshape(-1), x.view(-1)


@torch.inference_mode()
def in_inference(x: torch.Tensor) -> Any:
    return x * 2, x.mT.reshape(-1), x.view(-1)


def detached(x: torch.Tensor) -> Any:
    y = x.detach()
    return y, y * 2, y.mT.reshape(-1), x.data, x.data.view(-1)


def detached_in_place(x: torch.Tensor) -> Any:
    y = x * 2
    y.detach_()
    return y, y + 1, y.mT.flatten()


def requiring(x: torch.Tensor) -> Any:
    y = x.detach().sin().requires_grad_()
    return y, y * 2, y.mT.reshape(-1)


def requiring_no_longer(x: torch.Tensor) -> Any:
    y = x.detach().clone().requires_grad_()
    y.requires_grad_(False)
    return y, y * 2


def made_requiring(x: torch.Tensor) -> Any:
    y = torch.zeros(x.shape[0], requires_grad=True)
    return y, y + 1, x + 1


def written(x: torch.Tensor) -> Any:
    y = x.clone()
    y.add_(1).mul_(2)
    y[0] = 3
    y.view(-1)[1:].zero_()
    return y, y.view(-1)


def written_by_input(x: torch.Tensor) -> Any:
    y = torch.zeros(4, 2, 3)
    y[0, :1] = x[0, :1, :1]
    return y, y + 1


def input_written(x: torch.Tensor) -> Any:
    x.add_(1)
    x.mT.mul_(2)
    x[0] = 0
    return x.sum()


def data_written(x: torch.Tensor) -> Any:
    x.data.add_(1)
    x.data.mul_(2)
    return x * 2


def detached_written(x: torch.Tensor) -> Any:
    y = x.detach()
    y.add_(1)
    return y, x * 2


def written_without_grad(x: torch.Tensor) -> Any:
    with torch.no_grad():
        x.mul_(0.5).add_(1)
    return x.cos()


def itself(x: torch.Tensor) -> Any:
    return x, x.contiguous(), x.to(torch.float32), x.view_as(x), x.positive()


def ignoring(x: torch.Tensor) -> Any:
    y = torch.ones(x.shape[1]) * 2
    return y, (x > 0).mT.reshape(-1), x.argmax(), x.detach().mT.reshape(-1) * y.sum()


def branching(x: torch.Tensor) -> Any:
    y = x.mT.reshape(-1)
    if (y.detach() * 0 == 0).all():
        return y, y.view(2, -1).mT.reshape(-1), y.detach() * 2
    return y


def several(x: torch.Tensor) -> Any:
    one, other = x.chunk(2, 2)
    return one, other.mT.reshape(-1), torch.stack([one, other]), x.unbind(0)


def out_of_sizes(x: torch.Tensor) -> Any:
    return torch.arange(x.shape[0]) * 2, x.new_zeros(x.shape), torch.zeros_like(x), x.new_ones(2)


class Layer(torch.nn.Module):
    """Hands its own tensors on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 3))
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(1)
        turned = self.weight.t().reshape(-1)
        return self.weight, self.frozen, self.count, turned, self.weight.t(), x @ self.weight


PROGRAMS: dict[str, Program] = {
    each.__name__: each
    for each in (
        *(no_grad_inside, grad_inside, grad_switched_off, inference_inside, inference_used),
        *(inference_left_inside, decorated, in_inference, detached, detached_in_place, requiring),
        *(requiring_no_longer, made_requiring, written, written_by_input, input_written),
        *(data_written, detached_written, written_without_grad, itself, ignoring, branching),
        *(several, out_of_sizes),
    )
}


def _plain() -> torch.Tensor:
    return torch.linspace(-1, 1, 24).view(2, 3, 4).clone()


def _inference() -> torch.Tensor:
    with torch.inference_mode():
        return _plain()


def _outside(make: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """What a caller has from before, whatever the mode is now."""

    def made() -> torch.Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            return make()

    return made


#: What may be given: each a new tensor.
INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "leaf": _outside(lambda: _plain().requires_grad_()),
    "non-leaf": _outside(lambda: _plain().requires_grad_() * 1),
    "plain": _outside(_plain),
    "inference": _inference,
    "parameter": _outside(lambda: cast("torch.Tensor", torch.nn.Parameter(_plain()))),
    "view": _outside(lambda: torch.zeros(3, 3, 4).requires_grad_()[1:]),
}

MODES: dict[str, Callable[[], Any]] = {
    "grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}
