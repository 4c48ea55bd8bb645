"""Einsum on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import inside_out


@pytest.fixture(autouse=True)
def _in_the_order_given():
    """An optional package reorders the factors where it is installed; that is left to torch."""
    before = torch.backends.opt_einsum.enabled
    torch.backends.opt_einsum.enabled = False
    yield
    torch.backends.opt_einsum.enabled = before


SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6}


@pytest.mark.parametrize(
    ("equation", "specs"),
    [
        ("ab,bc->ac", ("a b", "b c")),
        ("ab,bc", ("a b", "b c")),
        ("eab,ebc->eac", ("e a b", "e b c")),
        ("eadb,ecdb->eac", ("e a d b", "e c d b")),
        ("...ab,...bc->...ac", ("d e a b", "d e b c")),
        ("a,b->ab", ("a", "b")),
        ("a,a->", ("a", "a")),
        ("ab,ab->ab", ("a b", "a b")),
        ("abc->cab", ("a b c",)),
        ("abc->ca", ("a b c",)),
        ("aa->a", ("a a",)),
        ("aab->ba", ("a a b",)),
        ("aa", ("a a",)),
        ("...a->a", ("b c a",)),
        ("...a->...", ("b c a",)),
    ],
)
def test_all_sizes(equation: str, specs: tuple[str, ...]) -> None:
    assert dynamic(check(_einsum(equation), *specs, first=_used(specs)))


def _einsum(equation: str) -> Any:
    return lambda *operands: torch.einsum(equation, *operands)


def _used(specs: tuple[str, ...]) -> dict[str, int]:
    return {name: size for name, size in SIZES.items() if any(name in spec for spec in specs)}


@pytest.mark.parametrize(
    ("equation", "specs"),
    [
        ("ab,bc->ca", ("a b", "b c")),
        ("dab,bc->cda", ("d a b", "b c")),
        ("dab,bc->dca", ("d a b", "b c")),
        ("dab,bc->adc", ("d a b", "b c")),
        ("abe,bc->ca", ("a b e", "b c")),
        ("ab,bc,cd->da", ("a b", "b c", "c d")),
        ("ab,bc,cd->ad", ("a b", "b c", "c d")),
        ("ab,ab,ab->ba", ("a b", "a b", "a b")),
        ("abe,ab->ba", ("a b e", "a b")),
        ("ab,cd->dbca", ("a b", "c d")),
    ],
)
def test_the_layout_depends_on_sizes_of_one(equation: str, specs: tuple[str, ...]) -> None:
    for ones in ((), *((name,) for name in _used(specs)), ("a", "b"), ("b", "c"), ("a", "c")):
        first = {name: 1 if name in ones else size for name, size in _used(specs).items()}
        assert check(_einsum(equation), *specs, first=first).served or ones
    # A size of 1 would make another layout of it.
    larger = [{name: size + 2 for name, size in _used(specs).items()}]
    assert check(
        _einsum(equation), *specs, first=_used(specs), then=larger, prepare=inside_out
    ).served


def test_lists_of_labels() -> None:
    check(
        lambda x, y: torch.einsum(x, [0, 1], y, [1, 2], [2, 0]),
        "a b",
        "b c",
        first=_used(("a b c",)),
    )
    assert dynamic(
        check(
            lambda x, y: torch.einsum(x, [0, 1], y, [1, 2]), "a b", "b c", first=_used(("a b c",))
        )
    )
    assert dynamic(
        check(lambda x: torch.einsum(x, [..., 30], [..., 30]), "a b", first=_used(("a b",)))
    )
    assert dynamic(
        check(
            lambda x, y: torch.einsum("ab , bc -> ac", [x, y]),
            "a b",
            "b c",
            first=_used(("a b c",)),
        )
    )


def test_stretched() -> None:
    assert dynamic(check(_einsum("ab,bc->ac"), "a b", "1 c", first=_used(("a b c",))))
    outcome = check(_einsum("ab,bc->ac"), "a b", "d c", first={"a": 2, "b": 3, "c": 4, "d": 3})
    assert {"a": 2, "b": 3, "c": 4, "d": 1} in outcome.served
    check(_einsum("...ab,...bc->...ac"), "a b c", "d 1 c e", first=_used(("a b c d e",)))


@pytest.mark.parametrize(
    ("equation", "specs", "dtypes"),
    [
        ("ab,bc->ac", ("2 3", "4 5"), {}),
        ("ab,ab->ab", ("2 3", "3 3"), {}),
        ("aa->a", ("2 3",), {}),
        ("ab->aa", ("2 3",), {}),
        ("ab->abc", ("2 3",), {}),
        ("abc->a", ("2 3",), {}),
        ("ab,bc->ac", ("2 3",), {}),
        ("ab,bc->ac", ("2 3", "3 4"), {1: torch.float64}),
    ],
)
def test_rejected(equation: str, specs: tuple[str, ...], dtypes: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(_einsum(equation), *specs, first={}, dtypes=dtypes)
