"""What would change a decision, in words: a row for each way that one comes about."""

from __future__ import annotations

from typing import Final

from anyshape.policy.decide import By, Choice, Decision

#: By kind of source: the mark that wishes for a dynamic one, and what keeps one static.
_WISH: Final = {
    "size": "mark_dynamic(tensor, dim)",
    "int": "anyshape.DynamicInt(n)",
    "float": "compile(dynamic=True)",
}
_KEEP: Final = {
    "size": "mark_static(tensor, dim)",
    "int": "config.specialize_int = True",
    "float": "config.specialize_float = True",
}
_LIST: Final = "config.dynamic_sources"

#: What makes it dynamic; `{wish}` is the mark that fits.
_TO_DYNAMIC: Final = {
    By.DEFAULT: f"another value in a later call, {{wish}}, or a name in {_LIST}",
    By.FLAG: f"the setting named, or a name in {_LIST}, which overrides it",
    By.ZERO_ONE: "another value than 0 and 1, or config.specialize_zero_one = False",
    By.MARK: f"dropping the mark, or a name in {_LIST}",
    By.CONTRACT: "a name for it in shapes=",
    By.ARGUMENT: f"dropping dynamic=False, {{wish}}, or a name in {_LIST}",
}

#: What keeps it static; `{keep}` is what says so of one source.
_TO_STATIC: Final = {
    By.LIST: f"taking it out of {_LIST}",
    By.MARK: "dropping the mark",
    By.CONTRACT: "a number for it in shapes=",
    By.ARGUMENT: "dropping dynamic=True, or {keep}",
    By.REGION: "{keep}, or a function without the graph break",
    By.PROFILE: "{keep}, or `anyshape profile clear`",
    By.RANKS: "{keep}, or config.enable_compiler_collectives = False",
    By.SEEN: "{keep}, or config.automatic_dynamic = False",
    By.ALL: "{keep}, or config.automatic_dynamic = True",
    By.DEFAULT: "{keep}, or config.assume_static_by_default = True",
}


def what_changes(decision: Decision, kind: str) -> str:
    """What the user would do to have it otherwise; `kind` is "size", "int" or "float"."""
    table, default = _TO_STATIC, By.DEFAULT
    if decision.choice is Choice.STATIC:
        table, default = _TO_DYNAMIC, By.FLAG
    text = table.get(decision.by, table[default])
    return text.format(wish=_WISH[kind], keep=_KEEP[kind])


def what_spares(decision: Decision, kind: str, mark: str, listed: str) -> str:
    """What would have made a static one dynamic before it changed: `mark` is the mark to write for
    a size, `listed` its name in the list. Nothing, if it is not static."""
    if decision.choice is not Choice.STATIC:
        return ""
    if decision.by is By.DEFAULT and kind != "float":
        wish = mark if kind == "size" else _WISH[kind]
        return f"compile(dynamic=True), {wish}, or {_LIST} = {listed!r}"
    return what_changes(decision, kind)
