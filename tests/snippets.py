"""Pages of documentation as programs.

The Python of a page is one program. An expression gives what the comment behind it says, up to a
`, and` or `: `, where prose begins. `<!-- file: name.py -->` before a block makes it a file next to
the program and for the commands of `console` blocks: what such a block shows of the output comes in
that order, and `…` stands for anything.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from tests import forks

_BLOCK = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>python|console)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


class Page:
    def __init__(self, text: str) -> None:
        self.files: dict[str, str] = {}
        self.program = ""
        #: a command, and the lines that it must print
        self.commands: list[tuple[str, list[str]]] = []
        for block in _BLOCK.finditer(text):
            if block["kind"] == "console":
                self._add_commands(block["text"])
            elif block["file"]:
                self.files[block["file"]] = block["text"]
            else:
                # Lines keep their numbers in the page: errors point there.
                before = text[: block.start("text")].count("\n")
                self.program += "\n" * (before - self.program.count("\n")) + block["text"]

    def _add_commands(self, text: str) -> None:
        for line in text.splitlines():
            if line.startswith("$ "):
                self.commands.append((line[2:], []))
            else:
                self.commands[-1][1].append(line)


def run_program(code: str, scope: dict[str, Any], file: Path, prose: str = "") -> tuple[int, str]:
    """How many expressions were compared with the comment behind them, and what was printed.
    `prose` splits a comment: what follows is not the value."""
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
            assert str(value) == said, f"{ast.unparse(statement)} gives {value}, not {said}"
            checked += 1
    return checked, printed.getvalue().rstrip()


def check_program(program: str, file: Path) -> int:
    """How many expressions of a page were compared."""
    return run_program(program, {"__file__": str(file)}, file, prose=", and|: ")[0]


def check_command(command: str, shown: list[str], folder: Path) -> None:
    variables = dict[str, str]()
    words = shlex.split(command)
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    command_line = {"anyshape": ["-m", "anyshape"], "python": []}[words.pop(0)]
    ran = forks.run([*command_line, *words], folder, variables)
    assert ran.returncode == 0, ran.stderr
    printed = iter((ran.stdout + ran.stderr).splitlines())
    for line in shown:
        pattern = ".*".join(map(re.escape, line.split("…")))
        assert any(re.fullmatch(pattern, each) for each in printed), f"not printed: {line}"


if __name__ == "__main__":
    name, folder = sys.argv[1:]
    page = Page(Path(name).read_text(encoding="utf-8"))
    for file, text in page.files.items():
        Path(folder, file).parent.mkdir(exist_ok=True)
        Path(folder, file).write_text(text, encoding="utf-8")
    os.chdir(folder)  # where a page may write files
    print(check_program(page.program, Path(folder, f"{Path(name).stem}.py")))
