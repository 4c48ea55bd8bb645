"""The traced numbers themselves, and how a value becomes an operand.

The classes are bare here: their arithmetic is given to them by `concolic.py`, which is the module
to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol, TypeGuard, cast

from anyshape.guards.float_answer import FloatAnswer
from anyshape.symbolic import FALSE, TRUE, Expr, Fact, ne

Function = Callable[..., Any]


class NumberTracer(Protocol):
    """Who watches the run: answers questions about traced numbers, and keeps what answers rely on.

    A recorded function is called again at run time. If it raises there, or gives something else
    than a float, the run is not the one that was captured: it has to count as a failed guard.
    """

    active: bool

    def decide(self, fact: Fact, reason: str) -> bool:
        """Whether the fact holds now; a guard makes sure that it holds whenever this run is
        repeated."""
        ...

    def specialize(self, value: TracedInt | TracedFloat, reason: str) -> int | float:
        """The plain number; a guard makes sure that it is the same whenever this run is
        repeated."""
        ...

    def answer(self, source: Any, answer: FloatAnswer, reason: str) -> None:
        """Guard what was asked of a float from outside; not called for others."""
        ...

    def record(self, function: Function, args: tuple[object, ...]) -> object:
        """`function(*args)` on plain values, as a TracedFloat that is computed anew at run time.
        Whatever the function raises is raised."""
        ...


class TracedInt(int):
    """An int beside an expression that says what it is at any other size."""

    expr: Expr
    tracer: NumberTracer
    #: the object outside that it stands for, if it is an input as it is
    given: object = None

    def __new__(cls, value: int, expr: Expr, tracer: NumberTracer) -> TracedInt:
        made = int.__new__(cls, value)
        made.expr = expr
        made.tracer = tracer
        return made

    # Programs look at it; that the class is ours is nobody's business.
    __class__ = property(lambda self: int)  # pyright: ignore[reportIncompatibleMethodOverride] ours
    from_bytes = staticmethod(int.from_bytes)  # pyright: ignore[reportAssignmentType] no value is involved

    def __bool__(self) -> bool:
        if not self.tracer.active:
            return int.__bool__(self)
        return decided(self.tracer, ne(self.expr, 0), "it was used as a condition")

    def __round__(self, ndigits: object = None) -> int:
        digits = specialized(ndigits, "a number of digits")
        if digits is None or (isinstance(digits, int) and digits >= 0):
            return self if self.tracer.active else plain(self)
        return round(cast("int", specialized(self, "it was rounded")), digits)

    def as_integer_ratio(self) -> tuple[int, Literal[1]]:
        return (self if self.tracer.active else plain(self)), 1

    @property
    def __dict__(self) -> dict[str, object]:  # pyright: ignore[reportIncompatibleVariableOverride] ours
        raise AttributeError("'int' object has no attribute '__dict__'")

    @property
    def imag(self) -> Literal[0]:
        return 0

    @property
    def denominator(self) -> Literal[1]:
        return 1


class TracedFloat(float):
    """A float beside a recipe, which belongs to the tracer, that computes it anew at run time."""

    __slots__ = ("formula", "given", "node", "quotient", "source", "tracer")

    node: Any
    tracer: NumberTracer
    #: what it is of sizes, where that is known: see `formulas.py` and `quotients.py`
    formula: Any
    quotient: Any
    #: where the program has it from, if it is an input as it is, and the object that it stands for
    source: Any
    given: object

    def __new__(cls, value: float, node: object, tracer: NumberTracer) -> TracedFloat:
        made = float.__new__(cls, value)
        made.node = node
        made.tracer = tracer
        made.formula = made.quotient = made.source = made.given = None
        return made

    __class__ = property(lambda self: float)  # pyright: ignore[reportIncompatibleMethodOverride] ours
    fromhex = staticmethod(float.fromhex)  # pyright: ignore[reportAssignmentType] no value is involved

    @property
    def imag(self) -> float:
        return 0.0


_PLAIN: Final[dict[type, Callable[[Any], int | float]]] = {
    TracedInt: int.__pos__,
    TracedFloat: float.__pos__,
}


# Python's messages name the type of a value: "'int' object is not callable".
TracedInt.__name__ = "int"
TracedFloat.__name__ = "float"


def is_traced(value: object) -> TypeGuard[TracedInt | TracedFloat]:
    return type(value) in _PLAIN


def is_of_data(value: object) -> bool:
    """Whether it is a float that the graph reads from a tensor, or makes of such a one."""
    return type(value) is TracedFloat and value.node.of_data


def plain(value: object) -> Any:
    """The bare number behind a traced one, without a guard; anything else as it is."""
    strip = _PLAIN.get(type(value))
    return value if strip is None else strip(value)


def specialized(value: Any, reason: str) -> Any:
    """The bare number, with a guard that fixes it; anything else as it is."""
    if type(value) not in _PLAIN:
        return value
    return value.tracer.specialize(value, reason) if value.tracer.active else plain(value)


def decided(tracer: NumberTracer, fact: Fact, reason: str) -> bool:
    if fact is TRUE or fact is FALSE:
        return fact is TRUE
    return tracer.decide(fact, reason)


def operand_of(tracer: NumberTracer, value: Any) -> object:
    """`value` as a rule takes it: a bare int or float, or a traced number of this tracer. None for
    whatever has arithmetic of its own."""
    kind = type(value)
    if kind is int or kind is float:
        return value
    if kind in _PLAIN:
        if value.tracer is tracer:
            return value
        return specialized(value, "it was used while another function was captured")
    if kind is bool:
        return int.__pos__(value)
    if isinstance(value, int) and calculates_like(int, kind):
        return int.__pos__(value)
    if isinstance(value, float) and calculates_like(float, kind):
        return float.__pos__(value)
    return None


#: Operators that are also looked for on the right, and done in place. Others: `divmod`, `**`.
ARITHMETIC: Final = (
    *("add", "sub", "mul", "floordiv", "mod", "truediv"),
    *("lshift", "rshift", "and", "or", "xor"),
)
_BINARY: Final = (*ARITHMETIC, "divmod", "pow")
_OPERATORS: Final = frozenset(
    f"__{name}__"
    for name in ("lt", "le", "gt", "ge", "eq", "ne", *_BINARY, *(f"r{name}" for name in _BINARY))
)


def calculates_like(base: type, kind: type) -> bool:
    """Whether a subclass (an IntEnum, say) leaves all operators as its base has them."""
    names = _OPERATORS & vars(base).keys()
    return all(getattr(kind, name) is getattr(base, name) for name in names)


def is_tensor_like(value: object) -> bool:
    """Tensors take traced numbers as they are: torch shows them to the tracer."""
    return hasattr(type(value), "__torch_function__")
