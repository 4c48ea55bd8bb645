"""Remedies as changes of the program: unified diffs of lines that the trace has kept.

Each row takes what was found and gives the lines to replace, or nothing where the program is not
known well enough: a patch that does not apply is worse than none. No row changes what the program
computes: where that is the question (another dtype, no gradient), the remedy is words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from anyshape.explain.advice.calls import CallSite, call_of, replaced, with_variables
from anyshape.explain.advice.findings import Finding
from anyshape.explain.advice.history import FunctionHistory
from anyshape.explain.advice.source_lines import Listing
from anyshape.explain.source_names import parameter_of, tensor_and_dim

_CONTEXT: Final = 3


class Edit(NamedTuple):
    """The line that is replaced by others; it may be one of them."""

    file: str
    line: int
    lines: tuple[str, ...]


class Case(NamedTuple):
    function: FunctionHistory
    group: Sequence[Finding]
    sources: Sequence[str]
    listing: Listing

    @property
    def call(self) -> CallSite | None:
        """The one that was compiled for again."""
        return call_of(self.function, self.group[0].compiled, self.listing)


def propose(
    row: str,
    function: FunctionHistory,
    group: Sequence[Finding],
    sources: Sequence[str],
    listing: Listing,
) -> str:
    edit = ROWS[row](Case(function, group, sources, listing))
    return "" if edit is None else _diff(edit, listing)


def _diff(edit: Edit, listing: Listing) -> str:
    known = listing.excerpt(edit.file, edit.line, _CONTEXT)
    if not known:
        return ""
    first = min(known)
    old = list(known.values())
    new = [text for number, text in known.items() for text in _after(edit, number, text)]
    file = listing.relative(edit.file)
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


# -- rows ------------------------------------------------------------------------------------------


def _mark(case: Case) -> Edit | None:
    """`mark_dynamic(x, 0)` before the call, and `DynamicInt(n)` in it."""
    call = case.call
    if call is None or not all(map(parameter_of, case.sources)):
        return None
    file = call.place.filename
    package = case.listing.name_of_anyshape(file)
    if not package and case.listing.imports_anyshape(file):
        return None  # marks would need an import of their own
    sizes = [source for source in case.sources if tensor_and_dim(source)[1] is not None]
    integers = [source for source in case.sources if source not in sizes]
    if integers and sizes:
        return None  # two changes of one line
    fixed = {s for each in case.function.compiles for s in each.specialised}
    if sizes:
        return _mark_sizes(case, call, sizes, fixed, package or "torch._dynamo")
    # Only anyshape has a mark for integers, and it is an error where the program fixes one.
    if not package or fixed.intersection(integers):
        return None
    return _mark_integer(call, integers, package)


def _mark_sizes(
    case: Case, call: CallSite, sizes: Sequence[str], fixed: Collection[str], package: str
) -> Edit | None:
    made = with_variables(call, map(parameter_of, sizes), case.listing)
    if made is None:
        return None
    lines = list(made.before)
    for source in sizes:
        # One that the program fixes at times would be an error.
        wish = "maybe_mark_dynamic" if source in fixed else "mark_dynamic"
        name, dim = made.names[parameter_of(source)], tensor_and_dim(source)[1]
        lines.append(f"{package}.{wish}({name}, {dim})")
    return _before(call, lines, made.text)


def _mark_integer(call: CallSite, integers: Sequence[str], package: str) -> Edit | None:
    if not call.is_one_line or len(integers) != 1:
        return None
    passed = call.given.get(parameter_of(integers[0]))
    if passed is None:
        return None
    text = replaced(call, call.text, passed, f"{package}.DynamicInt({ast.unparse(passed)})")
    return _before(call, (), text)


def _before(call: CallSite, lines: Iterable[str], text: str) -> Edit:
    added = [call.indent + line for line in dict.fromkeys(lines)]
    return Edit(call.place.filename, call.place.line, (*added, text))


def _contiguous(case: Case) -> Edit | None:
    """`x = x.contiguous()` before the call."""
    call = case.call
    parameters = [parameter_of(source) for source in case.sources]
    if call is None or not all(parameters):
        return None
    made = with_variables(call, parameters, case.listing)
    if made is None:
        return None
    lines = [f"{name} = {name}.contiguous()" for name in made.names.values()]
    return _before(call, [*made.before, *lines], made.text)


_NO_DYNAMIC: Final = re.compile(r"dynamic\s*=\s*False\s*(,\s*)?")


def _drop_dynamic_false(case: Case) -> Edit | None:
    """From the decorator."""
    function = case.function
    text = case.listing.file(function.file).get(function.line, "")
    if "@" not in text or not _NO_DYNAMIC.search(text):
        return None
    new = re.sub(r",\s*\)", ")", _NO_DYNAMIC.sub("", text)).replace("()", "")
    return Edit(function.file, function.line, (new,))


ROWS: Final[dict[str, Callable[[Case], Edit | None]]] = {
    "mark": _mark,
    "drop_dynamic_false": _drop_dynamic_false,
    "contiguous": _contiguous,
}
