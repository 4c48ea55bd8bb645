"""The function that callers see: it decides how many threads run a kernel, and starts them.

    define i32 @name(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch)

Threads are those of the OpenMP runtime that the tensor library has loaded, as many as it would use
itself. Little work runs in the calling thread, and so does all work inside a parallel region.
"""

from __future__ import annotations

from anyshape.codegen.llvm.emitter import Emitter
from anyshape.codegen.llvm.plan import Plan
from anyshape.codegen.llvm.scratch import bytes_for_a_thread
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.symbolic import Size, floordiv, product
from anyshape.symbolic.expr import symbols_of

#: Instructions on elements that make a thread worth waking.
GRAIN = 160_000
#: What is taken for an extent that is known only inside the kernel.
_UNKNOWN_EXTENT = 64

DECLARATIONS = """\
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare void @GOMP_barrier()
declare i32 @omp_get_max_threads()
declare i32 @omp_get_num_threads()
declare i32 @omp_get_thread_num()
declare i32 @omp_in_parallel()
"""


def entry_function(e: Emitter, name: str) -> str:
    """`e` is a fresh emitter for the same kernel as that of the part's function."""
    plan = e.plan
    e.enter()
    rounds = narrow_size(e, product([axis.extent for axis in plan.kernel.axes]))
    work = narrow_size(e, _work(plan))
    some = e.define(f"icmp sgt i64 {rounds}, 0")
    e.branch(f"br i1 {some}, label %some, label %none")
    e.block("none")
    e.branch("ret i32 0")
    e.block("some")
    given = "ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch"
    e.leave()
    if not plan.kernel.ordered:
        _parallel(e, name, rounds, work)
    result = e.define(f"call i32 @{name}.part({given}, i64 0, i64 {rounds}, i64 0, i64 1)")
    e.do(f"ret i32 {result}")
    head = f"define i32 @{name}({given}) nounwind {{"
    return "\n".join([head, "entry:", *e.stack, e.text(), "}"])


def _parallel(e: Emitter, name: str, rounds: str, work: str) -> None:
    plan = e.plan
    much = e.define(f"icmp sgt i64 {work}, {2 * GRAIN}")
    e.branch(f"br i1 {much}, label %much, label %alone")
    e.block("much")
    e.enter()
    inside = e.define("call i32 @omp_in_parallel()")
    most = e.define(f"sext i32 {e.define('call i32 @omp_get_max_threads()')} to i64")
    useful = e.define(f"udiv i64 {work}, {GRAIN}")
    threads = e.define(f"call i64 @llvm.smin.i64(i64 {most}, i64 {useful})")
    points = narrow_size(e, _points(plan))
    split = "0"
    if plan.splits:
        few = e.define(f"icmp slt i64 {points}, {threads}")
        split = e.define(f"zext i1 {few} to i64")
    else:
        threads = e.define(f"call i64 @llvm.smin.i64(i64 {threads}, i64 {points})")
    several = e.define(f"icmp sgt i64 {threads}, 1")
    free = e.define(f"icmp eq i32 {inside}, 0")
    go = e.define(f"and i1 {several}, {free}")
    e.leave()
    e.branch(f"br i1 {go}, label %together, label %alone")
    e.block("together")
    e.enter()
    context = e.slot("i64", 8)
    size = narrow_size(e, bytes_for_a_thread(plan))
    for number, (type_, text) in enumerate(
        [
            ("ptr", "%buffers"),
            ("ptr", "%sizes"),
            ("ptr", "%numbers"),
            ("ptr", "%scratch"),
            ("i64", rounds),
            ("i64", split),
            ("i64", size),
            ("i64", "0"),
        ]
    ):
        place = e.define(f"getelementptr i64, ptr {context}, i64 {number}")
        e.do(f"store {type_} {text}, ptr {place}, align 8")
    count = e.define(f"trunc i64 {threads} to i32")
    e.do(f"call void @GOMP_parallel(ptr @{name}.team, ptr {context}, i32 {count}, i32 0)")
    place = e.define(f"getelementptr i64, ptr {context}, i64 7")
    e.do(f"ret i32 {e.define(f'load i32, ptr {place}, align 4')}")
    e.leave()
    e.block("alone")


def team_function(plan: Plan, name: str) -> str:
    """What each thread runs: all of the rounds together, or a range of its own."""
    if plan.kernel.ordered:
        return ""
    unit = 1 if plan.column is None else plan.lanes * max(plan.copies)
    fields = ["buffers", "sizes", "numbers", "scratch", "rounds", "split", "bytes"]
    reads: list[str] = []
    for number, field in enumerate(fields):
        type_ = "ptr" if number < 4 else "i64"
        reads.append(f"  %{field}_at = getelementptr i64, ptr %context, i64 {number}")
        reads.append(f"  %{field} = load {type_}, ptr %{field}_at, align 8")
    joined = "\n".join(reads)
    given = "ptr %buffers, ptr %sizes, ptr %numbers"
    return f"""\
define internal void @{name}.team(ptr %context) nounwind {{
{joined}
  %failed_at = getelementptr i64, ptr %context, i64 7
  %thread32 = call i32 @omp_get_thread_num()
  %team32 = call i32 @omp_get_num_threads()
  %thread = sext i32 %thread32 to i64
  %team = sext i32 %team32 to i64
  %apart = icmp eq i64 %split, 0
  br i1 %apart, label %own, label %common
common:
  %one = call i32 @{name}.part({given}, ptr %scratch, i64 0, i64 %rounds, i64 %thread, i64 %team)
  br label %end
own:
  %more = add i64 %rounds, %team
  %most = add i64 %more, -1
  %even = udiv i64 %most, %team
  %above = add i64 %even, {unit - 1}
  %each = and i64 %above, {-unit}
  %lo = mul i64 %each, %thread
  %next = add i64 %lo, %each
  %hi = call i64 @llvm.smin.i64(i64 %next, i64 %rounds)
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %range, label %end
range:
  %offset = mul i64 %bytes, %thread
  %memory = getelementptr i8, ptr %scratch, i64 %offset
  %two = call i32 @{name}.part({given}, ptr %memory, i64 %lo, i64 %hi, i64 0, i64 1)
  br label %end
end:
  %failed = phi i32 [ %one, %common ], [ 0, %own ], [ %two, %range ]
  %before = atomicrmw umax ptr %failed_at, i32 %failed monotonic
  ret void
}}"""


def _work(plan: Plan) -> Size:
    """Instructions on elements in all."""
    inner: Size = 0
    for stage, cost in zip(plan.kernel.stages, plan.costs, strict=True):
        inner = inner + product([_extent(axis.extent) for axis in stage.axes]) * cost
    return product([axis.extent for axis in plan.kernel.axes]) * inner


def _points(plan: Plan) -> Size:
    """What threads share out; a vector of columns is one."""
    if plan.column is None:
        return product([axis.extent for axis in plan.kernel.axes])
    unit = plan.lanes * max(plan.copies)
    strips = floordiv(plan.column.extent + (unit - 1), unit)
    return product([axis.extent for axis in plan.kernel.axes[:-1]]) * strips


def _extent(extent: Size) -> Size:
    sizes = all(symbol.name.startswith("n") for symbol in symbols_of(extent))
    return extent if sizes else _UNKNOWN_EXTENT
