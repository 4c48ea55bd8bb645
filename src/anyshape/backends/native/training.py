"""A graph with gradients in native code: a forward and backward functions behind one
`torch.autograd.Function`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.fx

from anyshape.backends.native.input_places import input_value, places_of
from anyshape.backends.native.leases import Gradients, Lease, Pairs
from anyshape.backends.native.no_autocast import without_autocast
from anyshape.backends.native.saved_tensors import (
    check_memory,
    check_versions,
    memory_of,
    not_of,
    storage_of,
    unpacked,
    versions_of,
)
from anyshape.graph.backward_graph import TrainingGraphs
from anyshape.graph.functionalize import FunctionalGraph
from anyshape.graph.plan import Unlowerable
from anyshape.graph.saving_operators import SavingOperators
from anyshape.graph.stage import Stage
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT
from anyshape.support.random_state import State, default_generators
from anyshape.symbolic import Symbol

_is_transformed: Callable[[], bool] = torch._C._are_functorch_transforms_active


class Backward(NamedTuple):
    """What gives gradients where they come back for some of the outputs. The function takes what
    the graph does in a list, and empties it."""

    graphs: TrainingGraphs
    function: Callable[[list[Any]], Any]
    #: why it is no CUDA graph, if so
    why_not: str = ""


class _Prepared(NamedTuple):
    """A backward function, and where its arguments and results are."""

    gradients: Gradients
    #: numbers of inputs, and their places in the saved ones if they are there
    inputs: Sequence[tuple[int, int | None]]
    #: where symbols are to be read
    symbols: Sequence[tuple[int, int | None]]
    #: numbers of the inputs that its results are gradients of
    wanted: Sequence[int]
    #: places of what it reads of all that is saved
    reads: frozenset[int]


class _Rest(NamedTuple):
    """What other outputs of a function may still need, when torch has let it go."""

    saved: Sequence[torch.Tensor]
    #: places of what was changed meanwhile, and versions of all of it
    changed: frozenset[int]
    versions: Sequence[int | None]
    #: outputs that gradients came back for
    done: tuple[int, ...]


def trained(
    graphs: TrainingGraphs,
    forward: Callable[..., Any],
    backward: Callable[[tuple[int, ...]], Backward | None],
    eager: Callable[..., Any],
    as_it_is: Callable[..., Any],
    saving: SavingOperators,
    pairs: Pairs | None = None,
) -> Callable[..., Any]:
    """A function of the program's inputs. `backward`: what to call where gradients come back for
    these outputs; None if there is nothing. `eager`: the graph without writes, operator by
    operator, and the program `as_it_is`. `saving`: what eager code keeps of it. `pairs`: forward
    and backward by CUDA graphs."""
    count, differentiable = graphs.outputs, graphs.differentiable
    written = frozenset(graphs.program.written)
    read, is_drawn = graphs.program.read, graphs.draws
    places = places_of(graphs.program, (*graphs.symbols, *graphs.more))
    nodes = [node for node in graphs.program.graph.nodes if node.op == "placeholder"]
    tensors = [n for n, node in enumerate(nodes) if isinstance(node.meta.get(RESULT), Meta)]
    watched = [number for number in tensors if number not in written]
    needed = [number for number in graphs.inputs if number in tensors]
    plain = [number for number in range(count) if number not in differentiable]
    kept = len(graphs.kept)
    saves = bool(kept or needed)
    several = saves and len(differentiable) > 1
    inputs_saved = frozenset(range(kept, kept + len(needed)))
    stay = frozenset[int]() if pairs is None else pairs.parameters
    in_kept = [number in graphs.in_kept for number in range(count)]
    made: dict[tuple[int, ...], _Prepared | None] = {}

    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            if is_drawn:
                ctx.random = default_generators.get_state()
            if read:
                ctx.before = {number: inputs[number].clone() for number in read}
            found, made_by = (forward(*inputs), None) if pairs is None else pairs.forward(inputs)
            outputs = tuple(map(_apart, found, in_kept))
            ctx.set_materialize_grads(False)
            ctx.given = inputs
            ctx.versions = versions_of(inputs, watched)
            # Only what is needed is saved: torch looks whether that was changed meanwhile.
            values = made_by.saved(outputs) if isinstance(made_by, Lease) else found[count:]
            ctx.made_by, ctx.values = made_by, len(values)
            if several:
                values = not_of(outputs, values)
            ctx.save_for_backward(*values, *[inputs[number] for number in needed])
            if needed:
                ctx.memory = memory_of(inputs, needed)
            if several:
                ctx.rest = None
            if plain:
                values = [outputs[number] for number in plain]
                ctx.mark_non_differentiable(*(e for e in values if isinstance(e, torch.Tensor)))
            return outputs

        @staticmethod
        @without_autocast
        def backward(ctx: Any, *grads: Any) -> Any:
            used = tuple([number for number in differentiable if grads[number] is not None])
            inputs, made_by, first = ctx.given, ctx.made_by, ctx.values
            if used and used not in made:
                made[used] = _prepared(backward(used), used, needed, graphs, places, stay)
            own = made.get(used)
            given = [grads[number] for number in used]
            is_native = own is not None and not torch.is_grad_enabled()
            is_native = is_native and all(map(_is_plain, given))
            changed: frozenset[int] = frozenset()
            if several:
                reads = own.reads if own is not None and is_native else inputs_saved
                reads = made_by.reads(reads) if isinstance(made_by, Lease) else reads
                saved, changed = of_several(ctx, used, reads)
            else:
                # What saves nothing may be asked again and again.
                saved = ctx.saved_tensors if saves else ()
            if needed and ctx.memory != memory_of(inputs, needed):
                check_memory(inputs, needed, saved[first:], ctx.memory)
            if not used:
                return (None,) * len(inputs)
            gives_back = saves and not _graph_is_kept()
            if gives_back and several:
                gives_back = not leaves_rest(ctx, saved, changed, used)
            if gives_back:
                ctx.made_by = None
            if own is None or not is_native:
                return by_autograd(ctx, saved, used, given)
            # One may be negated lazily, as that of `z.conj().imag` is.
            ready = [grad.resolve_neg().contiguous() for grad in given]
            symbols = [inputs[n] if dim is None else inputs[n].shape[dim] for n, dim in own.symbols]
            taken = [inputs[n] if at is None else saved[first + at] for n, at in own.inputs]
            behind = [*taken, *ready, *symbols]
            arguments = [] if isinstance(made_by, Lease) else [*saved[:first], *behind]
            result: list[Any] = [None] * len(inputs)
            if gives_back:
                # Whatever the function has read last is given back while it runs.
                ctx.maybe_clear_saved_tensors()
                ctx.given = None
            del saved, taken, inputs
            if isinstance(made_by, Lease):
                found = made_by.gradients(own.gradients, behind)
            else:
                del behind
                found = own.gradients.function(arguments)
                if made_by is not None:
                    made_by.came_back(used)
            needs = ctx.needs_input_grad
            memory = {storage_of(each) for each in ready}
            for number, grad in zip(own.wanted, found, strict=True):
                if needs[number]:
                    # Torch may add to a gradient: it shares memory with no other one.
                    place = storage_of(grad)
                    result[number] = grad.clone() if place in memory and grad.numel() else grad
                    memory.add(place)
            return tuple(result)

    def leaves_rest(
        ctx: Any, saved: Sequence[torch.Tensor], changed: frozenset[int], used: tuple[int, ...]
    ) -> bool:
        """Whether something has to be kept here, since eager code could go on with another output:
        torch lets go all of it."""
        done = used if ctx.rest is None else (*ctx.rest.done, *used)
        is_needed = done != differentiable and any(
            not saving.are_shared(done, [each]) for each in differentiable
        )
        versions = versions_of(saved, range(len(saved)))
        ctx.rest = _Rest(saved, changed, versions, done) if is_needed else None
        return is_needed

    def of_several(
        ctx: Any, used: tuple[int, ...], reads: Collection[int]
    ) -> tuple[Sequence[torch.Tensor], frozenset[int]]:
        """What is saved, and the places of what was changed meanwhile: nothing that is read."""
        rest: _Rest | None = ctx.rest
        if rest is None or saving.are_shared(rest.done, used):
            return unpacked(ctx, reads)
        pairs = zip(rest.versions, versions_of(rest.saved, range(len(rest.saved))), strict=True)
        later = {place for place, (before, now) in enumerate(pairs) if before != now}
        if any(place in rest.changed | later for place in reads):
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                "inplace operation: another result has its gradients already, this one needs it"
            )
        return rest.saved, rest.changed | later

    def by_autograd(ctx: Any, saved: Sequence[Any], used: Sequence[int], given: Any) -> Any:
        inputs = list(ctx.given)
        for number, each in zip(needed, saved[ctx.values :], strict=True):
            inputs[number] = each
        check_versions(ctx.given, watched, ctx.versions)
        for number in written:
            inputs[number] = (ctx.before[number] if number in read else inputs[number]).clone()
        wanted = [number for number, each in enumerate(ctx.needs_input_grad) if each]
        random = ctx.random if is_drawn else None
        found = _again(eager, used, inputs[: len(nodes)], given, wanted, random)
        return (*found, *(None for _ in inputs[len(nodes) :]))

    # What `apply` of a `Function` does besides is for functions under transforms.
    base: Any = super(torch.autograd.Function, Compiled)
    apply, apply_transformed = base.apply, Compiled.apply
    more = [places[symbol] for symbol in graphs.more]
    finish = _epilogue(graphs.program)

    def run(*inputs: Any) -> Any:
        if None in made.values():
            return as_it_is(*inputs)
        if len(differentiable) > 1 and any(_has_hooks(inputs[n]) for n in graphs.wanted):
            # Of what gradients do not reach after all, torch would call them, too.
            return as_it_is(*inputs)
        given: Sequence[Any] = inputs
        if more or graphs.unreached:
            given = [*inputs, *(input_value(inputs, place) for place in more)]
            for number in graphs.unreached:
                given[number] = given[number].detach()
        function = apply_transformed if _is_transformed() else apply
        found = function(*given)
        return found if finish is None else finish(inputs, found)

    return run


def _prepared(
    backward: Backward | None,
    used: tuple[int, ...],
    needed: Sequence[int],
    whole: TrainingGraphs,
    places: dict[Symbol, tuple[int, int | None]],
    stay: Collection[int],
) -> _Prepared | None:
    """`whole`: of which the forward is. `stay`: inputs that do not move."""
    if backward is None:
        return None
    graphs, kept = backward.graphs, len(whole.kept)
    at = {number: place for place, number in enumerate(needed)}
    taken = [node for node in graphs.backward.graph.nodes if node.op == "placeholder"]
    reads = {place for place in range(kept) if taken[place].users}
    stays = frozenset(place for place, number in enumerate(graphs.inputs) if number in stay)
    function = _laid_out(backward.function, whole.relaid)
    return _Prepared(
        Gradients(used, function, stays, backward.why_not),
        [(number, at.get(number)) for number in graphs.inputs],
        [places[symbol] for symbol in graphs.symbols],
        graphs.wanted,
        frozenset(reads | {kept + at[number] for number in graphs.inputs if number in at}),
    )


def _laid_out(
    function: Callable[[list[Any]], Any], relaid: Sequence[int]
) -> Callable[[list[Any]], Any]:
    """It is given what is kept as the graph has it, which it is not if the forward graph ran
    operator by operator, or a hook has saved it."""
    if not relaid:
        return function

    def run(arguments: list[Any]) -> Any:
        for place in relaid:
            arguments[place] = arguments[place].contiguous(memory_format=torch.channels_last)
        return function(arguments)

    return run


def or_as_it_is(
    program: FunctionalGraph, run: Callable[..., Any], as_it_is: Callable[..., Any], least: int
) -> Callable[..., Any]:
    """Runs the program as it is where that is seen, or where native code does not pay: no input has
    as many elements as `least`."""
    metas = [node.meta.get(RESULT) for node in program.graph.nodes if node.op == "placeholder"]
    tensors = [number for number, meta in enumerate(metas) if isinstance(meta, Meta)]
    wanted = [n for n in tensors if getattr(metas[n], "requires_grad", False)]
    switches = [node for node in program.graph.nodes if node.target is torch._C._set_grad_enabled]
    if switches and not switches[-1].args[0]:
        raise Unlowerable("a result requires grad, and the program leaves gradients switched off")

    def chosen(*inputs: Any) -> Any:
        if switches and not torch.is_grad_enabled():
            return as_it_is(*inputs)  # The program switches gradients on.
        # Hooks of several are called in the order of operators; anomalies are told of by operator.
        hooked = 0
        for number in wanted:
            each = inputs[number]
            hooked += bool(each._backward_hooks or each._post_accumulate_grad_hooks)
        if hooked > 1 or torch.is_anomaly_enabled():
            return as_it_is(*inputs)
        return run(*inputs)

    def chosen_by_size(*inputs: Any) -> Any:
        for number in tensors:
            if inputs[number].numel() >= least:
                return chosen(*inputs)
        return as_it_is(*inputs)

    return chosen_by_size if least else chosen


def in_stages(
    program: FunctionalGraph, parts: Sequence[Stage], functions: Sequence[Callable[..., Any]]
) -> Callable[..., Any]:
    """A function of the program's inputs that runs one part after the other."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    hidden = dict.fromkeys(symbol for part in parts for symbol in part.symbols)
    places = places_of(program, (*program.symbols, *hidden))
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
        values = [*inputs, *(input_value(inputs, place) for place in more)]
        for function, taken in steps:
            values.extend(function(*(values[slot] for slot in taken)))
        pairs = zip(wanted, is_slot, strict=True)
        found = tuple(values[each] if held else each for each, held in pairs)
        return found if finish is None else finish(inputs, found)

    return run


def _epilogue(
    program: FunctionalGraph,
) -> Callable[[Sequence[Any], tuple[Any, ...]], Any] | None:
    """Makes the program's outputs of its inputs and of those of the graph, if they differ."""
    if program.epilogue is None:
        return None
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
    if in_kept:
        size, strides = output.size(), output.stride()
        own = torch.empty_strided(size, strides, dtype=output.dtype, device=output.device)
        # Of elements that are shown several times there is one to copy.
        once = tuple(slice(None) if stride else slice(1) for stride in strides)
        own[once].copy_(output[once])
        return own
    place = (output.storage_offset(), output.size(), output.stride())
    return output.new_empty(0).set_(output.untyped_storage(), *place)


def _is_plain(grad: torch.Tensor) -> bool:
    """Not one that stands for many, as under `vmap`, nor zeros without memory."""
    has_memory = torch._C._has_storage(grad) and not grad._is_zerotensor()
    return type(grad) is torch.Tensor and has_memory


@contextmanager
def _drawing_as(state: State | None) -> Iterator[None]:
    """The numbers that were drawn from this state on, and afterwards those that are next."""
    if state is None:
        yield
        return
    now = default_generators.get_state()
    default_generators.set_state(state)
    try:
        yield
    finally:
        default_generators.set_state(now)


def _again(
    eager: Callable[..., Any],
    used: Sequence[int],
    inputs: Sequence[Any],
    given: Sequence[Any],
    wanted: Sequence[int],
    random: State | None,
) -> tuple[Any, ...]:
    """By torch's autograd, of the graph run once more, with the same random numbers: gradients that
    have gradients, and many at once."""
    with torch.enable_grad(), _drawing_as(random):
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
