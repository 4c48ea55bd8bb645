"""Scalars as registers."""

from __future__ import annotations

from anyshape.codegen.ir_builder import REGISTER, literal, vector
from anyshape.codegen.llvm.arithmetic import EXACT_IN_HALVES, ROWS, OperationCall
from anyshape.codegen.llvm.casts import cast, round_half
from anyshape.codegen.llvm.emitter import Emitter, IrValue
from anyshape.codegen.llvm.magic_division import factors, quotient
from anyshape.codegen.llvm.memory import load
from anyshape.codegen.llvm.sizes import narrow_size, wide_size
from anyshape.loops.expr import FLOATS, HALVES, Scalar


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
    texts = tuple(e.widen(value) if wide else value.text for value in values)
    dtype = values[0].dtype
    if scalar.op == "cast":
        return cast(e, texts[0], dtype, scalar.dtype, wide)
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
    return e.let(f"select {truth} {condition.text}, {type_} {a}, {type_} {b}")


def _function(e: Emitter, scalar: Scalar, texts: tuple[str, ...], wide: bool) -> str:
    """A function of vector_math. There are none for single numbers: all lanes, and the first one is
    taken."""
    dtype = "f64" if scalar.dtype == "f64" else "f32"
    assert scalar.dtype in FLOATS, f"{scalar.op} is for floats, not {scalar.dtype}"
    element = REGISTER[dtype]
    type_ = vector(element, e.lanes)
    e.functions.add((scalar.op, dtype, e.lanes))
    wides = texts if wide else [e.splat(element, text) for text in texts]
    given = ", ".join(f"{type_} {text}" for text in wides)
    result = e.let(f"call {type_} @as.{scalar.op}.{dtype}.v{e.lanes}({given})")
    return result if wide else e.let(f"extractelement {type_} {result}, i64 0")
