"""`match` on sizes: patterns compare them as `==` does, and what they bind stays symbolic."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

_SUBJECTS = (
    *(
        "x.shape",
        "len(x)",
        "(x.shape[0], 4)",
        "[x.shape[0], 2]",
        "x.shape[0] * 2",
        "x.shape[0] > 3",
    ),
    *("tuple(x.shape)", "list(x.shape)", "x.shape[0] / 2", "x.shape[1:]", "(x.shape, 1)", "(x, 4)"),
    *("k", "(k, x.shape[0])", "str(x.shape[0])", "{'size': x.shape[0]}"),
)
_PATTERNS = (
    *("3", "4 | 5", "(n, 4)", "(3, m)", "(n, m) if n > m", "[b, *rest]", "[*_, 4]", "(a, b, c)"),
    *("int()", "int(n)", "bool()", "float()", "(int(a), int(b))", "{}", "[]", "True", "1", "0"),
    *("(n, (4 | 5) as m)", "tuple()", "torch.Size()", "(1, *rest)", "3.0", "'3'", "(_, _)"),
    *("[int() as n, *rest] if n % 2", "{'size': n}", "{'size': 3, **rest}"),
)


def _function(number: int, subject: str, first: str, second: str) -> Callable[..., Any]:
    text = (
        "def function(x, k):\n"
        "    a = b = c = n = m = rest = 0\n"
        f"    match {subject}:\n"
        f"        case {first}: y = x * 2\n"
        f"        case {second}: y = x * 3 + 1\n"
        "        case _: y = x - 1\n"
        "    return y, (a, b, c, n, m, rest)\n"
    )
    name = f"<match {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict[str, Any] = {"torch": torch}
    exec(compile(text, name, "exec"), names)
    return names["function"]


def _done(function: Any, size: int, k: int) -> str:
    try:
        return repr(function(torch.ones(size, 4), k))
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("subject", _SUBJECTS)
def test_as_python_matches(subject: str) -> None:
    made = random.Random(subject)
    for number, first in enumerate(_PATTERNS):
        function = _function(number, subject, first, made.choice(_PATTERNS))
        compiled = anyshape.compile(function, backend="eager", dynamic=True)
        for size, k in ((3, 5), (5, 3), (1, True), (0, 4), (4, 4)):
            assert _done(compiled, size, k) == _done(function, size, k), f"{first} {size} {k}"


def test_one_graph_for_each_case() -> None:
    def function(x: Tensor) -> Tensor:
        match x.shape:
            case (rows, 4) if rows > 4:
                return x * rows
            case (rows, columns):
                return x + rows * columns
        return x

    compiled = anyshape.compile(function, dynamic=True)
    for size in (3, 5, 2, 7, 4, 9, 1, 6, 0, 16):
        x = torch.ones(size, 4)
        assert torch.equal(compiled(x), function(x))
    assert compiled.stats().graphs == 2
