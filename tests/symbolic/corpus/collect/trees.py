"""Raw trees, the expressions as shape code writes them, and their text. A tree is a tuple
(op, args...); its leaves are int, bool and str (a symbol).
"""

from __future__ import annotations

from typing import Any

Tree = Any  # int | bool | str | tuple[str, *Tree]

# fmt: off
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "int_floordiv": "//", "mod": "%", "pow_by_natural": "**",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}
PRECEDENCE = {
    "or": 1, "and": 2, "not": 3, "cmp": 4,
    "+": 5, "-": 5, "*": 6, "//": 6, "%": 6, "neg": 7, "**": 8, "atom": 9,
}
# fmt: on


class Unsupported(Exception):
    """The expression has no form in the text syntax (floats, conditionals, ...)."""


def text_of(tree: Tree) -> str:
    return _text(tree)[0]


def _text(tree: Tree) -> tuple[str, int]:
    """The text, and how tightly its outermost operator binds."""
    if not isinstance(tree, tuple):
        negative = isinstance(tree, int) and tree < 0
        return str(tree), PRECEDENCE["neg" if negative else "atom"]
    op, *args = tree
    if op in ("and", "or"):
        binds = PRECEDENCE[op]
        return f" {op} ".join(_wrap(a, binds + 1) for a in args), binds
    if op == "not":
        return "not " + _wrap(args[0], PRECEDENCE["not"]), PRECEDENCE["not"]
    if op == "neg":
        return "-" + _wrap(args[0], PRECEDENCE["neg"] + 1), PRECEDENCE["neg"]
    if op in ("min", "max", "ceildiv"):
        return f"{op}({', '.join(map(text_of, args))})", PRECEDENCE["atom"]
    if op in BINARY:
        sign = BINARY[op]
        binds = PRECEDENCE.get(sign, PRECEDENCE["cmp"])
        left = _wrap(args[0], binds + (sign == "**" or binds == PRECEDENCE["cmp"]))
        return f"{left} {sign} {_wrap(args[1], binds + 1)}", binds
    raise Unsupported(op)


def _wrap(tree: Tree, least: int) -> str:
    text, binds = _text(tree)
    return text if binds >= least else f"({text})"


def tree_size(tree: Tree) -> int:
    return 1 + sum(map(tree_size, tree[1:])) if isinstance(tree, tuple) else 1
