"""No value from outside is read by native code without a guard: all types, protocols and places.

What is run by default is one part in eight of all combinations of a type and a protocol, each at
one place, more than 20,000 programs; `ANYSHAPE_BOUNDARY_PART=1` and so on run the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.boundary.running import Case, run
from tests.boundary.selection import blocks, cases_of

BLOCKS = 40


def _cases(block: int) -> Iterator[Case]:
    for number, row in blocks(BLOCKS)[block]:
        yield from cases_of(row, number)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_none_gets_the_answer_of_another(block: int) -> None:
    count, wrong = run(_cases(block))
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_there_are_more_than_twenty_thousand() -> None:
    count = sum(1 for block in range(BLOCKS) for _ in _cases(block))
    print(f"{count} programs")
    assert count >= 20_000
