"""Write the body of a function over vectors as if it were mathematics.

    def hypotenuse(x: Value, y: Value) -> Value:
        return sqrt(fma(x, x, y * y))

Each operation on a `Value` appends one instruction to the `Body` that made the value. An operation
asked for twice is emitted once, so helpers may recompute what they need. Numbers become constants
of the kind of the other operand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
class Value:
    """A vector in a register, or a constant. Comparisons give lanes of `b1`, false for NaN."""

    body: Body
    kind: str
    text: str

    def __add__(self, other: Operand) -> Value:
        return self.body.binary("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.body.binary("add", self.body.value(other, self.kind), self)

    def __sub__(self, other: Operand) -> Value:
        return self.body.binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.body.binary("sub", self.body.value(other, self.kind), self)

    def __mul__(self, other: Operand) -> Value:
        return self.body.binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.body.binary("mul", self.body.value(other, self.kind), self)

    def __truediv__(self, other: Operand) -> Value:
        return self.body.binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.body.binary("div", self.body.value(other, self.kind), self)

    def __neg__(self) -> Value:
        return self.body.line(self.kind, f"fneg {self.body.typed(self)}")

    def __and__(self, other: Operand) -> Value:
        return self.body.binary("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return self.body.binary("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.body.binary("xor", self, other)

    def __lshift__(self, other: Operand) -> Value:
        return self.body.binary("shl", self, other)

    def __rshift__(self, other: Operand) -> Value:
        """An arithmetic shift: the sign is kept."""
        return self.body.binary("ashr", self, other)

    def __invert__(self) -> Value:
        return self.body.binary("xor", self, -1 if self.kind != "b1" else 1)

    def __lt__(self, other: Operand) -> Value:
        return self.body.compare("olt", "slt", self, other)

    def __le__(self, other: Operand) -> Value:
        return self.body.compare("ole", "sle", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self.body.compare("ogt", "sgt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self.body.compare("oge", "sge", self, other)

    def equals(self, other: Operand) -> Value:
        return self.body.compare("oeq", "eq", self, other)

    def differs(self, other: Operand) -> Value:
        """True also where either side is NaN."""
        return self.body.compare("une", "ne", self, other)


Operand = Value | float | int

FLOAT_OPCODE = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


@dataclass
class Body:
    """The instructions of one function, and the functions and intrinsics they call."""

    lanes: int
    lines: list[str] = field(default_factory=list)
    declares: set[str] = field(default_factory=set)
    calls: set[tuple[str, str, int]] = field(default_factory=set)
    emitted: dict[str, Value] = field(default_factory=dict)
    block: str = "entry"
    count: int = 0

    def type(self, kind: str) -> str:
        return vector_type(kind, self.lanes)

    def typed(self, value: Value) -> str:
        return f"{self.type(value.kind)} {value.text}"

    def number(self, kind: str, number: float) -> Value:
        one = literal(kind, number)
        return Value(self, kind, one if self.lanes == 1 else f"splat ({ELEMENT[kind]} {one})")

    def value(self, operand: Operand, kind: str) -> Value:
        return operand if isinstance(operand, Value) else self.number(kind, operand)

    def line(self, kind: str, instruction: str) -> Value:
        """The result of an instruction without side effects."""
        known = self.emitted.get(instruction)
        if known is None:
            self.count += 1
            known = self.emitted[instruction] = Value(self, kind, f"%v{self.count}")
            self.lines.append(f"  {known.text} = {instruction}")
        return known

    def binary(self, opcode: str, left: Value, right: Operand) -> Value:
        right = self.value(right, left.kind)
        assert left.kind == right.kind, f"{opcode} of {left.kind} and {right.kind}"
        if left.kind.startswith("f"):
            opcode = FLOAT_OPCODE[opcode]
        return self.line(left.kind, f"{opcode} {self.typed(left)}, {right.text}")

    def compare(self, of_floats: str, of_integers: str, left: Value, right: Operand) -> Value:
        right = self.value(right, left.kind)
        assert left.kind == right.kind, f"comparison of {left.kind} and {right.kind}"
        how = f"fcmp {of_floats}" if left.kind.startswith("f") else f"icmp {of_integers}"
        return self.line("b1", f"{how} {self.typed(left)}, {right.text}")

    def intrinsic(self, name: str, *operands: Value) -> Value:
        kind = operands[0].kind
        full = f"@llvm.{name}.{mangled(kind, self.lanes)}"
        types = ", ".join(self.type(operand.kind) for operand in operands)
        self.declares.add(f"declare {self.type(kind)} {full}({types})")
        arguments = ", ".join(self.typed(operand) for operand in operands)
        return self.line(kind, f"call {self.type(kind)} {full}({arguments})")

    def convert(self, opcode: str, value: Value, kind: str) -> Value:
        if value.kind == kind:
            return value
        return self.line(kind, f"{opcode} {self.typed(value)} to {self.type(kind)}")

    def call(self, name: str, *operands: Value) -> Value:
        """Call another function of vector math."""
        kind = operands[0].kind
        self.calls.add((name, kind, self.lanes))
        arguments = ", ".join(self.typed(operand) for operand in operands)
        callee = function_name(name, kind, self.lanes)
        return self.line(kind, f"call {self.type(kind)} {callee}({arguments})")

    def any_lane(self, condition: Value) -> Value:
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
    return next(operand.body for operand in operands if isinstance(operand, Value))


def kind_of(*operands: Operand) -> str:
    return next(operand.kind for operand in operands if isinstance(operand, Value))


def _intrinsic(name: str, *operands: Operand) -> Value:
    body, kind = body_of(*operands), kind_of(*operands)
    return body.intrinsic(name, *(body.value(operand, kind) for operand in operands))


def fma(a: Operand, b: Operand, c: Operand) -> Value:
    """`a * b + c`, rounded once."""
    return _intrinsic("fma", a, b, c)


def sqrt(x: Value) -> Value:
    return _intrinsic("sqrt", x)


def absolute(x: Value) -> Value:
    return _intrinsic("fabs", x)


def floor(x: Value) -> Value:
    return _intrinsic("floor", x)


def truncate(x: Value) -> Value:
    return _intrinsic("trunc", x)


def round_even(x: Value) -> Value:
    return _intrinsic("roundeven", x)


def copysign(magnitude: Operand, sign: Operand) -> Value:
    return _intrinsic("copysign", magnitude, sign)


def select(condition: Value, yes: Operand, no: Operand) -> Value:
    body, kind = condition.body, kind_of(yes, no)
    yes, no = body.value(yes, kind), body.value(no, kind)
    assert yes.kind == no.kind, f"select of {yes.kind} and {no.kind}"
    choice = f"select {body.typed(condition)}, {body.typed(yes)}, {body.typed(no)}"
    return body.line(yes.kind, choice)


def at_most(x: Value, bound: float) -> Value:
    """`min(x, bound)`; NaN stays NaN."""
    return select(x > bound, bound, x)


def at_least(x: Value, bound: float) -> Value:
    """`max(x, bound)`; NaN stays NaN."""
    return select(x < bound, bound, x)


def is_nan(x: Value) -> Value:
    return x.differs(x)


def bits(x: Value) -> Value:
    """The bit pattern of a float."""
    return x.body.convert("bitcast", x, BITS_OF[x.kind])


def from_bits(pattern: Value) -> Value:
    """The float of a bit pattern."""
    return pattern.body.convert("bitcast", pattern, {"i32": "f32", "i64": "f64"}[pattern.kind])


def sign_bit(x: Value) -> Value:
    """The bit pattern of `x` with all but the sign cleared."""
    return bits(x) & bits_of(x.kind, -0.0)


def flip_sign(x: Value, sign: Value) -> Value:
    """`x`, negated where the top bit of the pattern `sign` (no other is set) is set."""
    return from_bits(bits(x) ^ sign)


def to_float(integer: Value) -> Value:
    kind = {"i32": "f32", "i64": "f64"}[integer.kind]
    return integer.body.convert("sitofp", integer, kind)


def widen(x: Value) -> Value:
    """float32 as float64, exactly."""
    return x.body.convert("fpext", x, "f64")


def narrow(x: Value) -> Value:
    return x.body.convert("fptrunc", x, "f32")


def narrow_integer(integer: Value) -> Value:
    """The low half of an i64."""
    return integer.body.convert("trunc", integer, "i32")


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """By Horner's rule; the constant term comes first."""
    *lower, last = coefficients
    total = x.body.number(x.kind, last)
    for coefficient in reversed(lower):
        total = fma(total, x, coefficient)
    return total


def power_of_two(exponent: Value) -> Value:
    """`2 ** exponent` of an integer between those of the smallest and the largest normal float."""
    layout = FORMATS["f32" if exponent.kind == "i32" else "f64"]
    return from_bits((exponent + layout.bias) << layout.mantissa)


def nearest_integer(x: Value, scale: float) -> tuple[Value, Value]:
    """`round(x * scale)` as a float and as an integer, for results below 2**22 (2**51).

    Adding 1.5 * 2**mantissa leaves the integer in the low bits of the sum: two instructions,
    where a rounding and a conversion would cost more on every machine.
    """
    magic = 1.5 * 2.0 ** FORMATS[x.kind].mantissa
    sum_ = fma(x, scale, magic)
    return sum_ - magic, bits(sum_) - bits_of(x.kind, magic)


def two_sum(a: Value, b: Operand) -> tuple[Value, Value]:
    """`a + b` and its rounding error, for any a and b."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def fast_two_sum(a: Value | float, b: Value) -> tuple[Value, Value]:
    """`a + b` and its rounding error, for |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Operand) -> tuple[Value, Value]:
    """`a * b` and its rounding error."""
    product = a * b
    return product, fma(a, b, -product)


def rarely(condition: Value, usual: Value, rare: Callable[[], Value]) -> Value:
    """`select(condition, rare(), usual)`, where `rare` costs nothing if no lane needs it."""
    body = usual.body
    body.count += 1
    here, there, after = body.block, f"rare{body.count}", f"join{body.count}"
    body.lines.append(f"  br i1 {body.any_lane(condition).text}, label %{there}, label %{after}")
    outside = dict(body.emitted)
    body.label(there)
    mended = select(condition, rare(), usual)
    last = body.block
    body.lines.append(f"  br label %{after}")
    body.emitted = outside  # What the rare block computed is not defined after it.
    body.label(after)
    joined = f"phi {body.type(usual.kind)} [ {usual.text}, %{here} ], [ {mended.text}, %{last} ]"
    return body.line(usual.kind, joined)
