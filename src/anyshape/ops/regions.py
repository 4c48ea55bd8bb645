"""Control flow on data as operators: each holds the graphs of its branches or of its body.

    cond        (pred, inputs of the one, inputs of the other)
    while_loop  (carried values, more inputs of the condition, more inputs of the body)
    map         (tensors to walk, more inputs of the body)

The graphs take tensors and numbers, and return tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.fx

#: Where an operator of this kind keeps its name and its graphs.
REGION: Final = "_anyshape_region"


def _cond(yes: Callable[..., Any], no: Callable[..., Any]) -> Callable[..., Any]:
    def cond(pred: Any, for_yes: Sequence[Any], for_no: Sequence[Any]) -> Any:
        return yes(*for_yes) if pred else no(*for_no)

    return cond


def _while_loop(condition: Callable[..., Any], body: Callable[..., Any]) -> Callable[..., Any]:
    def while_loop(
        carried: Sequence[Any], for_condition: Sequence[Any], for_body: Sequence[Any]
    ) -> Any:
        values = tuple(carried)
        while condition(*values, *for_condition)[0]:
            values = tuple(body(*values, *for_body))
        return values

    return while_loop


def _map(body: Callable[..., Any]) -> Callable[..., Any]:
    def map_over(walked: Sequence[Any], more: Sequence[Any]) -> Any:
        rows = [body(*items, *more) for items in zip(*walked, strict=True)]
        return tuple(torch.stack(column) for column in zip(*rows, strict=True))

    return map_over


_MAKERS: Final[dict[str, Callable[..., Callable[..., Any]]]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "map": _map,
}


def region(name: str, graphs: Sequence[torch.fx.GraphModule]) -> Callable[..., Any]:
    """The operator of that name with these graphs."""
    made = _MAKERS[name](*(graph.forward for graph in graphs))
    made.__name__ = made.__qualname__ = name
    setattr(made, REGION, (name, tuple(graphs)))
    return made


def region_of(function: Any) -> tuple[str, tuple[torch.fx.GraphModule, ...]] | None:
    """The name and the graphs of such an operator."""
    return getattr(function, REGION, None)


def is_region(name: str, count: int) -> bool:
    return name in _MAKERS and count == (1 if name == "map" else 2)
