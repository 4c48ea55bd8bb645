"""How kernels are started: what the functions of `launch.py` call, as text.

Each gives 0, or which of `failures` it was; of no points it starts nothing.
"""

from __future__ import annotations

from string import Template
from typing import Final

from anyshape.codegen.nvptx.block_group import COUNTER
from anyshape.codegen.nvptx.kernel import MOST_EARLY
from anyshape.codegen.nvptx.launch import TABLE
from anyshape.codegen.nvptx.strips import MOST_THREADS as GROUP_THREADS


def _ready(then: str) -> str:
    """The function is there; go on at this block."""
    return f"""load:
  %ready = call i1 @anyshape_gpu_ready(ptr %table, i64 %handle)
  br i1 %ready, label %{then}, label %missing
missing:
  ret i32 1
{then}:"""


def _some_points(then: str) -> str:
    return f"""entry:
  %some = icmp sgt i64 %points, 0
  br i1 %some, label %load, label %none
none:
  ret i32 0
{_ready(then)}"""


_DECLARED: Final = """
declare i32 @aoti_torch_get_current_cuda_stream(i32, ptr)
declare i32 @cuLaunchKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)
declare i32 @cuLaunchCooperativeKernel(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr)
declare i32 @cuMemsetD8Async(ptr, i8, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""

#: A thread for each point, `%most` a block. Few points with much to do each are spread over as many
#: processors as there are. A grid has 2^30 blocks at most, of which each takes several points where
#: there are more; and 2^16 threads where they have private memory: there is not so much of it.
_POINTS: Final = """
define i32 @anyshape_gpu_points(ptr %table, i64 %handle, ptr %arguments, ptr %own, i64 %points,
                                i64 %private, i64 %most, i1 %serial) nounwind {
$begin_kind
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
$begin_several_blocks
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
$ready_narrow
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
$begin_start
  %grid = call i64 @llvm.umin.i64(i64 %points, i64 1073741824)
  %failed = call i32 @anyshape_gpu_start(ptr %table, i64 %handle, ptr %arguments, ptr %own,
      i64 %grid, i64 %threads, i64 1, i64 %shared, i64 0, i64 0, i64 1, i64 0)
  ret i32 %failed
}
"""

#: A kernel behind another one of ours is started while that one runs, and waits for its end itself:
#: CUlaunchConfig, with one CUlaunchAttribute, which allows it.
_EARLY: Final = """
define internal i32 @anyshape_gpu_early(ptr %launch, ptr %function, i32 %blocks, i32 %width,
    i32 %height, i32 %bytes, ptr %stream, ptr %params) nounwind {
  %config = alloca [7 x i64]
  %attribute = alloca [9 x i64]
  call void @llvm.memset.p0.i64(ptr %config, i8 0, i64 56, i1 false)
  call void @llvm.memset.p0.i64(ptr %attribute, i8 0, i64 72, i1 false)
$fields
  %code = call i32 %launch(ptr %config, ptr %function, ptr %params, ptr null)
  ret i32 %code
}
"""
#: by where they are, in bytes
_CONFIG: Final = {
    0: "i32 %blocks", 4: "i32 1", 8: "i32 1", 12: "i32 %width", 16: "i32 %height", 20: "i32 1",
    24: "i32 %bytes", 32: "ptr %stream", 40: "ptr %attribute", 48: "i32 1",
}  # fmt: skip
#: CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, and that it is allowed
_ATTRIBUTE: Final = {0: "i32 6", 8: "i32 1"}


def _fields() -> str:
    lines: list[str] = []
    for whole, fields in (("config", _CONFIG), ("attribute", _ATTRIBUTE)):
        for at, value in fields.items():
            lines.append(f"  %{whole}.{at} = getelementptr i8, ptr %{whole}, i64 {at}")
            lines.append(f"  store {value}, ptr %{whole}.{at}")
    return "\n".join(lines)


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
  %launch.slot = getelementptr ptr, ptr %table, i64 $early
  %launch = load ptr, ptr %launch.slot
  %follows.slot = getelementptr i64, ptr %table, i64 $follows
  %follows = load i64, ptr %follows.slot
  %can = icmp ne ptr %launch, null
  %is.behind = icmp ne i64 %follows, 0
  %may = and i1 %can, %is.behind
  %is.few = icmp ule i64 %grid, $most_early
  %is.early = and i1 %may, %is.few
  br i1 %is.early, label %early.start, label %alone.start
early.start:
  %early = call i32 @anyshape_gpu_early(ptr %launch, ptr %function, i32 %blocks, i32 %width,
      i32 %height, i32 %bytes, ptr %stream, ptr %params)
  br label %started
alone.start:
  %alone = call i32 @cuLaunchKernel(ptr %function, i32 %blocks, i32 1, i32 1, i32 %width,
      i32 %height, i32 1, i32 %bytes, ptr %stream, ptr %params, ptr null)
  br label %started
started:
  %code = phi i32 [%cleared, %shared.start], [%together, %together.start], [%alone, %alone.start],
      [%early, %early.start]
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
    text = _DECLARED + _READY + _POINTS + _PARTS + _ROWS + _STRIPS + _BLOCKS + _EARLY + _START
    numbers = {
        "device": device,
        "counter": COUNTER,
        "early": TABLE.index("early"),
        "follows": TABLE.index("follows"),
        "most_early": MOST_EARLY,
        "fields": _fields(),
        "group_threads": group_threads,
        "begin_kind": _some_points("kind"),
        "begin_several_blocks": _some_points("several.blocks"),
        "begin_start": _some_points("start"),
        "ready_narrow": _ready("narrow"),
    }
    return Template(text).substitute(numbers)
