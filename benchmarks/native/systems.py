"""What runs a workload. Compilers are imported when first used: cold figures include that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch

Function = Callable[..., Any]


def _anyshape(
    function: Function,
    *,
    dynamic: bool,
    backend: str = "native",
    mode: Literal["reduce-overhead"] | None = None,
) -> Function:
    import anyshape

    return anyshape.compile(function, dynamic=dynamic, backend=backend, mode=mode)


@dataclass(frozen=True)
class System:
    title: str
    compile: Callable[[Function], Function]


EAGER, OURS, STATIC, CAPTURE = "eager", "anyshape", "anyshape static", "capture"
GRAPHS = "anyshape graphs"
TORCH_TRUE, TORCH_NONE = "torch True", "torch None"

SYSTEMS: Final[dict[str, System]] = {
    EAGER: System("eager", lambda function: function),
    OURS: System("anyshape", lambda function: _anyshape(function, dynamic=True, backend="native")),
    GRAPHS: System(
        "anyshape, reduce-overhead",
        lambda function: _anyshape(function, dynamic=True, mode="reduce-overhead"),
    ),
    STATIC: System(
        "anyshape, static", lambda function: _anyshape(function, dynamic=False, backend="native")
    ),
    CAPTURE: System(
        "anyshape, capture alone",
        lambda function: _anyshape(function, dynamic=True, backend="eager"),
    ),
    TORCH_TRUE: System(
        "torch.compile dynamic=True", lambda function: torch.compile(function, dynamic=True)
    ),
    TORCH_NONE: System("torch.compile dynamic=None", lambda function: torch.compile(function)),
}
PEERS: Final = (TORCH_TRUE, TORCH_NONE)

#: Systems as options name them.
NAMED: Final = {
    "anyshape": OURS,
    "anyshape-graphs": GRAPHS,
    "eager": EAGER,
    "torch-dynamic": TORCH_TRUE,
    "torch-default": TORCH_NONE,
}
