"""Numbers that run for real and remember where they came from.

A `TracedInt` is an `int` with a symbolic expression beside its value, a `TracedFloat` is a `float`
with a recipe. Arithmetic gives traced numbers again; a question about the value (`n < 10`, `if n`,
`hash(n)`) is answered by the tracer, which records what the answer relies on. So whatever a program
learns of such a number is either traced on, or guarded:

    n = TracedInt(16, s0, tracer)
    n * 2 + 1       TracedInt 33, expression 2*s0 + 1
    n < 20          True, and tracer.decide(lt(s0, 20)) has been asked
    n & 6           0, and tracer.specialize(n) has been asked: there is no symbolic form

When `tracer.active` is False everything gives plain Python results. Native code reads the digits of
an int without asking any method here. Where it is the *left* operand of an operator (`1.5 * n`,
`True + n`, `1j == n`), `binary` and `compare` give the right answer; all other native code
is the business of the hooks.
"""

from __future__ import annotations

import math
import operator
from types import NoneType
from typing import Any, Final

from anyshape.capture.numbers.float_predicates import ask, whole
from anyshape.capture.numbers.rules import (
    COMPARISONS,
    RULES,
    SYMBOLS,
    asked,
    compared,
    made,
    recorded,
    symbolic,
)
from anyshape.capture.numbers.traced import (
    ARITHMETIC,
    Function,
    NumberTracer,
    TracedFloat,
    TracedInt,
    is_of_data,
    is_tensor_like,
    is_traced,
    operand_of,
    plain,
    specialized,
)
from anyshape.errors import ExpressionTooLarge
from anyshape.symbolic import absolute
from anyshape.symbolic import maximum as larger
from anyshape.symbolic import minimum as smaller

__all__ = [
    "NumberTracer",
    "TracedFloat",
    "TracedInt",
    "binary",
    "compare",
    "is_traced",
    "maximum",
    "minimum",
    "plain",
]

#: `a += b` of numbers is `a = a + b`.
_IN_PLACE: Final[dict[Function, Function]] = {
    getattr(operator, f"__i{name}__"): getattr(operator, f"__{name}__")
    for name in (*ARITHMETIC, "pow")
}

_MIRRORED: Final[dict[Function, Function]] = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}

#: Never equal to a number, and they do not look at its value to say so.
_OTHER_KINDS: Final = frozenset({NoneType, str, bytes, list, tuple, dict, set, frozenset, type})


def binary(function: Function, left: object, right: object) -> object:
    """`function(left, right)` for an operator (`operator.add`, `operator.iadd`, `divmod`), also
    where native code of `left` would read the digits of a traced `right`."""
    if not is_traced(right) or is_traced(left):
        return function(left, right)
    if not right.tracer.active:
        return function(left, plain(right))
    rule = RULES.get(_IN_PLACE.get(function, function))
    operand = operand_of(right.tracer, left)
    if rule is not None and operand is not None:
        return rule(right.tracer, operand, right)
    if is_tensor_like(left):
        return function(left, right)
    return function(left, specialized(right, "it was the operand of an object's own operator"))


def compare(function: Function, left: object, right: object) -> object:
    """`function(left, right)` for a comparison (`operator.lt` and so on), also where native code of
    `left` would read the digits of a traced `right`."""
    if not is_traced(right) or is_traced(left) or type(left) in _OTHER_KINDS:
        return function(left, right)
    if not right.tracer.active:
        return function(left, plain(right))
    operand = operand_of(right.tracer, left)
    if operand is not None:
        return compared(right.tracer, _MIRRORED[function], right, operand)
    if is_tensor_like(left):
        return function(left, right)
    return function(left, specialized(right, f"it was compared with {SYMBOLS[function]}"))


def minimum(a: object, b: object) -> Any:
    """`min(a, b)` of two numbers, without a guard where both are integers."""
    return _extreme(min, smaller, a, b)


def maximum(a: object, b: object) -> Any:
    """`max(a, b)` of two numbers, without a guard where both are integers."""
    return _extreme(max, larger, a, b)


def _extreme(function: Function, build: Function, a: object, b: object) -> object:
    tracer = _tracer_of(a, b)
    if tracer is None:
        return function(plain(a), plain(b))
    exact = (int, TracedInt)
    # Elsewhere the type of the result depends on which one wins: min(n, 2.0), min(n, True).
    if type(a) in exact and type(b) in exact:
        return symbolic(tracer, function, build, operand_of(tracer, a), operand_of(tracer, b))
    if (is_of_data(a) or is_of_data(b)) and all(type(x) in (float, TracedFloat) for x in (a, b)):
        return recorded(tracer, function, a, b)
    second = compare(operator.lt if function is min else operator.gt, b, a)
    return b if second else a


def _tracer_of(*values: object) -> NumberTracer | None:
    return next((v.tracer for v in values if is_traced(v) and v.tracer.active), None)


# -- the methods of both classes ----------------------------------------------------------------

_BINARY_METHODS: Final[dict[str, Function]] = {
    "divmod": divmod,
    **{name: getattr(operator, f"__{name}__") for name in ARITHMETIC},
}


def _forward(function: Function) -> Function:
    rule = RULES[function]

    def method(self: TracedInt | TracedFloat, other: object) -> object:
        tracer = self.tracer
        if not tracer.active:
            return function(plain(self), other)
        operand = operand_of(tracer, other)
        if operand is not None:
            return rule(tracer, self, operand)
        if is_tensor_like(other):
            return NotImplemented
        return function(specialized(self, "it was combined with another kind of object"), other)

    return method


def _reflected(function: Function) -> Function:
    rule = RULES[function]

    def method(self: TracedInt | TracedFloat, other: object) -> object:
        tracer = self.tracer
        operand = operand_of(tracer, other)
        if operand is None:
            # `other` has declined; what is left is repetition (`[0] * n`), which for `*=` changes
            # `other` in place and must therefore be left to Python.
            if not is_tensor_like(other):
                specialized(self, "it was combined with another kind of object")
            return NotImplemented
        return rule(tracer, operand, self) if tracer.active else function(operand, plain(self))

    return method


def _power(without_modulus: Function, reflected: bool) -> Function:
    def method(self: object, other: object, modulus: object = None) -> Any:
        if modulus is None:
            return without_modulus(self, other)
        base, exponent = (other, self) if reflected else (self, other)
        reason = "it was used in a power with a modulus"
        return pow(*(specialized(number, reason) for number in (base, exponent, modulus)))

    return method


def _comparing(function: Function) -> Function:
    equality = function in (operator.eq, operator.ne)

    def method(self: TracedInt | TracedFloat, other: object) -> object:
        tracer = self.tracer
        if not tracer.active:
            return function(plain(self), other)
        operand = operand_of(tracer, other)
        if operand is not None:
            return compared(tracer, function, self, operand)
        if is_tensor_like(other):
            return NotImplemented
        if type(other) in _OTHER_KINDS:
            return NotImplemented if equality else function(plain(self), other)  # raises
        return function(specialized(self, f"it was compared with {SYMBOLS[function]}"), other)

    return method


def _fixing(base: type, name: str, reason: str) -> Function:
    """The method of the plain number, with a guard that fixes the value."""
    native = getattr(base, name)

    def method(self: object, *args: object, **kwargs: object) -> object:
        return native(specialized(self, reason), *[specialized(a, reason) for a in args], **kwargs)

    return method


def _itself(self: TracedInt | TracedFloat, *_: object) -> object:
    return self if self.tracer.active else plain(self)


def _unary(function: Function, build: Function) -> Function:
    def method(self: Any) -> object:
        tracer = self.tracer
        if not tracer.active:
            return function(plain(self))
        if type(self) is TracedFloat:
            return recorded(tracer, function, self)
        try:
            size = build(self.expr)
        except ExpressionTooLarge:
            return function(specialized(self, "its expression is too large to trace"))
        return made(tracer, size, function(plain(self)))

    return method


def _asking(base: type, name: str, reason: str, function: Function) -> Function:
    """Of a number that depends on data the graph computes it; of a float that was made of sizes it
    may be a size again."""
    fixing = _fixing(base, name, reason)

    def method(self: Any, *args: object) -> object:
        if not self.tracer.active or any(map(is_traced, args)):
            return fixing(self, *args)
        if is_of_data(self):
            return self.tracer.record(function, (self, *args))
        return ask(function, self, args, reason)

    return method


def _counting_bits(name: str) -> Function:
    native = getattr(int, name)

    def method(self: TracedInt | TracedFloat) -> int:
        if not self.tracer.active:
            return native(plain(self))
        return asked(self.tracer, native, (self,), _TELLING[name])

    return method


def _as_plain(self: object, *_: object) -> object:
    """Copies and pickles hold plain numbers: they outlive the capture."""
    return specialized(self, "it was copied")


def _reduced(self: object, *_: object) -> object:
    return type(plain(self)), (specialized(self, "it was pickled"),)


def _new_arguments(self: object) -> object:
    return (specialized(self, "it was pickled"),)


#: Methods that tell the value, with the reason that the guard will give.
_TELLING: Final = {
    "__hash__": "its hash was taken",
    "__str__": "it was converted to a string",
    "__repr__": "it was converted to a string",
    "__format__": "it was converted to a string",
    "__int__": "it was converted to int",
    "__index__": "it was used as an index",
    "__float__": "it was converted to float",
    "__sizeof__": "its size in memory was asked",
    "bit_length": "its bits were counted",
    "bit_count": "its bits were counted",
    "to_bytes": "it was converted to bytes",
    "hex": "it was converted to a string",
}
_TELLING_OF_FLOATS: Final = {
    "__bool__": "it was used as a condition",
    "__round__": "it was rounded",
    "__floor__": "it was rounded",
    "__ceil__": "it was rounded",
    "__trunc__": "it was converted to int",
    "as_integer_ratio": "its exact value was asked",
    "is_integer": "it was asked whether it is a whole number",
}


#: What is asked of a float: a node of the graph, if it depends on data.
_ASKED: Final[dict[str, Function]] = {
    "__bool__": bool,
    "__round__": round,
    "__floor__": math.floor,
    "__ceil__": math.ceil,
    "__trunc__": math.trunc,
    "is_integer": whole,
}


def _install(kind: type, base: type) -> None:
    telling = _TELLING | (_TELLING_OF_FLOATS if base is float else {})
    methods: dict[str, object] = {
        "__pow__": _power(_forward(operator.pow), reflected=False),
        "__rpow__": _power(_reflected(operator.pow), reflected=True),
        "__neg__": _unary(operator.neg, operator.neg),
        "__abs__": _unary(abs, absolute),
        "__invert__": _unary(operator.invert, lambda size: -size - 1),
        "__pos__": _itself,
        "conjugate": _itself,
        "real": property(_itself),
        "__reduce__": _reduced,
        "__reduce_ex__": _reduced,
        "__copy__": _as_plain,
        "__deepcopy__": _as_plain,
        "__getnewargs__": _new_arguments,
        "__getstate__": lambda self: None,
    }
    if base is int:
        methods |= dict.fromkeys(("__floor__", "__ceil__", "__trunc__"), _itself)
        methods["numerator"] = property(_itself)
        methods["is_integer"] = lambda self: True
    methods |= {
        name: _fixing(base, name, reason) for name, reason in telling.items() if hasattr(base, name)
    }
    if base is int:
        methods["bit_length"] = _counting_bits("bit_length")
    if base is float:
        methods |= {
            name: _asking(base, name, telling[name], function) for name, function in _ASKED.items()
        }
    for name, function in _BINARY_METHODS.items():
        methods[f"__{name}__"] = _forward(function)
        methods[f"__r{name}__"] = _reflected(function)
    for function in COMPARISONS:
        methods[f"__{function.__name__}__"] = _comparing(function)
    extra = {"__copy__", "__deepcopy__", "__reduce__", "__getstate__"}
    for name, method in methods.items():
        if hasattr(base, name) or name in extra:
            setattr(kind, name, method)


_install(TracedInt, int)
_install(TracedFloat, float)
