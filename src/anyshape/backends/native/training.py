"""A graph with gradients in native code: a forward and backward functions behind one
`torch.autograd.Function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.fx

from anyshape.backends.native.no_autocast import without_autocast
from anyshape.graph.backward_graph import TrainingGraphs
from anyshape.graph.functionalize import FunctionalGraph
from anyshape.graph.plan import Unlowerable
from anyshape.graph.training_stages import Stage
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT, SYMBOL
from anyshape.symbolic import Symbol
from anyshape.symbolic.expr import of_atom


class Backward(NamedTuple):
    """What gives gradients where they come back for some of the outputs. The function takes what
    the graph does in a list, and empties it."""

    graphs: TrainingGraphs
    function: Callable[[list[Any]], Any]


def trained(
    graphs: TrainingGraphs,
    forward: Callable[..., Any],
    backward: Callable[[tuple[int, ...]], Backward | None],
    eager: Callable[..., Any],
    as_it_is: Callable[..., Any],
) -> Callable[..., Any]:
    """A function of the program's inputs. `backward`: what to call where gradients come back for
    these outputs; None if there is nothing. `eager`: the graph without writes, operator by
    operator, and the program `as_it_is`."""
    count, differentiable = graphs.outputs, set(graphs.differentiable)
    written = frozenset(graphs.program.written)
    places = _places(graphs.program, (*graphs.symbols, *graphs.more))
    taken = sum(node.op == "placeholder" for node in graphs.program.graph.nodes)
    made: dict[tuple[int, ...], Backward | None] = {}

    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.random = torch.get_rng_state() if graphs.draws else None
            ctx.before = {number: inputs[number].clone() for number in graphs.program.read}
            found = forward(*inputs)
            kept = found[count:]
            outputs = tuple(
                _apart(each, number in graphs.in_kept) for number, each in enumerate(found[:count])
            )
            ctx.set_materialize_grads(False)
            # Only what is needed is saved: torch looks whether that was changed meanwhile.
            ctx.given = inputs
            ctx.versions = [
                None if number in written else _version(each) for number, each in enumerate(inputs)
            ]
            ctx.kept = len(kept)
            needed = [inputs[n] for n in graphs.inputs if isinstance(inputs[n], torch.Tensor)]
            ctx.save_for_backward(*kept, *needed)
            ctx.saves = bool(kept or needed)
            plain = [
                each
                for number, each in enumerate(outputs)
                if number not in differentiable and isinstance(each, torch.Tensor)
            ]
            ctx.mark_non_differentiable(*plain)
            return outputs

        @staticmethod
        @without_autocast
        def backward(ctx: Any, *grads: Any) -> Any:
            # What saves nothing may be asked again and again.
            saved = ctx.saved_tensors if ctx.saves else ()
            kept, needed = saved[: ctx.kept], iter(saved[ctx.kept :])
            inputs = list(ctx.given)
            for number in graphs.inputs:
                if isinstance(inputs[number], torch.Tensor):
                    inputs[number] = next(needed)
            used = tuple(n for n in graphs.differentiable if grads[n] is not None)
            given = [grads[number] for number in used]
            wanted = [n for n, each in enumerate(ctx.needs_input_grad) if each]
            if not used:
                return (None,) * len(inputs)
            if used not in made:
                made[used] = backward(used)
            own = made[used]
            if own is None or torch.is_grad_enabled() or not all(map(_is_plain, given)):
                _check_versions(ctx.given, ctx.versions)
                for number in written:
                    inputs[number] = ctx.before.get(number, inputs[number]).clone()
                found = _again(eager, used, inputs[:taken], given, wanted, ctx.random)
                return (*found, *(None for _ in inputs[taken:]))
            symbols = [_value(inputs, places[symbol]) for symbol in own.graphs.symbols]
            ready = [grad.contiguous() for grad in given]
            taken_in = [*kept, *(inputs[n] for n in own.graphs.inputs), *ready, *symbols]
            result: list[Any] = [None] * len(inputs)
            if saved and not _graph_is_kept():
                # Whatever the function has read last is given back while it runs.
                ctx.maybe_clear_saved_tensors()
                ctx.given = None
            del saved, kept, needed, inputs
            found = own.function(taken_in)
            memory = {each.untyped_storage().data_ptr() for each in ready}
            for number, grad in zip(own.graphs.wanted, found, strict=True):
                if ctx.needs_input_grad[number]:
                    result[number] = _own(grad, memory)
            return tuple(result)

    apply: Any = Compiled.apply
    more = [places[symbol] for symbol in graphs.more]
    finish = _epilogue(graphs.program)

    def run(*inputs: Any) -> Any:
        if None in made.values():
            return as_it_is(*inputs)
        if len(differentiable) > 1 and any(_has_hooks(inputs[n]) for n in graphs.wanted):
            # Of what gradients do not reach after all, torch would call them, too.
            return as_it_is(*inputs)
        given = [*inputs, *(_value(inputs, place) for place in more)]
        for number in graphs.unreached:
            given[number] = given[number].detach()
        return finish(inputs, apply(*given))

    return run


def in_stages(
    program: FunctionalGraph, parts: Sequence[Stage], functions: Sequence[Callable[..., Any]]
) -> Callable[..., Any]:
    """A function of the program's inputs that runs one part after the other."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    hidden = dict.fromkeys(symbol for part in parts for symbol in part.symbols)
    places = _places(program, (*program.symbols, *hidden))
    more = [places[symbol] for symbol in (*program.symbols, *hidden)]
    slots: dict[torch.fx.Node | Symbol, int] = {}
    for each in (*nodes, *hidden, *(node for part in parts for node in part.outputs)):
        slots[each] = len(slots)
    steps = [
        (function, [slots[each] for each in (*part.inputs, *part.symbols)])
        for function, part in zip(functions, parts, strict=True)
    ]
    (output,) = [node for node in program.graph.nodes if node.op == "output"]
    results: Any = output.args[0]
    wanted = [slots[each] if isinstance(each, torch.fx.Node) else each for each in results]
    is_slot = [isinstance(each, torch.fx.Node) for each in results]
    finish = _epilogue(program)

    def run(*inputs: Any) -> Any:
        values = [*inputs, *(_value(inputs, place) for place in more)]
        for function, taken in steps:
            values.extend(function(*(values[slot] for slot in taken)))
        found = (values[each] if held else each for each, held in zip(wanted, is_slot, strict=True))
        return finish(inputs, tuple(found))

    return run


def _epilogue(program: FunctionalGraph) -> Callable[[Sequence[Any], tuple[Any, ...]], Any]:
    """Makes the program's outputs of its inputs and of those of the graph."""
    if program.epilogue is None:
        return lambda inputs, outputs: outputs
    module = torch.fx.GraphModule(torch.nn.Module(), program.epilogue)
    return lambda inputs, outputs: module.forward(*inputs, *outputs)


#: Whether the backward that runs was told to retain its graph.
_graph_is_kept: Callable[[], bool] = getattr(  # noqa: B009 no stub has it
    torch._C, "_autograd"
)._get_current_graph_task_keep_graph


def _has_hooks(value: Any) -> bool:
    return bool(value._backward_hooks or value._post_accumulate_grad_hooks)


def _apart(output: Any, in_kept: bool) -> Any:
    """A tensor that may be written to: what is a view here is none for the program."""
    if not isinstance(output, torch.Tensor) or not output._is_view():
        return output
    if in_kept and 0 not in output.stride():
        return torch.empty_strided(
            output.size(), output.stride(), dtype=output.dtype, device=output.device
        ).copy_(output)
    if in_kept:
        return output.clone(memory_format=torch.preserve_format)
    place = (output.storage_offset(), output.size(), output.stride())
    return output.new_empty(0).set_(output.untyped_storage(), *place)


def _own(grad: torch.Tensor, memory: set[int]) -> torch.Tensor:
    """A gradient that shares memory with no other one: torch may add to it."""
    place = grad.untyped_storage().data_ptr()
    if place in memory and grad.numel():
        return grad.clone()
    memory.add(place)
    return grad


def _version(value: Any) -> int | None:
    plain = isinstance(value, torch.Tensor) and not value.is_inference()
    return value._version if plain else None


def _check_versions(inputs: Sequence[Any], versions: Sequence[int | None]) -> None:
    pairs = zip(inputs, versions, strict=True)
    if any(known is not None and _version(each) != known for each, known in pairs):
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            "operation: gradients of gradients run the compiled graph again, on its inputs as they "
            "were"
        )


def _is_plain(grad: torch.Tensor) -> bool:
    """Not one that stands for many, as under `vmap`, nor zeros without memory."""
    has_memory = torch._C._has_storage(grad) and not grad._is_zerotensor()
    return type(grad) is torch.Tensor and has_memory


def _again(
    eager: Callable[..., Any],
    used: Sequence[int],
    inputs: Sequence[Any],
    given: Sequence[Any],
    wanted: Sequence[int],
    random: torch.Tensor | None,
) -> tuple[Any, ...]:
    """By torch's autograd, of the graph run once more, with the same random numbers: gradients that
    have gradients, and many at once."""
    with torch.enable_grad(), torch.random.fork_rng([], enabled=random is not None):
        if random is not None:
            torch.set_rng_state(random)
        # Inputs may be one tensor, or come from each other.
        own = [
            each.view_as(each) if isinstance(each, torch.Tensor) and each.requires_grad else each
            for each in inputs
        ]
        outputs = eager(*own)
    found = torch.autograd.grad(
        [outputs[number] for number in used],
        [own[n] for n in wanted],
        list(given),
        create_graph=torch.is_grad_enabled(),
        allow_unused=True,
    )
    result: list[Any] = [None] * len(inputs)
    for number, grad in zip(wanted, found, strict=True):
        result[number] = grad
    return tuple(result)


def _places(
    program: FunctionalGraph, needed: Sequence[Symbol]
) -> dict[Symbol, tuple[int, int | None]]:
    """Where each symbol is to be read: a dimension of an input, or one that is a number."""
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = inputs[: len(inputs) - len(program.symbols)]
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
    missing = [symbol.name for symbol in needed if symbol not in known]
    if missing:
        raise Unlowerable(f"a result requires grad, and no input has {missing[0]} as a size")
    return known


def _value(inputs: Sequence[Any], place: tuple[int, int | None]) -> int:
    number, dim = place
    return inputs[number] if dim is None else inputs[number].shape[dim]
