"""One row an operator: the torch names it answers to, its rule, and how it lowers.

What else is known of operators is filed by their names: native code (`ops/lowering`) and what they
are in ONNX (`ops/onnx.py`). The families fill these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final, TypeVar

from anyshape.support.lazy_dataclass import dataclass

#: rule(questions, *args, **kwargs): torch's own signature, with a `Meta` for each tensor and an
#: `Expr` for each symbolic integer. Returns a `Meta`, or a tuple or list of them (and of sizes),
#: nested as torch's result is.
Rule = Callable[..., Any]


class OpKind(Enum):
    """What code generation makes of an operator."""

    POINTWISE = auto()
    REDUCTION = auto()
    VIEW = auto()
    INDEX_MAP = auto()
    MATMUL = auto()
    CALL_OUT = auto()
    FACTORY = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Effects:
    """What an operator does beside giving its result."""

    #: whether it may draw random numbers, with some arguments
    draws: bool = False
    #: parameters that it may write to, beside the first one of its in-place forms
    writes: tuple[str, ...] = ()
    #: a parameter: it writes, and fails, only where that is given
    given: str | None = None
    #: whether a write gives its tensor no new version
    untold: bool = False
    #: whether it fails where an integer is divided by zero
    divides: bool = False
    #: whether it fails where a position, in a tensor of integers, is out of range
    indexes: bool = False
    #: tensors of integers with so many dimensions at most are read on the host, wherever they are
    waits: int = -1
    #: a parameter and its value: with that it fails on some numbers, of whatever dtype
    fails_with: tuple[str, Any] | None = None
    #: whether it takes any numbers, though native code does not have it; but for positions
    total: bool = False


PURE: Final = Effects()
DRAWS: Final = Effects(draws=True)
DIVIDES: Final = Effects(divides=True)
INDEXES: Final = Effects(indexes=True)
TOTAL: Final = Effects(total=True)

#: Before the names of functions that modules of torch call.
FUNCTIONAL: Final = "torch.nn.functional."


@dataclass(frozen=True, slots=True)
class Op:
    """A row of the operator table."""

    name: str
    #: dotted names of the callables it answers to: "torch.add", "torch.Tensor.add",
    #: "torch.nn.functional.relu"
    answers_to: tuple[str, ...]
    rule: Rule
    lowering: OpKind
    #: dotted names of its in-place forms: the result is the first argument, its shape and dtype
    #: unchanged. A form that gives the program nothing (`x[i] = v`) is one too: what the table says
    #: is its first argument afterwards
    in_place: tuple[str, ...] = ()
    #: whether the in-place forms instead give the first argument the sizes, strides and offset of
    #: the result (`transpose_`)
    restrides: bool = False
    #: whether a result of floating dtype requires grad if an argument does
    differentiable: bool = True
    #: its parameters as text (`"input, beta=1.0"`), if they are others than the rule's: the rule
    #: then gets those by name that it takes
    signature: str | None = None
    effects: Effects = PURE
    #: whether the layout of its result on GPUs depends on more than the rule can say: capture takes
    #: it as it sees it, and later calls bring theirs into that form
    layout_varies: bool = False


def names_of(name: str, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The usual names of an operator: the function and the method."""
    return (f"torch.{name}", f"torch.Tensor.{name}", *also)


def in_place_names(name: str, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The usual names of an operator's in-place form."""
    return (f"torch.{name}_", f"torch.Tensor.{name}_", *also)


def row_of(
    kind: OpKind, name: str, rule: Rule, *also: str, in_place: bool = False, **more: Any
) -> Op:
    """An operator of this kind by its usual names, and by others."""
    forms = in_place_names(name) if in_place else ()
    return Op(name, names_of(name, also), rule, kind, forms, **more)


# -- facets ----------------------------------------------------------------------------------------

Row = TypeVar("Row", bound=Callable[..., Any])
Table = dict[str, Callable[..., Any]]

#: native code of operators with results of their own
NATIVE: Final[Table] = {}

#: views: (lowering, meta of the base, further arguments) -> the map from an index of the view to
#: one of the base, or None where only the strides tell; a list of them for several results
VIEWS: Final[Table] = {}

#: views of several tensors, each result of one: (lowering, metas of the bases, further named
#: arguments) -> a map for each
VIEWS_OF_EACH: Final[Table] = {}

#: in-place forms that write into parts of their first argument:
#: (lowering, the handle that is written, further arguments)
WRITES: Final[Table] = {}

#: (writer, node, arguments by name) -> the name of the result in the model, or a list of names
ONNX: Final[Table] = {}

#: (gradient of the result, the result, arguments by name) -> gradients of arguments by name, as
#: `ops/gradient.py` writes them
GRADIENT: Final[Table] = {}

#: operators that torch has made of others, which its autograd sees: (where operators are recorded,
#: arguments by name, as `ops/gradient.py` has them) -> the result
PARTS: Final[Table] = {}

#: operators inside of which autocast casts: (how to call a function, their arguments) -> the
#: result, by calls whose arguments it casts
CASTS_BETWEEN: Final[Table] = {}


def _adding_to(table: Table) -> Callable[..., Callable[[Row], Row]]:
    def named(*names: str) -> Callable[[Row], Row]:
        """The function is the row of these operators."""

        def add(function: Row) -> Row:
            for name in names:
                assert name not in table, f"two rows for `{name}`"
                table[name] = function
            return function

        return add

    return named


#: operators that torch has for dtypes which it only stores, and whose native code has them, too: it
#: moves elements, or casts them, and does not compute
MOVES: Final[set[str]] = set()


def moving(*names: str) -> tuple[str, ...]:
    """The names, of operators that only move elements or cast them."""
    MOVES.update(names)
    return names


lower: Final = _adding_to(NATIVE)
lower_view: Final = _adding_to(VIEWS)
lower_views: Final = _adding_to(VIEWS_OF_EACH)
lower_in_place: Final = _adding_to(WRITES)
onnx: Final = _adding_to(ONNX)
gradient: Final = _adding_to(GRADIENT)
made_of: Final = _adding_to(PARTS)
casts_between: Final = _adding_to(CASTS_BETWEEN)


def onnx_rows(rows: Mapping[str, Callable[..., Any]]) -> None:
    """Rows that one function makes for several operators."""
    for name, row in rows.items():
        onnx(name)(row)
