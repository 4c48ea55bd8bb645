"""Long bodies of several vectors, step by step.

The instructions of one vector wait for each other, and the processor sees no further than some
hundred of them: what is done for several vectors of a round stands side by side. A function that
the body uses again and again is not put in place each time, but called for all vectors of the
round at once: that is as fast, and there is much less to compile.

    define internal { <16 x float>, <16 x float> } @kernel.sin.f32.v16x2(<16 x float> %x0, ...)
"""

from __future__ import annotations

from anyshape.codegen.ir_builder import REGISTER, vector
from anyshape.codegen.llvm.casts import round_half
from anyshape.codegen.llvm.emitter import Emitter, IrValue
from anyshape.codegen.llvm.plan import function_of
from anyshape.loops.expr import HALVES, Scalar


def compute_together(e: Emitter, needed: list[Scalar], copies: int) -> None:
    """These scalars of all vectors of a round; each comes after its arguments."""
    for scalar in needed:
        function = function_of(scalar)
        if function in e.plan.together and e.traits(scalar)[1]:
            _call(e, scalar, copies)
            continue
        for copy in range(copies):
            e.copy = copy
            e.value(scalar)
    e.copy = 0


def _call(e: Emitter, scalar: Scalar, copies: int) -> None:
    level, _ = e.traits(scalar)
    results: list[str] = e.once(
        level, ("together", scalar), lambda: _results(e, scalar, function_of(scalar), copies)
    )
    for copy, text in enumerate(results):
        e.once(level, (scalar, copy), lambda text=text: IrValue(text, scalar.dtype, True))


def _results(e: Emitter, scalar: Scalar, function: tuple[str, str], copies: int) -> list[str]:
    name, dtype = function
    type_ = vector(REGISTER[dtype], e.lanes)
    e.functions.add((name, dtype, e.lanes))
    e.together.add((name, dtype, len(scalar.args), copies))
    given: list[str] = []
    for copy in range(copies):
        e.copy = copy
        given += [f"{type_} {e.widen(e.value(arg))}" for arg in scalar.args]
    e.copy = 0
    all_ = _struct(type_, copies)
    made = e.let(f"call {all_} @{_name(e, name, dtype, copies)}({', '.join(given)})")
    texts = [e.let(f"extractvalue {all_} {made}, {copy}") for copy in range(copies)]
    if scalar.dtype in HALVES:
        texts = [round_half(e, text, scalar.dtype, e.lanes) for text in texts]
    return texts


def together_functions(e: Emitter) -> list[str]:
    """The functions of several vectors that the kernel calls."""
    return [_definition(e, *each) for each in sorted(e.together)]


def _definition(e: Emitter, name: str, dtype: str, arity: int, copies: int) -> str:
    type_ = vector(REGISTER[dtype], e.lanes)
    all_ = _struct(type_, copies)
    own = [[f"%{letter}{copy}" for letter in "xy"[:arity]] for copy in range(copies)]
    head = ", ".join(f"{type_} {parameter}" for each in own for parameter in each)
    lines = [
        f"define internal {all_} @{_name(e, name, dtype, copies)}({head})"
        " noinline nounwind willreturn memory(none) {"
    ]
    for copy, parameters in enumerate(own):
        given = ", ".join(f"{type_} {parameter}" for parameter in parameters)
        lines.append(f"  %r{copy} = call {type_} @as.{name}.{dtype}.v{e.lanes}({given})")
    last = "poison"
    for copy in range(copies):
        lines.append(f"  %all{copy} = insertvalue {all_} {last}, {type_} %r{copy}, {copy}")
        last = f"%all{copy}"
    return "\n".join([*lines, f"  ret {all_} {last}", "}"])


def _struct(type_: str, copies: int) -> str:
    return f"{{ {', '.join([type_] * copies)} }}"


def _name(e: Emitter, name: str, dtype: str, copies: int) -> str:
    return f"{e.name}.{name}.{dtype}.v{e.lanes}x{copies}"
