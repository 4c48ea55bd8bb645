"""Numbers as functions of one size, and the sizes around the present one where an answer stays.

`int(math.sqrt(n))` has no symbolic form. But the function can be tried at other sizes: an answer
that is the same from 16 to 24 needs a guard of that range, and not one that fixes the size. Nothing
is assumed of the function but that it looks at nothing else: each size in the range was tried.
"""

from __future__ import annotations

from typing import Any, Final

from anyshape.capture.numbers.traced import (
    Function,
    NumberTracer,
    TracedFloat,
    TracedInt,
    decided,
    plain,
)
from anyshape.guards.float_answer import THE_FLOAT, Applied, FloatAnswer
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import Expr, Symbol, as_symbol, evaluate, ge, le
from anyshape.symbolic.expr import single_atom

#: Formulas with more operations are not kept: they would be computed hundreds of times.
_MOST_OPERATIONS: Final = 16
#: So many sizes are tried in each direction.
_MOST_TRIED: Final = 1024


@dataclass(frozen=True, slots=True)
class Formula:
    """A function of numbers: constants, sizes, and floats that have a formula."""

    function: Function
    args: tuple[Any, ...]
    #: all the sizes in it, with their values in this run
    sizes: dict[Expr, int]
    #: all floats from outside in it, by where they are from
    floats: dict[Any, float]
    operations: int

    def at(self, values: dict[Expr, int]) -> object:
        return self.function(*(_value_at(arg, values) for arg in self.args))

    def applied(self) -> Applied:
        """The same function, of one float from outside and nothing that is traced."""
        return Applied(self.function, tuple(map(_operand, self.args)))


def _operand(arg: Any) -> object:
    if type(arg) is not TracedFloat:
        return arg
    return THE_FLOAT if arg.source is not None else arg.formula.applied()


def _value_at(arg: Any, values: dict[Expr, int]) -> object:
    kind = type(arg)
    if kind is TracedInt:
        return values[arg.expr]
    return arg.formula.at(values) if kind is TracedFloat else arg


def formula_of(function: Function, args: tuple[object, ...]) -> Formula | None:
    """The formula of what a function gives, if all operands have one."""
    sizes: dict[Expr, int] = {}
    floats: dict[Any, float] = {}
    operations = 1
    for arg in args:
        if type(arg) is TracedInt:
            sizes[arg.expr] = plain(arg)
        elif type(arg) is TracedFloat and arg.source is not None:
            floats[arg.source] = plain(arg)
        elif type(arg) is TracedFloat:
            if arg.formula is None:
                return None
            sizes |= arg.formula.sizes
            floats |= arg.formula.floats
            operations += arg.formula.operations
    if operations > _MOST_OPERATIONS or not all(s.backed for size in sizes for s in size.symbols):
        return None
    return Formula(function, args, sizes, floats, operations)


def answered(
    tracer: NumberTracer, function: Function, args: tuple[object, ...], reason: str
) -> object:
    """`function(*args)` as a plain value, with a guard of the sizes that it is the same for;
    `NotImplemented` if that is no more than the present size."""
    formula = formula_of(function, args)
    if formula is not None and formula.floats:
        return _answered_of_float(tracer, formula, reason)
    base = None if formula is None else _base(formula.sizes)
    if formula is None or base is None:
        return NotImplemented
    try:
        answer = formula.at(formula.sizes)
    except Exception:
        return NotImplemented  # where it is raised again
    low, high = _around(formula, base, answer)
    if low == high:
        return NotImplemented
    for fact in (ge(base, low), le(base, high)):
        if tracer.active:
            decided(tracer, fact, reason)
    return answer


def _answered_of_float(tracer: NumberTracer, formula: Formula, reason: str) -> object:
    """Yes or no to a question about one float from outside."""
    if formula.sizes or len(formula.floats) != 1:
        return NotImplemented
    ((source, value),) = formula.floats.items()
    asked = formula.applied()
    try:
        answer = asked.at(value)
    except Exception:
        return NotImplemented  # where it is raised again
    if type(answer) is not bool:
        return NotImplemented
    tracer.answer(source, FloatAnswer(asked, answer), reason)
    return answer


def _around(formula: Formula, base: Expr, answer: object) -> tuple[int, int]:
    """The values of `base` around the present one for which the answer is the same."""

    def stays(value: int) -> bool:
        try:
            said = formula.at(_values(formula.sizes, base, value))
        except Exception:
            return False
        # Zeros have signs, and NaN is not equal to itself.
        return type(said) is type(answer) and repr(said) == repr(answer)

    now = low = high = formula.sizes[base]
    while high - now < _MOST_TRIED and stays(high + 1):
        high += 1
    while now - low < _MOST_TRIED and stays(low - 1):
        low -= 1
    return low, high


def _base(sizes: dict[Expr, int]) -> Expr | None:
    """The size that all of them are functions of: the only one, or a symbol."""
    if len(sizes) == 1:
        return next(iter(sizes))
    symbols = frozenset[Symbol]().union(*(size.symbols for size in sizes))
    if len(symbols) != 1:
        return None
    return next((size for size in sizes if single_atom(size) in symbols), None)


def _values(sizes: dict[Expr, int], base: Expr, value: int) -> dict[Expr, int]:
    if len(sizes) == 1:
        return {base: value}
    values = {as_symbol(base): value}
    return {size: evaluate(size, values) for size in sizes}
