"""A graph with gradients in native code: a forward and a backward function behind one
`torch.autograd.Function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from anyshape.graph.backward_graph import TrainingGraphs
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT, SYMBOL
from anyshape.symbolic import Symbol
from anyshape.symbolic.expr import of_atom


def trained(
    graphs: TrainingGraphs,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    eager: Callable[..., Any],
) -> Callable[..., Any]:
    """A function of the graph's inputs. `eager`: the graph, operator by operator."""
    count, differentiable = graphs.outputs, set(graphs.differentiable)
    places = _places(graphs)

    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            found = forward(*inputs)
            outputs, kept = found[:count], found[count:]
            ctx.set_materialize_grads(False)
            # Only what is needed is saved: torch looks whether that was changed meanwhile.
            ctx.given = inputs
            ctx.kept = len(kept)
            ctx.outputs = [
                (outputs[number].shape, outputs[number].dtype, outputs[number].device)
                for number in graphs.differentiable
            ]
            needed = [inputs[n] for n in graphs.inputs if isinstance(inputs[n], torch.Tensor)]
            ctx.save_for_backward(*kept, *needed)
            plain = [
                each
                for number, each in enumerate(outputs)
                if number not in differentiable and isinstance(each, torch.Tensor)
            ]
            ctx.mark_non_differentiable(*plain)
            return outputs

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            saved = ctx.saved_tensors
            kept, needed = saved[: ctx.kept], iter(saved[ctx.kept :])
            inputs = list(ctx.given)
            for number in graphs.inputs:
                if isinstance(inputs[number], torch.Tensor):
                    inputs[number] = next(needed)
            given = [grads[number] for number in graphs.differentiable]
            if torch.is_grad_enabled():
                return _again(eager, graphs, inputs, given)
            symbols = [_value(inputs, place) for place in places]
            ready = [
                torch.zeros(shape, dtype=dtype, device=device)
                if grad is None
                else grad.contiguous()
                for grad, (shape, dtype, device) in zip(given, ctx.outputs, strict=True)
            ]
            found = backward(*kept, *(inputs[n] for n in graphs.inputs), *ready, *symbols)
            result: list[Any] = [None] * len(inputs)
            for number, grad in zip(graphs.wanted, found, strict=True):
                if ctx.needs_input_grad[number]:
                    result[number] = grad
            return tuple(result)

    return Compiled.apply


def _again(
    eager: Callable[..., Any], graphs: TrainingGraphs, inputs: Sequence[Any], given: Sequence[Any]
) -> tuple[Any, ...]:
    """Gradients that have gradients: by torch's autograd, of the graph run once more."""
    outputs = eager(*inputs)
    pairs = [
        (outputs[number], grad)
        for number, grad in zip(graphs.differentiable, given, strict=True)
        if grad is not None
    ]
    result: list[Any] = [None] * len(inputs)
    wanted = [n for n in graphs.wanted if inputs[n].requires_grad]
    found = torch.autograd.grad(
        [output for output, _ in pairs],
        [inputs[n] for n in wanted],
        [grad for _, grad in pairs],
        create_graph=True,
        allow_unused=True,
    )
    for number, grad in zip(wanted, found, strict=True):
        result[number] = grad
    return tuple(result)


def _places(graphs: TrainingGraphs) -> list[tuple[int, int | None]]:
    """Where each symbol of the backward graph is to be read: a dimension of an input, or one that
    is a number."""
    inputs = [node for node in graphs.forward.graph.nodes if node.op == "placeholder"]
    known: dict[Symbol, tuple[int, int | None]] = {}
    for number, node in enumerate(inputs):
        symbol = node.meta.get(SYMBOL)
        if symbol is not None:
            known.setdefault(symbol, (number, None))
        meta = node.meta.get(RESULT)
        for dim, size in enumerate(meta.shape if isinstance(meta, Meta) else ()):
            if not isinstance(size, int) and len(size.symbols) == 1:
                (symbol,) = size.symbols
                if size == of_atom(symbol):
                    known.setdefault(symbol, (number, dim))
    return [known[symbol] for symbol in graphs.symbols]


def _value(inputs: Sequence[Any], place: tuple[int, int | None]) -> int:
    number, dim = place
    return inputs[number] if dim is None else inputs[number].shape[dim]
