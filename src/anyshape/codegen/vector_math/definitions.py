"""The text of the definitions that a module needs, each once, with all that they call."""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.codegen.vector_math.builder import Body, VectorValue, function_name
from anyshape.codegen.vector_math.table import ROWS

INLINED = "alwaysinline nounwind willreturn memory(none)"
# `cold` also tells LLVM that the branch to the call is seldom taken.
RARE = "noinline cold nounwind willreturn memory(none)"


def definitions(names: Iterable[tuple[str, str, int]]) -> str:
    """Definitions of the functions (name, kind, lanes), and declarations of the intrinsics."""
    declares: set[str] = set()
    texts: list[str] = []
    known = set(names)
    waiting = sorted(known)
    while waiting:
        name, kind, lanes = waiting.pop(0)
        body, text = definition(name, kind, lanes)
        texts.append(text)
        declares |= body.declares
        called = sorted(body.calls - known)
        known.update(called)
        waiting += called
    return "\n".join([*sorted(declares), *texts])


def definition(name: str, kind: str, lanes: int) -> tuple[Body, str]:
    row = ROWS[name]
    assert kind in row.kinds, f"{name} of {kind} is not written"
    body = Body(lanes)
    type_ = body.type(kind)
    parameters = [VectorValue(body, kind, f"%{letter}") for letter in "xy"[: row.arity]]
    result = row.write(*parameters)
    head = ", ".join(body.typed(parameter) for parameter in parameters)
    attributes = RARE if row.is_rare else INLINED
    return body, "\n".join(
        [
            f"define internal {type_} {function_name(name, kind, lanes)}({head}) {attributes} {{",
            "entry:",
            *body.lines,
            f"  ret {body.typed(result)}",
            "}",
            "",
        ]
    )
