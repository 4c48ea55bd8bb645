"""Our expressions and facts behind `torch.SymInt`, `torch.SymBool` and `torch.SymFloat`.

Torch asks nothing of the node inside these but a set of methods, and computes with whatever answers
them. `SymNode` answers with our algebra, and turns what torch wants to know into questions
of a `ShapeQuery`:

    if size > 4: ...              guard_bool         q.decide
    torch._check(size > 4)        expect_true        q.require
    guard_or_false(size == 1)     guard_or_*         proved, else the default, without a guard
    range(size)                   guard_int          q.fix

So 0 and 1 stay ordinary sizes. But defaults are not always right: whoever runs torch's functions
with these nodes has to check the results where something else than the default holds
(`validate_by_sampling.py`), or to run them `hinted`, where each such question is a guard.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from anyshape.ops.actual_strides import dense_order, is_dense
from anyshape.ops.symint_guards import Real, SymIntGuards
from anyshape.support.lazy_dataclass import dataclass
from anyshape.symbolic import (
    FALSE,
    TRUE,
    Answer,
    Expr,
    Fact,
    Size,
    absolute,
    and_,
    eq,
    ge,
    gt,
    le,
    lt,
    maximum,
    minimum,
    ne,
    not_,
    or_,
    power,
    total,
)

_TRUTHS: Final = {True: TRUE, False: FALSE}

SymValue = Size | Fact | Real


class Asked(SymIntGuards):
    """What one run of torch's functions asks: behind every node, and `node.shape_env` to torch."""

    __slots__ = ()

    def int(self, size: Size) -> Any:
        """The size as torch sees it."""
        return torch.SymInt(SymNode(size, self)) if isinstance(size, Expr) else size

    # Read by torch.fx.experimental.symbolic_shapes, which torch's shape functions use.

    def evaluate_sym_node(
        self, node: SymNode, size_oblivious: bool = False, fallback_value: bool | None = None
    ) -> bool:
        if fallback_value is None:
            return node.guard_bool("", 0)
        return self.default(node.fact, fallback_value)

    def _maybe_evaluate_static(self, shown: Shown, **_: Any) -> bool | None:
        assert not isinstance(shown.value, int | Expr | Real), "asked of truth values only"
        answer = self.q.facts.prove(shown.value)
        return None if answer is Answer.UNKNOWN else answer is Answer.YES


@dataclass(frozen=True, slots=True)
class Shown:
    """What torch gets for `node.expr`, where it expects a sympy expression: without parts."""

    value: SymValue
    free_symbols: frozenset[object] = frozenset()
    args: tuple[object, ...] = ()
    is_number: bool = False
    is_Boolean: bool = False
    is_Symbol: bool = False

    def __str__(self) -> str:
        return str(self.value)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[SymNode, SymNode], SymNode]:
    """A method of two integers or two floats, by a function that takes either."""

    def method(self: SymNode, other: SymNode) -> SymNode:
        a, b = self.value, other.value
        if (
            isinstance(a, Real)
            or isinstance(b, Real)
            or isinstance(a, float)
            or isinstance(b, float)
        ):
            return self.made(_on_reals(self.asked, function, a, b))
        return self.made(function(a, b))

    return method


def _compared(
    of_sizes: Callable[..., Fact], of_numbers: Callable[..., bool]
) -> Callable[..., SymNode]:
    def method(self: SymNode, other: SymNode) -> SymNode:
        a, b = self.value, other.value
        if isinstance(a, int | Expr) and isinstance(b, int | Expr):
            return self.made(of_sizes(a, b))
        if isinstance(a, Real | float) or isinstance(b, Real | float):
            return self.made(_TRUTHS[of_numbers(self._float(), other._float())])
        both = or_(and_(self.fact, other.fact), and_(not_(self.fact), not_(other.fact)))
        return self.made(both if of_sizes is eq else not_(both))

    return method


def _on_reals(asked: Asked, function: Callable[..., Any], *operands: SymValue | float) -> Real:
    values: list[float | None] = []
    sizes: list[Size] = []
    for operand in operands:
        match operand:
            case Real():
                values.append(operand.now)
                sizes += operand.of
            case int() | Expr():
                values.append(asked.q.facts.hint(operand))
                sizes.append(operand)
            case _:
                values.append(operand)  # pyright: ignore[reportArgumentType] a float
    now = None if None in values else float(function(*values))
    return Real(now, tuple(dict.fromkeys(size for size in sizes if isinstance(size, Expr))))


class SymNode:
    """A symbolic integer, truth value or float as torch's `SymNode` protocol wants it."""

    __slots__ = ("asked", "value")

    #: torch reads these; the hint is hidden, so that no decision is made by it without a guard
    constant = None
    fx_node = None
    _hint = None
    hint = None

    def __init__(self, value: SymValue | float, asked: Asked) -> None:
        self.value = value
        self.asked = asked

    def made(self, value: SymValue | float) -> SymNode:
        return SymNode(value, self.asked)

    # -- what it is

    @property
    def shape_env(self) -> Asked:
        return self.asked

    @property
    def expr(self) -> Shown:
        return Shown(self.value)  # pyright: ignore[reportArgumentType] floats are never asked for

    @property
    def fact(self) -> Fact:
        assert not isinstance(self.value, int | Expr | Real | float), "a truth value"
        return self.value

    @property
    def size(self) -> Size:
        assert isinstance(self.value, int | Expr), "an integer"
        return self.value

    @property
    def pytype(self) -> type:
        return int if self.is_int() else float if self.is_float() else bool

    def is_int(self) -> bool:
        return isinstance(self.value, int | Expr)

    def is_float(self) -> bool:
        return isinstance(self.value, Real | float)

    def is_bool(self) -> bool:
        return not self.is_int() and not self.is_float()

    def is_symbolic(self) -> bool:
        return True

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def nested_int_coeff(self) -> None:
        return None

    def has_hint(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return isinstance(self.value, int | float) or self.value is TRUE or self.value is FALSE

    def maybe_as_int(self) -> int | None:
        return self.asked.q.facts.value(self.size) if self.is_int() else None

    def constant_int(self) -> int | None:
        return self.value if isinstance(self.value, int) else None

    def constant_bool(self) -> bool | None:
        return True if self.value is TRUE else False if self.value is FALSE else None

    def clone(self) -> SymNode:
        return self

    def str(self) -> str:
        return str(self.value)

    _graph_repr = __str__ = __repr__ = str

    def wrap_int(self, value: int) -> SymNode:
        return self.made(int(value))

    def wrap_float(self, value: float) -> SymNode:
        return self.made(value)

    def wrap_bool(self, value: bool) -> SymNode:
        return self.made(_TRUTHS[value])

    # -- arithmetic

    add = _binary(operator.add)
    sub = _binary(operator.sub)
    mul = _binary(operator.mul)
    float_pow = pow = _binary(operator.pow)

    def sym_sum(self, nodes: Sequence[SymNode]) -> SymNode:
        return self.made(total([node.size for node in nodes]))

    def int_floordiv(self, other: SymNode) -> SymNode:
        return self.made(self.size // other._divisor())

    floordiv = int_floordiv

    def mod(self, other: SymNode) -> SymNode:
        if self.is_float() or other.is_float():
            return self.made(_on_reals(self.asked, operator.mod, self.value, other.value))
        return self.made(self.size % other._divisor())

    def int_truediv(self, other: SymNode) -> SymNode:
        a, b = self.size, other._divisor()
        real = _on_reals(self.asked, operator.truediv, a, b)
        return self.made(Real(real.now, real.of, (a, b)))

    float_truediv = _binary(operator.truediv)

    def truediv(self, other: SymNode) -> SymNode:
        whole = self.is_int() and other.is_int()
        return self.int_truediv(other) if whole else self.float_truediv(other)

    def _divisor(self) -> Size:
        """This as a divisor: not 0. Code that tests for it first has asked already."""
        size = self.size
        self.asked.decide(ne(size, 0))
        return size

    def pow_by_natural(self, other: SymNode) -> SymNode:
        return self.made(power(self.size, self.asked.specialize(other.size)))

    def neg(self) -> SymNode:
        if self.is_float():
            return self.made(_on_reals(self.asked, operator.neg, self.value))
        return self.made(-self.size)

    def pos(self) -> SymNode:
        return self

    def abs(self) -> SymNode:
        if self.is_float():
            return self.made(_on_reals(self.asked, operator.abs, self.value))
        return self.made(absolute(self.size))

    def sym_min(self, other: SymNode) -> SymNode:
        whole = self.is_int() and other.is_int()
        return self.made(minimum(self.size, other.size)) if whole else _binary(min)(self, other)

    def sym_max(self, other: SymNode) -> SymNode:
        whole = self.is_int() and other.is_int()
        return self.made(maximum(self.size, other.size)) if whole else _binary(max)(self, other)

    def sym_float(self) -> SymNode:
        if self.is_float():
            return self
        size = self.size
        return self.made(Real(_float_or_none(self.asked.q.facts.hint(size)), (size,), (size, 1)))

    def sym_sqrt(self) -> SymNode:
        return self.made(_on_reals(self.asked, math.sqrt, self.value))

    def floor(self) -> SymNode:
        if self.is_int():
            return self
        if isinstance(self.value, Real) and self.value.ratio:
            a, b = self.value.ratio
            return self.made(a // b)
        return self.made(math.floor(self._float()))

    def ceil(self) -> SymNode:
        if self.is_int():
            return self
        if isinstance(self.value, Real) and self.value.ratio:
            a, b = self.value.ratio
            return self.made(-(-a // b))
        return self.made(math.ceil(self._float()))

    def trunc(self) -> SymNode:
        if self.is_float() and not self._is_natural():
            return self.made(math.trunc(self._float()))
        return self.floor()

    sym_int = trunc

    def _is_natural(self) -> bool:
        """Whether it is known to be a ratio above 0, which truncates as it rounds down."""
        if not isinstance(self.value, Real) or not self.value.ratio:
            return False
        a, b = self.value.ratio
        return self.asked.q.known(ge(a, 0)) and self.asked.q.known(gt(b, 0))

    def round(self, digits: int | None = None) -> SymNode:
        return self if self.is_int() else self.made(round(self._float(), digits))

    def is_integer(self) -> SymNode:
        return self.made(_TRUTHS[self.is_int() or self._float().is_integer()])

    def _float(self) -> float:
        value = self.value
        if isinstance(value, int | Expr):
            return self.asked.specialize(value)
        assert isinstance(value, Real | float), "a number"
        return self.asked.specialize_float(value)

    # -- comparisons

    eq = _compared(eq, operator.eq)
    ne = _compared(ne, operator.ne)
    lt = _compared(lt, operator.lt)
    le = _compared(le, operator.le)
    gt = _compared(gt, operator.gt)
    ge = _compared(ge, operator.ge)

    def sym_and(self, other: SymNode) -> SymNode:
        return self.made(and_(self.fact, other.fact))

    def sym_or(self, other: SymNode) -> SymNode:
        return self.made(or_(self.fact, other.fact))

    def sym_not(self) -> SymNode:
        return self.made(not_(self.fact))

    and_, or_ = sym_and, sym_or

    def sym_ite(self, then: SymNode, otherwise: SymNode) -> SymNode:
        return then if self.guard_bool("", 0) else otherwise

    # -- what torch wants to know

    def guard_int(self, file: str, line: int) -> int:
        return self.asked.specialize(self.size, file, line)

    def guard_float(self, file: str, line: int) -> float:
        return self._float()

    def guard_bool(self, file: str, line: int) -> bool:
        if file.endswith(_ABOUT_LAYOUT):
            return self.guard_or_false(file, line)
        return self.asked.decide(self.fact, file, line)

    def guard_or_false(self, file: str, line: int) -> bool:
        return self.asked.default(self.fact, False, file, line)

    def guard_or_true(self, file: str, line: int) -> bool:
        return self.asked.default(self.fact, True, file, line)

    guard_size_oblivious = guard_or_false

    def statically_known_true(self, file: str, line: int) -> bool:
        return self.asked.q.known(self.fact)

    def expect_true(self, file: str, line: int) -> bool:
        if file.endswith(_ABOUT_MEMORY):
            return True
        return self.asked.expect(self.fact, file, line)

    def expect_size(self, file: str, line: int) -> bool:
        return self.asked.expect(ge(self.size, 0), file, line)

    def int_(self) -> int:
        return self.guard_int("", 0)

    def bool_(self) -> bool:
        if self.is_int():
            return self.asked.decide(ne(self.size, 0))
        return bool(self._float()) if self.is_float() else self.guard_bool("", 0)

    # -- layouts: what holds whatever the sizes, without a guard. A layout that is contiguous at
    #    some sizes only has the strides of the contiguous one there, where they matter.

    def is_contiguous(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._dense(sizes, strides, range(len(sizes)))

    def is_channels_last_contiguous_2d(
        self, sizes: Sequence[SymNode], strides: Sequence[SymNode]
    ) -> SymNode:
        return self._dense(sizes, strides, (0, 2, 3, 1))

    def is_channels_last_contiguous_3d(
        self, sizes: Sequence[SymNode], strides: Sequence[SymNode]
    ) -> SymNode:
        return self._dense(sizes, strides, (0, 2, 3, 4, 1))

    is_channels_last_strides_2d = is_channels_last_contiguous_2d
    is_channels_last_strides_3d = is_channels_last_contiguous_3d

    def _dense(
        self, sizes: Sequence[SymNode], strides: Sequence[SymNode], order: Sequence[int]
    ) -> SymNode:
        if len(sizes) != len(order):
            return self.made(FALSE)
        known = is_dense(_sizes(sizes), _sizes(strides), order)
        return self.made(_TRUTHS[known])

    def is_non_overlapping_and_dense(
        self, sizes: Sequence[SymNode], strides: Sequence[SymNode]
    ) -> SymNode:
        return self.made(_TRUTHS[dense_order(_sizes(sizes), _sizes(strides)) is not None])

    def is_non_overlapping_and_dense_indicator(
        self, sizes: Sequence[SymNode], strides: Sequence[SymNode]
    ) -> SymNode:
        return self.made(int(dense_order(_sizes(sizes), _sizes(strides)) is not None))


def _sizes(nodes: Sequence[SymNode]) -> list[Size]:
    return [node.size for node in nodes]


def _float_or_none(value: int | None) -> float | None:
    return None if value is None else float(value)


#: The file whose C++ lines ask whether strides are contiguous, dense or channels-last.
_ABOUT_LAYOUT: Final = "core/TensorImpl.h"
#: The file whose C++ lines ask whether a storage is large enough. The tensors here have none.
_ABOUT_MEMORY: Final = "native/Resize.h"
