"""Which combinations are run: all types with all protocols in eight parts, one a run."""

from __future__ import annotations

import os
from collections.abc import Iterator

from tests.boundary.places import ARGUMENT, PLACES, Place
from tests.boundary.protocols import (
    OF_MODELS,
    PROTOCOLS,
    Protocol,
    attributes_of,
    left_out,
    models,
)
from tests.boundary.running import Case
from tests.boundary.values import ROWS, Row

#: The other parts are run by setting this.
PART = int(os.environ.get("ANYSHAPE_BOUNDARY_PART", "0"))
PARTS = 8


def cases_of(row: Row, number: int, part: int = PART, parts: int = PARTS) -> Iterator[Case]:
    """The cases of a type. Of all its combinations with a protocol, one in `parts`; each protocol
    is read from three places, which are others in another part."""
    for index, protocol in enumerate(PROTOCOLS):
        if left_out(row, protocol) is not None:
            continue
        if (index + number) % parts == part % parts:
            yield Case(row, protocol, _place(index, number + part, part))
        is_there = row.turn is not None and left_out(row, protocol, in_place=True) is None
        if is_there and (index + number + 3) % parts == part % parts:
            yield Case(row, protocol, in_place=True)
    if row.name in OF_MODELS:
        for index, protocol in enumerate(models()):
            if (index + number) % 3 == part % 3:
                yield Case(row, protocol)
    if row.name in _OF_TENSORS:
        return
    for index, protocol in enumerate(attributes_of(row)):
        if (index + number) % parts == part % parts:
            yield Case(row, protocol)


def _place(protocol: int, row: int, part: int) -> Place:
    others = PLACES[1:]
    choice = (row // 8) % 3
    return ARGUMENT if choice == 0 else others[(2 * protocol + choice + part) % len(others)]


#: Methods of tensors are operators, which have tests of their own.
_OF_TENSORS = frozenset(
    {
        *("tensor", "tensor of float", "tensor of bool", "tensor of no elements", "Parameter"),
        *("Module", "Sequential", "ParameterDict", "ModuleList", "Tensor method"),
    }
)


def blocks(count: int) -> list[list[tuple[int, Row]]]:
    """The types in so many groups."""
    numbered = list(enumerate(ROWS))
    return [numbered[start::count] for start in range(count)]


def sample(every: int) -> Iterator[Case]:
    """A few cases of all types, protocols and places."""
    for number, row in enumerate(ROWS):
        for index in range(number % every, len(PROTOCOLS), every):
            protocol: Protocol = PROTOCOLS[index]
            if left_out(row, protocol) is None:
                yield Case(row, protocol, PLACES[(number + index // every) % len(PLACES)])
