"""A plan as parts: runs of native steps, each one foreign call, and calls of Python between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final, TypeGuard

import torch

from anyshape.graph.accumulated_products import accumulated
from anyshape.graph.early_checks import is_check, may_fail
from anyshape.graph.expand_repeats import NotRepeated, expand_repeats
from anyshape.graph.plan import (
    FAR,
    BufferDecl,
    Compute,
    Native,
    Plan,
    PythonCall,
    Step,
    TensorRef,
    computing,
    leaves,
    tensors_in,
)
from anyshape.graph.segment_cuts import cuts, part_of_rounds
from anyshape.loops.canonical import canonical
from anyshape.loops.fusion import fused, without_buffers
from anyshape.loops.generalized import range_of
from anyshape.loops.kernels import Kernel
from anyshape.loops.linear import Hint, ProvablyEqual
from anyshape.loops.program import (
    Area,
    Buffer,
    Extern,
    Launch,
    Repeated,
    Role,
    Segment,
    SizeRead,
    buffers_of,
)
from anyshape.loops.text import kernel_text
from anyshape.ops.effects import raises_on_numbers
from anyshape.ops.lowering.values import NumberRef
from anyshape.ops.meta import Dense, strided
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Expr, Range, Size, Symbol, maximum
from anyshape.symbolic.expr import single_atom, symbols_of


@dataclass(frozen=True, slots=True)
class Schedule:
    """The parts of a plan, in order."""

    plan: Plan
    parts: Sequence[Segment | PythonCall]
    #: whether inputs are given up after the last part that reads them
    gives_up: bool = False


#: by text, and the ranges of the symbols in it
Kernels = dict[tuple[str, tuple[Range, ...]], Kernel]


def schedule(
    plan: Plan,
    same: ProvablyEqual,
    seen: Hint | None = None,
    *,
    gives_up: int | None = None,
    keeps: bool = False,
) -> Schedule:
    """`same`: whether two sizes are equal for all calls. `seen`: what a size was when the program
    was captured. `gives_up`: inputs are, as soon as nothing reads them, for which segments are
    cut; so many of them, the first ones, nobody else has. `keeps`: outputs are kept for
    a function that gives them up."""
    steps = list(plan.steps)
    for each in PASSES:
        steps = each(plan, steps)
    kernels: Kernels = {}
    parts: list[Segment | PythonCall] = []
    visible = {name for name in plan.inputs if isinstance(name, str)}
    is_left_out = plan.elided_repeats is not None
    position = 0
    while position < len(steps):
        step = steps[position]
        if isinstance(step, PythonCall):
            parts.append(step)
            visible |= {name for name, _ in step.tensors}
            position += 1
            continue
        end = position
        while end < len(steps) and not isinstance(steps[end], PythonCall):
            end += 1
        after = _used(steps[end:], plan.outputs)
        apart = plan.device.type == "cpu"
        joined, made_of = fused_steps(steps[position:end], plan.held, after, same, apart=apart)
        native = [_bound(step, kernels, same, seen) for step in joined]
        repeated: Repeated | None = None
        if is_left_out and plan.elided_repeats is not None:
            begin = plan.steps[plan.elided_repeats.steps[0]]
            if any(step is begin for step in steps[position:end]):
                is_left_out = False
                run = steps[position:end]
                native, repeated = expand_repeats(
                    plan, plan.elided_repeats, run, made_of, native, after
                )
        places: list[int] = []
        if seen is not None and (gives_up is not None or (keeps and apart)):
            # What was made before is nobody else's either.
            owned = visible.difference(plan.inputs[gives_up or 0 :])
            places = cuts(native, plan.held, visible, after, seen, repeated, owned, keeps=keeps)
        for own in pairwise((0, *places, len(native))):
            behind = {name for step in native[own[1] :] for name in buffers_of(step)}
            rounds = part_of_rounds(repeated, *own) if places else repeated
            segment = _segment(native[slice(*own)], plan.held, visible, after | behind, rounds)
            visible |= {buffer.name for buffer in segment.outputs}
            parts.append(segment)
        position = end
    if is_left_out:
        raise NotRepeated("the steps of a part are not needed")
    return Schedule(plan, parts, gives_up is not None)


def _needed(plan: Plan, steps: Sequence[Step]) -> list[Step]:
    """Without the steps whose results nobody uses."""
    wanted = {ref.buffer for ref in tensors_in(plan.outputs)}
    numbers = {ref.name for ref in numbers_in(plan.outputs)}
    kept: list[Step] = []
    for step in reversed(steps):
        match step:
            case PythonCall():
                unused = step.is_number and step.symbol is None and step.result not in numbers
                if unused and not _may_raise(step):
                    continue
                wanted |= step.reads
                numbers |= {ref.name for ref in numbers_in((step.args, step.kwargs))}
            case Compute() | Native():
                lasting = {name for name in step.writes if plan.held[name].given}
                checks = isinstance(step, Compute) and any(s.checks for s in step.kernel.stages)
                if not lasting and not checks and not step.writes & wanted:
                    continue
                wanted |= step.reads | step.writes
                if isinstance(step, Compute):
                    numbers |= set(step.numbers)
        kept.append(step)
    return kept[::-1]


def _may_raise(step: PythonCall) -> bool:
    """Whether a number may not be there: the program hears of it, also if it does not use it. What
    sizes are divided by is guarded."""
    changing = [isinstance(each, NumberRef) for each in step.args]
    return step.kind == "call_function" and raises_on_numbers(step.target, changing)


def numbers_in(tree: object) -> list[NumberRef]:
    """All numbers, and other results of Python code, among arguments."""
    found: list[NumberRef] = []
    for leaf in leaves(tree):
        if isinstance(leaf, NumberRef):
            found.append(leaf)
        elif isinstance(leaf, TensorRef):
            found += numbers_in([(view.args, view.kwargs) for view in leaf.views])
    return found


def _numbers_first(plan: Plan, steps: Sequence[Step]) -> list[Step]:
    """Numbers made of sizes come first, so that they do not part the native steps."""
    early: list[Step] = []
    rest: list[Step] = []
    late: set[str] = set()
    data: set[Symbol] = set()
    for step in steps:
        if isinstance(step, PythonCall):
            uses = {ref.name for ref in numbers_in((step.args, step.kwargs))}
            sizes = [leaf for leaf in leaves((step.args, step.kwargs)) if isinstance(leaf, Expr)]
            symbols = {symbol for size in sizes for symbol in size.symbols}
            if step.is_number and not uses & late and not symbols & data and step.symbol is None:
                early.append(step)
                continue
            if step.result is not None:
                late.add(step.result)
            if step.symbol is not None:
                data.add(step.symbol)
        rest.append(step)
    return early + rest


def _without_modes(plan: Plan, steps: Sequence[Step]) -> list[Step]:
    """Without the changes of torch's grad mode that kernels alone are called in: a program that
    says `no_grad` in each of its functions is one segment."""
    kept: list[Step] = []
    is_changed = False
    for step in reversed(steps):
        if isinstance(step, PythonCall) and step.target is torch._C._set_grad_enabled:
            if is_changed:
                continue
            is_changed = True
        elif not isinstance(step, Compute):
            is_changed = False
        kept.append(step)
    return kept[::-1]


#: From steps to steps that do the same, in this order. What follows fuses kernels.
PASSES: tuple[Callable[[Plan, Sequence[Step]], list[Step]], ...] = (
    *(_needed, _numbers_first, _without_modes, accumulated),
)


def _used(steps: Iterable[Step], outputs: Sequence[object]) -> set[str]:
    found = {ref.buffer for ref in tensors_in(list(outputs))}
    for step in steps:
        found |= step.reads
        if not isinstance(step, PythonCall):
            found |= step.writes
    return found


def _bound(
    step: Compute | Native, kernels: Kernels, same: ProvablyEqual, seen: Hint | None
) -> Launch | Extern:
    if isinstance(step, Native):
        return step.extern
    bound = canonical(step.kernel, same, seen)
    # Equal layers have equal kernels. Code relies on the ranges of symbols, too.
    ranges = tuple(map(range_of, bound.sizes))
    key = (kernel_text(bound.kernel), ranges)
    return replace(bound, kernel=kernels.setdefault(key, _known(key, bound.kernel)))


def _known(key: tuple[str, tuple[Range, ...]], kernel: Kernel) -> Kernel:
    """The kernel of an earlier graph that is the same, whose code has been written."""
    if kernel.positions:
        return kernel  # they are known by the lowering at hand
    found = _recent.pop(key, kernel)
    _recent[key] = found
    while len(_recent) > _MOST_RECENT:
        with suppress(KeyError, StopIteration, RuntimeError):  # threads may do the same
            del _recent[next(iter(_recent))]
    return found


#: those used last at the end
_recent: Final[dict[tuple[str, tuple[Range, ...]], Kernel]] = {}
_MOST_RECENT: Final = 512


def _segment(
    steps: Sequence[Launch | Extern],
    held: dict[str, BufferDecl],
    visible: set[str],
    after: set[str],
    repeated: Repeated | None,
) -> Segment:
    touched: dict[str, None] = {}
    numbers: dict[str, None] = {}
    sizes: dict[Size, None] = {}
    for step in steps:
        touched |= dict.fromkeys(buffers_of(step))
        if isinstance(step, Launch):
            numbers |= dict.fromkeys(step.numbers)
            sizes |= dict.fromkeys(step.sizes)
        else:
            sizes |= dict.fromkeys(_sizes_of(step))
    inputs: list[Buffer] = []
    temporaries: list[Buffer] = []
    outputs: list[Buffer] = []
    for name in touched:
        role: Role = "input" if name in visible else "output" if name in after else "temporary"
        buffer = _buffer(held[name], role)
        {"input": inputs, "output": outputs, "temporary": temporaries}[role].append(buffer)
        # Of inputs too: the host counts the elements that it touches.
        sizes |= dict.fromkeys(buffer.sizes)
        if role != "input":
            sizes |= dict.fromkeys(buffer.strides)
    symbols = {symbol for size in sizes for symbol in symbols_of(size)}
    return Segment(
        tuple(inputs),
        tuple(sorted(symbols, key=lambda symbol: symbol.name)),
        tuple(numbers),
        tuple(temporaries),
        tuple(outputs),
        tuple(steps),
        _told(inputs, symbols),
        repeated,
    )


def _told(inputs: Sequence[Buffer], symbols: set[Symbol]) -> tuple[SizeRead, ...]:
    """Where the inputs have these symbols as sizes: native code reads them in no time."""
    found: dict[Symbol, SizeRead] = {}
    for position, buffer in enumerate(inputs):
        for dim, size in enumerate(buffer.sizes):
            symbol = single_atom(size)
            if isinstance(symbol, Symbol) and symbol in symbols and symbol not in found:
                found[symbol] = SizeRead(symbol, position, dim)
    return tuple(found.values())


def _buffer(held: BufferDecl, role: Role) -> Buffer:
    strides = _strides_of_empty(held) if role == "output" else held.strides
    return Buffer(held.name, held.dtype, held.sizes, strides, role)


def _strides_of_empty(held: BufferDecl) -> tuple[Size, ...]:
    """The strides that torch gives a tensor of these sizes, also one without elements: there a size
    of 0 counts as 1."""
    layout = strided(held.sizes, held.strides)
    if not isinstance(layout, Dense):
        return held.strides
    strides: list[Size] = [1] * len(held.sizes)
    step: Size = 1
    for dim in reversed(layout.order):
        strides[dim] = step
        step = step * maximum(held.sizes[dim], 1)
    return tuple(strides)


def _sizes_of(step: Extern) -> Iterator[Size]:
    for leaf in leaves(step.arguments):
        if isinstance(leaf, Area):
            yield from (*leaf.sizes, *leaf.strides, leaf.offset)
        elif isinstance(leaf, Expr):
            yield leaf


# -- fusion over a run of native steps: which kernels become one, and which buffers go -------------


def fused_steps(
    steps: Sequence[Step],
    held: Mapping[str, BufferDecl],
    after: set[str],
    same: ProvablyEqual,
    *,
    apart: bool = False,
) -> tuple[list[Compute | Native], list[list[int]]]:
    """The steps with kernels joined, and the numbers of those that each was made of. `after`: the
    buffers that are used later. `apart`: kernels that have no buffer in common stay two, since to
    start a kernel costs nothing."""
    result: list[Compute | Native] = []
    made_of: list[list[int]] = []
    # A write to what the program is given does not change places with what may fail.
    is_written = any(_writes_given(each, held) for each in steps)
    in_order = apart and is_written and any(map(may_fail, steps))
    for each, step in enumerate(steps):
        assert isinstance(step, Compute | Native)
        writes_given = _writes_given(step, held)
        place = _place_to_join(
            result, step, same, apart, in_order=in_order, writes_given=writes_given
        )
        if place is None:
            result.append(step)
            made_of.append([each])
        else:
            number, kernel = place
            result[number] = computing(kernel)
            made_of[number].append(each)
    result, made_of = _sunk(result, made_of, held, same, in_order)
    uses = Counter(name for step in result for name in step.reads | step.writes)
    uses.update(after)
    return [_lean(step, uses, held) for step in result], made_of


def _place_to_join(
    result: Sequence[Compute | Native],
    step: Compute | Native,
    same: ProvablyEqual,
    apart: bool,
    *,
    in_order: bool,
    writes_given: bool,
) -> tuple[int, Kernel] | None:
    """A kernel that the step can be part of, and what that makes of it. `in_order`: checks stay
    what they are, and a step that writes what the program is given behind them."""
    if not isinstance(step, Compute) or (in_order and is_check(step)):
        return None
    for number in reversed(range(max(0, len(result) - FAR), len(result))):
        earlier = result[number]
        is_barrier = in_order and may_fail(earlier)
        if is_barrier and writes_given:
            return None
        if (
            isinstance(earlier, Compute)
            and not is_barrier
            and not (apart and _is_apart(earlier, step))
        ):
            made = fused(earlier.kernel, step.kernel, same)
            if made is not None:
                return number, made
        if not _independent(earlier, step):
            return None
    return None


def _sunk(
    steps: Sequence[Compute | Native],
    made_of: Sequence[list[int]],
    held: Mapping[str, BufferDecl],
    same: ProvablyEqual,
    in_order: bool,
) -> tuple[list[Compute | Native], list[list[int]]]:
    """The steps with updates of what the caller has joined to a later kernel that reads on, which
    had to wait for others: nobody else waits for them, and no memory is held for longer."""
    result: list[Compute | Native] = []
    parts: list[list[int]] = []
    for step, made in zip(steps, made_of, strict=True):
        own = list(made)
        number = len(result)
        while isinstance(step, Compute) and number > max(0, len(result) - FAR):
            number -= 1
            earlier = result[number]
            if in_order and (may_fail(step) or may_fail(earlier)):
                break
            if not _may_sink(earlier, step, result[number + 1 :], held):
                continue
            kernel = fused(earlier.kernel, step.kernel, same)
            if kernel is not None:
                step = computing(kernel)
                own = sorted(parts.pop(number) + own)
                del result[number]
        result.append(step)
        parts.append(own)
    return result, parts


def _may_sink(
    earlier: Compute | Native,
    step: Compute,
    between: Sequence[Compute | Native],
    held: Mapping[str, BufferDecl],
) -> TypeGuard[Compute]:
    if not isinstance(earlier, Compute) or not earlier.writes or _is_apart(earlier, step):
        return False
    touched = step.reads | step.writes
    return (
        all(held[name].given for name in earlier.writes)
        and all(held[name].given or name in touched for name in earlier.reads)
        and all(_independent(earlier, each) for each in between)
    )


def _writes_given(step: Step, held: Mapping[str, BufferDecl]) -> bool:
    """Whether it writes to what the program is given."""
    return not isinstance(step, PythonCall) and any(held[name].given for name in step.writes)


def _is_apart(one: Compute, other: Compute) -> bool:
    touched = other.reads | other.writes
    return touched.isdisjoint(one.reads) and touched.isdisjoint(one.writes)


def _independent(earlier: Compute | Native, later: Compute | Native) -> bool:
    return not (earlier.writes & (later.reads | later.writes) or later.writes & earlier.reads)


def _lean(
    step: Compute | Native, uses: Mapping[str, int], held: Mapping[str, BufferDecl]
) -> Compute | Native:
    """Without buffers that only this kernel uses."""
    if not isinstance(step, Compute):
        return step
    # In the order of the stores: names say nothing.
    written = dict.fromkeys(
        part.buffer for stage in step.kernel.stages for part in (*stage.stores, *stage.scans)
    )
    own = [
        name for name in written if name in step.writes and uses[name] == 1 and not held[name].given
    ]
    return computing(without_buffers(step.kernel, own)) if own else step
