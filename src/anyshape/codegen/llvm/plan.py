"""What is decided of a kernel before code is made: the axis of the vectors, lanes, copies.

Vectors run along one axis. Either it is the last axis of each stage (`rows`: softmax over the last
dimension), or one of the parallel axes (`columns`: pointwise, and reductions over other dimensions
than the last), whose vectors then pass through all stages. The choice is by what it does to memory
accesses: consecutive lanes should touch consecutive elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from anyshape.codegen.llvm.choice import USUAL, CpuChoice
from anyshape.codegen.target import Machine, Target
from anyshape.codegen.vector_math import FUNCTIONS, NEAR, WITHIN, near, within
from anyshape.loops.attention import KEPT_SCORES
from anyshape.loops.collapsed_axes import (
    SHORT,
    Flattened,
    can_be_flattened,
    flattened,
    vectors_extent,
)
from anyshape.loops.expr import WIDTH, Axis, Scalar
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.memory_plan import ALIGNMENT
from anyshape.loops.online_sums import ONLINE_SUMS
from anyshape.loops.value_range import value_range
from anyshape.loops.vector_axis import (
    accesses,
    best_column,
    best_of,
    scalars_of,
    stride_along,
)
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, floordiv
from anyshape.symbolic.bounds import DECLARED
from anyshape.symbolic.expr import (
    of_atom,
    single_atom,
    terms_of,
)

#: Instructions for each element; functions of vector_math are the rest.
_CHEAP: Final = frozenset(
    {"add", "sub", "mul", "minimum", "maximum", "fmin", "fmax", "neg", "abs", "sign", "floor"}
    | {"ceil", "trunc", "round", "and", "or", "xor", "not", "shl", "shr", "eq", "ne", "lt", "le"}
    | {"gt", "ge", "isnan", "isinf", "isfinite", "signbit", "copysign", "where", "cast"}
)
_LEAVES: Final = frozenset(["constant", "index", "number", "row"])
_MIDDLING: Final = frozenset(["div", "sqrt", "truncdiv", "truncmod", "floordiv", "floormod"])
_FUNCTION: Final = 12
#: Of vectors of several registers, whose lanes are brought together one by one.
_GATHER: Final = 12
#: Instructions for each element that are done while the next ones come from memory.
LIGHT: Final = 13
#: Instructions for each element beside which a mask is nothing.
LONG: Final = 40
#: Instructions on elements that make a thread worth waking.
GRAIN: Final = 100_000
#: Of one point of the parallel axes: what is less is not shared, as threads wait for each other
#: after each stage.
_WORTH_SHARING: Final = 8 * GRAIN
#: A function that a kernel uses as often is not put in place each time.
_OFTEN: Final = 3


@dataclass(frozen=True, slots=True)
class KernelPlan:
    kernel: Kernel
    #: vectors run along this parallel axis, the last of the kernel; None: along the stages' own
    column: Axis | None
    lanes: int
    #: instructions for each element of a stage, roughly
    costs: tuple[int, ...]
    #: how many vectors a round of a stage's innermost loop takes (rows), or of the loop over
    #: columns
    unroll: tuple[int, ...]
    #: buffers that the kernel writes
    written: frozenset[str]
    #: functions of vector_math, (name, dtype), that are called for all vectors of a round at once
    together: frozenset[tuple[str, str]]
    #: the column stands for two axes of the kernel
    flat: Flattened | None
    #: whether threads may share one round of the parallel axes, each taking a part of every stage
    splits: bool
    #: instructions that make a thread worth waking, as the power of two that it has more than usual
    grain: int = 0

    # The memory that a thread has for itself: private buffers, then its part of folds. Threads that
    # share a row leave what each has folded in their own memory, for all to read.

    def private_offsets(self) -> dict[str, Size]:
        """Bytes from the beginning of a thread's memory."""
        return self._layout()[0]

    def folds_offset(self) -> Size:
        """Where the folds lie that one thread shows to the others."""
        return self._layout()[1]

    def fold_bytes(self) -> int:
        """Of one fold: two parts of at most 8 bytes for each lane of each copy."""
        return 16 * self.lanes * max(self.unroll)

    def bytes_for_a_thread(self) -> Size:
        folds = max(len(stage.folds) for stage in self.kernel.stages) if self.splits else 0
        return self.folds_offset() + folds * self.fold_bytes()

    def _layout(self) -> tuple[dict[str, Size], Size]:
        # With vectors along a parallel axis, each lane has a buffer of its own.
        lanes = 1 if self.column is None else self.lanes
        offsets: dict[str, Size] = {}
        end: Size = 0
        for name, (dtype, elements) in self.kernel.private.items():
            offsets[name] = end
            # Whole vectors: those at the end of a row need no mask.
            unit = max(ALIGNMENT, WIDTH[dtype] * self.lanes)
            size = elements * (WIDTH[dtype] * lanes)
            end = end + floordiv(size + (unit - 1), unit) * unit
        return offsets, end


def make_plan(kernel: Kernel, target: Target, choice: CpuChoice = USUAL) -> KernelPlan:
    if kernel.attends:
        return _attention_plan(kernel, target)
    if isinstance(vectors_extent(kernel), int):
        known_to_be_short = short_plan(kernel, target)
        if known_to_be_short is not None:
            return known_to_be_short
    apart = unordered(kernel)
    plan = _plan(apart, target, best_column(apart), scatters=kernel.ordered, choice=choice)
    return replace(plan, splits=plan.splits and not kernel.ordered, grain=choice.grain)


def _attention_plan(kernel: Kernel, target: Target) -> KernelPlan:
    """Vectors along the queries. They are as wide as the rows of products that registers hold."""
    column = kernel.axes[-1]
    # Memory is for all lanes that there may be on some processor.
    is_wide = not target.triple or Machine.of(target).register > target.lanes // 2
    lanes = target.lanes * 2 if is_wide else target.lanes
    dtype, _ = kernel.private[KEPT_SCORES]
    return KernelPlan(
        kernel=kernel,
        column=column,
        lanes=lanes * 4 // WIDTH[dtype],
        costs=element_costs(kernel, column),
        unroll=(1,),
        written=frozenset(store.buffer for store in kernel.stages[0].stores),
        together=frozenset(),
        flat=None,
        splits=False,
    )


def short_plan(kernel: Kernel, target: Target) -> KernelPlan | None:
    """The plan of a kernel for the case that the axis of vectors is short, if there is another:
    vectors along two axes at once, or along a parallel one."""
    if not kernel.short or kernel.ordered:
        return None
    if can_be_flattened(kernel):
        flat = flattened(kernel)
        return None if flat is None else _plan(flat.kernel, target, flat.axis, flat)
    return _plan(kernel, target, best_of(kernel, kernel.axes)[0])


def _plan(
    kernel: Kernel,
    target: Target,
    column: Axis | None,
    flat: Flattened | None = None,
    scatters: bool = False,
    choice: CpuChoice = USUAL,
) -> KernelPlan:
    if column is not None and not kernel.ordered:
        others = tuple(axis for axis in kernel.axes if axis is not column)
        kernel = replace(kernel, axes=(*others, column))
    written = frozenset(
        [store.buffer for stage in kernel.stages for store in stage.stores]
        + [scan.buffer for stage in kernel.stages for scan in stage.scans]
    )
    wide = [list(_in_vectors(kernel, stage, column)) for stage in kernel.stages]
    costs = element_costs(kernel, column)
    machine = Machine.of(target)
    masks_freely = machine.masks_freely
    lanes = _lanes(kernel, wide, target)
    is_known = bool(target.triple)  # memory is for all lanes that there may be on some processor
    if is_known and not machine.gathered and _gathers(kernel, column) * _GATHER >= sum(costs):
        # Lane after lane is read and written: more of them are only more code.
        lanes = min(lanes, machine.register if flat is None else SHORT)
    if masks_freely and column is not None and flat is None and max(costs) < LONG:
        lanes *= _registers(kernel, wide)
    lanes = choice.lanes(lanes)
    together = _together(kernel, wide) if masks_freely else {}
    called = sum(together.values())
    registers = max(1, lanes // machine.register) if is_known else 1
    copies = _copies(kernel, column, costs, masks_freely, called, scatters, registers, choice)
    points = 1 if column is None else lanes * max(copies)
    return KernelPlan(
        kernel=kernel,
        column=column,
        lanes=lanes,
        costs=costs,
        unroll=copies,
        written=written,
        together=frozenset(together),
        flat=flat,
        splits=any(map(can_be_shared, kernel.stages)) and _is_worth_sharing(kernel, costs, points),
    )


def element_costs(kernel: Kernel, column: Axis | None) -> tuple[int, ...]:
    """Instructions for each element of a stage, roughly."""
    return tuple(
        sum(map(_cost, _in_vectors(kernel, stage, column)))
        + _FUNCTION * sum(fold.fold in ONLINE_SUMS for fold in stage.folds)
        + 1
        for stage in kernel.stages
    )


def _is_worth_sharing(kernel: Kernel, costs: tuple[int, ...], points: int) -> bool:
    """Whether so many points of the parallel axes may be work for several threads."""
    work = 0
    for stage, cost in zip(kernel.stages, costs, strict=True):
        rounds = 1
        for axis in stage.axes:
            most = DECLARED.of(axis.extent).upper
            if most is None:
                return True
            rounds *= most
        work += rounds * cost * points
    return work > _WORTH_SHARING


def can_be_shared(stage: Stage) -> bool:
    """Whether threads may share its first axis. A scan's own axis is not: each round needs the one
    before."""
    return len(stage.axes) > (1 if stage.scans else 0)


def unordered(kernel: Kernel) -> Kernel:
    """An ordered kernel whose rounds only meet at equal places of its last axis: that one is
    parallel, and the others are loops inside it, in their order."""
    if kernel.ordered and any(stage.axes for stage in kernel.stages):
        # It says so itself.
        return replace(kernel, ordered=False)
    if not kernel.ordered or len(kernel.axes) < 2 or len(kernel.stages) != 1:
        return kernel
    *others, last = kernel.axes
    stage = kernel.stages[0]
    written = {store.buffer for store in stage.stores}
    if (
        stage.folds
        or stage.scans
        or any(
            scalar.op == "load" and scalar.data[0] in written
            for scalar in scalars_of(kernel, stage)
        )
    ):
        return kernel
    for store in stage.stores:
        if stride_along(kernel, store.address, last.symbol) != 1 or not _is_multiple(
            store.address - of_atom(last.symbol), last.extent
        ):
            return kernel
    inner = replace(stage, axes=(*others, *stage.axes))
    return replace(kernel, axes=(last,), stages=(inner,), ordered=False)


def _is_multiple(size: Size, unit: Size) -> bool:
    """Whether it is plain from the form alone."""
    if isinstance(unit, int):
        return unit > 0 and all(coefficient % unit == 0 for _, coefficient in terms_of(size))
    atom = single_atom(unit)
    return atom is not None and all(atom.index in monomial for monomial, _ in terms_of(size))


# -- how much --------------------------------------------------------------------------------------


def _in_vectors(kernel: Kernel, stage: Stage, column: Axis | None) -> Iterator[Scalar]:
    """The scalars of a stage that are not the same in all lanes; all if it has no vectors."""
    axis = column or (stage.axes[-1] if stage.axes else None)
    for scalar in scalars_of(kernel, stage):
        # What a stage before has folded differs from column to column.
        if axis is None or axis.symbol in scalar.free or (column and scalar.op == "row"):
            yield scalar


def _lanes(kernel: Kernel, wide: list[list[Scalar]], target: Target) -> int:
    """As many as fill a register with the values that most of the work is on."""
    widths = [
        WIDTH[scalar.dtype] if scalar.dtype not in ("f16", "bf16") else 4
        for own in wide
        for scalar in own
        if scalar.op not in _LEAVES and scalar.dtype != "b1"
    ]
    widths += [WIDTH[fold.dtype] for stage in kernel.stages for fold in stage.folds]
    long = sum(width == 8 for width in widths)
    if long * 2 > len(widths):
        return max(2, target.lanes // 2)
    if all(width == 1 for width in widths):
        return target.lanes * 2
    return target.lanes


def _gathers(kernel: Kernel, column: Axis | None) -> int:
    """Accesses whose lanes do not follow each other in memory."""
    count = 0
    for stage in kernel.stages:
        axis = column or (stage.axes[-1] if stage.axes else None)
        if axis is None:
            continue
        for buffer, address in accesses(kernel, stage):
            of_lanes = column is not None and buffer in kernel.private
            steady = stride_along(kernel, address, axis.symbol) in (0, 1, -1)
            count += not (of_lanes or steady)
    return count


def _registers(kernel: Kernel, wide: list[list[Scalar]]) -> int:
    """Of a vector. The instructions of a function wait for each other: of a short body, those for
    two registers side by side keep the processor busy. (Long ones take several vectors a round.)"""
    if kernel.ordered or kernel.private or any(stage.axes for stage in kernel.stages):
        return 1
    scalars = [scalar for own in wide for scalar in own if scalar.dtype != "b1"]
    if any(WIDTH[scalar.dtype] == 8 for scalar in scalars):
        return 1
    return 2 if any(function_of(scalar)[0] for scalar in scalars) else 1


def _together(kernel: Kernel, wide: list[list[Scalar]]) -> dict[tuple[str, str], int]:
    """The functions that a kernel without inner loops uses often, and how often."""
    if any(stage.axes for stage in kernel.stages):
        return {}
    counts = Counter(map(function_of, (scalar for own in wide for scalar in own)))
    del counts["", ""]
    return {function: count for function, count in counts.items() if count >= _OFTEN}


def function_of(scalar: Scalar) -> tuple[str, str]:
    """The function of vector_math that computes it; none has no name."""
    name = scalar.op
    if name not in FUNCTIONS:
        return "", ""
    if scalar.dtype == "f64":
        return name, "f64"
    if name in WITHIN and _is_within(scalar.args[0], WITHIN[name]):
        return within(name), "f32"
    # Rounding, which ranges do not count, is far less than half of it.
    is_near = name in NEAR and _is_within(scalar.args[0], NEAR[name] / 2)
    return near(name) if is_near else name, "f32"


def _is_within(scalar: Scalar, limit: float) -> bool:
    low, high = value_range(scalar)
    return -limit <= low and high <= limit


def _copies(
    kernel: Kernel,
    column: Axis | None,
    costs: tuple[int, ...],
    masks_freely: bool,
    called: int,
    scatters: bool,
    registers: int,
    choice: CpuChoice,
) -> tuple[int, ...]:
    """Several vectors a round hide the time that one addition takes to finish, as do the registers
    of one vector; long bodies hide it by themselves, if they are not so long that the processor
    does not see the next one."""
    # What is private to a lane is there for one vector.
    if kernel.ordered or (kernel.private and column is not None):
        return tuple(1 for _ in kernel.stages)
    per_stage = [
        1 if stage.scans or not stage.folds else 4 if cost <= 8 else 2 if cost <= 12 else 1
        for stage, cost in zip(kernel.stages, costs, strict=True)
    ]
    if column is None:
        return tuple(
            choice.copies(max(1, each // registers)) if stage.folds and not stage.scans else 1
            for stage, each in zip(kernel.stages, per_stage, strict=True)
        )
    if registers > 1 and max(costs) >= LONG:
        return tuple(choice.copies(1) for _ in kernel.stages)
    # Loops across rows of memory: the wider the strip, the fewer lines are touched one by one.
    if masks_freely and not any(stage.axes for stage in kernel.stages):
        most_called = called * _FUNCTION * 3 >= sum(costs) * 2
        per_stage += [4 if most_called else 2 for cost in costs if cost >= LONG]
    light = scatters or max(costs) <= 8
    per_stage += [4 for stage in kernel.stages if stage.axes and stage.stores and light]
    return tuple(choice.copies(max(per_stage)) for _ in kernel.stages)


def _cost(scalar: Scalar) -> int:
    if scalar.op in _LEAVES:
        return 0
    if scalar.op in _CHEAP:
        return 1
    if scalar.op == "load":
        return 2
    return 4 if scalar.op in _MIDDLING else _FUNCTION
