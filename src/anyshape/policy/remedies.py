"""What would change a decision, in words: a row for each way that one comes about."""

from __future__ import annotations

from typing import Final

from anyshape.policy.decide import By, Choice, Decision

_WISH: Final = "mark_dynamic(tensor, dim)"
_INT_WISH: Final = "anyshape.DynamicInt(n)"
_LIST: Final = "config.dynamic_sources"

#: What makes it dynamic; `{wish}` is the mark that fits.
_TO_DYNAMIC: Final = {
    By.DEFAULT: f"another value in a later call, {{wish}}, or a name in {_LIST}",
    By.FLAG: f"the setting named, or a name in {_LIST}, which stands above it",
    By.MARK: f"dropping the mark, or a name in {_LIST}",
    By.ARGUMENT: f"dropping dynamic=False, {{wish}}, or a name in {_LIST}",
}

#: What keeps it static; `{keep}` is what says so of one source.
_TO_STATIC: Final = {
    By.LIST: f"taking it out of {_LIST}",
    By.MARK: "dropping the mark",
    By.ARGUMENT: "dropping dynamic=True, or {keep}",
    By.PROFILE: "{keep}, or `anyshape profile clear`",
    By.RANKS: "{keep}, or config.enable_compiler_collectives = False",
    By.SEEN: "{keep}, or config.automatic_dynamic = False",
    By.DEFAULT: "{keep}, or config.assume_static_by_default = True",
}


def what_changes(decision: Decision, is_int: bool) -> str:
    """What the user would do to have it otherwise."""
    if decision.choice is Choice.STATIC:
        return _TO_DYNAMIC.get(decision.by, _TO_DYNAMIC[By.FLAG]).format(
            wish=_INT_WISH if is_int else _WISH
        )
    keep = "config.specialize_int = True" if is_int else "mark_static(tensor, dim)"
    return _TO_STATIC.get(decision.by, _TO_STATIC[By.DEFAULT]).format(keep=keep)
