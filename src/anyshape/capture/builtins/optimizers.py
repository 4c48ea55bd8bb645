"""What `torch.optim` does otherwise where it is compiled.

Eager code reads the number of steps and computes bias corrections as Python does, in float64; for
compilers it goes on with the tensor, which has float32. A copy in float64 on the processor has the
numbers that are read, and no graph depends on their values.
"""

from __future__ import annotations

import sys
from typing import Final

import torch
from torch.optim.optimizer import Optimizer

from anyshape.capture.builtins.model import Hooks, Models


def _get_value(hooks: Hooks, x: object) -> object:
    if not isinstance(x, torch.Tensor):
        return x
    if x.device.type != "cpu":
        x = hooks.call(torch.Tensor.cpu, x)
    number = hooks.call(torch.Tensor.to, x, torch.float64, copy=True)
    hooks.recorder.number_tensors.add(number)
    return number


_OWN: Final = vars(sys.modules[Optimizer.__module__])
MODELS: Final[Models] = {_OWN["_get_value"]: _get_value}
