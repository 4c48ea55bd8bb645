"""Scalars as registers.

Small integers are divided by a constant without dividing:

    x / d == fma(x, high, x * low)        high + low is 1 / d, nearly

Processors divide slowly: a byte of an image by 255 takes longer than to fetch it from memory. The
result is the same bit by bit: there are 256 dividends, and all are tried when the code is made.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from anyshape.codegen.ir_builder import REGISTER, literal, round_to, vector
from anyshape.codegen.llvm.arithmetic import EXACT_IN_HALVES, ROWS, OperationCall
from anyshape.codegen.llvm.casts import cast, round_half
from anyshape.codegen.llvm.emitter import Emitter, IrValue
from anyshape.codegen.llvm.memory import load
from anyshape.codegen.llvm.plan import function_of
from anyshape.codegen.llvm.sizes import narrow_size, wide_size
from anyshape.loops.expr import FLOAT8, FLOATS, HALVES, Scalar


def compute(e: Emitter, scalar: Scalar) -> IrValue:
    """The code of one scalar; its arguments have theirs."""
    _, wide = e.traits(scalar)
    match scalar.op:
        case "constant":
            return IrValue(literal(scalar.data, scalar.dtype), scalar.dtype, False)
        case "index":
            text = wide_size(e, scalar.data) if wide else narrow_size(e, scalar.data)
            return IrValue(text, "i64", wide)
        case "number":
            return IrValue(_number(e, scalar.data), "f64", False)
        case "load":
            return load(e, scalar)
        case _:
            return IrValue(_operation(e, scalar, wide), scalar.dtype, wide)


def _number(e: Emitter, name: str) -> str:
    place = e.let(f"getelementptr double, ptr %numbers, i64 {int(name.removeprefix('f'))}")
    return e.let(f"load double, ptr {place}, align 8, !invariant.load !0")


def _operation(e: Emitter, scalar: Scalar, wide: bool) -> str:
    values = [e.value(arg) for arg in scalar.args]
    if scalar.op == "where":
        return _where(e, scalar, values, wide)
    texts = tuple(e.widen(value) if wide else e.first_lane(value) for value in values)
    dtype = values[0].dtype
    if scalar.op == "cast":
        return cast(e, texts[0], dtype, scalar.dtype, wide)
    assert dtype not in FLOAT8, f"{scalar.op} of {dtype}, which is only stored"
    row = ROWS.get(scalar.op)
    small = factors(scalar)
    if small is not None:
        text = quotient(OperationCall(e, dtype, e.lanes_if(wide), texts), *small)
    elif row is not None:
        text = row(OperationCall(e, dtype, e.lanes_if(wide), texts))
    else:
        text = _function(e, scalar, texts, wide)
    if scalar.dtype in HALVES and scalar.op not in EXACT_IN_HALVES:
        return round_half(e, text, scalar.dtype, e.lanes_if(wide))
    return text


def _where(e: Emitter, scalar: Scalar, values: list[IrValue], wide: bool) -> str:
    condition, yes, no = values
    type_ = e.type_of(scalar.dtype, wide)
    a, b = (e.widen(value) if wide else value.text for value in (yes, no))
    truth = e.type_of("b1", condition.wide)
    return e.select(truth, condition.text, type_, a, b)


def _function(e: Emitter, scalar: Scalar, texts: tuple[str, ...], wide: bool) -> str:
    """A function of vector_math. There are none for single numbers: all lanes, and the first one is
    taken."""
    name, dtype = function_of(scalar)
    assert scalar.dtype in FLOATS, f"{scalar.op} is for floats, not {scalar.dtype}"
    element = REGISTER[dtype]
    type_ = vector(element, e.lanes)
    e.functions.add((name, dtype, e.lanes))
    wides = texts if wide else [e.splat(element, text) for text in texts]
    given = ", ".join(f"{type_} {text}" for text in wides)
    result = e.let(f"call {type_} @as.{name}.{dtype}.v{e.lanes}({given})")
    return result if wide else e.let(f"extractelement {type_} {result}, i64 0")


_DIVIDENDS: Final = {"u8": range(256), "i8": range(-128, 128)}
#: Exponents that keep all of this far from what is too large or too small.
_FAR: Final = 60


def factors(scalar: Scalar) -> tuple[float, float] | None:
    """(high, low), if the scalar is a quotient that they give."""
    if scalar.op != "div" or scalar.dtype != "f32":
        return None
    dividend, divisor = scalar.args
    if divisor.op != "constant" or dividend.op != "cast":
        return None
    source = dividend.args[0].dtype
    return _factors(source, divisor.data) if source in _DIVIDENDS else None


def quotient(c: OperationCall, high: float, low: float) -> str:
    a, b = c.constant(high), c.constant(low)
    return c.intrinsic("fma", c.args[0], a, c.op("fmul", c.args[0], b))


@lru_cache(256)
def _factors(source: str, divisor: float) -> tuple[float, float] | None:
    divisor = round_to(divisor, "f32")
    # By a negative one, 0 would have the wrong sign.
    if not 2.0**-_FAR < divisor < 2.0**_FAR:
        return None
    high = round_to(1.0 / divisor, "f32")
    # Exact but for the division: both factors have 24 bits.
    low = round_to((1.0 - high * divisor) / divisor, "f32")
    rounds = all(_is_nearest(x, divisor, high, low) for x in _DIVIDENDS[source] if x)
    return (high, low) if rounds else None


def _is_nearest(x: int, divisor: float, high: float, low: float) -> bool:
    """Whether what is rounded in the end is less than half a unit away from the quotient. None of
    these differences needs more than the 53 bits of a double."""
    wanted = round_to(x / divisor, "f32")
    rest = (x * high - wanted) + round_to(x * low, "f32")
    fraction, exponent = math.frexp(wanted)
    # Below a power of two, units are half as large.
    half = 2.0 ** (exponent - 25 - (abs(fraction) == 0.5))
    return abs(rest) < half
