"""Text of LLVM IR: types, constants, and functions line by line."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from anyshape.loops.expr import FLOAT8, FLOATS, HALVES, WIDTH

#: How a dtype looks in registers. f16 and bf16 are computed in f32.
REGISTER: Final[dict[str, str]] = {
    **{name: name for name in ("i8", "i16", "i32", "i64")},
    "f32": "float",
    "f64": "double",
    "f16": "float",
    "bf16": "float",
    "u8": "i8",
    "b1": "i1",
    **dict.fromkeys(FLOAT8, "i8"),
}
UNSIGNED: Final = frozenset({"u8", "b1"})
MEMORY: Final[dict[str, str]] = {**REGISTER, "f16": "half", "bf16": "i16", "b1": "i8"}
#: what intrinsics call a type
_SUFFIX: Final = {"float": "f32", "double": "f64", "half": "f16"}


def register_bits(dtype: str) -> int:
    return 1 if dtype == "b1" else 32 if dtype in HALVES else 8 * WIDTH[dtype]


def vector(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>" if lanes else element


def suffix(element: str, lanes: int) -> str:
    """The type in an intrinsic's name: `v16f32`, or `f32` for no lanes."""
    name = _SUFFIX.get(element, element)
    return f"v{lanes}{name}" if lanes else name


def literal(value: float | int | bool, dtype: str) -> str:
    """A constant of that dtype in registers."""
    if dtype == "b1":
        return "true" if value else "false"
    if dtype in FLOATS:
        return float_literal(round_to(float(value), dtype))
    return str(int(value))


def constant(value: float | int | bool, dtype: str, lanes: int) -> str:
    """The same in all lanes."""
    text = literal(value, dtype)
    return f"splat ({REGISTER[dtype]} {text})" if lanes else text


def float_literal(value: float) -> str:
    """LLVM writes the bits of the double that equals the constant, whatever its type."""
    if math.isnan(value):
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def round_to(value: float, dtype: str) -> float:
    """The nearest value of a float dtype, ties to even."""
    if dtype == "f64" or not math.isfinite(value):
        return value
    try:
        rounded = struct.pack("<e" if dtype == "f16" else "<f", value)
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype == "bf16":
        bits = struct.unpack("<I", rounded)[0]
        rounded = struct.pack("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000)
    return struct.unpack("<e" if dtype == "f16" else "<f", rounded)[0]


class FunctionBody:
    """The lines of one function, and names for its values. What is put at the start comes before
    all else: memory on the stack."""

    #: between the hint of a name and its number
    separator = "."

    def __init__(self) -> None:
        self._first: list[str] = []
        #: text, or lists of more of it
        self.blocks: list[Any] = []
        #: where lines go now
        self._lines = self.blocks
        self._count = 0

    def new(self, hint: str = "v") -> str:
        self._count += 1
        return f"%{hint}{self.separator}{self._count}"

    def let(self, text: str, hint: str = "v") -> str:
        """A value by the name that is returned."""
        name = self.new(hint)
        self._lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin a block: `name` is that of the value, `%done.3`."""
        self._lines.append(f"{name[1:]}:")

    def stack(self, type_: str, align: int = 8, hint: str = "m") -> str:
        return self.let_at_start(f"alloca {type_}, align {align}", hint)

    def at_start(self, text: str) -> None:
        self._first.append(f"  {text}")

    def let_at_start(self, text: str, hint: str = "v") -> str:
        """A value that all of the function knows."""
        name = self.new(hint)
        self._first.append(f"  {name} = {text}")
        return name

    def element_at_start(self, array: str, position: int | str, type_: str = "i64") -> str:
        """The address of an element, known from the start."""
        return self.let_at_start(f"getelementptr {type_}, ptr {array}, i64 {position}", "p")

    def element(self, array: str, position: int, type_: str = "i64") -> str:
        """The address of an element."""
        if position == 0:
            return array
        return self.let(f"getelementptr {type_}, ptr {array}, i64 {position}", "p")

    def array(self, type_: str, values: Sequence[str], hint: str = "m") -> str:
        """An array of these values on the stack."""
        array = self.stack(f"[{max(len(values), 1)} x {type_}]", hint=hint)
        self.fill(array, values, type_)
        return array

    def fill(self, array: str, values: Sequence[str], type_: str) -> None:
        for position, value in enumerate(values):
            self.do(f"store {type_} {value}, ptr {self.element(array, position, type_)}")

    @contextmanager
    def only_if(self, condition: str, hint: str = "stop") -> Iterator[str]:
        """A block for where the condition holds, which ends by going elsewhere; where it does not,
        the function goes on behind it, at the label that is given."""
        inside, on = self.new(hint), self.new("on")
        self.do(f"br i1 {condition}, label {inside}, label {on}")
        self.label(inside)
        yield on
        self.label(on)

    def counting(self, count: int, hint: str) -> tuple[str, str, str, str]:
        """The head of a loop: (the number of the round, where it is kept, the labels to go on at
        with the next round and after the last). The body follows."""
        counter = self.stack("i64", hint=hint)
        head, body, done = self.new("head"), self.new("body"), self.new("done")
        self.do(f"store i64 0, ptr {counter}")
        self.do(f"br label {head}")
        self.label(head)
        at = self.let(f"load i64, ptr {counter}")
        more = self.let(f"icmp slt i64 {at}, {count}")
        self.do(f"br i1 {more}, label {body}, label {done}")
        self.label(body)
        return at, counter, head, done

    def text(self) -> str:
        return "\n".join([*self._first, *_flat(self.blocks)])


def _flat(lines: list[Any]) -> Iterator[str]:
    for item in lines:
        if isinstance(item, str):
            yield item
        else:
            yield from _flat(item)


_DECLARED: Final = re.compile(r"^declare .*?@([-\w.$]+)\(")
_DEFINED: Final = re.compile(r"^define .*?@([-\w.$]+)\(")


def join_module(texts: Iterable[str]) -> str:
    """The texts one after the other. A function may be declared in several of them, or declared in
    one and defined in another; LLVM wants to be told once."""
    lines = [line for text in texts for line in text.splitlines()]
    told = {match[1] for line in lines if (match := _DEFINED.match(line))}
    kept: list[str] = []
    for line in lines:
        declared = _DECLARED.match(line)
        if declared is not None:
            if declared[1] in told:
                continue
            told.add(declared[1])
        kept.append(line)
    return "\n".join(kept) + "\n"
