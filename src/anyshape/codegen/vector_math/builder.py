"""Write the body of a function over vectors as if it were mathematics.

    def hypotenuse(x: VectorValue, y: VectorValue) -> VectorValue:
        return sqrt(fma(x, x, y * y))

Each operation on a `VectorValue` appends one instruction to the `Body` that made the value. An
operation asked for twice is emitted once, so helpers may recompute what they need. Numbers become
constants of the kind of the other operand.
"""

from __future__ import annotations

import struct

from anyshape.support.lazy_dataclass import dataclass, field

ELEMENT = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "b1": "i1"}
SUFFIX = {"f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64", "b1": "i1"}
BITS_OF = {"f32": "i32", "f64": "i64"}


@dataclass(frozen=True)
class Format:
    """The layout of a binary floating-point kind."""

    mantissa: int  # stored bits
    bias: int
    bits: str  # the kind of integer of the same width

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {"f32": Format(23, 127, "i32"), "f64": Format(52, 1023, "i64")}


def as_f32(number: float) -> float:
    """`number` rounded to float32 (to nearest even)."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def bits_of(kind: str, number: float) -> int:
    """The bit pattern of a constant, as a signed integer of the same width."""
    layout = ("<f", "<i") if kind == "f32" else ("<d", "<q")
    return struct.unpack(layout[1], struct.pack(layout[0], number))[0]


def literal(kind: str, number: float) -> str:
    """One element of a constant. LLVM writes a float by the bits of the equal double."""
    if kind == "b1":
        return "true" if number else "false"
    if kind.startswith("i"):
        return str(int(number))
    exact = as_f32(number) if kind == "f32" else float(number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"


def vector_type(kind: str, lanes: int) -> str:
    return ELEMENT[kind] if lanes == 1 else f"<{lanes} x {ELEMENT[kind]}>"


def mangled(kind: str, lanes: int) -> str:
    """The suffix LLVM gives to an intrinsic over this type."""
    return SUFFIX[kind] if lanes == 1 else f"v{lanes}{SUFFIX[kind]}"


def function_name(name: str, kind: str, lanes: int) -> str:
    return f"@as.{name}.{kind}.v{lanes}"


@dataclass(frozen=True, slots=True, eq=False)
class VectorValue:
    """A vector in a register, or a constant. Comparisons give lanes of `b1`, false for NaN."""

    body: Body
    kind: str
    text: str

    def __add__(self, other: Operand) -> VectorValue:
        return self.body.binary("add", self, other)

    def __radd__(self, other: Operand) -> VectorValue:
        return self.body.binary("add", self.body.value(other, self.kind), self)

    def __sub__(self, other: Operand) -> VectorValue:
        return self.body.binary("sub", self, other)

    def __rsub__(self, other: Operand) -> VectorValue:
        return self.body.binary("sub", self.body.value(other, self.kind), self)

    def __mul__(self, other: Operand) -> VectorValue:
        return self.body.binary("mul", self, other)

    def __rmul__(self, other: Operand) -> VectorValue:
        return self.body.binary("mul", self.body.value(other, self.kind), self)

    def __truediv__(self, other: Operand) -> VectorValue:
        return self.body.binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> VectorValue:
        return self.body.binary("div", self.body.value(other, self.kind), self)

    def __neg__(self) -> VectorValue:
        return self.body.line(self.kind, f"fneg {self.body.typed(self)}")

    def __and__(self, other: Operand) -> VectorValue:
        return self.body.binary("and", self, other)

    def __or__(self, other: Operand) -> VectorValue:
        return self.body.binary("or", self, other)

    def __xor__(self, other: Operand) -> VectorValue:
        return self.body.binary("xor", self, other)

    def __lshift__(self, other: Operand) -> VectorValue:
        return self.body.binary("shl", self, other)

    def __rshift__(self, other: Operand) -> VectorValue:
        """An arithmetic shift: the sign is kept."""
        return self.body.binary("ashr", self, other)

    def __invert__(self) -> VectorValue:
        return self.body.binary("xor", self, -1 if self.kind != "b1" else 1)

    def __lt__(self, other: Operand) -> VectorValue:
        return self.body.compare("olt", "slt", self, other)

    def __le__(self, other: Operand) -> VectorValue:
        return self.body.compare("ole", "sle", self, other)

    def __gt__(self, other: Operand) -> VectorValue:
        return self.body.compare("ogt", "sgt", self, other)

    def __ge__(self, other: Operand) -> VectorValue:
        return self.body.compare("oge", "sge", self, other)

    def equals(self, other: Operand) -> VectorValue:
        return self.body.compare("oeq", "eq", self, other)

    def differs(self, other: Operand) -> VectorValue:
        """True also where either side is NaN."""
        return self.body.compare("une", "ne", self, other)


Operand = VectorValue | float | int

FLOAT_OPCODE = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


@dataclass
class Body:
    """The instructions of one function, and the functions and intrinsics they call."""

    lanes: int
    lines: list[str] = field(default_factory=list)
    declares: set[str] = field(default_factory=set)
    calls: set[tuple[str, str, int]] = field(default_factory=set)
    emitted: dict[str, VectorValue] = field(default_factory=dict)
    block: str = "entry"
    count: int = 0

    def type(self, kind: str) -> str:
        return vector_type(kind, self.lanes)

    def typed(self, value: VectorValue) -> str:
        return f"{self.type(value.kind)} {value.text}"

    def number(self, kind: str, number: float) -> VectorValue:
        one = literal(kind, number)
        return VectorValue(self, kind, one if self.lanes == 1 else f"splat ({ELEMENT[kind]} {one})")

    def value(self, operand: Operand, kind: str) -> VectorValue:
        return operand if isinstance(operand, VectorValue) else self.number(kind, operand)

    def line(self, kind: str, instruction: str) -> VectorValue:
        """The result of an instruction without side effects."""
        known = self.emitted.get(instruction)
        if known is None:
            self.count += 1
            known = self.emitted[instruction] = VectorValue(self, kind, f"%v{self.count}")
            self.lines.append(f"  {known.text} = {instruction}")
        return known

    def binary(self, opcode: str, left: VectorValue, right: Operand) -> VectorValue:
        right = self.value(right, left.kind)
        assert left.kind == right.kind, f"{opcode} of {left.kind} and {right.kind}"
        if left.kind.startswith("f"):
            opcode = FLOAT_OPCODE[opcode]
        return self.line(left.kind, f"{opcode} {self.typed(left)}, {right.text}")

    def compare(
        self, of_floats: str, of_integers: str, left: VectorValue, right: Operand
    ) -> VectorValue:
        right = self.value(right, left.kind)
        assert left.kind == right.kind, f"comparison of {left.kind} and {right.kind}"
        how = f"fcmp {of_floats}" if left.kind.startswith("f") else f"icmp {of_integers}"
        return self.line("b1", f"{how} {self.typed(left)}, {right.text}")

    def intrinsic(self, name: str, *operands: VectorValue) -> VectorValue:
        kind = operands[0].kind
        full = f"@llvm.{name}.{mangled(kind, self.lanes)}"
        types = ", ".join(self.type(operand.kind) for operand in operands)
        self.declares.add(f"declare {self.type(kind)} {full}({types})")
        arguments = ", ".join(self.typed(operand) for operand in operands)
        return self.line(kind, f"call {self.type(kind)} {full}({arguments})")

    def convert(self, opcode: str, value: VectorValue, kind: str) -> VectorValue:
        if value.kind == kind:
            return value
        return self.line(kind, f"{opcode} {self.typed(value)} to {self.type(kind)}")

    def call(self, name: str, *operands: VectorValue) -> VectorValue:
        """Call another function of vector math."""
        kind = operands[0].kind
        self.calls.add((name, kind, self.lanes))
        arguments = ", ".join(self.typed(operand) for operand in operands)
        callee = function_name(name, kind, self.lanes)
        return self.line(kind, f"call {self.type(kind)} {callee}({arguments})")

    def any_lane(self, condition: VectorValue) -> VectorValue:
        """One `i1`: whether the condition holds in some lane."""
        if self.lanes == 1:
            return condition
        name = f"@llvm.vector.reduce.or.{mangled('b1', self.lanes)}"
        self.declares.add(f"declare i1 {name}({self.type('b1')})")
        return self.line("b1", f"call i1 {name}({self.typed(condition)})")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name


def body_of(*operands: Operand) -> Body:
    return next(operand.body for operand in operands if isinstance(operand, VectorValue))


def kind_of(*operands: Operand) -> str:
    return next(operand.kind for operand in operands if isinstance(operand, VectorValue))
