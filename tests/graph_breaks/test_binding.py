"""What is said to be bound is bound: random functions are run, and looked at before every
statement."""

from __future__ import annotations

import ast
import random
from typing import Any

import pytest

from anyshape.capture.outline.dataflow import Binding

_NAMES = ("a", "b", "c")


class _Source:
    """Random statements on a few variables. `R()` decides at run time, `T()` may raise."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: list[str] = []

    def text(self) -> str:
        self._lines = ["def f(a):"]
        self._block(1, 3)
        return "\n".join(self._lines)

    def _put(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)

    def _block(self, depth: int, room: int) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._statement(depth, room)

    def _statement(self, depth: int, room: int) -> None:
        name = self._random.choice(_NAMES)
        simple = [f"{name} = 1", f"del {name}", "T()", f"({name} := R())", f"{name} += 1", "pass"]
        if depth > 1:
            simple += ["if R(): return", "raise KeyError"]
        compound = ["if", "while", "for", "try", "finally", "with", "match", "def"]
        if not room or self._random.random() < 0.45:
            self._put(depth, self._random.choice(simple))
            return
        getattr(self, f"_{self._random.choice(compound)}")(depth, room - 1, name)

    def _if(self, depth: int, room: int, name: str) -> None:
        self._put(depth, f"if R() and ({name} := R()):")
        self._block(depth + 1, room)
        self._put(depth, "else:")
        self._block(depth + 1, room)

    def _while(self, depth: int, room: int, name: str) -> None:
        self._put(depth, f"while R() and ({name} := R()):")
        self._block(depth + 1, room)
        self._put(depth + 1, self._random.choice(["if R(): break", "if R(): continue", "pass"]))

    def _for(self, depth: int, room: int, name: str) -> None:
        self._put(depth, f"for {name} in range(R() * 2):")
        self._block(depth + 1, room)
        self._put(depth + 1, self._random.choice(["if R(): break", "if R(): continue", "pass"]))
        if self._random.random() < 0.5:
            self._put(depth, "else:")
            self._block(depth + 1, room)

    def _try(self, depth: int, room: int, name: str) -> None:
        self._put(depth, "try:")
        self._block(depth + 1, room)
        self._put(depth, f"except (KeyError, NameError) as {name}:")
        self._block(depth + 1, room)
        if self._random.random() < 0.5:
            self._put(depth, "else:")
            self._block(depth + 1, room)
        if self._random.random() < 0.5:
            self._put(depth, "finally:")
            self._block(depth + 1, room)

    def _finally(self, depth: int, room: int, name: str) -> None:
        self._put(depth, "try:")
        self._block(depth + 1, room)
        self._put(depth, "finally:")
        self._block(depth + 1, room)

    def _with(self, depth: int, room: int, name: str) -> None:
        self._put(depth, f"with suppress(KeyError, NameError) as {name}:")
        self._block(depth + 1, room)

    def _match(self, depth: int, room: int, name: str) -> None:
        self._put(depth, "match R():")
        self._put(depth + 1, f"case True as {name} if R():")
        self._block(depth + 2, room)
        self._put(depth + 1, "case _:")
        self._block(depth + 2, room)

    def _def(self, depth: int, room: int, name: str) -> None:
        self._put(depth, "def g():")
        if name != "a":  # Python allows no parameter here.
            self._put(depth + 1, f"nonlocal {name}")
            self._put(depth + 1, self._random.choice([f"del {name}", f"{name} = 1"]))
        self._put(depth + 1, "return 1")
        self._put(depth, "if R(): g()")


class _Checks(ast.NodeTransformer):
    """Puts a check before every statement."""

    def __init__(self, before: dict[ast.stmt, frozenset[str]]) -> None:
        self._before = before

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [each for old in block for each in self._checked(old)])
        return node

    def _checked(self, statement: Any) -> list[ast.stmt]:
        bound = self._before.get(statement)
        if bound is None:
            return [statement]
        names = sorted(bound & set(_NAMES))
        check = ast.parse(f"CHECK(locals(), {names!r}, {statement.lineno})").body[0]
        return [check, statement]


class _Suppress:
    """As `contextlib.suppress`, by a name that nobody knows."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


def _check_one(seed: int) -> int:
    text = _Source(seed).text()
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    _Checks(Binding(function.body, ("a",)).before).visit(function)
    decide = random.Random(seed)
    seen = 0

    def check(found: dict[str, Any], names: list[str], line: int) -> None:
        nonlocal seen
        seen += len(names)
        missing = [name for name in names if name not in found]
        assert not missing, f"{missing} is unbound before line {line} of\n{text}"

    def may_raise() -> None:
        if decide.random() < 0.3:
            raise KeyError

    names: dict[str, Any] = {"R": lambda: decide.random() < 0.5, "T": may_raise}
    names |= {"CHECK": check, "suppress": _Suppress}
    exec(compile(ast.fix_missing_locations(tree), f"<binding {seed}>", "exec"), names)
    for _ in range(12):
        try:
            names["f"](1)
        except (KeyError, NameError, TypeError):
            continue
    return seen


@pytest.mark.parametrize("part", range(4))
def test_what_is_surely_bound_is(part: int) -> None:
    # Python refuses some: a variable that is `nonlocal` and a parameter, or has no value anywhere.
    seen = 0
    for seed in range(part * 100, part * 100 + 100):
        try:
            seen += _check_one(seed)
        except SyntaxError:
            continue
    assert seen > 500
