"""How the host starts a kernel: which of its functions, in how many threads and blocks.

Of each kernel there is a function that looks as one of a CPU's kernels does:

    define i32 @name(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch)

It gives 0, or which of `failures` it was. `%scratch` is not null if what runs before is a kernel of
ours, too. What it needs to know of this process is in a table of
words (`@anyshape_gpu`): `TABLE`, then of all functions of all kernels in order the handle, and how
many of its blocks the GPU has room for (0 where blocks share nothing). Handles are 0 until the
function is needed: others need not be ready yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

from anyshape.codegen.host.sizes import Sizes
from anyshape.codegen.ir_builder import FunctionBody
from anyshape.codegen.nvptx.kernel import OWN
from anyshape.codegen.nvptx.module import Counts, LaunchRule
from anyshape.codegen.nvptx.narrow_integers import COORDINATES
from anyshape.codegen.nvptx.tiles import THREADS
from anyshape.symbolic import Size, Symbol, ceildiv
from anyshape.symbolic.expr import symbols_of

#: What the first words of the table are: bytes of shared memory that a block may have, the error of
#: CUDA that came last, where checks leave their numbers, the function that is called with the
#: place of a handle to put it there, and gives 0 if there is none, the one for branches, what
#: there is for products (`products.py`), or 0, cuLaunchKernelEx if kernels may be started early, or
#: 0, and `%scratch` of the launch at hand.
TABLE: Final = ("shared", "error", "checks", "load", "branch", "products", "early", "follows")
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
    follows = lines.element(f"@{TABLE_NAME}", TABLE.index("follows"))
    lines.do(f"store ptr %scratch, ptr {follows}")
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
