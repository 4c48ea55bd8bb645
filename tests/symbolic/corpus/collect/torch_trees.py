"""Raw trees of what torch holds: its sympy expressions, and the calls that built them."""

from __future__ import annotations

import functools
import re
from typing import Any

import sympy
from torch.utils._sympy import functions as F
from torch.utils._sympy.numbers import IntInfinity, NegativeIntInfinity

from tests.symbolic.corpus.collect.trees import BINARY, Tree, Unsupported

# The first class that fits names the operation.
_BY_CLASS: tuple[tuple[Any, str], ...] = (
    (F.FloorDiv, "int_floordiv"),
    ((F.Mod, F.PythonMod, sympy.Mod), "mod"),
    ((F.Max, sympy.Max), "max"),
    ((F.Min, sympy.Min), "min"),
    (sympy.Eq, "eq"),
    (sympy.Ne, "ne"),
    (sympy.Lt, "lt"),
    (sympy.Le, "le"),
    (sympy.Gt, "gt"),
    (sympy.Ge, "ge"),
    (sympy.And, "and"),
    (sympy.Or, "or"),
    (sympy.Not, "not"),
)


def tree_of_sympy(e: Any) -> Tree:
    """A sympy expression of torch's as a raw tree."""
    if isinstance(e, bool | int):
        return e
    if e in (sympy.true, sympy.false):
        return bool(e)
    if isinstance(e, sympy.Integer):
        return int(e)
    if isinstance(e, IntInfinity | NegativeIntInfinity):
        raise Unsupported("infinity")
    if isinstance(e, sympy.Symbol):
        if not re.fullmatch(r"[su]\d+", e.name):
            raise Unsupported(e.name)
        return e.name
    if isinstance(e, F.CeilToInt | F.FloorToInt | F.TruncToInt) and isinstance(
        e.args[0], F.IntTrueDiv
    ):
        op = "ceildiv" if isinstance(e, F.CeilToInt) else "int_floordiv"
        return (op, *map(tree_of_sympy, e.args[0].args))
    if isinstance(e, sympy.Add):
        return _sum(e)
    if isinstance(e, sympy.Mul) and e.args[0] == -1 and len(e.args) > 1:
        return ("neg", tree_of_sympy(-e))
    args = [tree_of_sympy(x) for x in e.args]
    if isinstance(e, sympy.Mul):
        return functools.reduce(lambda x, y: ("mul", x, y), args)
    if isinstance(e, sympy.Pow | F.PowByNatural) and isinstance(args[1], int) and 0 <= args[1] <= 6:
        return ("pow_by_natural", *args)
    if isinstance(e, F.ModularIndexing):
        return ("mod", ("int_floordiv", args[0], args[1]), args[2])
    for kinds, op in _BY_CLASS:
        if isinstance(e, kinds):
            return (op, *args)
    raise Unsupported(type(e).__name__)


def _sum(e: Any) -> Tree:
    """Positive terms first, numbers last among them; the rest is subtracted."""
    positive = [x for x in e.args if not x.could_extract_minus_sign()]
    negative = [-x for x in e.args if x.could_extract_minus_sign()]
    positive.sort(key=lambda x: (x.is_number, str(x)))
    out = tree_of_sympy(positive[0]) if positive else ("neg", tree_of_sympy(negative.pop(0)))
    for x in positive[1:]:
        out = ("add", out, tree_of_sympy(x))
    for x in negative:
        out = ("sub", out, tree_of_sympy(x))
    return out


def raw_of(node: Any) -> Tree:
    """The tree kept beside a SymNode, else that of its expression."""
    if hasattr(node, "_raw"):
        if node._raw is None:
            raise Unsupported("from an unsupported operation")
        return node._raw
    if getattr(node, "constant", None) is not None:
        return node.constant
    return tree_of_sympy(node._expr)


_TRUE_DIVISIONS = ("int_truediv", "float_truediv")
_ROUNDINGS = ("ceil", "floor", "trunc", "sym_int")


def _is_true_division(tree: Tree) -> bool:
    return isinstance(tree, tuple) and tree[0] in _TRUE_DIVISIONS


def tree_of_call(op: str, args: list[Tree]) -> Tree:
    """The tree of one SymNode method; ceil and floor of an int division become integer ones."""
    first = args[0]
    if op in _ROUNDINGS and _is_true_division(first):
        return ("ceildiv" if op == "ceil" else "int_floordiv", *first[1:])
    if op in (*_ROUNDINGS, "sym_float", "pos"):
        return first
    if op in _TRUE_DIVISIONS:
        return (op, *args)
    if any(isinstance(a, float) or _is_true_division(a) for a in args):
        raise Unsupported(op)
    if op == "abs":
        return ("max", first, ("neg", first))
    if op in ("and", "or", "neg", "sym_not", "sym_min", "sym_max"):
        return (op.removeprefix("sym_"), *args)
    if op in BINARY:
        return (op, *args)
    raise Unsupported(op)


def contiguous_tree(sizes: list[Tree], strides: list[Tree], order: list[int]) -> Tree:
    """is_contiguous as torch's sympy_is_contiguous_generic writes it, without simplification."""
    expected: Tree = 1
    terms: list[Tree] = []
    for d in order:
        terms.append(("or", ("eq", sizes[d], 1), ("eq", strides[d], expected)))
        expected = sizes[d] if expected == 1 else ("mul", expected, sizes[d])
    whole = ("and", *terms) if len(terms) > 1 else terms[0]
    return ("or", whole, *[("eq", s, 0) for s in sizes])
