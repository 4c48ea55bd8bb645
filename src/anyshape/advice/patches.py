"""Remedies as changes of the program: unified diffs of lines that the trace has kept.

Each row takes what was found and gives the lines to replace, or nothing where the program is not
known well enough: a patch that does not apply is worse than none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from anyshape.advice.findings import Finding
from anyshape.advice.history import Function
from anyshape.advice.listing import Listing
from anyshape.advice.naming import parameter_of, tensor_and_dim
from anyshape.advice.reading import Place

_CONTEXT: Final = 3


class Edit(NamedTuple):
    """The line that is replaced by others; it may be one of them."""

    file: str
    line: int
    lines: tuple[str, ...]


class Case(NamedTuple):
    function: Function
    group: Sequence[Finding]
    sources: Sequence[str]
    listing: Listing


def propose(
    row: str,
    function: Function,
    group: Sequence[Finding],
    sources: Sequence[str],
    listing: Listing,
) -> str:
    edit = _ROWS[row](Case(function, group, sources, listing))
    return "" if edit is None else _diff(edit, listing)


def _diff(edit: Edit, listing: Listing) -> str:
    known = listing.excerpt(edit.file, edit.line, _CONTEXT)
    if not known:
        return ""
    first = min(known)
    old = list(known.values())
    new = [text for number, text in known.items() for text in _after(edit, number, text)]
    file = edit.file.lstrip("/")
    header = [f"--- a/{file}", f"+++ b/{file}"]
    header.append(f"@@ -{first},{len(old)} +{first},{len(new)} @@")
    body: list[str] = []
    for number, text in known.items():
        if number != edit.line:
            body.append(f" {text}")
            continue
        kept = text in edit.lines
        body += [] if kept else [f"-{text}"]
        body += [f" {line}" if kept and line == text else f"+{line}" for line in edit.lines]
    return "\n".join([*header, *body]) + "\n"


def _after(edit: Edit, number: int, text: str) -> Iterable[str]:
    return edit.lines if number == edit.line else (text,)


# -- the call --------------------------------------------------------------------------------------


class _Call(NamedTuple):
    """A line of the program that calls the function: its text, and what it gives each parameter."""

    place: Place
    text: str
    given: Mapping[str, ast.expr]

    @property
    def indent(self) -> str:
        return self.text[: len(self.text) - len(self.text.lstrip())]

    def before(self, *lines: str) -> Edit:
        added = tuple(self.indent + line for line in lines)
        return Edit(self.place.file, self.place.line, (*added, self.text))


def _call(case: Case) -> _Call | None:
    """The line that made the call which was compiled for again: a statement of one line."""
    stack = [p for p in case.group[0].compiled.stack if not p.file.startswith("<")]
    if not stack:
        return None
    place = stack[-1]
    text = case.listing.file(place.file).get(place.line)
    definition = case.listing.block(case.function.file, case.function.line)
    if text is None or not isinstance(definition, ast.FunctionDef):
        return None
    try:
        statement = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError):
        return None
    parameters = [each.arg for each in definition.args.args]
    if parameters[:1] == ["self"]:
        del parameters[0]
    # A module is called by whatever name it has.
    calls = [c for c in ast.walk(statement) if isinstance(c, ast.Call) and _fits(c, parameters)]
    named = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == definition.name]
    chosen = named or [c for c in calls if isinstance(c.func, ast.Name)]
    if len(chosen) != 1:
        return None
    call = chosen[0]
    given = dict(zip(parameters, call.args, strict=False))
    given |= {each.arg: each.value for each in call.keywords if each.arg}
    return _Call(place, text, given)


_BUILTINS: Final = frozenset({"print", "float", "int", "round", "str", "range", "len", "list"})


def _fits(call: ast.Call, parameters: Sequence[str]) -> bool:
    if any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) > len(parameters):
        return False
    if isinstance(call.func, ast.Name) and call.func.id in _BUILTINS:
        return False
    names = [each.arg for each in call.keywords]
    return bool(call.args or names) and all(name in parameters for name in names)


def _named(call: _Call, sources: Iterable[str]) -> dict[str, str] | None:
    """By source: the variable that is passed. None if one of them is no variable."""
    found: dict[str, str] = {}
    for source in sources:
        passed = call.given.get(parameter_of(source))
        if not isinstance(passed, ast.Name):
            return None
        found[source] = passed.id
    return found


# -- rows ------------------------------------------------------------------------------------------


def _mark(case: Case) -> Edit | None:
    """`mark_dynamic(x, 0)` before the call."""
    sizes = [source for source in case.sources if tensor_and_dim(source)[1] is not None]
    call = _call(case)
    if call is None or len(sizes) != len(case.sources):
        return None
    named = _named(call, sizes)
    if not named:
        return None
    prefix = "anyshape" if case.listing.imports_anyshape(call.place.file) else "torch._dynamo"
    fixed = {s for each in case.function.compiles for s in each.specialised}
    lines: list[str] = []
    for source, name in named.items():
        wish = "maybe_mark_dynamic" if source in fixed else "mark_dynamic"
        lines.append(f"{prefix}.{wish}({name}, {tensor_and_dim(source)[1]})")
    return call.before(*dict.fromkeys(lines))


def _assigning(template: str) -> Callable[[Case], Edit | None]:
    """`x = x.to(...)` before the call."""

    def row(case: Case) -> Edit | None:
        call = _call(case)
        named = None if call is None else _named(call, case.sources)
        if call is None or not named:
            return None
        value = case.group[0].failure.expected
        value = value if value.startswith("torch.") else repr(value)
        lines = [f"{name} = {template.format(name=name, value=value)}" for name in named.values()]
        return call.before(*dict.fromkeys(lines))

    return row


_NO_DYNAMIC: Final = re.compile(r"dynamic\s*=\s*False\s*(,\s*)?")


def _drop_dynamic_false(case: Case) -> Edit | None:
    """From the decorator."""
    function = case.function
    text = case.listing.file(function.file).get(function.line, "")
    if "@" not in text or not _NO_DYNAMIC.search(text):
        return None
    new = re.sub(r",\s*\)", ")", _NO_DYNAMIC.sub("", text)).replace("()", "")
    return Edit(function.file, function.line, (new,))


_ROWS: Final[dict[str, Callable[[Case], Edit | None]]] = {
    "mark": _mark,
    "drop_dynamic_false": _drop_dynamic_false,
    "convert": _assigning("{name}.to({value})"),
    "detach": _assigning("{name}.detach()"),
    "contiguous": _assigning("{name}.contiguous()"),
    "as_tensor": _assigning("torch.tensor({name})"),
}
