"""The operations of scalars as instructions: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anyshape.codegen.ir_builder import REGISTER, UNSIGNED, constant, register_bits, suffix, vector
from anyshape.codegen.llvm.emitter import Emitter
from anyshape.loops.expr import FLOATS, Dtype
from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OperationCall:
    """An operation on arguments that are all in one lane or in all."""

    e: Emitter
    #: of the arguments
    dtype: Dtype
    lanes: int
    args: tuple[str, ...]

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def type(self) -> str:
        return vector(REGISTER[self.dtype], self.lanes)

    @property
    def truth(self) -> str:
        return vector("i1", self.lanes)

    def op(self, name: str, *args: str) -> str:
        return self.e.let(f"{name} {self.type} {', '.join(args or self.args)}")

    def constant(self, value: float) -> str:
        return constant(value, self.dtype, self.lanes)

    def choose(self, condition: str, yes: str, no: str) -> str:
        return self.e.select(self.truth, condition, self.type, yes, no)

    def both(self, a: str, b: str, name: str = "and") -> str:
        return self.e.let(f"{name} {self.truth} {a}, {b}")

    def intrinsic(self, name: str, *args: str) -> str:
        given = ", ".join(f"{self.type} {arg}" for arg in (args or self.args))
        full = f"@llvm.{name}.{suffix(REGISTER[self.dtype], self.lanes)}"
        return self.e.let(f"call {self.type} {full}({given})")

    def compare(self, sign: str, *args: str) -> str:
        """`lt` and so on; false for NaN, `ne` true."""
        if self.is_float:
            name = "fcmp " + ("une" if sign == "ne" else "o" + sign)
        elif sign in ("eq", "ne"):
            name = "icmp " + sign
        else:
            name = f"icmp {'u' if self.dtype in UNSIGNED else 's'}{sign}"
        return self.op(name, *args)

    def is_nan(self, arg: str) -> str:
        return self.op("fcmp uno", arg, arg)


Row = Callable[[OperationCall], str]


def _plain(floats: str, ints: str) -> Row:
    return lambda c: c.op(floats if c.is_float else ints)


def _intrinsic(name: str) -> Row:
    return lambda c: c.intrinsic(name)


def _compare(sign: str) -> Row:
    return lambda c: c.compare(sign)


def _extreme(sign: str) -> Row:
    """The larger or smaller one; NaN if one is. LLVM's own has more instructions, for the sake of
    the sign of zero, which eager does not mind."""

    def row(c: OperationCall) -> str:
        a, b = c.args
        if c.is_float and c.e.machine.has_extremes:
            return c.intrinsic("maximum" if sign == "gt" else "minimum")
        chosen = c.choose(c.compare(sign, a, b), a, b)
        return c.choose(c.is_nan(a), a, chosen) if c.is_float else chosen

    return row


def _extreme_number(sign: str) -> Row:
    """The larger or smaller one; NaN only if both are."""

    def row(c: OperationCall) -> str:
        a, b = c.args
        # As C's fmax: the first one of two zeros.
        chosen = c.choose(c.compare(sign, b, a), b, a)
        return c.choose(c.is_nan(a), b, chosen)

    return row


def _sign(c: OperationCall) -> str:
    zero, (x,) = c.constant(0), c.args
    below = c.constant(0) if c.dtype in UNSIGNED else c.constant(-1)
    negative = c.choose(c.compare("lt", x, zero), below, zero)
    return c.choose(c.compare("gt", x, zero), c.constant(1), negative)


def _neg(c: OperationCall) -> str:
    return c.op("fneg") if c.is_float else c.op("sub", c.constant(0), *c.args)


def _abs(c: OperationCall) -> str:
    if c.is_float:
        return c.intrinsic("fabs")
    if c.dtype in UNSIGNED:
        return c.args[0]
    return c.choose(c.compare("lt", c.args[0], c.constant(0)), _neg(c), c.args[0])


def _not(c: OperationCall) -> str:
    ones = c.constant(True) if c.dtype == "b1" else c.constant(-1)
    return c.op("xor", c.args[0], ones)


# -- integers ----------------------------------------------------------------------------------


def _quotient_and_rest(c: OperationCall) -> tuple[str, str]:
    """Towards zero. The processor must not trap, whatever the divisor is: a check may say later
    that it was 0."""
    a, b = c.args
    if c.dtype != "i64":
        quotient = _quotient_by_floats(c, a, b)
        return quotient, c.op("sub", a, c.op("mul", quotient, b))
    minus = c.compare("eq", b, c.constant(-1))
    odd = c.both(minus, c.compare("eq", b, c.constant(0)), "or")
    safe = c.choose(odd, c.constant(1), b)
    quotient = c.op("sdiv", a, safe)
    rest = c.op("srem", a, safe)
    return c.choose(minus, c.op("sub", c.constant(0), a), quotient), rest


def _quotient_by_floats(c: OperationCall, a: str, b: str) -> str:
    """Processors divide no vectors of integers. The quotient of two integers that a float holds
    exactly rounds to an integer from below only if it is one."""
    narrow = register_bits(c.dtype) < 32
    floats = vector("float" if narrow else "double", c.lanes)
    ints = vector("i32" if narrow else "i64", c.lanes)
    to = "uitofp" if c.dtype in UNSIGNED else "sitofp"
    b = c.choose(c.compare("eq", b, c.constant(0)), c.constant(1), b)
    over = c.e.let(f"{to} {c.type} {a} to {floats}")
    under = c.e.let(f"{to} {c.type} {b} to {floats}")
    quotient = c.e.let(f"fdiv {floats} {over}, {under}")
    whole = c.e.let(f"fptosi {floats} {quotient} to {ints}")
    return c.e.let(f"trunc {ints} {whole} to {c.type}")


def _differs_in_sign(c: OperationCall, rest: str) -> str:
    some = c.compare("ne", rest, c.constant(0))
    mixed = c.op("icmp slt", c.op("xor", rest, c.args[1]), c.constant(0))
    return c.both(some, mixed)


def _floordiv(c: OperationCall) -> str:
    quotient, rest = _quotient_and_rest(c)
    if c.dtype in UNSIGNED:
        return quotient
    less = c.op("sub", quotient, c.constant(1))
    return c.choose(_differs_in_sign(c, rest), less, quotient)


def _floormod(c: OperationCall) -> str:
    _, rest = _quotient_and_rest(c)
    if c.dtype in UNSIGNED:
        return rest
    return c.choose(_differs_in_sign(c, rest), c.op("add", rest, c.args[1]), rest)


def _shift_left(c: OperationCall) -> str:
    bits = c.constant(register_bits(c.dtype))
    fits = c.op("icmp ult", c.args[1], bits)
    by = c.choose(fits, c.args[1], c.constant(0))
    return c.choose(fits, c.op("shl", c.args[0], by), c.constant(0))


def _shift_right(c: OperationCall) -> str:
    most = c.constant(register_bits(c.dtype) - 1)
    fits = c.op("icmp ule", c.args[1], most)
    by = c.choose(fits, c.args[1], most)
    if c.dtype in UNSIGNED:
        return c.choose(fits, c.op("lshr", c.args[0], by), c.constant(0))
    return c.op("ashr", c.args[0], by)


# -- floats ------------------------------------------------------------------------------------


def _beside_infinity(sign: str) -> Row:
    return lambda c: c.op(f"fcmp {sign}", c.intrinsic("fabs"), c.constant(float("inf")))


def _signbit(c: OperationCall) -> str:
    ints = vector(f"i{register_bits(c.dtype)}", c.lanes)
    bits = c.e.let(f"bitcast {c.type} {c.args[0]} to {ints}")
    return c.e.let(f"icmp slt {ints} {bits}, {'zeroinitializer' if c.lanes else '0'}")


#: `where` and `cast` take arguments of several dtypes: see values.py.
ROWS: Final[dict[str, Row]] = {
    "add": _plain("fadd", "add"),
    "sub": _plain("fsub", "sub"),
    "mul": _plain("fmul", "mul"),
    "div": _plain("fdiv", "udiv"),
    "minimum": _extreme("lt"),
    "maximum": _extreme("gt"),
    "fmin": _extreme_number("lt"),
    "fmax": _extreme_number("gt"),
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "trunc": _intrinsic("trunc"),
    "round": _intrinsic("roundeven"),
    "sqrt": _intrinsic("sqrt"),
    "copysign": _intrinsic("copysign"),
    "truncdiv": lambda c: _quotient_and_rest(c)[0],
    "truncmod": lambda c: _quotient_and_rest(c)[1],
    "floordiv": _floordiv,
    "floormod": _floormod,
    "and": lambda c: c.op("and"),
    "or": lambda c: c.op("or"),
    "xor": lambda c: c.op("xor"),
    "not": _not,
    "shl": _shift_left,
    "shr": _shift_right,
    **{sign: _compare(sign) for sign in ("eq", "ne", "lt", "le", "gt", "ge")},
    "isnan": lambda c: c.is_nan(c.args[0]),
    "isinf": _beside_infinity("oeq"),
    "isfinite": _beside_infinity("olt"),
    "signbit": _signbit,
}

#: Of values of f16 or bf16 these give one again: there is nothing to round.
EXACT_IN_HALVES: Final = frozenset(
    {"minimum", "maximum", "fmin", "fmax", "neg", "abs", "sign", "floor", "ceil", "trunc"}
    | {"round", "copysign", "where"}
)
