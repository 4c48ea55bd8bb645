"""Listens to torch. SymNode builds sympy expressions, which simplify themselves; the recorder keeps
beside each node the tree as the shape code wrote it, and logs each truth value that is asked of a
node, with the facts that the ShapeEnv knew.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sympy
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.sym_node import SymNode

from tests.symbolic.corpus.collect.rows import Row, symbols_in
from tests.symbolic.corpus.collect.torch_trees import (
    contiguous_tree,
    raw_of,
    tree_of_call,
    tree_of_sympy,
)
from tests.symbolic.corpus.collect.trees import Tree, Unsupported, text_of, tree_size

MAX_TREE = 70
MAX_FACT = 30

# fmt: off
_OPERATIONS = {
    **{f"_{op}": op for op in (
        "add", "sub", "mul", "mod", "pow_by_natural", "int_floordiv", "int_truediv",
        "float_truediv", "eq", "ne", "lt", "le", "gt", "ge", "sym_min", "sym_max", "sym_not", "neg",
        "abs", "ceil", "floor", "trunc", "sym_float", "sym_int", "pos",
    )},
    "_and_": "and", "_or_": "or",
}
_ORDERS: dict[str, Callable[[int], list[int]]] = {
    "_is_contiguous": lambda n: list(range(n - 1, -1, -1)),
    "_is_channels_last_contiguous_2d": lambda n: [1, 3, 2, 0],
    "_is_channels_last_contiguous_3d": lambda n: [1, 4, 3, 2, 0],
}
# Which function is asked, the position of the node in its arguments, and that of the file.
_QUESTIONS: tuple[tuple[Any, str, int, int | None], ...] = (
    (symbolic_shapes.ShapeEnv, "evaluate_sym_node", 1, None),
    (symbolic_shapes, "_static_eval_sym_bool", 0, None),
    (symbolic_shapes, "_sym_node_hint_disproves", 0, None),
    (SymNode, "guard_bool", 0, 1),
    (SymNode, "guard_or_false", 0, 1),
    (SymNode, "guard_or_true", 0, 1),
    (SymNode, "expect_true", 0, 1),
    (SymNode, "statically_known_true", 0, 1),
    (SymNode, "guard_size_oblivious", 0, 1),
    (SymNode, "maybe_as_bool", 0, None),
)
# Frames that pass a question on, and our own.
_SKIP_FILES = (
    "sym_node.py", "symbolic_shapes.py", "recording.py", "corpus/collect/", "torch/__init__.py",
    "_sympy", "contextlib.py", "functools.py", "_stats.py", "_traceback.py", "sympy/", "runpy",
)
# fmt: on


class Recorder:
    """The rows recorded so far, and the program and the operators that run now."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._program = ""
        self._ops: list[str] = []
        self._seen: set[Any] = set()

    def begin(self, program: str, fresh: bool = True) -> None:
        self._program = program
        if fresh:
            self._seen.clear()

    def install(self) -> None:
        """Patches torch, for the rest of the process."""
        for method, op in _OPERATIONS.items():
            if hasattr(SymNode, method):
                _keep_tree(method, op)
        _keep_tree_of_sums()
        for method, order in _ORDERS.items():
            _keep_tree_of_layout(method, order)
        for owner, name, node_at, file_at in _QUESTIONS:
            self._listen(owner, name, node_at, file_at)
        for name in ("evaluate_expr", "guard_or_defer_runtime_assert"):
            self._listen_to_expressions(name)
        self._follow_operators()

    def _listen(self, owner: Any, name: str, node_at: int, file_at: int | None) -> None:
        original = getattr(owner, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            node = args[node_at]
            file = args[file_at] if file_at is not None and len(args) > file_at else ""
            self._note_node(getattr(node, "node", node), file)
            return original(*args, **kwargs)

        setattr(owner, name, method)

    def _listen_to_expressions(self, name: str) -> None:
        original = getattr(symbolic_shapes.ShapeEnv, name)

        def method(env: Any, expr: Any, *args: Any, **kwargs: Any) -> Any:
            self._note_sympy(env, expr)
            return original(env, expr, *args, **kwargs)

        for attribute in ("cache_clear", "cache_info"):
            setattr(method, attribute, getattr(original, attribute, None))
        setattr(symbolic_shapes.ShapeEnv, name, method)

    def _follow_operators(self) -> None:
        original = FakeTensorMode.dispatch

        def dispatch(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self._ops.append(str(func))
            try:
                return original(mode, func, types, args, kwargs)
            finally:
                self._ops.pop()

        FakeTensorMode.dispatch = dispatch  # pyright: ignore[reportAttributeAccessIssue] a patch

    def _note_node(self, node: Any, file: str) -> None:
        if getattr(node, "pytype", None) is not bool or node.shape_env is None:
            return
        with contextlib.suppress(Unsupported):
            tree = raw_of(node)
            if self._is_new(node.shape_env, tree):
                self._note(node.shape_env, tree, file, "as written")

    def _note_sympy(self, env: Any, expr: Any) -> None:
        if not isinstance(expr, sympy.logic.boolalg.Boolean | sympy.core.relational.Relational):
            return
        if self._is_new(env, expr):
            with contextlib.suppress(Unsupported):
                tree = tree_of_sympy(expr)
                if tree_size(tree) <= MAX_TREE:
                    self._note(env, tree, "", "simplified by sympy")

    def _is_new(self, env: Any, question: Any) -> bool:
        key = (id(env), question)
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _note(self, env: Any, tree: Tree, file: str, form: str) -> None:
        if not isinstance(tree, tuple):
            return
        ask = text_of(tree)
        names = symbols_in(ask)
        if not names or not self._is_new(env, ask):
            return
        given = _known(env, names)
        ranges = _ranges(env, symbols_in(ask, *given))
        if ranges is None:
            return
        where = _asker()
        op = self._ops[-1] if self._ops else ""
        in_file = f"{where} ({Path(file).name})" if file and "/" in file else where
        origin = "; ".join(part for part in (self._program, op, in_file) if part)
        self.rows.append(
            {
                "ask": ask,
                "given": given,
                "symbols": ranges,
                "origin": origin,
                "form": form,
                "program": self._program,
                "op": op,
                "where": where,
            }
        )


def _keep_tree(method: str, op: str) -> None:
    original = getattr(SymNode, method)

    def recorded(self: Any, *others: Any) -> Any:
        result = original(self, *others)
        operands = (self, *others)
        is_old = any(result is operand for operand in operands)
        if is_old or "_raw" in getattr(result, "__dict__", {"_raw": 0}):
            return result
        try:
            tree = tree_of_call(op, [raw_of(node) for node in operands])
        except Exception:  # whatever torch's nodes raise: the tree is then unknown
            result._raw = None
            return result
        if tree_size(tree) <= MAX_TREE:
            result._raw = tree
        return result

    setattr(SymNode, method, recorded)


def _keep_tree_of_sums() -> None:
    original: Callable[..., Any] = SymNode.sym_sum

    def recorded(self: Any, args: Any) -> Any:
        result = original(self, args)
        with contextlib.suppress(Exception):
            tree = raw_of(args[0])
            for a in args[1:]:
                tree = ("add", tree, raw_of(a))
            result._raw = tree
        return result

    SymNode.sym_sum = recorded


def _keep_tree_of_layout(method: str, order: Callable[[int], list[int]]) -> None:
    original = getattr(SymNode, method)

    def recorded(self: Any, sizes: Any, strides: Any) -> Any:
        result = original(self, sizes, strides)
        with contextlib.suppress(Exception):
            trees = [raw_of(s) for s in sizes], [raw_of(s) for s in strides]
            result._raw = contiguous_tree(*trees, order(len(sizes)))
        return result

    setattr(SymNode, method, recorded)


def _asker() -> str:
    """The innermost function of shape code on the stack."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(part in name for part in _SKIP_FILES):
            path = Path(name)
            module = path.parent.name if path.stem == "__init__" else path.stem
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "C++"


def _known(env: Any, names: list[str]) -> list[str]:
    """What the ShapeEnv knows of the names: replacements, guards, runtime asserts."""
    symbols = {s.name: s for s in env.var_to_range}
    given: list[str] = []
    for name in names:
        symbol = symbols.get(name)
        if symbol is not None and symbol in env.replacements:
            with contextlib.suppress(Unsupported):
                given.append(text_of(("eq", name, tree_of_sympy(env._find(symbol)))))
    known = {*names, *symbols_in(*given)}
    asserts = [assertion for found in env.deferred_runtime_asserts.values() for assertion in found]
    for fact in (found.expr for found in (*env.guards, *asserts)):
        fact_names = {s.name for s in fact.free_symbols}
        if fact_names and fact_names <= known:
            with contextlib.suppress(Unsupported):
                tree = tree_of_sympy(fact)
                if tree_size(tree) <= MAX_FACT:
                    given.append(text_of(tree))
    return list(dict.fromkeys(given))


def _ranges(env: Any, names: list[str]) -> dict[str, list[int | None]] | None:
    """The range of each name, None if torch does not know one. Backed sizes start at 0."""
    symbols = {s.name: s for s in env.var_to_range}
    ranges: dict[str, list[int | None]] = {}
    for name in names:
        if name not in symbols:
            return None
        found = env.var_to_range[symbols[name]]
        lower, upper = _finite(found.lower), _finite(found.upper)
        if name.startswith("s") and lower is not None and lower <= 2:
            lower = 0
        ranges[name] = [lower, upper]
    return ranges


def _finite(bound: Any) -> int | None:
    """A bound of torch's value ranges; its infinities and the limits of int64 are None."""
    try:
        value = int(bound)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None
    return value if abs(value) < 2**40 else None
