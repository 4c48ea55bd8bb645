"""Names of sources: as the program has them, as a list of dynamic sources has them.

L['self']._modules['lin']._parameters['weight'].size()[0]
    self.lin.weight.size(0)                                         in words
    L['self']._modules['lin']._parameters['weight']:0               in a list
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from anyshape.errors import AnyshapeError
from anyshape.symbolic import parse_fact
from anyshape.symbolic.logic import Truth

_SIZE: Final = re.compile(r"(?P<tensor>.*)\.size\(\)\[(?P<dim>\d+)\]")
_REGISTERED: Final = re.compile(r"\._(?:modules|parameters|buffers)\['(?P<name>\w+|\*)'\]")
_ROOT: Final = re.compile(r"^[LG]\['(?P<name>\w+)'\]")
_LAST: Final = re.compile(r"(?P<name>\w+)(?:'\])?$")


def tensor_and_dim(source: str) -> tuple[str, int | None]:
    """`("L['x']", 0)` of a size; an integer has no dimension."""
    found = _SIZE.fullmatch(source)
    return (found["tensor"], int(found["dim"])) if found else (source, None)


def in_words(source: str) -> str:
    tensor, dim = tensor_and_dim(source)
    text = _ROOT.sub(r"\g<name>", _REGISTERED.sub(r".\g<name>", tensor))
    return text if dim is None else f"{text}.size({dim})"


def text_in_words(text: str) -> str:
    """A sentence about sources."""
    text = re.sub(r"\.size\(\)\[(\d+)\]", r".size(\1)", text)
    return re.sub(r"\b[LG]\['(\w+)'\]", r"\1", _REGISTERED.sub(r".\g<name>", text))


def kind_in_words(source: str) -> str:
    """What a source is to the program."""
    if source.startswith("G["):
        return "a global variable"
    return (
        "an argument, or a variable of an enclosing function"
        if parameter_of(source)
        else ("an attribute or item of what is passed")
    )


def in_list(source: str) -> str:
    tensor, dim = tensor_and_dim(source)
    return tensor if dim is None else f"{tensor}:{dim}"


#: So many layers with the same name in each are named together.
_ALIKE: Final = 3
#: `[0]`, and `['0']` as lists of modules have it
_INDEX: Final = re.compile(r"\[('?)\d+\1\](?!$)")


def named_together(sources: Sequence[str]) -> list[tuple[str, str]]:
    """Each source in words and in a list; those of many layers as one:
    `layers[*].keys.size(2)`, `L['cache'].layers\\[\\d+\\].keys:2`."""
    groups: dict[str, list[str]] = {}
    for source in sources:
        groups.setdefault(_INDEX.sub(r"[\1*\1]", source), []).append(source)
    named: list[tuple[str, str]] = []
    for pattern, alike in groups.items():
        if len(alike) < _ALIKE:
            named += [(in_words(each), in_list(each)) for each in alike]
        else:
            any_index = re.sub(r"\[('?)\*\1\]", r"\\[\1\\d+\1\\]", in_list(pattern))
            named.append((in_words(pattern), any_index))
    return named


def parameter_of(source: str) -> str:
    """The parameter that the source is, or the size of; empty for what lies deeper."""
    tensor, _ = tensor_and_dim(source)
    found = _ROOT.fullmatch(tensor)
    return found["name"] if found and tensor.startswith("L") else ""


def pattern_of(source: str) -> re.Pattern[str]:
    """How a line of the program has it."""
    tensor, dim = tensor_and_dim(source)
    found = _LAST.search(in_words(tensor))
    name = re.escape(found["name"]) if found else "(?!)"
    return re.compile(rf"\b{name}\b" if dim is None else rf"\b{name}\.(?:shape|size)\b")


def holds(condition: str, values: Mapping[str, int]) -> bool | None:
    """Whether a condition on sources holds for what a call had: `L['x'].size()[0] != 8`. None where
    it cannot be told; the text comes from a file."""
    # Longer names first: one may be the beginning of another.
    names: dict[str, int] = {}
    for number, source in enumerate(sorted(values, key=len, reverse=True)):
        if source in condition:
            condition = condition.replace(source, f"v{number}_")
            names[f"v{number}_"] = values[source]
    try:
        fact = parse_fact(condition, names)
    except AnyshapeError:
        return None
    return fact.value if isinstance(fact, Truth) else None
