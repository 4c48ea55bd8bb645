"""The lines of the program that a trace has kept."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Collection, Mapping
from typing import Final

from anyshape.events.trace.own_events import OUR_IMPORT, block_of

#: So many lines are shown before and after a line that is to blame.
_AROUND: Final = 2

_IMPORT_PACKAGE: Final = re.compile(
    r"import (?:[\w., ]+, )?anyshape(?: as (\w+))?(?=\s*(?:,|#|;|$))"
)


class Listing:
    """Lines by file and number, as far as they are known."""

    def __init__(self, folder: str, files: Mapping[str, Mapping[int, str]]) -> None:
        self._files = files
        #: where the program was run
        self._folder = folder

    def relative(self, file: str) -> str:
        """As whoever ran the program would name the file."""
        prefix = self._folder.rstrip("/") + "/"
        return file.removeprefix(prefix).lstrip("/")

    def file(self, file: str) -> Mapping[int, str]:
        return self._files.get(file, {})

    def line(self, file: str, line: int) -> str:
        return self.file(file).get(line, "").strip()

    def excerpt(self, file: str, line: int, around: int = _AROUND) -> dict[int, str]:
        """The line and its neighbours, those that are known without a gap."""
        known = self.file(file)
        if line not in known:
            return {}
        first = last = line
        while first > line - around and first - 1 in known:
            first -= 1
        while last < line + around and last + 1 in known:
            last += 1
        return {number: known[number] for number in range(first, last + 1)}

    def imports_anyshape(self, file: str) -> bool:
        return any(OUR_IMPORT.match(line) for line in self.file(file).values())

    def name_of_anyshape(self, file: str) -> str:
        """What the program calls the package; nothing if it only has names out of it."""
        for line in self.file(file).values():
            found = _IMPORT_PACKAGE.match(line)
            if found is not None:
                return found[1] or "anyshape"
        return ""

    def fresh(self, file: str, name: str) -> str:
        """A name that no known line of the file has."""
        text = "\n".join(self.file(file).values())
        made = f"{name}_in"
        while re.search(rf"\b{re.escape(made)}\b", text):
            made += "_"
        return made

    def first_use(self, file: str, line: int, names: Collection[str]) -> int | None:
        """The first line in the body of the function there that has one of the names."""
        function = self.block(file, line)
        if not isinstance(function, ast.FunctionDef):
            return None
        uses = [
            node.lineno
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and node.id in names
        ]
        return min(uses, default=None)

    def block(self, file: str, line: int) -> ast.stmt | None:
        """The statement that begins at the line (decorators among it), with the numbers that its
        lines have in the file; None if not all of it is known."""
        known = self.file(file)
        lines: list[str] = []
        while line + len(lines) in known:
            lines.append(known[line + len(lines)])
        # What follows the statement may be cut off anywhere: try without it.
        text = textwrap.dedent("".join(block_of([f"{line}\n" for line in lines])))
        try:
            parsed = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return None
        if not parsed.body:
            return None
        return ast.increment_lineno(parsed.body[0], line - 1)
