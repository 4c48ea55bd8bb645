"""What failed when an entry did not serve a call, and texts of guards taken apart.

    tensor 'x' size mismatch at index 0. expected 4, actual 7      size of L['x'].size()[0]
    L['self'].mode == 'a', actual 'b'                              equals of L['self'].mode

A failure is told with fields. Traces of earlier versions have the sentence alone: `with_fields`
reads those. The guard itself is in the entry: its text is how the sentence begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from anyshape.events.kinds import Decided, GuardFailure, GuardSaid

#: What the guards of each kind are about; conditions and tensors have more to say.
BY_GUARD: Final = {
    "TYPE_MATCH": "type",
    "EQUALS_MATCH": "equals",
    "ID_MATCH": "identity",
    "SEQUENCE_LENGTH": "length",
    "DICT_KEYS": "keys",
    "SET_MEMBERS": "keys",
    "DICT_CONTAINS": "keys",
    "NO_ATTRIBUTE": "attribute",
    "NOT_HASATTR": "attribute",
    "TRUTH": "length",
    "SHAPE_GUARD": "condition",
    "DUPLICATE_INPUT": "same_object",
    "NO_ALIASING": "distinct",
    "GLOBAL_STATE": "state",
    "PREDICATE": "predicate",
}


def with_fields(reason: GuardFailure, guards: Iterable[GuardSaid]) -> GuardFailure:
    """The failure with what it is about, by the words of `BY_GUARD`; `guards` are the entry's."""
    if reason.kind:
        return reason._replace(kind=BY_GUARD.get(reason.kind, reason.kind))
    return _tensor_failure(reason) or _symbol_failure(reason) or _guard_failure(reason, guards)


def of_guard(guard: GuardSaid, actual: str, reason: GuardFailure) -> GuardFailure:
    """The failure of a guard that is not on a tensor."""
    kind = BY_GUARD[guard.kind]
    expected = guard.text.partition(" == ")[2] if kind in ("equals", "state") else guard.text
    if kind == "type":
        expected = guard.text.rpartition(" is ")[2]
    place = reason.user_frame or guard.user_frame
    return GuardFailure(reason.entry_id, reason.text, place, kind, guard.source, expected, actual)


# -- sentences of earlier versions -----------------------------------------------------------------

_TENSOR: Final = re.compile(
    r"""tensor\ (?P<name>'[^']*'|"[^"]*")\ (?P<what>[a-z_]+)\ mismatch
    (?:\ at\ index\ (?P<dim>\d+))?\.\ expected\ (?P<expected>.*?),\ actual\ (?P<actual>.*)""",
    re.VERBOSE | re.DOTALL,
)
#: "L['y'].size()[0] == L['x'].size()[0], actual 5 and 4": two names of one symbol
_ONE_SYMBOL: Final = re.compile(
    r"(?P<source>\S+) == (?P<other>\S+), actual (?P<actual>-?\d+) and (?P<expected>-?\d+)"
)
#: "L['x'].size()[0] in [2, int_oo], actual 1": the range that a symbol has from the start
_RANGE: Final = re.compile(r"(?P<source>\S+) in (?P<range>\[.*?\]), actual (?P<actual>-?\d+)")
#: "config.specialize_int is on": the setting that a decision is by
_FLAG: Final = re.compile(r"config\.(\w+) is (?:on|off)")


def _tensor_failure(reason: GuardFailure) -> GuardFailure | None:
    found = _TENSOR.fullmatch(reason.text)
    if found is None:
        return None
    name = found["name"]
    # An argument is told by its name, anything else by its path, which has brackets.
    source = name[1:-1] if "[" in name else f"L[{name}]"
    kind = found["what"]
    if kind == "size":
        source += f".size()[{found['dim']}]"
    return reason._replace(
        kind=kind, source=source, expected=found["expected"], actual=found["actual"]
    )


def _symbol_failure(reason: GuardFailure) -> GuardFailure | None:
    found = _ONE_SYMBOL.fullmatch(reason.text)
    if found is not None:
        kind, expected = "one_symbol", f"{found['source']} == {found['other']}"
    elif (found := _RANGE.fullmatch(reason.text)) is not None:
        kind, expected = "range", found["range"]
    else:
        return None
    return reason._replace(
        kind=kind, source=found["source"], expected=expected, actual=found["actual"]
    )


def _guard_failure(reason: GuardFailure, guards: Iterable[GuardSaid]) -> GuardFailure:
    for guard in guards:
        if reason.text.startswith(f"{guard.text}, ") and guard.kind in BY_GUARD:
            return of_guard(
                guard, reason.text[len(guard.text) + 2 :].removeprefix("actual "), reason
            )
    return reason._replace(kind="unknown")


def setting_of(decision: Decided) -> str:
    """The setting that kept a size static, if one did."""
    found = _FLAG.search(decision.reason)
    return found[1] if found else ""


# -- texts of guards -------------------------------------------------------------------------------


def split(text: str) -> list[str]:
    """At commas that stand in no bracket."""
    parts, depth, start = list[str](), 0, 0
    for index, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def tensor_fields(text: str, order: str) -> dict[str, str]:
    """`tensor 'x': type=Tensor, dtype=torch.float32, size=[?], contiguous` by field; what has no
    name is the `order`."""
    _, _, listed = text.rpartition("': ") if "': " in text else text.rpartition('": ')
    parts = [part.partition("=") for part in split(listed)]
    return {name if equals else order: value if equals else name for name, equals, value in parts}


def state_parts(text: str) -> list[str]:
    """The items of a state that is written out as a tuple, which may be tuples themselves."""
    return split(text.partition("(")[2].rpartition(")")[0])
