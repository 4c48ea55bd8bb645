"""Layers whose result looks like their input, one behind the other: each of them counts.

Equal layers are recorded once and replayed, so that the result of an operation and its argument may
have one and the same meta.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import anyshape

Operation = Callable[[Tensor, Tensor], Tensor]

OPERATIONS: dict[str, Operation] = {
    "add": lambda x, w: x + w,
    "residual": lambda x, w: x + torch.tanh(x) * w,
    "residual, other way round": lambda x, w: torch.tanh(x) * w + x,
    "residual of a product": lambda x, w: x + nn.functional.linear(x, w.expand(8, 8)) * 0.1,
    "residual of a call": lambda x, w: x + torch.fft.fft(x).real * w * 0.1,
    "residual of a sort": lambda x, w: x + x.sort(-1).values * w,
    "sub": lambda x, w: x - w,
    "mul": lambda x, w: x * (1 + w),
    "div": lambda x, w: x / (2 + w.abs()),
    "lerp": lambda x, w: x.lerp(w.expand_as(x), 0.3),
    "maximum": lambda x, w: torch.maximum(x * 0.9, w),
    "where": lambda x, w: torch.where(x > 0, x * 0.5, x + w),
    "addcmul": lambda x, w: x.addcmul(w, x),
    "sin": lambda x, w: x.sin(),
    "exp": lambda x, w: (x * 0.1).exp(),
    "neg": lambda x, w: -x,
    "flip": lambda x, w: x.flip(-1),
    "roll": lambda x, w: x.roll(1, -1),
    "cumsum": lambda x, w: x.cumsum(-1) * 0.5,
    "softmax": lambda x, w: x.softmax(-1),
    "layer_norm": lambda x, w: nn.functional.layer_norm(x, (8,), w),
    "dropout": lambda x, w: nn.functional.dropout(x, 0.5, training=False) + w,
    "to itself": lambda x, w: x.to(x.dtype).contiguous() + w,
    "clamp": lambda x, w: x.clamp(-0.5, 0.5) * 1.1,
    "in place": lambda x, w: x.clone().add_(w),
    "index": lambda x, w: x[..., [7, 6, 5, 4, 3, 2, 1, 0]],
    "cat": lambda x, w: torch.cat([x[..., 4:], x[..., :4]], -1),
    "matmul": lambda x, w: x @ x.transpose(-1, -2) @ x * 0.01,
}
READERS: dict[str, Callable[[Tensor], Tensor]] = {
    "as it is": lambda x: x,
    "mean": lambda x: x.mean(-1),
}


class Layer(nn.Module):
    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self.operation = operation
        self.weight = nn.Parameter(torch.randn(8) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.operation(x, self.weight)


class Stack(nn.Module):
    def __init__(self, layers: list[Layer], read: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.read(x)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_layer_counts(name: str) -> None:
    torch.manual_seed(0)
    layers = [Layer(OPERATIONS[name]) for _ in range(6)]
    for count in (1, 3, 6):
        for reader, read in READERS.items():
            stack = Stack(layers[:count], read)
            compiled = anyshape.compile(stack, dynamic=True, fullgraph=True)
            with torch.no_grad():
                for rows in (2, 3):
                    x = torch.randn(rows, 8, 8)
                    torch.testing.assert_close(
                        compiled(x),
                        stack(x),
                        rtol=1e-4,
                        atol=1e-4,
                        msg=f"{count} layers, {reader}",
                    )
