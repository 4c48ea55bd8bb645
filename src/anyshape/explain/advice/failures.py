"""What failed when an entry did not serve a call: the guard, what it looks at, what it found.

    tensor 'x' size mismatch at index 0. expected 4, actual 7      size of L['x'].size()[0]
    L['self'].mode == 'a', actual 'b'                              equals of L['self'].mode

The guard itself is in the entry: its text is how the sentence begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from anyshape.events.kinds import Frame, GuardFailure, GuardSaid
from anyshape.explain.advice.history import Compile


class Failure(NamedTuple):
    #: "size", "condition", "dtype", "equals", "state", ... : the rows of `kinds.py` go by it
    kind: str
    #: "L['x'].size()[0]", "L['self'].mode"; empty where it is about several, or about none
    source: str
    expected: str
    actual: str
    place: Frame | None
    #: why the entry relied on it
    reason: str = ""
    #: the sentence as it was told
    text: str = ""


#: What the guards of each kind are about; conditions and tensors have more to say.
_BY_GUARD: Final = {
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


def failure_of(reason: GuardFailure, entry: Compile) -> Failure:
    """Why this entry did not serve the call."""
    return (
        _tensor_failure(reason)
        or _symbol_failure(reason)
        or _guard_failure(reason, entry)
        or Failure("unknown", "", "", "", reason.user_frame, "", reason.text)
    )


def _tensor_failure(reason: GuardFailure) -> Failure | None:
    found = _TENSOR.fullmatch(reason.text)
    if found is None:
        return None
    name = found["name"]
    # An argument is told by its name, anything else by its path, which has brackets.
    source = name[1:-1] if "[" in name else f"L[{name}]"
    kind = found["what"]
    if kind == "size":
        source += f".size()[{found['dim']}]"
    return Failure(
        kind, source, found["expected"], found["actual"], reason.user_frame, text=reason.text
    )


def _guard_failure(reason: GuardFailure, entry: Compile) -> Failure | None:
    for guard in entry.guards:
        if reason.text.startswith(f"{guard.text}, ") and guard.kind in _BY_GUARD:
            return _of_guard(guard, reason.text[len(guard.text) + 2 :], reason)
    return None


def _of_guard(guard: GuardSaid, actual: str, reason: GuardFailure) -> Failure:
    kind = _BY_GUARD[guard.kind]
    expected = guard.text.partition(" == ")[2] if kind in ("equals", "state") else guard.text
    if kind == "type":
        expected = guard.text.rpartition(" is ")[2]
    actual = actual.removeprefix("actual ")
    place = reason.user_frame or guard.user_frame
    return Failure(kind, guard.source, expected, actual, place, guard.reason, reason.text)


def _symbol_failure(reason: GuardFailure) -> Failure | None:
    found = _ONE_SYMBOL.fullmatch(reason.text)
    if found is not None:
        kind, expected = "one_symbol", f"{found['source']} == {found['other']}"
    elif (found := _RANGE.fullmatch(reason.text)) is not None:
        kind, expected = "range", found["range"]
    else:
        return None
    return Failure(
        kind, found["source"], expected, found["actual"], reason.user_frame, text=reason.text
    )


# -- what tells two entries apart, sizes aside ---------------------------------------------------

_SIZES: Final = re.compile(r"(?<=, )(?:size|stride)=\[[^\]]*\](?:, )?")


#: There may be several of one object: each stands for itself.
_SEVERAL: Final = frozenset({"NO_ATTRIBUTE", "NOT_HASATTR", "DICT_CONTAINS", "PREDICATE"})


def non_shape_guards(compiled: Compile) -> dict[tuple[str, str], GuardSaid]:
    """The guards that are not about sizes and integers, by what they look at."""
    return {
        (guard.kind, guard.text if guard.kind in _SEVERAL else guard.source): guard
        for guard in compiled.guards
        if guard.kind != "SHAPE_GUARD" and guard.source not in compiled.decisions
    }


def text_without_sizes(guard: GuardSaid) -> str:
    return _SIZES.sub("", guard.text) if guard.kind == "TENSOR_MATCH" else guard.text


def differences(entry: Compile, compiled: Compile) -> Iterator[Failure]:
    """Where the guards of two entries differ, other than in sizes."""
    theirs = non_shape_guards(compiled)
    for key, guard in non_shape_guards(entry).items():
        other = theirs.get(key)
        if other is None or text_without_sizes(other) == text_without_sizes(guard):
            continue
        if guard.kind == "TENSOR_MATCH":
            yield from _tensor_differences(guard, other)
        elif guard.kind in _BY_GUARD:
            actual = other.text.partition(" == ")[2] or other.text
            yield _of_guard(
                guard, actual, GuardFailure(entry.id, f"{guard.text}, {actual}", guard.user_frame)
            )


def _tensor_differences(guard: GuardSaid, other: GuardSaid) -> Iterator[Failure]:
    mine, theirs = _attributes(guard.text), _attributes(other.text)
    for name, expected in mine.items():
        actual = theirs.get(name, "")
        if actual != expected:
            text = f"tensor {guard.source} {name} mismatch. expected {expected}, actual {actual}"
            yield Failure(name, guard.source, expected, actual, guard.user_frame, "", text)


def _attributes(text: str) -> dict[str, str]:
    """Of "tensor 'x': type=Tensor, dtype=torch.float32, size=[4, 3], contiguous"."""
    parts = [part.partition("=") for part in _SIZES.sub("", text).partition(": ")[2].split(", ")]
    return {name if sign else "order": value or name for name, sign, value in parts}
