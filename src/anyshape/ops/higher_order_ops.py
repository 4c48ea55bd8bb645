"""Operators that hold graphs: control flow on data, with the graphs of branches or of a body.

    cond        (pred, inputs of the one, inputs of the other)
    while_loop  (carried values, more inputs of the condition, more inputs of the body)
    map         (tensors to walk, more inputs of the body)
    scan        (carried values, tensors to walk, more inputs of the body)
    associative_scan  (tensors to walk, more inputs of the body)
    with_view   (tensor, new values of a view of it, more inputs of the view)

`with_view` is no control flow: a copy of a tensor, in which the view that the graph makes of it has
new values. The graphs take tensors and numbers, and return tuples.
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


def _scan(body: Callable[..., Any]) -> Callable[..., Any]:
    def scan(carried: Sequence[Any], walked: Sequence[Any], more: Sequence[Any]) -> Any:
        values, rows = tuple(carried), list[Any]()
        for items in zip(*walked, strict=True):
            given = body(*values, *items, *more)
            values = tuple(given[: len(values)])
            rows.append(given[len(values) :])
        return (*values, *(torch.stack(column) for column in zip(*rows, strict=True)))

    return scan


def _associative_scan(body: Callable[..., Any]) -> Callable[..., Any]:
    def associative_scan(walked: Sequence[Any], more: Sequence[Any]) -> Any:
        rows = list[Any]()
        for items in zip(*walked, strict=True):
            rows.append(body(*rows[-1], *items, *more) if rows else items)
        return tuple(torch.stack(column) for column in zip(*rows, strict=True))

    return associative_scan


def _with_view(view: Callable[..., Any]) -> Callable[..., Any]:
    def with_view(whole: torch.Tensor, values: torch.Tensor, more: Sequence[Any]) -> Any:
        copied = whole.clone()
        view(copied, *more)[0].copy_(values)
        return copied

    return with_view


_MAKERS: Final[dict[str, tuple[Callable[..., Callable[..., Any]], int]]] = {
    "cond": (_cond, 2),
    "while_loop": (_while_loop, 2),
    "map": (_map, 1),
    "scan": (_scan, 1),
    "associative_scan": (_associative_scan, 1),
    "with_view": (_with_view, 1),
}


def region(name: str, graphs: Sequence[torch.fx.GraphModule]) -> Callable[..., Any]:
    """The operator of that name with these graphs."""
    made = _MAKERS[name][0](*(graph.forward for graph in graphs))
    made.__name__ = made.__qualname__ = name
    setattr(made, REGION, (name, tuple(graphs)))
    return made


def region_of(function: Any) -> tuple[str, tuple[torch.fx.GraphModule, ...]] | None:
    """The name and the graphs of such an operator."""
    return getattr(function, REGION, None)


def is_region(name: str, count: int) -> bool:
    return name in _MAKERS and count == _MAKERS[name][1]
