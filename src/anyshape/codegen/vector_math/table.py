"""Which functions there are, one row each, and the text of those that a module needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anyshape.codegen.vector_math import (
    error_function,
    exponential,
    hardware,
    logarithm,
    power,
    trigonometry,
)
from anyshape.codegen.vector_math.builder import Body, VectorValue, function_name
from anyshape.support.lazy_dataclass import dataclass

BOTH = ("f32", "f64")
F32 = ("f32",)


@dataclass(frozen=True)
class Row:
    """A function: how many vectors it takes, who writes its body, for which kinds it is good."""

    arity: int
    write: Callable[..., VectorValue]
    kinds: tuple[str, ...] = BOTH
    # Rare paths are functions of their own that are called, not inlined.
    is_rare: bool = False


def _by_kind(of_f32: Callable[..., VectorValue], of_f64: Callable[..., VectorValue]) -> Row:
    return Row(1, lambda x: (of_f32 if x.kind == "f32" else of_f64)(x))


ROWS: dict[str, Row] = {
    "exp": Row(1, exponential.exp),
    "exp2": Row(1, exponential.exp2),
    "expm1": Row(1, exponential.expm1),
    "sigmoid": Row(1, exponential.sigmoid),
    "silu": Row(1, exponential.silu),
    "tanh": Row(1, exponential.tanh),
    "gelu_tanh": _by_kind(exponential.gelu_tanh_f32, exponential.gelu_tanh_f64),
    "log": Row(1, logarithm.log),
    "log2": Row(1, logarithm.log2),
    "log10": Row(1, logarithm.log10),
    "log1p": Row(1, logarithm.log1p),
    "sin": _by_kind(trigonometry.sin_f32, trigonometry.sin_f64),
    "cos": Row(1, trigonometry.cos),
    "tan": Row(1, trigonometry.tan),
    "exp_tiny": Row(1, exponential.exp_tiny, is_rare=True),
    "exp2_tiny": Row(1, exponential.exp2_tiny, is_rare=True),
    "silu_tiny": Row(1, exponential.silu_tiny, is_rare=True),
    "log_rare": Row(1, logarithm.log_rare, is_rare=True),
    "log2_rare": Row(1, logarithm.log2_rare, F32, is_rare=True),
    "log10_rare": Row(1, logarithm.log10_rare, F32, is_rare=True),
    "rsqrt_rare": Row(1, power.rsqrt_rare, F32, is_rare=True),
    "sin_huge": Row(1, trigonometry.sin_huge, F32, is_rare=True),
    "cos_huge": Row(1, trigonometry.cos_huge, F32, is_rare=True),
    "tan_huge": Row(1, trigonometry.tan_huge, F32, is_rare=True),
    "asin": Row(1, trigonometry.asin),
    "acos": Row(1, trigonometry.acos),
    "atan": Row(1, trigonometry.atan),
    "atan2": Row(2, trigonometry.atan2),
    "sinh": Row(1, trigonometry.sinh),
    "cosh": Row(1, trigonometry.cosh),
    "asinh": Row(1, trigonometry.asinh, F32),
    "acosh": Row(1, trigonometry.acosh, F32),
    "atanh": Row(1, trigonometry.atanh),
    "erf": Row(1, error_function.erf),
    "erfc": Row(1, error_function.erfc),
    "gelu": _by_kind(error_function.gelu_f32, error_function.gelu_f64),
    "erfinv": Row(1, error_function.erfinv, F32),
    "rsqrt": Row(1, power.rsqrt),
    "pow": Row(2, power.pow_),
    "fmod": Row(2, power.fmod),
    "fmod_rare": Row(2, power.fmod_rare, is_rare=True),
    "remainder": Row(2, power.remainder),
    "hypot": Row(2, power.hypot, F32),
}

#: Of float32, where there is a GPU's hardware.
ON_GPUS: dict[str, Row] = {
    name: Row(1, getattr(hardware, name), F32)
    for name in ("exp", "exp2", "sigmoid", "silu", "gelu_tanh", "gelu", "erf", "rsqrt", "sin")
}

#: Functions of float32 that are faster where arguments are not farther from zero: `near(name)`.
NEAR: dict[str, float] = dict.fromkeys(("sin", "cos", "tan"), trigonometry.CODY_WAITE_LIMIT["f32"])
_NEAR_SUFFIX = ".near"
#: The same of those that need not be brought nearer at all: `within(name)`.
WITHIN: dict[str, float] = {"sin": trigonometry.HALF_TURN_LIMIT}
_WITHIN_SUFFIX = ".within"

FUNCTIONS = {name: row.arity for name, row in ROWS.items() if not row.is_rare}


def supports(name: str, kind: str) -> bool:
    """Whether `definitions` can be asked for this function of this kind of float."""
    return name in FUNCTIONS and kind in ROWS[name].kinds


def near(name: str) -> str:
    """The same function, of arguments that are within `NEAR`, or NaN."""
    return name + _NEAR_SUFFIX


def within(name: str) -> str:
    """The same function, of arguments that are within `WITHIN`, or NaN."""
    return name + _WITHIN_SUFFIX


INLINED = "alwaysinline nounwind willreturn memory(none)"
# `cold` also tells LLVM that the branch to the call is seldom taken.
RARE = "noinline cold nounwind willreturn memory(none)"


def definitions(names: Iterable[tuple[str, str, int]], on_gpu: bool = False) -> str:
    """Definitions of the functions (name, kind, lanes), and declarations of the intrinsics."""
    instructions: set[str] = set()
    declares: set[str] = set()
    texts: list[str] = []
    known = set(names)
    waiting = sorted(known)
    while waiting:
        name, kind, lanes = waiting.pop(0)
        body, text = definition(name, kind, lanes, on_gpu)
        texts.append(text)
        declares |= body.declares
        instructions |= body.instructions
        called = sorted(body.calls - known)
        known.update(called)
        waiting += called
    return "\n".join([*sorted(declares), *map(_instruction, sorted(instructions)), *texts])


def _instruction(name: str) -> str:
    """A GPU's instruction as a function of one float32."""
    return (
        f"define internal float @as.gpu.{name}(float %x) {INLINED} {{\n"
        f'  %y = call float asm "{name} $0, $1;", "=f,f"(float %x)\n  ret float %y\n}}\n'
    )


def definition(name: str, kind: str, lanes: int, on_gpu: bool = False) -> tuple[Body, str]:
    plain = name.removesuffix(_NEAR_SUFFIX).removesuffix(_WITHIN_SUFFIX)
    row = (ON_GPUS.get(plain) if on_gpu and kind == "f32" else None) or ROWS[plain]
    assert kind in row.kinds, f"{name} of {kind} is not written"
    body = Body(lanes, on_gpu, is_near=name != plain, is_within=name == within(plain))
    type_ = body.type(kind)
    parameters = [VectorValue(body, kind, f"%{letter}") for letter in "xy"[: row.arity]]
    result = row.write(*parameters)
    head = ", ".join(body.typed(parameter) for parameter in parameters)
    attributes = RARE if row.is_rare else INLINED
    return body, "\n".join(
        [
            f"define internal {type_} {function_name(name, kind, lanes)}({head}) {attributes} {{",
            "entry:",
            body.text(),
            f"  ret {body.typed(result)}",
            "}",
            "",
        ]
    )
