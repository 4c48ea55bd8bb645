"""The code of a kernel for a range of rounds of its parallel axes.

    define internal i32 @name.part(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch,
                                   i64 %lo, i64 %hi, i64 %thread, i64 %team)

Rounds are counted over all parallel axes, `%lo < %hi`. `%team` threads that share the range call it
alike; one that has the range for itself says it is thread 0 of 1. Gives 0, or 1 + the number of a
check that failed.
"""

from __future__ import annotations

from typing import Final

from anyshape.codegen.llvm.attention import attention_tiles
from anyshape.codegen.llvm.collapsed_axes import Points
from anyshape.codegen.llvm.emitter import Emitter, Loop, States
from anyshape.codegen.llvm.interleave import together_functions
from anyshape.codegen.llvm.loop_nest import StageCode, check_slot, divides, has_one_loop, set_masks
from anyshape.codegen.llvm.plan import LIGHT, LONG
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.loops.expr import Axis
from anyshape.loops.index_set_splitting import piece_of, seam_of
from anyshape.support.lazy_dataclass import replace

#: One in another: there is code for each piece that they make.
MOST_SEAMS: Final = 3


def part_function(e: Emitter, name: str, linkage: str = "internal") -> str:
    e.name = name
    e.enter()
    column = e.plan.column
    around = e.kernel.axes if column is None else e.kernel.axes[:-1]
    if around:
        _points(e, around)
    elif column is None:
        _stages(e, e.plan.unroll)
    else:
        _vectors(e, column, "%lo", "%hi")
    result = _result(e)
    e.do(f"ret i32 {result}")
    return "\n".join([e.part(name, linkage), *together_functions(e)])


def _result(e: Emitter) -> str:
    result = "0"
    count = sum(len(stage.checks) for stage in e.kernel.stages)
    for number in reversed(range(count)):
        failed = e.let(f"load i8, ptr {check_slot(e, number)}, align 1")
        is_bad = e.let(f"icmp ne i8 {failed}, 0")
        result = e.let(f"select i1 {is_bad}, i32 {number + 1}, i32 {result}")
    return result


def _points(e: Emitter, axes: tuple[Axis, ...]) -> None:
    """A loop over the points of these axes, whose coordinates count like digits."""
    column = e.plan.column
    if column is None:
        begin, end = "%lo", "%hi"
    else:
        # Rounds count vectors' axis as well: rows are what is left without it.
        length = narrow_size(e, column.extent)
        begin = e.let(f"udiv i64 %lo, {length}")
        last = e.let(f"udiv i64 {e.let('add i64 %hi, -1')}, {length}")
        end = e.let(f"add i64 {last}, 1")
    extents = [narrow_size(e, axis.extent) for axis in axes]
    start, rest = [""] * len(axes), begin
    for number in reversed(range(1, len(axes))):
        start[number] = e.let(f"urem i64 {rest}, {extents[number]}")
        rest = e.let(f"udiv i64 {rest}, {extents[number]}")
    start[0] = rest

    def body(row: str, digits: States) -> States:
        for axis, digit in zip(axes, digits, strict=True):
            e.loops[axis.symbol] = Loop(len(e.levels) - 1, digit, axis.extent)
        following = _count_up(e, digits, extents)
        if column is None:
            _stages(e, e.plan.unroll)
        else:
            before = e.let(f"mul i64 {row}, {narrow_size(e, column.extent)}")
            low = e.let(f"sub i64 %lo, {before}")
            low = e.let(f"call i64 @llvm.smax.i64(i64 {low}, i64 0)")
            high = e.let(f"sub i64 %hi, {before}")
            length = narrow_size(e, column.extent)
            high = e.let(f"call i64 @llvm.smin.i64(i64 {high}, i64 {length})")
            _vectors(e, column, low, high)
        return following

    e.loop((begin, end, "1"), start, ["i64"] * len(axes), body)


def _count_up(e: Emitter, digits: States, extents: list[str]) -> States:
    following = list(digits)
    carry = "1"
    for number in reversed(range(1, len(digits))):
        more = e.let(f"add i64 {digits[number]}, {carry}")
        over = e.let(f"icmp eq i64 {more}, {extents[number]}")
        following[number] = e.let(f"select i1 {over}, i64 0, i64 {more}")
        carry = e.let(f"zext i1 {over} to i64")
    following[0] = e.let(f"add i64 {digits[0]}, {carry}")
    return following


def _vectors(e: Emitter, axis: Axis, begin: str, end: str) -> None:
    """Vectors along a parallel axis, each of which goes through all stages."""
    if e.kernel.attends:
        attention_tiles(e, axis, begin, end)
        return
    e.vector_axis = axis.symbol
    if can_have_pieces(e):
        _pieces(e, axis, begin, end, MOST_SEAMS, True)
    else:
        _span(e, axis, begin, end, True)
    e.vector_axis = None


def _pieces(e: Emitter, axis: Axis, begin: str, end: str, most: int, exact: bool) -> None:
    """Vectors along the pieces that seams make of an axis. `exact`: pieces are of whole vectors if
    the axis is."""
    (stage,) = e.kernel.stages
    seam = seam_of(e.kernel, stage, axis.symbol, e.plan.flat) if most else None
    if seam is None:
        _span(e, axis, begin, end, exact)
        return

    def piece(condition: str, holds: bool, begin: str, end: str, exact: bool) -> None:
        def body() -> None:
            kept, loads_from = e.kernel, e.loads_from
            # What is not masked any more must not be read for other pieces.
            e.loads_from = len(e.levels) - 1
            own = piece_of(stage, seam, holds, axis.symbol, e.plan.flat)
            e.kernel = replace(kept, stages=(own,))
            _pieces(e, axis, begin, end, most - 1, exact)
            e.kernel, e.loads_from = kept, loads_from

        e.run_if(condition, body)

    if seam.bound is None:
        holds = e.value(seam.condition).text
        piece(holds, True, begin, end, exact)
        piece(e.let(f"xor i1 {holds}, true"), False, begin, end, exact)
        return
    bound = narrow_size(e, seam.bound)
    middle = e.let(f"call i64 @llvm.smax.i64(i64 {bound}, i64 {begin})")
    middle = e.let(f"call i64 @llvm.smin.i64(i64 {middle}, i64 {end})")
    exact = exact and divides(e.lanes * max(e.plan.unroll), seam.bound)
    piece(e.let(f"icmp slt i64 {begin}, {middle}"), True, begin, middle, exact)
    piece(e.let(f"icmp slt i64 {middle}, {end}"), False, middle, end, exact)


def _span(e: Emitter, axis: Axis, begin: str, end: str, exact: bool) -> None:
    """Vectors along a range of a parallel axis that is not empty."""
    copies = max(e.plan.unroll)
    step = e.lanes * copies
    stages = e.kernel.stages
    # Where there are loops inside that are all memory, lanes that are missing cost nothing.
    has_loops = e.machine.masks_freely and any(stage.axes for stage in stages)
    has_loops = has_loops and max(e.plan.costs) < LIGHT
    # What is added to memory is read again soon, which has to wait after a masked store.
    adds = any(store.mode != "set" for stage in stages for store in stage.stores)
    one_loop = has_one_loop(e, *range(len(stages))) or (has_loops and not adds)

    points = None if e.plan.flat is None else Points(e, e.plan.flat)

    def loop(first: str, last: str, by: int, count: int, masked: bool) -> None:
        def body(variable: str, states: States) -> States:
            e.loops[axis.symbol] = Loop(len(e.levels) - 1, variable, axis.extent)
            if masked:
                set_masks(e, variable, last, count)
            following = [] if points is None else points.show(states, count)
            _stages(e, tuple(count for _ in e.kernel.stages))
            e.masks = ()
            e.lane_atoms.clear()
            e.at_hand.clear()
            return following

        start = [] if points is None else points.start(first)
        types = [] if points is None else points.types
        e.loop((first, last, str(by)), start, types, body)
        del e.loops[axis.symbol]

    if one_loop or (exact and divides(step, axis.extent)):
        # There is at least one round.
        loop(begin, end, step, copies, not (exact and divides(step, axis.extent)))
        return
    length = e.let(f"sub i64 {end}, {begin}")
    whole = e.let(f"and i64 {length}, {-step}")
    full = e.let(f"add i64 {begin}, {whole}")
    some = e.let(f"icmp ne i64 {whole}, 0")
    e.run_if(some, lambda: loop(begin, full, step, copies, False))
    if copies > 1 and not e.machine.masks_freely and any(stage.axes for stage in stages):
        # A mask is copies in and out there, in each round of the loops inside.
        first, vectors = full, e.let(f"and i64 {length}, {-e.lanes}")
        full = e.let(f"add i64 {begin}, {vectors}")
        single = e.let(f"icmp slt i64 {first}, {full}")
        e.run_if(single, lambda: loop(first, full, e.lanes, 1, False))
    rest = e.let(f"icmp slt i64 {full}, {end}")
    # Loops inside are run through as seldom as can be.
    last = copies if has_loops else 1
    e.run_if(rest, lambda: loop(full, end, e.lanes * last, last, True))


def can_have_pieces(e: Emitter) -> bool:
    """Points that have nothing to do with each other, and little to compute: it is compiled for
    each piece."""
    kernel = e.kernel
    stage = kernel.stages[0]
    plain = len(kernel.stages) == 1 and not (stage.axes or stage.folds or stage.scans)
    return plain and not (kernel.ordered or kernel.positions) and max(e.plan.costs) < LONG


def _stages(e: Emitter, copies: tuple[int, ...]) -> None:
    last = len(e.kernel.stages) - 1
    for number, count in enumerate(copies):
        StageCode(e, number, count).write(number == last)
