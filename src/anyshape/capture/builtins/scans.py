"""`scan` and `associative_scan`: the body is captured once, and run for one item after the other.

A body is followed as that of a loop is (`control_flow`). An associative scan gives the same in any
order of its steps, but for rounding; here they are taken from the first item to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from anyshape.capture.builtins.control_flow import (
    Branch,
    Part,
    agree,
    bind,
    flat,
    graph_part,
    like,
    stacked,
    started,
    values_of,
    walking,
)
from anyshape.capture.tracer import AbortCapture
from anyshape.ops.higher_order_ops import region

Hooks = Any


def _scan(
    hooks: Hooks, combine_fn: Any, init: Any, xs: Any, *, dim: Any = 0, reverse: Any = False
) -> Any:
    starts = flat(init, "scan")
    dim, walked = _rows(hooks, flat(xs, "scan"), dim, reverse)
    shapes: list[Any] = []

    def step(*values: Any) -> Any:
        carried, items = like(init, values[: len(starts)]), like(xs, values[len(starts) :])
        result = hooks.call(combine_fn, carried, items)
        if type(result) not in (tuple, list) or len(result) != 2:
            raise AbortCapture("the body of scan does not return a pair")
        shapes[:] = result
        return (*flat(result[0], "scan"), *flat(result[1], "scan"))

    found = _scanned(hooks, starts, walked, step)
    carried, rows = found[: len(starts)], found[len(starts) :]
    return like(shapes[0], carried), like(shapes[1], _back(hooks, rows, dim, reverse))


def _scanned(
    hooks: Hooks, starts: Sequence[Any], walked: Sequence[torch.Tensor], step: Part
) -> list[torch.Tensor]:
    recorder = hooks.recorder
    start = started(hooks, starts, "scan")
    length, nodes, first = walking(hooks, walked, "scan")
    carried = [recorder.node(each) for each in start.outputs]
    body = Branch(hooks, "the body of scan")
    with body.recorded([*carried, *map(recorder.node, first)]):
        body.returns(step(*start.outputs, *first))
    if not hooks.tracer.active:
        raise AbortCapture("scan cannot be followed")
    count = len(carried)
    agree(hooks, "the body of scan and its start", body.metas[:count], start.metas)
    made = region("scan", (body.graph,))
    more = values_of(hooks, body.inputs)
    with torch._C.DisableTorchFunction():
        values = [each.clone() for each in made(start.outputs, walked, more)]
    node = recorder.graph.call_function(made, (tuple(carried), tuple(nodes), tuple(body.inputs)))
    rows = stacked(body.metas[count:], length, values[count:])
    bind(hooks, node, values, [*start.metas, *rows])
    return values


def _associative_scan(
    hooks: Hooks,
    combine_fn: Any,
    xs: Any,
    dim: Any,
    reverse: Any = False,
    combine_mode: Any = "pointwise",
) -> Any:
    given = flat(xs, "associative_scan")
    with torch._C.DisableTorchFunction():
        on_cpu = any(each.device.type == "cpu" for each in given)
    if combine_mode not in ("generic", "pointwise") or (combine_mode == "pointwise" and on_cpu):
        raise AbortCapture(f"associative_scan with combine_mode={combine_mode!r}")
    dim, walked = _rows(hooks, given, dim, reverse)

    def step(*values: Any) -> Any:
        count = len(given)
        return hooks.call(combine_fn, like(xs, values[:count]), like(xs, values[count:]))

    rows = _associatively_scanned(hooks, walked, step)
    return like(xs, _back(hooks, rows, dim, reverse))


def _associatively_scanned(
    hooks: Hooks, walked: Sequence[torch.Tensor], step: Part
) -> list[torch.Tensor]:
    recorder = hooks.recorder
    length, nodes, first = walking(hooks, walked, "associative_scan")
    before = started(hooks, first, "associative_scan")
    now = started(hooks, first, "associative_scan")
    body = Branch(hooks, "the body of associative_scan")
    with body.recorded([recorder.node(each) for each in (*before.outputs, *now.outputs)]):
        body.returns(step(*before.outputs, *now.outputs))
    if not hooks.tracer.active:
        raise AbortCapture("associative_scan cannot be followed")
    agree(hooks, "the body of associative_scan and its items", body.metas, now.metas)
    made = region("associative_scan", (body.graph,))
    more = values_of(hooks, body.inputs)
    with torch._C.DisableTorchFunction():
        values = list(made(walked, more))
    node = recorder.graph.call_function(made, (tuple(nodes), tuple(body.inputs)))
    bind(hooks, node, values, stacked(body.metas, length, values))
    return values


def _rows(
    hooks: Hooks, given: Sequence[torch.Tensor], dim: Any, reverse: Any
) -> tuple[int, list[torch.Tensor]]:
    """The dimension that is walked, counted from the first, and the tensors with it in front."""
    recorder = hooks.recorder
    dim = int(hooks.specialized(dim, "the dimension that is walked"))
    dim = dim + recorder.meta(given[0]).rank if dim < 0 else dim
    if type(reverse) is not bool or any(recorder.meta(each).rank <= dim for each in given):
        raise AbortCapture("a scan with such arguments")
    rows = [recorder.run(torch.movedim, (each, dim, 0), {}) for each in given]
    return dim, [recorder.run(torch.flip, (each, [0]), {}) for each in rows] if reverse else rows


def _back(
    hooks: Hooks, rows: Sequence[torch.Tensor], dim: int, reverse: bool
) -> list[torch.Tensor]:
    run = hooks.recorder.run
    found = [run(torch.flip, (each, [0]), {}) for each in rows] if reverse else list(rows)
    return [
        run(torch.movedim, (each, 0, dim), {}) if dim < hooks.recorder.meta(each).rank else each
        for each in found
    ]


# -- captured again --------------------------------------------------------------------------------


def _scan_again(hooks: Hooks, graphs: Any, carried: Any, walked: Any, more: Any) -> Any:
    return tuple(_scanned(hooks, carried, walked, graph_part(hooks, graphs[0], more)))


def _associative_scan_again(hooks: Hooks, graphs: Any, walked: Any, more: Any) -> Any:
    return tuple(_associatively_scanned(hooks, walked, graph_part(hooks, graphs[0], more)))


_HIGHER: Any = getattr(torch, "_higher_order_ops")  # noqa: B009 no stub has it

MODELS: Final[dict[Any, Callable[..., Any]]] = {
    _HIGHER.scan: _scan,
    _HIGHER.associative_scan: _associative_scan,
}

AGAIN: Final[dict[str, Callable[..., Any]]] = {
    "scan": _scan_again,
    "associative_scan": _associative_scan_again,
}
