"""The README's program runs, and each of its lines gives what the comment beside it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_program_says_what_its_comments_say(tmp_path: Path):
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    # In a file, as users have it: capture reads the source of what it compiles.
    file = tmp_path / "example.py"
    file.write_text(program, encoding="utf-8")
    lines = program.splitlines()
    scope: dict[str, object] = {}
    checked = 0
    for statement in ast.parse(program).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), str(file), "exec"), scope)
            continue
        _, _, comment = lines[(statement.end_lineno or 0) - 1].partition("# ")
        said = re.split(", and|: ", comment)[0]  # what follows the value is prose
        value = eval(compile(ast.Expression(statement.value), str(file), "eval"), scope)
        assert str(value) == said, ast.unparse(statement)
        checked += 1
    assert checked >= 4
