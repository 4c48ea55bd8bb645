"""The function that callers see: it decides how many threads run a kernel, and starts them.

    define i32 @name(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch)

Threads are those of the OpenMP runtime that the tensor library has loaded, as many as it would use
itself. Little work runs in the calling thread, and so does all work inside a parallel region.
"""

from __future__ import annotations

from anyshape.codegen.llvm.emitter import Emitter
from anyshape.codegen.llvm.plan import GRAIN, KernelPlan
from anyshape.codegen.llvm.sizes import narrow_size
from anyshape.symbolic import Size, floordiv, product
from anyshape.symbolic.expr import symbols_of

#: What is taken for an extent that is known only inside the kernel.
_UNKNOWN_EXTENT = 64

#: what a kernel calls while it runs
THREAD_DECLARATIONS = "declare void @GOMP_barrier()"
LAUNCH_DECLARATION = "declare i32 @as.launch(ptr, ptr, ptr, ptr, ptr" + ", i64" * 7 + ")"

_DECLARATIONS = f"""
{THREAD_DECLARATIONS}
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_max_threads()
declare i32 @omp_get_num_threads()
declare i32 @omp_get_thread_num()
declare i32 @omp_in_parallel()
"""


def entry_function(e: Emitter, name: str, part: str) -> str:
    """`e` is a fresh emitter for the same kernel as that of the part's function."""
    plan = e.plan
    e.enter()
    rounds = narrow_size(e, product([axis.extent for axis in plan.kernel.axes]))
    work = narrow_size(e, _work(plan))
    some = e.let(f"icmp sgt i64 {rounds}, 0")
    e.leave()
    e.branch(f"br i1 {some}, label %some, label %none")
    e.block("%none")
    e.branch("ret i32 0")
    e.block("%some")
    given = "ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch"
    if not plan.kernel.ordered:
        grain = GRAIN << plan.grain if plan.grain >= 0 else max(1, GRAIN >> -plan.grain)
        much = e.let(f"icmp sgt i64 {work}, {2 * grain}")
        e.branch(f"br i1 {much}, label %much, label %little")
        e.block("%much")
        e.enter()
        points = narrow_size(e, _points(plan))
        size = narrow_size(e, plan.bytes_for_a_thread())
        unit = 1 if plan.column is None else plan.lanes * max(plan.unroll)
        result = e.let(
            f"call i32 @as.launch(ptr @{part}.part, {given}, i64 {rounds}, i64 {work},"
            f" i64 {points}, i64 {size}, i64 {unit}, i64 {int(plan.splits)}, i64 {grain})"
        )
        e.do(f"ret i32 {result}")
        e.leave()
        e.block("%little")
    result = e.let(f"call i32 @{part}.part({given}, i64 0, i64 {rounds}, i64 0, i64 1)")
    e.do(f"ret i32 {result}")
    head = f"define i32 @{name}({given}) nounwind {{"
    return "\n".join([head, "entry:", e.text(), "}"])


_PART = "ptr %buffers, ptr %sizes, ptr %numbers"
_CONTEXT = (
    *(("ptr", name) for name in ("part", "buffers", "sizes", "numbers", "scratch")),
    *(("i64", name) for name in ("rounds", "bytes", "unit", "split")),
)


def launch_functions() -> str:
    """What the kernels of a module have in common: to start threads, and what each then does."""
    places = [
        f"  %{name}_at = getelementptr i64, ptr %context, i64 {number}"
        for number, (_, name) in enumerate(_CONTEXT)
    ]
    places.append(f"  %failed_at = getelementptr i64, ptr %context, i64 {len(_CONTEXT)}")
    at = "\n".join(places)
    stores = "\n".join(f"  store {t} %{name}, ptr %{name}_at, align 8" for t, name in _CONTEXT)
    loads = "\n".join(f"  %{name} = load {t}, ptr %{name}_at, align 8" for t, name in _CONTEXT)
    return f"""\
{_DECLARATIONS}
; Few points and much work: threads share each point, where stages allow it.
define i32 @as.launch(ptr %part, {_PART}, ptr %scratch, i64 %rounds, i64 %work,
                      i64 %points, i64 %bytes, i64 %unit, i64 %splits,
                      i64 %grain) noinline nounwind {{
  %context = alloca i64, i64 {len(_CONTEXT) + 1}, align 8
  %inside = call i32 @omp_in_parallel()
  %most32 = call i32 @omp_get_max_threads()
  %most = sext i32 %most32 to i64
  %useful = udiv i64 %work, %grain
  %wanted = call i64 @llvm.smin.i64(i64 %most, i64 %useful)
  %few = icmp slt i64 %points, %wanted
  %split = select i1 %few, i64 %splits, i64 0
  %shared = icmp ne i64 %split, 0
  %fewer = call i64 @llvm.smin.i64(i64 %wanted, i64 %points)
  %threads = select i1 %shared, i64 %wanted, i64 %fewer
  %several = icmp sgt i64 %threads, 1
  %outside = icmp eq i32 %inside, 0
  %go = and i1 %several, %outside
  br i1 %go, label %together, label %alone
alone:
  %own = call i32 %part({_PART}, ptr %scratch, i64 0, i64 %rounds, i64 0, i64 1)
  ret i32 %own
together:
{at}
{stores}
  store i64 0, ptr %failed_at, align 8
  %threads32 = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @as.team, ptr %context, i32 %threads32, i32 0)
  %failed = load i32, ptr %failed_at, align 8
  ret i32 %failed
}}

define internal void @as.team(ptr %context) nounwind {{
{at}
{loads}
  %thread32 = call i32 @omp_get_thread_num()
  %team32 = call i32 @omp_get_num_threads()
  %thread = sext i32 %thread32 to i64
  %team = sext i32 %team32 to i64
  %apart = icmp eq i64 %split, 0
  br i1 %apart, label %own, label %common
common:
  %one = call i32 %part({_PART}, ptr %scratch, i64 0, i64 %rounds, i64 %thread, i64 %team)
  br label %end
own:
  %more = add i64 %rounds, %team
  %most = add i64 %more, -1
  %even = udiv i64 %most, %team
  %up = add i64 %unit, -1
  %above = add i64 %even, %up
  %down = sub i64 0, %unit
  %each = and i64 %above, %down
  %lo = mul i64 %each, %thread
  %next = add i64 %lo, %each
  %hi = call i64 @llvm.smin.i64(i64 %next, i64 %rounds)
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %range, label %end
range:
  %offset = mul i64 %bytes, %thread
  %memory = getelementptr i8, ptr %scratch, i64 %offset
  %two = call i32 %part({_PART}, ptr %memory, i64 %lo, i64 %hi, i64 0, i64 1)
  br label %end
end:
  %failed = phi i32 [ %one, %common ], [ 0, %own ], [ %two, %range ]
  %before = atomicrmw umax ptr %failed_at, i32 %failed monotonic
  ret void
}}
"""


def _work(plan: KernelPlan) -> Size:
    """Instructions on elements in all."""
    inner: Size = 0
    if plan.kernel.attends:
        keys, depth, width = (axis.extent for axis in plan.kernel.stages[0].axes)
        return (
            product([axis.extent for axis in plan.kernel.axes])
            * keys
            * (depth + width + sum(plan.costs))
        )
    for stage, cost in zip(plan.kernel.stages, plan.costs, strict=True):
        inner = inner + product([_extent(axis.extent) for axis in stage.axes]) * cost
    return product([axis.extent for axis in plan.kernel.axes]) * inner


def _points(plan: KernelPlan) -> Size:
    """What threads share out; a vector of columns is one."""
    if plan.column is None:
        return product([axis.extent for axis in plan.kernel.axes])
    unit = plan.lanes * max(plan.unroll)
    strips = floordiv(plan.column.extent + (unit - 1), unit)
    return product([axis.extent for axis in plan.kernel.axes[:-1]]) * strips


def _extent(extent: Size) -> Size:
    sizes = all(symbol.name.startswith("n") for symbol in symbols_of(extent))
    return extent if sizes else _UNKNOWN_EXTENT
