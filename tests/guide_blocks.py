"""Programs in documents: run statement by statement, and compared with the comments beside them."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

_BLOCK = re.compile(r"```python ?(\w*)\n(.*?)```(?:\n\n((?:    [^\n]*\n)+))?", re.DOTALL)


class Snippet(NamedTuple):
    """`kind` is the word behind `python`; `shown` is the text that stands below the block."""

    kind: str
    code: str
    shown: str


def snippets_of(document: str) -> list[Snippet]:
    return [
        Snippet(kind, code, re.sub(r"^    ", "", shown, flags=re.MULTILINE).rstrip())
        for kind, code, shown in _BLOCK.findall(document)
    ]


def run_snippet(code: str, scope: dict[str, Any], file: Path, prose: str = "") -> tuple[int, str]:
    """How many lines said what they give, and what was printed. `prose` splits a comment: what
    follows is not the value."""
    # In a file, as users have it: capture reads the source of what it compiles.
    file.write_text(code, encoding="utf-8")
    lines = code.splitlines()
    checked, printed = 0, io.StringIO()
    for statement in ast.parse(code).body:
        with contextlib.redirect_stdout(printed):
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), str(file), "exec"), scope)
                continue
            value = eval(compile(ast.Expression(statement.value), str(file), "eval"), scope)
        _, found, comment = lines[(statement.end_lineno or 0) - 1].partition("  # ")
        if found:
            said = re.split(prose, comment)[0] if prose else comment
            assert str(value) == said, ast.unparse(statement)
            checked += 1
    return checked, printed.getvalue().rstrip()
