"""Blocks of a grid that share one point of the parallel axes.

They are all on the GPU at the same time: the launch is a cooperative one. What they have to tell
each other is in the device's memory: for each group of blocks a counter, which is 0 at the start,
then what each block has folded, twice: while some still read what was told last, others may tell
what is next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anyshape.codegen.llvm.emitter import Emitter, States

#: Bytes of a group's counter: a line of memory.
COUNTER: Final = 64
#: Whether blocks share points at all.
HAS_PARTS: Final = "%has.parts"

_SIZES: Final = {"float": 4, "double": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1}

DECLARATIONS: Final = "declare void @llvm.nvvm.membar.gl()\n"


def size_of(type_: str) -> int:
    """Bytes of a state, of which a vector's is `<4 x float>`."""
    if not type_.startswith("<"):
        return _SIZES[type_]
    lanes, _, element = type_[1:-1].partition(" x ")
    return int(lanes) * _SIZES[element]


def bytes_of(types: list[str]) -> int:
    """Of states one behind the other, each at a multiple of 8."""
    return sum(-(-size_of(type_) // 8) * 8 for type_ in types)


def write_group_places(e: Emitter, part: str) -> None:
    """`%part` of `%parts` of group `%group` is this block; `part`: the bytes of what it tells."""
    e.do("%parts = trunc i64 %own.3 to i32")
    e.do("%parts.64 = add i64 %own.3, 0")
    e.do("%has.parts = icmp ugt i32 %parts, 1")
    e.do("%group = udiv i32 %ctaid, %parts")
    e.do(f"%part = sub i32 %ctaid, {e.let('mul i32 %group, %parts')}")
    e.do("%groups = udiv i32 %nctaid, %parts")
    for name in ("part", "group", "groups"):
        e.do(f"%{name}.64 = zext i32 %{name} to i64")
    e.do(f"%part.bytes = add i64 0, {part}")
    e.do(f"%counter = getelementptr i8, ptr %own.4, i64 {e.let(f'mul i64 %group.64, {COUNTER}')}")
    counters = e.let(f"mul i64 %groups.64, {COUNTER}")
    of_group = e.let("mul i64 %parts.64, %part.bytes")
    e.do(f"%phase.bytes = add i64 {of_group}, 0")
    before = e.let(f"mul i64 %group.64, {e.let(f'shl i64 {of_group}, 1')}")
    e.do(f"%partials = getelementptr i8, ptr %own.4, i64 {e.let(f'add i64 {counters}, {before}')}")
    phases = e.slot("i32")
    e.at_start(f"store i32 0, ptr {phases}, align 4")
    e.do(f"%phases = getelementptr i8, ptr {phases}, i64 0")


def block_barrier(e: Emitter) -> None:
    e.do("call void @llvm.nvvm.barrier0()")


def group_barrier(e: Emitter) -> None:
    """All threads of all blocks of the group."""
    e.run_if(HAS_PARTS, lambda: _meet(e))
    alone = e.let(f"xor i1 {HAS_PARTS}, true")
    e.run_if(alone, lambda: block_barrier(e))


def exchange(
    e: Emitter, types: list[str], states: States, writes: str, offset: str = "0"
) -> Callable[[str], States]:
    """Show the group what this block has, by the threads for which `writes` holds, and wait for the
    others. Gives what reads that of a block by its number."""
    phase = e.let("load i32, ptr %phases, align 4")
    odd = e.let(f"zext i32 {e.let(f'and i32 {phase}, 1')} to i64")
    now = e.let(f"getelementptr i8, ptr %partials, i64 {e.let(f'mul i64 {odd}, %phase.bytes')}")

    def places(part: str) -> list[str]:
        at = e.let(f"add i64 {e.let(f'mul i64 {part}, %part.bytes')}, {offset}")
        found: list[str] = []
        for number in range(len(types)):
            more = e.let(f"add i64 {at}, {bytes_of(types[:number])}")
            found.append(e.let(f"getelementptr i8, ptr {now}, i64 {more}"))
        return found

    def put() -> None:
        for type_, text, place in zip(types, states, places("%part.64"), strict=True):
            e.do(f"store {type_} {text}, ptr {place}, align 8")

    def read(part: str) -> States:
        return [
            e.let(f"load {type_}, ptr {place}, align 8")
            for type_, place in zip(types, places(part), strict=True)
        ]

    e.run_if(writes, put)
    _meet(e)
    return read


def _meet(e: Emitter) -> None:
    """What was written before by any thread of the group is seen by all of them behind it."""
    phase = e.let(f"add i32 {e.let('load i32, ptr %phases, align 4')}, 1")
    e.do(f"store i32 {phase}, ptr %phases, align 4")
    all_here = e.let(f"mul i32 {phase}, %parts")
    thread = e.let("or i32 %tid, %tid.y")
    is_first = e.let(f"icmp eq i32 {thread}, 0")
    block_barrier(e)
    e.run_if(is_first, lambda: _wait(e, all_here))
    block_barrier(e)


def _wait(e: Emitter, arrivals: str) -> None:
    e.do("call void @llvm.nvvm.membar.gl()")
    e.do("atomicrmw add ptr %counter, i32 1 monotonic")
    again, done = e.new("L"), e.new("L")
    e.branch(f"br label {again}")
    e.block(again)
    e.enter()
    seen = e.let("load volatile i32, ptr %counter, align 4")
    e.do('call void asm sideeffect "nanosleep.u32 40;", ""()')
    missing = e.let(f"icmp ult i32 {seen}, {arrivals}")
    e.leave()
    e.branch(f"br i1 {missing}, label {again}, label {done}")
    e.block(done)
    e.do("call void @llvm.nvvm.membar.gl()")
