"""How the host starts a kernel: which of its functions, in how many threads and blocks.

Of each kernel there is a function that looks as one of a CPU's kernels does:

    define i32 @name(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch)

It gives 0, or which of `failures` it was. What it needs to know of this process is in a table of
words (`@anyshape_gpu`): `TABLE`, then of all functions of all kernels in order the handle, and how
many of its blocks the GPU has room for (0 where blocks share nothing). Handles are 0 until the
function is needed: others need not be ready yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from string import Template
from typing import Final

from anyshape.codegen.host.sizes import Sizes
from anyshape.codegen.ir_builder import FunctionBody
from anyshape.codegen.nvptx.block_group import COUNTER
from anyshape.codegen.nvptx.kernel import OWN
from anyshape.codegen.nvptx.module import Counts, LaunchRule
from anyshape.codegen.nvptx.narrow_integers import COORDINATES
from anyshape.codegen.nvptx.strips import MOST_THREADS as GROUP_THREADS
from anyshape.codegen.nvptx.tiles import THREADS
from anyshape.symbolic import Size, Symbol, ceildiv
from anyshape.symbolic.expr import symbols_of

#: What the first words of the table are: bytes of shared memory that a block may have, the error of
#: CUDA that came last, where checks leave their numbers, the function that is called with the
#: place of a handle to put it there, and gives 0 if there is none, the one for branches, and what
#: there is for products (`products.py`), or 0.
TABLE: Final = ("shared", "error", "checks", "load", "branch", "products")
TABLE_NAME: Final = "anyshape_gpu"

DECLARATIONS: Final = f"""
@{TABLE_NAME} = external global i64
declare i32 @anyshape_gpu_points(ptr, i64, ptr, ptr, i64, i64, i64, i1)
declare i32 @anyshape_gpu_rows(ptr, i64, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, i64, i1)
declare i32 @anyshape_gpu_strips(ptr, i64, ptr, ptr, i64, i64, i64, i64, i64)
declare i32 @anyshape_gpu_blocks(ptr, i64, ptr, ptr, i64, i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

#: What is called where a branch begins, if the host has some.
BRANCH: Final = f"""
define private void @anyshape_gpu_branch(i64 %number) nounwind {{
  %place = getelementptr i64, ptr @{TABLE_NAME}, i64 {TABLE.index("branch")}
  %function = load ptr, ptr %place
  %done = call i64 %function(i64 %number)
  ret void
}}
"""


def failures(kernel: str) -> tuple[str, ...]:
    """What it means if the function of a kernel gives 1, 2, ..."""
    return (
        f"cuda: kernel {kernel} could not be started",
        f"torch has no memory for kernel {kernel}",
        f"a size in kernel {kernel} is beyond 64 bits or undefined",
    )


def launch_function(
    name: str, rules: Sequence[LaunchRule], counts: Counts, first: int, number: int
) -> str:
    """`first`: of the kernel's functions among all; `number`: of the kernel among all."""
    lines = FunctionBody()
    arguments, own = _arguments(lines, counts, number)
    symbols = frozenset[Symbol]().union(*(symbols_of(size) for r in rules for size in _sizes(r)))
    places = {each: lines.element("%sizes", int(each.name[1:])) for each in symbols}
    sizes = Sizes(lines, {each: lines.let(f"load i64, ptr {places[each]}", "n") for each in places})
    # All blocks need values, so they are all computed here.
    for rule in rules:
        for size in _sizes(rule):
            sizes.of(size)
    with lines.only_if(sizes.trouble()):
        lines.do("ret i32 3")
    # Behind a function for 32 bits is the same one for 64.
    before = (64, *(rule.index_bits for rule in rules))
    chosen = [each for each, bits in zip(enumerate(rules), before, strict=False) if bits == 64]
    for position, rule in chosen:
        handle = str(len(TABLE) + 2 * (first + position))
        if rule.index_bits == 32:
            behind = lines.let(f"select i1 {_is_near(lines, rule, counts, sizes)}, i64 0, i64 2")
            handle = lines.let(f"add i64 {handle}, {behind}")
        call = _call(rule, sizes, f"ptr @{TABLE_NAME}, i64 {handle}, ptr {arguments}, ptr {own}")
        if rule is chosen[-1][1]:
            lines.do(f"ret i32 {lines.let(call)}")
            break
        with lines.only_if(_fits(lines, rule, counts, sizes), "fits"):
            lines.do(f"ret i32 {lines.let(call)}")
    head = f"define i32 @{name}(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch) nounwind {{"
    return "\n".join([head, lines.text(), "}"])


def _arguments(lines: FunctionBody, counts: Counts, number: int) -> tuple[str, str]:
    """The block of the kernel's arguments, and where in it the words begin that no caller gives."""
    block = lines.stack(f"[{sum(counts) + len(OWN)} x i64]", hint="arguments")
    at = 0
    for array, count in zip(("%buffers", "%sizes", "%numbers"), counts, strict=True):
        if count:
            there = lines.element(block, at)
            moved = f"ptr {there}, ptr {array}, i64 {8 * count}, i1 false"
            lines.do(f"call void @llvm.memcpy.p0.p0.i64({moved})")
        at += count
    checks = lines.element(f"@{TABLE_NAME}", TABLE.index("checks"))
    first = lines.let(f"load i64, ptr {checks}")
    place = lines.let(f"add i64 {first}, {4 * number}")
    lines.do(f"store i64 {place}, ptr {lines.element(block, at + 2)}")
    return block, lines.element(block, at)


def _points(rule: LaunchRule) -> Size:
    """Rows, or points and vectors that a thread takes each."""
    if rule.form != "columns":
        return rule.points
    return rule.points * ceildiv(rule.length, rule.lanes)


def _sizes(rule: LaunchRule) -> list[Size]:
    vectors = ceildiv(rule.length, rule.lanes)
    sizes = [_points(rule), vectors, rule.depth, rule.private, rule.length]
    far = [_elements(rule)] if rule.index_bits == 32 or rule.near else []
    return [*sizes, *rule.multiples, *rule.at_least, *far, *rule.near]


def _elements(rule: LaunchRule) -> Size:
    """More than there are: the last vector may be a part of one."""
    return rule.points * (rule.length + rule.lanes)


def _is_near(lines: FunctionBody, rule: LaunchRule, counts: Counts, sizes: Sizes) -> str:
    """Whether all sizes and the coordinates of all elements have 31 bits."""
    words = [lines.element("%sizes", number) for number in range(counts[1])]
    values = [sizes.of(_elements(rule)), *(lines.let(f"load i64, ptr {word}") for word in words)]
    every = reduce(lambda a, b: lines.let(f"or i64 {a}, {b}"), values)
    return lines.let(f"icmp ult i64 {every}, {1 << 31}")


def _fits(lines: FunctionBody, rule: LaunchRule, counts: Counts, sizes: Sizes) -> str:
    """Whether the function is for these sizes and addresses."""
    rests: list[str] = []
    for buffer, by in rule.aligned:
        address = lines.let(f"load i64, ptr {lines.element('%buffers', buffer)}")
        rests.append(lines.let(f"and i64 {address}, {by - 1}"))
    rests += [lines.let(f"srem i64 {sizes.of(size)}, {rule.lanes}") for size in rule.multiples]
    for size in rule.at_least:
        less = lines.let(f"icmp slt i64 {sizes.of(size)}, {rule.lanes - 1}")
        rests.append(lines.let(f"zext i1 {less} to i64"))
    if rule.fewest_points:
        few = lines.let(f"icmp slt i64 {sizes.of(_points(rule))}, {rule.fewest_points}")
        rests.append(lines.let(f"zext i1 {few} to i64"))
    if rule.each:
        # Of a length that is less than a vector, what is left is more than any.
        last = lines.let(f"sub i64 {sizes.of(rule.length)}, {rule.lanes}")
        longest = rule.each * rule.lanes * rule.row_threads - rule.lanes + 1
        long = lines.let(f"icmp uge i64 {last}, {longest}")
        rests.append(lines.let(f"zext i1 {long} to i64"))
    if rule.near:
        is_far = lines.let(f"xor i1 {_is_near(lines, rule, counts, sizes)}, true")
        for size in rule.near:
            is_large = lines.let(f"icmp uge i64 {sizes.of(size)}, {COORDINATES}")
            is_far = lines.let(f"or i1 {is_far}, {is_large}")
        rests.append(lines.let(f"zext i1 {is_far} to i64"))
    if not rests:
        return "true"
    every = reduce(lambda a, b: lines.let(f"or i64 {a}, {b}"), rests)
    return lines.let(f"icmp eq i64 {every}, 0")


def _call(rule: LaunchRule, sizes: Sizes, given: str) -> str:
    points, vectors, depth, private = (f"i64 {sizes.of(size)}" for size in _sizes(rule)[:4])
    part = f"i64 {rule.part_bytes}, i64 {rule.share or _NEVER}"
    if rule.form == "strips":
        return f"call i32 @anyshape_gpu_strips({given}, {points}, {vectors}, {depth}, {part})"
    if rule.form == "rows":
        least = THREADS if rule.tiled else rule.fewest
        return (
            f"call i32 @anyshape_gpu_rows({given}, {points}, {depth}, {private},"
            f" i64 {rule.block}, i64 {rule.rounds}, i64 {least}, {part},"
            f" i1 {str(rule.each > 0).lower()})"
        )
    if rule.form == "attention":
        return f"call i32 @anyshape_gpu_blocks({given}, {points}, i64 {rule.block}, {private})"
    serial = str(rule.serial).lower()
    rest = f"i64 {rule.block}, i1 {serial}"
    return f"call i32 @anyshape_gpu_points({given}, {points}, {private}, {rest})"


#: More rounds than there are.
_NEVER: Final = 1 << 40


# -- what all of them call -------------------------------------------------------------------------

_DECLARED: Final = """
declare i32 @aoti_torch_get_current_cuda_stream(i32, ptr)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @cuLaunchCooperativeKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr)
declare i32 @cuMemsetD8Async(ptr, i8, i64, ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""

#: A thread for each point, `%most` a block. Few points with much to do each are spread over as many
#: processors as there are. A grid has 2^30 blocks at most, of which each takes several points where
#: there are more; and 2^16 threads where they have private memory: there is not so much of it.
_POINTS: Final = """
define i32 @anyshape_gpu_points(ptr %table, i64 %handle, ptr %arguments, ptr %own, i64 %points,
                                i64 %private, i64 %most, i1 %serial) nounwind {
entry:
  %some = icmp sgt i64 %points, 0
  br i1 %some, label %load, label %none
none:
  ret i32 0
load:
  %ready = call i1 @anyshape_gpu_ready(ptr %table, i64 %handle)
  br i1 %ready, label %kind, label %missing
missing:
  ret i32 1
kind:
  br i1 %serial, label %start, label %shrink
shrink:
  %block = phi i64 [%most, %kind], [%half, %shrink]
  %half = lshr i64 %block, 1
  %enough = shl i64 %block, 7
  %few = icmp slt i64 %points, %enough
  %wide = icmp ugt i64 %block, 32
  %again = and i1 %few, %wide
  br i1 %again, label %shrink, label %count
count:
  %above = add i64 %points, %block
  %less = sub i64 %above, 1
  %blocks = udiv i64 %less, %block
  %fewer = call i64 @llvm.umin.i64(i64 %blocks, i64 1073741824)
  %few.own = udiv i64 65536, %block
  %least = call i64 @llvm.umin.i64(i64 %fewer, i64 %few.own)
  %shares = icmp eq i64 %private, 0
  %counted = select i1 %shares, i64 %fewer, i64 %least
  br label %start
start:
  %grid = phi i64 [1, %kind], [%counted, %count]
  %threads = phi i64 [1, %kind], [%block, %count]
  %all = mul i64 %grid, %threads
  %scratch = mul i64 %all, %private
  %failed = call i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own,
      i64 %grid, i64 %threads, i64 1, i64 0, i64 %private, i64 %scratch, i64 1, i64 0)
  ret i32 %failed
}
"""

#: 32 to 1024 threads for each row, of which each takes four vectors if the row is long enough (as
#: many warps as it takes where it is held in registers, else a power of two), and several rows a
#: block while there are many. Private memory of a row is shared memory, or the
#: device's where it is too long for that. Of few long rows, as many blocks as the GPU has room for
#: share each; should they not be let, they are launched as others are.
_ROWS: Final = """
define i32 @anyshape_gpu_rows(ptr %table, i64 %handle, ptr %arguments, ptr %own, i64 %points,
                              i64 %vectors, i64 %private, i64 %block, i64 %each,
                              i64 %fewest, i64 %part, i64 %share, i1 %held) nounwind {
entry:
  %some = icmp sgt i64 %points, 0
  br i1 %some, label %load, label %none
none:
  ret i32 0
load:
  %ready = call i1 @anyshape_gpu_ready(ptr %table, i64 %handle)
  br i1 %ready, label %several.blocks, label %missing
missing:
  ret i32 1
several.blocks:
  %group.each = mul i64 %share, $group_threads
  %parts = call i64 @anyshape_gpu_parts(ptr %table, i64 %handle, i64 %points, i64 %vectors,
      i64 %group.each)
  %worth = icmp ugt i64 %parts, 3
  br i1 %worth, label %group, label %widen
group:
  %group.grid = mul i64 %points, %parts
  %group.scratch = mul i64 %points, %private
  %refused = call i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own,
      i64 %group.grid, i64 $group_threads, i64 1, i64 0, i64 %private, i64 %group.scratch,
      i64 %parts, i64 %part)
  %is.refused = icmp eq i32 %refused, 1
  br i1 %is.refused, label %widen, label %grouped
grouped:
  ret i32 %refused
widen:
  %power = phi i64 [%fewest, %several.blocks], [%fewest, %group], [%double, %widen]
  %double = shl i64 %power, 1
  %taken = mul i64 %power, %each
  %long = icmp slt i64 %taken, %vectors
  %narrow = icmp ult i64 %power, 1024
  %wider = and i1 %long, %narrow
  br i1 %wider, label %widen, label %widened
widened:
  %warp.takes = shl i64 %each, 5
  %warps.more = add i64 %vectors, %warp.takes
  %warps.above = sub i64 %warps.more, 1
  %warps = udiv i64 %warps.above, %warp.takes
  %needed = shl i64 %warps, 5
  %whole.warps = icmp ugt i64 %power, 32
  %is.needed = and i1 %held, %whole.warps
  %threads = select i1 %is.needed, i64 %needed, i64 %power
  %most = load i64, ptr %table
  %beside = udiv i64 %block, %threads
  %least = icmp eq i64 %beside, 0
  %first = select i1 %least, i64 1, i64 %beside
  %of.warp = udiv i64 32, %threads
  %several.least = call i64 @llvm.umax.i64(i64 %of.warp, i64 1)
  br label %shrink
shrink:
  %rows = phi i64 [%first, %widened], [%half, %shrink]
  %half = lshr i64 %rows, 1
  %bytes = mul i64 %rows, %private
  %large = icmp sgt i64 %bytes, %most
  %enough = shl i64 %rows, 7
  %few = icmp slt i64 %points, %enough
  %less = or i1 %large, %few
  %several = icmp ugt i64 %rows, %several.least
  %again = and i1 %less, %several
  br i1 %again, label %shrink, label %count
count:
  %above = add i64 %points, %rows
  %last = sub i64 %above, 1
  %blocks = udiv i64 %last, %rows
  %bounded = call i64 @llvm.umin.i64(i64 %blocks, i64 1073741824)
  %far.blocks = call i64 @llvm.umin.i64(i64 %bounded, i64 1024)
  %far = icmp sgt i64 %private, %most
  %grid = select i1 %far, i64 %far.blocks, i64 %bounded
  %shared = select i1 %far, i64 0, i64 %bytes
  %apart = select i1 %far, i64 %private, i64 0
  %all = mul i64 %grid, %rows
  %scratch = mul i64 %all, %apart
  %failed = call i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own,
      i64 %grid, i64 %threads, i64 %rows, i64 %shared, i64 %apart, i64 %scratch, i64 1, i64 0)
  ret i32 %failed
}
"""

_READY: Final = f"""
define internal i1 @anyshape_gpu_ready(ptr %table, i64 %handle) nounwind {{
entry:
  %slot = getelementptr i64, ptr %table, i64 %handle
  %known = load atomic i64, ptr %slot acquire, align 8
  %is.known = icmp ne i64 %known, 0
  br i1 %is.known, label %ready, label %load
ready:
  ret i1 true
load:
  %function.slot = getelementptr ptr, ptr %table, i64 {TABLE.index("load")}
  %function = load ptr, ptr %function.slot
  %found = call i64 %function(i64 %handle)
  %is.found = icmp ne i64 %found, 0
  ret i1 %is.found
}}
"""

#: How many blocks may share each point: as many as the GPU has room for, while each has so much to
#: do of what there is.
_PARTS: Final = """
define internal i64 @anyshape_gpu_parts(ptr %table, i64 %handle, i64 %points, i64 %depth,
                                        i64 %each) nounwind {
  %at = add i64 %handle, 1
  %slot = getelementptr i64, ptr %table, i64 %at
  %room = load i64, ptr %slot
  %fit = udiv i64 %room, %points
  %worth = udiv i64 %depth, %each
  %parts = call i64 @llvm.umin.i64(i64 %fit, i64 %worth)
  ret i64 %parts
}
"""

#: Up to 32 threads side by side on a strip, and so many for each of its vectors that a block is
#: full, while there are rounds for them.
_STRIPS: Final = """
define i32 @anyshape_gpu_strips(ptr %table, i64 %handle, ptr %arguments, ptr %own, i64 %points,
                                i64 %vectors, i64 %depth, i64 %part, i64 %share) nounwind {
entry:
  %some = icmp sgt i64 %points, 0
  %columns = icmp sgt i64 %vectors, 0
  %any = and i1 %some, %columns
  br i1 %any, label %load, label %none
none:
  ret i32 0
load:
  %ready = call i1 @anyshape_gpu_ready(ptr %table, i64 %handle)
  br i1 %ready, label %narrow, label %missing
missing:
  ret i32 1
narrow:
  %x = phi i64 [32, %load], [%x.half, %narrow]
  %x.half = lshr i64 %x, 1
  %too.wide = icmp uge i64 %x.half, %vectors
  br i1 %too.wide, label %narrow, label %narrowed
narrowed:
  %y.most = udiv i64 $group_threads, %x
  %most = load i64, ptr %table
  br label %lower
lower:
  %y = phi i64 [%y.most, %narrowed], [%y.half, %lower]
  %y.half = lshr i64 %y, 1
  %two = shl i64 %y, 1
  %more = icmp sgt i64 %two, %depth
  %states = mul i64 %part, %x
  %shared = mul i64 %states, %y
  %large = icmp sgt i64 %shared, %most
  %less = or i1 %more, %large
  %can = icmp ugt i64 %y, 1
  %too.high = and i1 %less, %can
  br i1 %too.high, label %lower, label %count
count:
  %above = add i64 %vectors, %x
  %last = sub i64 %above, 1
  %across = udiv i64 %last, %x
  %strips = mul i64 %across, %points
  %each = mul i64 %y, %share
  %parts = call i64 @anyshape_gpu_parts(ptr %table, i64 %handle, i64 %strips, i64 %depth, i64 %each)
  %worth = icmp ugt i64 %parts, 1
  br i1 %worth, label %group, label %alone
group:
  %group.grid = mul i64 %strips, %parts
  %refused = call i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own,
      i64 %group.grid, i64 %x, i64 %y, i64 %shared, i64 0, i64 0, i64 %parts, i64 %states)
  %is.refused = icmp eq i32 %refused, 1
  br i1 %is.refused, label %alone, label %grouped
grouped:
  ret i32 %refused
alone:
  %grid = call i64 @llvm.umin.i64(i64 %strips, i64 1073741824)
  %failed = call i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own,
      i64 %grid, i64 %x, i64 %y, i64 %shared, i64 0, i64 0, i64 1, i64 0)
  ret i32 %failed
}
"""

#: A block of so many threads and bytes of shared memory for each point.
_BLOCKS: Final = """
define i32 @anyshape_gpu_blocks(ptr %table, i64 %handle, ptr %arguments, ptr %own, i64 %points,
                                i64 %threads, i64 %shared) nounwind {
entry:
  %some = icmp sgt i64 %points, 0
  br i1 %some, label %load, label %none
none:
  ret i32 0
load:
  %ready = call i1 @anyshape_gpu_ready(ptr %table, i64 %handle)
  br i1 %ready, label %start, label %missing
missing:
  ret i32 1
start:
  %grid = call i64 @llvm.umin.i64(i64 %points, i64 1073741824)
  %failed = call i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own,
      i64 %grid, i64 %threads, i64 1, i64 %shared, i64 0, i64 0, i64 1, i64 0)
  ret i32 %failed
}
"""

#: `%parts` blocks of `%part` bytes each share a point.
_START: Final = """
define i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own, i64 %grid,
    i64 %x, i64 %y, i64 %shared, i64 %private, i64 %scratch, i64 %parts, i64 %part) nounwind {
entry:
  %held = alloca ptr
  %stream.slot = alloca ptr
  %params = alloca ptr
  store ptr null, ptr %held
  store ptr %arguments, ptr %params
  %is.shared = icmp ugt i64 %parts, 1
  %points = udiv i64 %grid, %parts
  %counters = mul i64 %points, $counter
  %turn = mul i64 %grid, %part
  %turns = shl i64 %turn, 1
  %told = add i64 %counters, %turns
  %meeting = select i1 %is.shared, i64 %told, i64 0
  %more = add i64 %scratch, 63
  %ours = and i64 %more, -64
  %bytes.all = add i64 %ours, %meeting
  %some = icmp ne i64 %bytes.all, 0
  br i1 %some, label %take, label %ready
take:
  %taken = call ptr @anyshape_host_workspace(i64 %bytes.all, ptr %held)
  %missing = icmp eq ptr %taken, null
  br i1 %missing, label %poor, label %ready
poor:
  ret i32 2
ready:
  %memory = phi ptr [null, %entry], [%taken, %take]
  %own.private = getelementptr i64, ptr %own, i64 1
  store ptr %memory, ptr %own
  store i64 %private, ptr %own.private
  %own.parts = getelementptr i64, ptr %own, i64 3
  store i64 %parts, ptr %own.parts
  %own.meeting = getelementptr i64, ptr %own, i64 4
  %there = getelementptr i8, ptr %memory, i64 %ours
  store ptr %there, ptr %own.meeting
  %unknown = call i32 @aoti_torch_get_current_cuda_stream(i32 $device, ptr %stream.slot)
  %stream = load ptr, ptr %stream.slot
  %function.slot = getelementptr ptr, ptr %table, i64 %handle
  %function = load ptr, ptr %function.slot
  %blocks = trunc i64 %grid to i32
  %width = trunc i64 %x to i32
  %height = trunc i64 %y to i32
  %bytes = trunc i64 %shared to i32
  br i1 %is.shared, label %shared.start, label %plain.start
shared.start:
  %cleared = call i32 @cuMemsetD8Async(ptr %there, i8 0, i64 %counters, ptr %stream)
  %is.clear = icmp eq i32 %cleared, 0
  br i1 %is.clear, label %together.start, label %started
together.start:
  %together = call i32 @cuLaunchCooperativeKernel(ptr %function, i32 %blocks, i32 1, i32 1,
      i32 %width, i32 %height, i32 1, i32 %bytes, ptr %stream, ptr %params)
  br label %started
plain.start:
  %alone = call i32 @cuLaunchKernel(ptr %function, i32 %blocks, i32 1, i32 1, i32 %width,
      i32 %height, i32 1, i32 %bytes, ptr %stream, ptr %params, ptr null)
  br label %started
started:
  %code = phi i32 [%cleared, %shared.start], [%together, %together.start], [%alone, %plain.start]
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %tell, label %done
tell:
  %error = getelementptr i64, ptr %table, i64 1
  %wide = sext i32 %code to i64
  store i64 %wide, ptr %error
  br label %done
done:
  call void @anyshape_host_release(ptr %held)
  %failed = zext i1 %bad to i32
  ret i32 %failed
}
"""


def launch_helpers(device: int, group_threads: int = GROUP_THREADS) -> str:
    """What the functions of all kernels call; a part of the host's helpers."""
    text = _DECLARED + _READY + _POINTS + _PARTS + _ROWS + _STRIPS + _BLOCKS + _START
    numbers = {
        "device": device,
        "counter": COUNTER,
        "group_threads": group_threads,
    }
    return Template(text).substitute(numbers)
