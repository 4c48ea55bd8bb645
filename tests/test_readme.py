"""The README's program runs, and each of its lines gives what the comment beside it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_program_says_what_its_comments_say():
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    lines = program.splitlines()
    scope: dict[str, object] = {}
    checked = 0
    for statement in ast.parse(program).body:
        source = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
        if not isinstance(statement, ast.Expr):
            exec(source, scope)
            continue
        _, _, comment = source.partition("# ")
        said = re.split(", and|: ", comment)[0]  # what follows the value is prose
        assert str(eval(source.strip(), scope)) == said, source
        checked += 1
    assert checked >= 4
