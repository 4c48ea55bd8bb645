"""Write the body of a function over vectors as if it were mathematics.

    def hypotenuse(x: VectorValue, y: VectorValue) -> VectorValue:
        return sqrt(fma(x, x, y * y))

Each operation on a `VectorValue` appends one instruction to the `Body` that made the value. An
operation asked for twice is emitted once, so helpers may recompute what they need. Numbers become
constants of the kind of the other operand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from anyshape.codegen.ir_builder import REGISTER, FunctionBody, constant, suffix, vector
from anyshape.support.lazy_dataclass import dataclass

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


def bits_of(kind: str, number: float) -> int:
    """The bit pattern of a constant, as a signed integer of the same width."""
    layout = ("<f", "<i") if kind == "f32" else ("<d", "<q")
    return struct.unpack(layout[1], struct.pack(layout[0], number))[0]


def function_name(name: str, kind: str, lanes: int) -> str:
    return f"@as.{name}.{kind}.v{lanes}"


Infix = Callable[["VectorValue", "Operand"], "VectorValue"]


def _infix(opcode: str) -> Infix:
    return lambda left, right: left.body.binary(opcode, left, right)


def _reflected(opcode: str) -> Infix:
    return lambda right, left: right.body.binary(opcode, right.body.value(left, right.kind), right)


def _comparison(of_floats: str, of_integers: str) -> Infix:
    return lambda left, right: left.body.compare(of_floats, of_integers, left, right)


@dataclass(frozen=True, slots=True, eq=False)
class VectorValue:
    """A vector in a register, or a constant. Comparisons give lanes of `b1`, false for NaN."""

    body: Body
    kind: str
    text: str

    __add__, __radd__ = _infix("add"), _reflected("add")
    __sub__, __rsub__ = _infix("sub"), _reflected("sub")
    __mul__, __rmul__ = _infix("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _infix("div"), _reflected("div")
    __and__, __or__, __xor__ = _infix("and"), _infix("or"), _infix("xor")
    # An arithmetic shift to the right: the sign is kept.
    __lshift__, __rshift__ = _infix("shl"), _infix("ashr")
    __lt__, __le__ = _comparison("olt", "slt"), _comparison("ole", "sle")
    __gt__, __ge__ = _comparison("ogt", "sgt"), _comparison("oge", "sge")

    def __neg__(self) -> VectorValue:
        return self.body.line(self.kind, f"fneg {self.body.typed(self)}")

    def __invert__(self) -> VectorValue:
        return self.body.binary("xor", self, -1 if self.kind != "b1" else 1)

    def equals(self, other: Operand) -> VectorValue:
        return self.body.compare("oeq", "eq", self, other)

    def differs(self, other: Operand) -> VectorValue:
        """True also where either side is NaN."""
        return self.body.compare("une", "ne", self, other)


Operand = VectorValue | float | int

FLOAT_OPCODE = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


class Body(FunctionBody):
    """The instructions of one function, and the functions and intrinsics they call."""

    separator = ""

    def __init__(
        self, lanes: int, on_gpu: bool = False, is_near: bool = False, is_within: bool = False
    ) -> None:
        super().__init__()
        self.lanes = lanes
        #: whether arguments are known to be within `table.NEAR`, or NaN
        self.is_near = is_near
        #: whether they are known to be within `table.WITHIN`, or NaN
        self.is_within = is_within
        #: whether there are the instructions that `by_lanes` names
        self.on_gpu = on_gpu
        self.declares: set[str] = set()
        self.calls: set[tuple[str, str, int]] = set()
        self.instructions: set[str] = set()
        self.emitted: dict[str, VectorValue] = {}
        self.here = "%entry"

    def type(self, kind: str) -> str:
        return vector(REGISTER[kind], self.lanes)

    def typed(self, value: VectorValue) -> str:
        return f"{self.type(value.kind)} {value.text}"

    def number(self, kind: str, number: float) -> VectorValue:
        return VectorValue(self, kind, constant(number, kind, self.lanes))

    def value(self, operand: Operand, kind: str) -> VectorValue:
        return operand if isinstance(operand, VectorValue) else self.number(kind, operand)

    def line(self, kind: str, instruction: str) -> VectorValue:
        """The result of an instruction without side effects."""
        known = self.emitted.get(instruction)
        if known is None:
            known = self.emitted[instruction] = VectorValue(self, kind, self.let(instruction))
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
        full = f"@llvm.{name}.{suffix(REGISTER[kind], self.lanes)}"
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
        if self.on_gpu and self.lanes > 1:
            return self._call_by_lanes(name, operands)
        self.calls.add((name, kind, self.lanes))
        arguments = ", ".join(self.typed(operand) for operand in operands)
        callee = function_name(name, kind, self.lanes)
        return self.line(kind, f"call {self.type(kind)} {callee}({arguments})")

    def _call_by_lanes(self, name: str, operands: Sequence[VectorValue]) -> VectorValue:
        """A function that is not inlined takes its registers of all threads, whether or not it is
        called: as few as there may be."""
        kind = operands[0].kind
        self.calls.add((name, kind, 1))
        element, wide = REGISTER[kind], self.type(kind)
        one, text = vector(element, 1), "poison"
        for lane in range(self.lanes):
            given: list[str] = []
            for operand in operands:
                own = self.new()
                self.do(
                    f"{own} = shufflevector {self.typed(operand)}, {wide} poison,"
                    f" <1 x i32> <i32 {lane}>"
                )
                given.append(f"{one} {own}")
            made = self.new()
            self.do(f"{made} = call {one} {function_name(name, kind, 1)}({', '.join(given)})")
            part = self.new()
            self.do(f"{part} = extractelement {one} {made}, i64 0")
            text = self.line(
                kind, f"insertelement {wide} {text}, {element} {part}, i64 {lane}"
            ).text
        return VectorValue(self, kind, text)

    def by_lanes(self, instruction: str, x: VectorValue) -> VectorValue:
        """An instruction of a GPU, of float32: it has but one lane."""
        assert self.on_gpu, f"{instruction} on the processor"
        name = f"as.gpu.{instruction}"
        text, wide = "poison", self.type(x.kind)
        for lane in range(self.lanes):
            one = self.line(x.kind, f"extractelement {self.typed(x)}, i64 {lane}").text
            made = self.line(x.kind, f"call float @{name}(float {one})").text
            text = self.line(x.kind, f"insertelement {wide} {text}, float {made}, i64 {lane}").text
        self.instructions.add(instruction)
        return VectorValue(self, x.kind, text)

    def any_lane(self, condition: VectorValue) -> VectorValue:
        """One `i1`: whether the condition holds in some lane."""
        name = f"@llvm.vector.reduce.or.v{self.lanes}i1"
        self.declares.add(f"declare i1 {name}({self.type('b1')})")
        return self.line("b1", f"call i1 {name}({self.typed(condition)})")

    def label(self, name: str) -> None:
        super().label(name)
        self.here = name


def first_of(*operands: Operand) -> VectorValue:
    """The first that is no number."""
    return next(operand for operand in operands if isinstance(operand, VectorValue))
