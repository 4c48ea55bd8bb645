"""Which products of a segment may run side by side."""

from __future__ import annotations

import pytest

from anyshape.codegen.host.branches import branches_of
from anyshape.loops.program import Area, Buffer, Extern, Role

ROLES: dict[str, Role] = {"x": "input", "w": "input", "out": "output"}


def area(name: str) -> Area:
    return Area(name, (8, 8), (8, 1))


def mm(target: str, matrix: str = "x", weight: str = "w") -> Extern:
    return Extern("mm_out", (area(target), area(matrix), area(weight)))


def in_groups(*steps: Extern) -> list[int]:
    names = {each.buffer for step in steps for each in step.arguments}
    buffers = {
        name: Buffer(name, "f32", (8, 8), (8, 1), ROLES.get(name, "temporary")) for name in names
    }
    return sorted(branches_of(steps, buffers))


def test_products_of_one_matrix_are_a_group() -> None:
    assert in_groups(mm("a"), mm("b"), mm("out"), mm("c", "a", "b")) == [0, 1, 2]


def test_a_group_is_bounded() -> None:
    names = "abcdef"
    last = Extern("cat_out", tuple(map(area, ("out", *names))))
    steps = [mm(name) for name in names]
    assert in_groups(*steps, last) == [0, 1, 2, 3, 4, 5]
    buffers = {n: Buffer(n, "f32", (8, 8), (8, 1), ROLES.get(n, "temporary")) for n in "abcdefxw"}
    buffers["out"] = Buffer("out", "f32", (8, 8), (8, 1), "output")
    assert list(branches_of([*steps, last], buffers).values()) == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("unread", [0, 1, 2])
def test_what_nobody_reads_is_alone(unread: int) -> None:
    """Its memory is free as soon as it is written, and the next product may have it."""
    read = [name for place, name in enumerate("abc") if place != unread]
    groups = in_groups(mm("a"), mm("b"), mm("c"), mm("out", *read))
    assert unread not in groups


def test_a_product_of_a_product_is_behind_it() -> None:
    assert in_groups(mm("a"), mm("b", "a"), mm("out", "b", "a")) == []
    assert in_groups(mm("a"), mm("b", "x", "a"), mm("out", "b", "a")) == []
