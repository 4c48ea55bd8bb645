"""Small programs that `anyshape doctor` compiles: as users write them, and traced as theirs are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch


def pointwise(x: torch.Tensor) -> torch.Tensor:
    return (x * 2 + x.shape[0]).sigmoid()


def rows(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1).sum(0)


def gradients(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    (found,) = torch.autograd.grad((x.exp() * x).sum(), x)
    return found


#: By what they try. Those that compute gradients are native only if a setting says so.
NATIVE: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "pointwise operators": pointwise,
    "a reduction over rows": rows,
}
PROGRAMS: Final = {**NATIVE, "gradients": gradients}
