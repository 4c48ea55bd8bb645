"""The code of a kernel: which thread takes what.

    define ptx_kernel void @name(ptr byval([9 x i64]) %buffers)

The one argument holds the addresses of buffers, then sizes, then numbers, then `OWN`: where private
memory is and how much of it each row or thread has (0: it is in shared memory), where a check that
fails leaves its number, how many blocks share a point and where they meet.
"""

from __future__ import annotations

from typing import Final

from anyshape.codegen.llvm.emitter import Emitter, Loop
from anyshape.codegen.llvm.loop_nest import StageCode, check_slot, set_masks
from anyshape.codegen.llvm.sizes import lane_numbers, narrow_size
from anyshape.codegen.nvptx.attention import AttentionTiles
from anyshape.codegen.nvptx.attention_plan import AttentionShape
from anyshape.codegen.nvptx.block_group import block_barrier, write_group_places
from anyshape.codegen.nvptx.block_reduce import SHARED, GroupStage
from anyshape.codegen.nvptx.block_scan import ScanStage
from anyshape.codegen.nvptx.held_rows import write_held_rows
from anyshape.codegen.nvptx.plain_products import PlainProducts
from anyshape.codegen.nvptx.plan import GpuPlan
from anyshape.codegen.nvptx.strips import StripStage
from anyshape.codegen.nvptx.tensor_products import TensorProducts
from anyshape.codegen.nvptx.tiles import THREADS, TileStage, tile_side
from anyshape.loops.collapsed_axes import Flattened
from anyshape.loops.expr import Axis

#: The words behind what a caller gives.
OWN: Final = ("ptr", "i64", "ptr", "i64", "ptr")


def kernel_function(e: Emitter, gpu: GpuPlan, name: str, counts: tuple[int, int, int]) -> str:
    """`counts`: how many buffers, sizes and numbers the kernel has."""
    buffers, sizes, numbers = counts
    e.name = name
    for register, name_ in _REGISTERS.items():
        e.at_start(f"%{register} = call i32 @llvm.nvvm.read.ptx.sreg.{name_}()")
        e.at_start(f"%{register}.64 = zext i32 %{register} to i64")
    e.at_start(f"%sizes = getelementptr i64, ptr %buffers, i64 {buffers}")
    e.at_start(f"%numbers = getelementptr i64, ptr %buffers, i64 {buffers + sizes}")
    end = buffers + sizes + numbers
    for number, type_ in enumerate(OWN):
        e.at_start(f"%place.{number} = getelementptr i64, ptr %buffers, i64 {end + number}")
        e.at_start(
            f"%own.{number} = load {type_}, ptr %place.{number}, align 8, !invariant.load !0"
        )
    if e.machine.starts_early:
        # What memory holds is what the kernel before has left there, and not sooner.
        e.at_start(f'call void asm sideeffect "{_WAIT}", "r,~{{memory}}"(i32 %nctaid)')
    e.enter()
    if gpu.form == "rows":
        _rows(e, gpu)
    elif gpu.form == "strips":
        _strips(e, gpu)
    elif gpu.attention is not None:
        _attention(e, gpu.attention)
    else:
        _points(e)
    _leave_failures(e)
    e.do("ret void")
    head = (
        f"define ptx_kernel void @{name}(ptr byval([{end + len(OWN)} x i64]) align 8 %buffers) {{"
    )
    return "\n".join([head, "entry:", e.text(), "}"])


#: Blocks of a kernel that may be started early: of many, each would take longer for it.
MOST_EARLY: Final = 1024
#: Wait for the kernel before, and let the one behind come.
_WAIT: Final = (
    f"{{ .reg .pred %few; setp.le.u32 %few, $0, {MOST_EARLY}; @%few griddepcontrol.wait;"
    " @%few griddepcontrol.launch_dependents; }"
)
#: threads of a block, blocks of the grid
_REGISTERS = {
    "tid": "tid.x",
    "tid.y": "tid.y",
    "ntid": "ntid.x",
    "ntid.y": "ntid.y",
    "ctaid": "ctaid.x",
    "nctaid": "nctaid.x",
}


def _leave_failures(e: Emitter) -> None:
    count = sum(len(stage.checks) for stage in e.kernel.stages)
    for number in range(count):
        failed = e.let(f"load i8, ptr {check_slot(e, number)}, align 1")
        is_bad = e.let(f"icmp ne i8 {failed}, 0")
        e.run_if(is_bad, lambda n=number: _fail(e, n))


def _fail(e: Emitter, number: int) -> None:
    """As eager does: nothing that comes after it is to be believed."""
    e.do(f"store i32 {number + 1}, ptr %own.2, align 4")
    e.do("call void @llvm.trap()")


# -- a thread for each vector of a column, or for each point ---------------------------------------


def _points(e: Emitter) -> None:
    column = e.plan.column
    axes = e.kernel.axes if column is None else e.kernel.axes[:-1]
    extents, total = _counted(e, axes)
    units = "1"
    if column is not None:
        units = narrow_size(e, column.extent)
        if e.lanes > 1:
            more = e.let(f"add i64 {units}, {e.lanes - 1}")
            units = e.let(f"udiv i64 {more}, {e.lanes}")
        total = e.let(f"mul i64 {total}, {units}")
    number = e.let(f"add i64 {e.let('mul i64 %ctaid.64, %ntid.64')}, %tid.64")
    step = e.let("mul i64 %nctaid.64, %ntid.64")
    if e.kernel.private:
        size = e.let(f"mul i64 {number}, %own.1")
        e.do(f"%scratch = getelementptr i8, ptr %own.0, i64 {size}")

    def body(variable: str, _: list[str]) -> list[str]:
        row = variable
        unit = variable
        if column is not None and axes:
            row, unit = _divided(e, variable, units)
        _set_digits(e, axes, extents, row)
        if column is None:
            _stages(e)
        else:
            _vector(e, column, unit)
        return []

    some = e.let(f"icmp slt i64 {number}, {total}")
    e.run_if(some, lambda: e.loop((number, total, step), [], [], body))


def _counted(e: Emitter, axes: tuple[Axis, ...]) -> tuple[list[str], str]:
    """The extents of axes, and how many points they have."""
    extents = [narrow_size(e, axis.extent) for axis in axes]
    total = "1"
    for extent in extents:
        total = e.let(f"mul i64 {total}, {extent}")
    return extents, total


def _set_digits(e: Emitter, axes: tuple[Axis, ...], extents: list[str], row: str) -> None:
    """The coordinates of a point, which count like digits."""
    level = len(e.levels) - 1
    for axis, extent in reversed(list(zip(axes, extents, strict=True))[1:]):
        rest, digit = _divided(e, row, extent)
        e.loops[axis.symbol] = Loop(level, digit, axis.extent)
        row = rest
    if axes:
        e.loops[axes[0].symbol] = Loop(level, row, axes[0].extent)


def _divided(e: Emitter, a: str, b: str) -> tuple[str, str]:
    """The quotient of two numbers that are not negative, and what is left."""
    bits = e.index_bits
    if bits < 64:
        a, b = (e.let(f"trunc i64 {each} to i{bits}") for each in (a, b))
    quotient = e.let(f"udiv i{bits} {a}, {b}")
    rest = e.let(f"sub i{bits} {a}, {e.let(f'mul i{bits} {quotient}, {b}')}")
    if bits < 64:
        quotient, rest = (e.let(f"zext i{bits} {each} to i64") for each in (quotient, rest))
    return quotient, rest


def _vector(e: Emitter, column: Axis, unit: str) -> None:
    """One vector of the column, of which lanes may be missing at its end."""
    start = unit if e.lanes == 1 else e.let(f"mul i64 {unit}, {e.lanes}")
    e.vector_axis = column.symbol

    def stages(masked: bool) -> None:
        # Not above the test: what depends on the column is of this branch alone.
        e.loops[column.symbol] = Loop(len(e.levels) - 1, start, column.extent)
        if masked:
            set_masks(e, start, narrow_size(e, column.extent), 1)
        if e.plan.flat is not None:
            _show_points(e, e.plan.flat, start)
        _stages(e)
        e.masks = ()
        e.lane_atoms.clear()
        e.at_hand.clear()

    if e.lanes == 1 or (len(e.kernel.axes) > 1 and e.is_aligned):
        stages(False)  # whole vectors only
    else:
        end = e.let(f"add i64 {start}, {e.lanes}")
        full = e.let(f"icmp sle i64 {end}, {narrow_size(e, column.extent)}")
        e.run_if(full, lambda: stages(False))
        e.run_if(e.let(f"xor i1 {full}, true"), lambda: stages(True))
    e.vector_axis = None


def _show_points(e: Emitter, flat: Flattened, start: str) -> None:
    """Where each lane is on the two axes that vectors run along. The last one is not shorter than
    a vector but for one lane: at most one row ends in it, and the next one does not."""
    width = narrow_size(e, flat.width)
    wide, truth = f"<{e.lanes} x i64>", f"<{e.lanes} x i1>"
    above, beside = _divided(e, start, width)
    rests = e.let(f"add {wide} {e.splat('i64', beside)}, {lane_numbers(e.lanes)}")
    widths = e.splat("i64", width)
    over = e.let(f"icmp uge {wide} {rests}, {widths}")
    less = e.let(f"sub {wide} {rests}, {widths}")
    rests = e.let(f"select {truth} {over}, {wide} {less}, {wide} {rests}")
    more = e.let(f"zext {truth} {over} to {wide}")
    quotients = e.let(f"add {wide} {e.splat('i64', above)}, {more}")
    e.lane_atoms[flat.quotient.index, 0] = quotients
    e.lane_atoms[flat.rest.index, 0] = rests


def _stages(e: Emitter) -> None:
    last = len(e.kernel.stages) - 1
    for number in range(last + 1):
        StageCode(e, number, 1).write(number == last)


# -- threads of a block for each row ---------------------------------------------------------------


def _rows(e: Emitter, gpu: GpuPlan) -> None:
    vectors = gpu.each
    axes = e.kernel.axes
    extents, total = _counted(e, axes)
    group, groups = "%ctaid.64", "%nctaid.64"
    if gpu.part_bytes:
        write_group_places(e, str(gpu.part_bytes))
        group, groups = "%group.64", "%groups.64"
    first = e.let(f"mul i64 {group}, %ntid.y.64")
    step = e.let(f"mul i64 {groups}, %ntid.y.64")
    e.do("%warps = lshr i32 %ntid, 5")
    e.do("%has.warps = icmp ugt i32 %ntid, 32")
    e.do("%lane = and i32 %tid, 31")
    e.do("%first.lane = icmp eq i32 %lane, 0")
    e.do("%first.warp = mul i32 %tid.y, %warps")
    e.do(f"%warp = add i32 %first.warp, {e.let('lshr i32 %tid, 5')}")
    e.do("%is.warp = icmp ult i32 %lane, %warps")
    thread, threads = "%tid.64", "%ntid.64"
    if gpu.part_bytes:
        thread = e.let(f"add i64 {e.let('mul i64 %part.64, %ntid.64')}, %tid.64")
        threads = e.let("mul i64 %parts.64, %ntid.64")
    mine = _tile_places(e) if gpu.tiled else e.let(f"mul i64 {thread}, {e.lanes}")
    e.do(f"%stride = mul i64 {'%tile.width' if gpu.tiled else threads}, {e.lanes}")
    if e.kernel.private and not vectors:
        _private_rows(e, first, gpu.tiled)

    def body(base: str, _: list[str]) -> list[str]:
        number = e.let(f"add i64 {base}, %tid.y.64")
        e.do(f"%active = icmp slt i64 {number}, {total}")
        last = e.let(f"sub i64 {total}, 1")
        # Those without a row of their own read the last one, and write nothing.
        row = e.let(f"select i1 %active, i64 {number}, i64 {last}")
        e.do(f"%begin = select i1 %active, i64 {mine}, i64 {(1 << 62)}")
        is_first = e.let("icmp eq i32 %tid, 0")
        if gpu.part_bytes:
            is_first = e.let(f"and i1 {is_first}, {e.let('icmp eq i32 %part, 0')}")
        e.do(f"%leads = and i1 %active, {is_first}")
        _set_digits(e, axes, extents, row)
        if vectors:
            e.do(f"%stride.32 = mul i32 %ntid, {e.lanes}")
            e.do(f"%begin.32 = mul i32 %tid, {e.lanes}")
            write_held_rows(e, vectors, gpu.sure, gpu.has_part_warps)
            return []
        count = len(e.kernel.stages)
        for position, each in enumerate(e.kernel.stages):
            stage = TileStage if gpu.tiled else ScanStage if each.scans else GroupStage
            stage(e, position).write(position == count - 1)
        # A group of blocks has one row, and a block of its own may have more.
        block_barrier(e)
        return []

    e.loop((first, total, step), [], [], body)


def _strips(e: Emitter, gpu: GpuPlan) -> None:
    column = e.plan.column
    assert column is not None, "strips are of columns"
    axes = e.kernel.axes[:-1]
    extents, points = _counted(e, axes)
    write_group_places(e, e.let(f"mul i64 %ntid.64, {gpu.part_bytes}"))
    e.do("%block.threads = mul i64 %ntid.64, %ntid.y.64")
    e.do("%has.team = icmp ugt i32 %ntid.y, 1")
    before = e.let("mul i64 %part.64, %ntid.y.64")
    e.do(f"%team.number = add i64 {before}, %tid.y.64")
    e.do("%team.count = mul i64 %parts.64, %ntid.y.64")
    leads = e.let("icmp eq i64 %team.number, 0")
    units = e.let(f"udiv i64 {narrow_size(e, column.extent)}, {e.lanes}")
    above = e.let(f"add i64 {units}, {e.let('sub i64 %ntid.64, 1')}")
    strips = e.let(f"udiv i64 {above}, %ntid.64")
    total = e.let(f"mul i64 {points}, {strips}")

    def body(number: str, _: list[str]) -> list[str]:
        row, strip = _divided(e, number, strips)
        unit = e.let(f"add i64 {e.let(f'mul i64 {strip}, %ntid.64')}, %tid.64")
        e.do(f"%active = icmp slt i64 {unit}, {units}")
        e.do(f"%leads = and i1 %active, {leads}")
        # Those without a column read the last one, and write nothing.
        unit = e.let(f"call i64 @llvm.smin.i64(i64 {unit}, i64 {e.let(f'sub i64 {units}, 1')})")
        _set_digits(e, axes, extents, row)
        start = e.let(f"mul i64 {unit}, {e.lanes}")
        e.vector_axis = column.symbol
        e.loops[column.symbol] = Loop(len(e.levels) - 1, start, column.extent)
        count = len(e.kernel.stages)
        for position in range(count):
            StripStage(e, position).write(position == count - 1)
        block_barrier(e)
        e.vector_axis = None
        return []

    e.loop(("%group.64", total, "%groups.64"), [], [], body)


# -- a block for each tile of queries --------------------------------------------------------------


def _attention(e: Emitter, shape: AttentionShape) -> None:
    *axes, queries = e.kernel.axes
    extents, points = _counted(e, tuple(axes))
    more = e.let(f"add i64 {narrow_size(e, queries.extent)}, {shape.rows - 1}")
    tiles = e.let(f"udiv i64 {more}, {shape.rows}")
    total = e.let(f"mul i64 {points}, {tiles}")
    products = PlainProducts if shape.halves is None else TensorProducts

    def body(number: str, _: list[str]) -> list[str]:
        row, tile = _divided(e, number, tiles)
        # The last queries first: of a causal mask, they see the most keys.
        last = e.let(f"sub i64 {tiles}, 1")
        tile = e.let(f"sub i64 {last}, {tile}")
        _set_digits(e, tuple(axes), extents, row)
        AttentionTiles(e, shape).write(tile, products)
        block_barrier(e)
        return []

    e.loop(("%ctaid.64", total, "%nctaid.64"), [], [], body)


def _tile_places(e: Emitter) -> str:
    """Which rows of a tile a thread takes; where in them it begins."""
    width = max(1, tile_side(e.kernel) // e.lanes)
    across = e.let(f"urem i64 %tid.64, {width}")
    e.do(f"%tile.y = udiv i64 %tid.64, {width}")
    e.do(f"%tile.width = add i64 0, {width}")
    e.do(f"%tile.step = add i64 0, {THREADS // width}")
    e.aligns_private = False
    return e.let(f"mul i64 {across}, {e.lanes}")


def _private_rows(e: Emitter, first: str, always_near: bool) -> None:
    size = narrow_size(e, e.plan.bytes_for_a_thread())
    near = e.let(f"mul i64 %tid.y.64, {size}")
    shared = e.let(f"addrspacecast ptr addrspace(3) {SHARED} to ptr")
    if always_near:
        # A tile is small enough for every GPU.
        e.do(f"%scratch = getelementptr i8, ptr {shared}, i64 {near}")
        return
    near = e.let(f"getelementptr i8, ptr {shared}, i64 {near}")
    slot = e.let(f"add i64 {first}, %tid.y.64")
    far = e.let(f"getelementptr i8, ptr %own.0, i64 {e.let(f'mul i64 {slot}, %own.1')}")
    is_near = e.let("icmp eq i64 %own.1, 0")
    e.do(f"%scratch = select i1 {is_near}, ptr {near}, ptr {far}")
