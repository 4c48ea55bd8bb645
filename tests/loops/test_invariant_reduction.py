"""Reductions that are the same for several points of an axis are computed once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anyshape.loops.expr import Axis, Scalar, fresh_scope, load, operation, reduce
from anyshape.loops.kernels import Store
from anyshape.loops.stages import MustBeStored, is_repeated, kernel_of
from anyshape.symbolic import Expr, Size, as_symbol, symbol

AT, ALONG, N, M = (symbol(name) for name in ("i0", "r0", "n0", "n1"))


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with fresh_scope():
        yield


def total(*addresses: Size) -> Scalar:
    body = load("k0", addresses[0], "f32")
    for address in addresses[1:]:
        body = operation("add", body, load("k0", address, "f32"), dtype="f32")
    return reduce("sum", (Axis(as_symbol(ALONG), M),), body, "f32")


@pytest.mark.parametrize(
    ("addresses", "repeated"),
    [
        ([AT * M + ALONG], False),
        ([(AT // 8) * M + ALONG], True),
        ([(AT % 8) * M + ALONG], True),
        ([(AT // 8) * M + (AT % 8) * 3 + ALONG], False),
        ([(AT // 8) * M + ALONG, AT + ALONG], False),
        ([ALONG], False),
    ],
)
def test_is_repeated(addresses: list[Expr], repeated: bool) -> None:
    assert is_repeated(total(*addresses), [as_symbol(AT)]) is repeated


def test_what_is_used_is_stored_first_and_what_is_stored_is_not() -> None:
    axes = [Axis(as_symbol(AT), N)]
    group = total((AT // 8) * M + ALONG)
    shared = operation("mul", group, load("k2", AT, "f32"), dtype="f32")
    with pytest.raises(MustBeStored) as needed:
        kernel_of(axes, [Store("k1", AT, shared)])
    assert list(needed.value.reductions) == [group]
    assert len(kernel_of(axes, [Store("k1", AT, group)]).stages) == 2
