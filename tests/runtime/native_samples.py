"""Segments with kernels written by hand, as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anyshape.backends.native.build import native_function
from anyshape.codegen.target import Target, Texts
from anyshape.loops.expr import constant
from anyshape.loops.kernels import Check, Kernel, Stage
from anyshape.loops.program import Buffer, Extern, Launch, Segment, Step
from anyshape.symbolic import Size, as_symbol, product, symbol

S0, S1, S2 = (symbol(f"s{k}") for k in range(3))

#: `k2[i] = k0[i] + k1[i]` for i < n0
ADD = """
define i32 @NAME(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch) {
entry:
  %n = load i64, ptr %sizes
  %a = load ptr, ptr %buffers
  %b.at = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %b.at
  %c.at = getelementptr ptr, ptr %buffers, i64 2
  %c = load ptr, ptr %c.at
  br label %test
test:
  %i = phi i64 [0, %entry], [%j, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %pa = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %pa
  %pb = getelementptr float, ptr %b, i64 %i
  %y = load float, ptr %pb
  %z = fadd float %x, %y
  %pc = getelementptr float, ptr %c, i64 %i
  store float %z, ptr %pc
  %j = add i64 %i, 1
  br label %test
done:
  ret i32 0
}
"""

#: `k1[i] = k0[i * n1] * first number` for i < n0
SCALE = """
define i32 @NAME(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch) {
entry:
  %n = load i64, ptr %sizes
  %stride.at = getelementptr i64, ptr %sizes, i64 1
  %stride = load i64, ptr %stride.at
  %a = load ptr, ptr %buffers
  %c.at = getelementptr ptr, ptr %buffers, i64 1
  %c = load ptr, ptr %c.at
  %number = load double, ptr %numbers
  %factor = fptrunc double %number to float
  br label %test
test:
  %i = phi i64 [0, %entry], [%j, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %from = mul i64 %i, %stride
  %pa = getelementptr float, ptr %a, i64 %from
  %x = load float, ptr %pa
  %z = fmul float %x, %factor
  %pc = getelementptr float, ptr %c, i64 %i
  store float %z, ptr %pc
  %j = add i64 %i, 1
  br label %test
done:
  ret i32 0
}
"""

#: Fails with check 1 + n0.
FAIL = """
define i32 @NAME(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch) {
  %n = load i64, ptr %sizes
  %code = trunc i64 %n to i32
  ret i32 %code
}
"""

#: Each thread writes its number at its place in the memory of its own, then to k0.
THREADS = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
define internal void @NAME.body(ptr %data) {
  %out = load ptr, ptr %data
  %scratch.at = getelementptr ptr, ptr %data, i64 1
  %scratch = load ptr, ptr %scratch.at
  %k = call i32 @omp_get_thread_num()
  %k64 = sext i32 %k to i64
  %from = mul i64 %k64, 128
  %mine = getelementptr i8, ptr %scratch, i64 %from
  %last = getelementptr i8, ptr %mine, i64 120
  store i64 %k64, ptr %last
  %x = load i64, ptr %last
  %place = getelementptr i64, ptr %out, i64 %k64
  %more = add i64 %x, 1
  store i64 %more, ptr %place
  ret void
}
define i32 @NAME(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch) {
  %data = alloca [2 x ptr]
  %out = load ptr, ptr %buffers
  store ptr %out, ptr %data
  %scratch.at = getelementptr ptr, ptr %data, i64 1
  store ptr %scratch, ptr %scratch.at
  call void @GOMP_parallel(ptr @NAME.body, ptr %data, i32 0, i32 0)
  ret i32 0
}
"""


def kernel_of(text: str, *messages: str) -> Kernel:
    """A kernel that stands for this text; only its checks matter here."""
    true = constant(True, "b1")
    stage = Stage((), checks=tuple(Check(true, message) for message in messages))
    kernel = Kernel((), (stage,), {}, {})
    _TEXTS[kernel] = text
    return kernel


_TEXTS: dict[Kernel, str] = {}


def text_of(kernel: Kernel, name: str, target: Target) -> str:
    return _TEXTS[kernel].replace("NAME", name)


def buffer(name: str, role: Any, *sizes: Size, dtype: Any = "f32") -> Buffer:
    """A contiguous one."""
    strides = tuple(product(sizes[k + 1 :]) for k in range(len(sizes)))
    return Buffer(name, dtype, sizes, strides, role)


def segment(
    buffers: Sequence[Buffer],
    steps: Sequence[Step],
    symbols: tuple[Size, ...] = (S0,),
    numbers: tuple[str, ...] = (),
) -> Segment:
    roles: dict[str, list[Buffer]] = {"input": [], "temporary": [], "output": []}
    for item in buffers:
        roles[item.role].append(item)
    return Segment(
        tuple(roles["input"]),
        tuple(map(as_symbol, symbols)),
        numbers,
        tuple(roles["temporary"]),
        tuple(roles["output"]),
        tuple(steps),
    )


def texts_of(kernels: Mapping[str, Kernel], target: Target) -> Texts:
    return Texts("\n".join(text_of(kernel, name, target) for name, kernel in kernels.items()))


def function(made: Segment, scratch: Size = 0, **more: Any) -> Callable[..., Any]:
    return native_function(made, texts_of, lambda kernel: scratch, **more)


def added() -> Segment:
    """(a, b, s0) -> a + b"""
    buffers = [buffer("b0", "input", S0), buffer("b1", "input", S0), buffer("b2", "output", S0)]
    return segment(buffers, [Launch(kernel_of(ADD), ("b0", "b1", "b2"), (S0,), ())])


def called(name: str, *arguments: Any) -> Extern:
    return Extern(name, arguments)
