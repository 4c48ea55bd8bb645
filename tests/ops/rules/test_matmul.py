"""Matrix products on symbols and on real tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import inside_out

SIZES = {"a": 2, "b": 3, "i": 4, "j": 5, "k": 6}


def _used(specs: tuple[Any, ...]) -> dict[str, int]:
    words = {word for spec in specs if isinstance(spec, str) for word in spec.split()}
    return {name: size for name, size in SIZES.items() if name in words}


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (torch.matmul, ("k", "k"), {}),
    (torch.matmul, ("i k", "k"), {}),
    (torch.matmul, ("k", "k j"), {}),
    (torch.matmul, ("i k", "k j"), {}),
    (torch.matmul, ("a i k", "k"), {}),
    (torch.matmul, ("k", "a k j"), {}),
    (torch.matmul, ("a i k", "k j"), {}),
    (torch.matmul, ("i k", "a k j"), {}),
    (torch.matmul, ("a i k", "a k j"), {}),
    (torch.matmul, ("a b i k", "a b k j"), {}),
    (torch.matmul, ("a b i k", "b k j"), {}),
    (torch.matmul, ("a 1 i k", "b k j"), {}),
    (torch.linalg.matmul, ("a i k", "a k j"), {}),
    (lambda x, y: x @ y, ("a i k", "k j"), {}),
    (lambda x, y: y.__rmatmul__(x), ("a i k", "k j"), {}),
    (torch.mm, ("i k", "k j"), {}),
    (torch.bmm, ("a i k", "a k j"), {}),
    (lambda x, y: torch.bmm(x, mat2=y), ("a i k", "a k j"), {}),
    (torch.mv, ("i k", "k"), {}),
    (torch.dot, ("k", "k"), {}),
    (torch.vdot, ("k", "k"), {}),
    (torch.inner, ("a i k", "j k"), {}),
    (torch.inner, ("a i k", ""), {}),
    (torch.outer, ("i", "j"), {}),
    (torch.ger, ("i", "j"), {}),
    (torch.addmm, ("i j", "i k", "k j"), {"beta": 0.5, "alpha": 2}),
    (torch.addmm, ("j", "i k", "k j"), {}),
    (torch.addmm, ("1", "i k", "k j"), {}),
    (torch.addmm, ("", "i k", "k j"), {}),
    (torch.addbmm, ("i j", "a i k", "a k j"), {}),
    (torch.baddbmm, ("a i j", "a i k", "a k j"), {}),
    (torch.baddbmm, ("i j", "a i k", "a k j"), {}),
    (torch.addmv, ("i", "i k", "k"), {}),
    (torch.addr, ("i j", "i", "j"), {}),
    (torch.addr, ("j", "i", "j"), {}),
    (F.linear, ("a b k", "j k", "j"), {}),
    (F.linear, ("a k", "j k"), {}),
    (F.linear, ("k", "j k", "j"), {}),
    (F.linear, ("a k", "k"), {}),
    (F.bilinear, ("a b 2", "a b 3", "j 2 3", "j"), {}),
    (torch.bilinear, ("2", "3", "j 2 3"), {}),
    (torch.tensordot, ("a i k", "i k j"), {}),
    (torch.tensordot, ("a i", "k j"), {"dims": 0}),
    (torch.tensordot, ("a i k", "k j a"), {"dims": ([0, 2], [-1, 0])}),
    (torch.linalg.vecdot, ("a k", "a k"), {}),
    (torch.linalg.vecdot, ("k a", "k a"), {"dim": 0}),
    (torch.linalg.vecdot, ("k", "k"), {}),
    (lambda *m: torch.linalg.multi_dot(m), ("i k", "k j", "j a"), {}),
    (lambda *m: torch.linalg.multi_dot(m), ("k", "k j", "j"), {}),
    (lambda *m: torch.linalg.multi_dot(m), ("k", "k j"), {}),
    (lambda x, y: x.mm(y), ("i k", "k j"), {}),
    (lambda x, y: x.clone().addmm_(y, y), ("i i", "i i"), {}),
    (lambda o, x, y: torch.mm(x, y, out=o), ("i j", "i k", "k j"), {}),
]


@pytest.mark.parametrize("prepare", [None, inside_out], ids=["contiguous", "inside_out"])
@pytest.mark.parametrize(("function", "specs", "kwargs"), CASES)
def test_all_sizes(function: Callable[..., Any], specs: Any, kwargs: Any, prepare: Any) -> None:
    assert dynamic(check(function, *specs, first=_used(specs), prepare=prepare, **kwargs))


@pytest.mark.filterwarnings("ignore:torch.chain_matmul is deprecated")
def test_chain_matmul() -> None:
    specs = ("i k", "k j", "j a")
    assert dynamic(check(torch.chain_matmul, *specs, first=_used(specs)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.int64])
def test_dtypes(dtype: torch.dtype) -> None:
    assert dynamic(check(torch.matmul, "a i k", "k j", first=_used(("a i k j",)), dtype=dtype))
    assert dynamic(check(torch.addmm, "j", "i k", "k j", first=_used(("i k j",)), dtype=dtype))


def test_promotion() -> None:
    kwargs: Any = {"first": {"i": 4, "j": 5}, "dtypes": {0: torch.int32}}
    assert dynamic(check(torch.outer, "i", "j", **kwargs))
    assert dynamic(check(torch.addr, "i j", "i", "j", **kwargs))


def test_inner_sizes_are_checked_and_batches_may_stretch() -> None:
    outcome = check(torch.matmul, "i k", "l j", first={"i": 2, "k": 3, "l": 3, "j": 4})
    assert [str(need.fact) for need in outcome.needs] == ["k == l"]
    outcome = check(torch.matmul, "a i k", "b k j", first={"a": 2, "b": 2, "i": 3, "k": 4, "j": 5})
    assert [str(need.fact) for need in outcome.needs] == ["a == b"]
    outcome = check(torch.matmul, "a i k", "b k j", first={"a": 1, "b": 2, "i": 3, "k": 4, "j": 5})
    assert [str(need.fact) for need in outcome.needs] == ["a == 1"]


def test_an_added_input_may_be_expanded() -> None:
    sizes = {"r": 4, "c": 5, "i": 4, "j": 5}
    then = [
        {**sizes, "r": 1},
        {**sizes, "r": 1, "c": 1},
        {**sizes, "r": 1, "i": 9},
        {**sizes, "i": 9},
    ]
    outcome = check(torch.addmm, "r c", "i 3", "3 j", first=sizes, then=then)
    assert len(outcome.served) == 3


def test_bilinear_features() -> None:
    specs = ("a b i", "a b k", "j i k")
    outcome = check(F.bilinear, *specs, first=_used(specs))
    assert {str(need.fact) for need in outcome.needs} == {"i >= 1", "k >= 1"}


def test_tensordot_stretches() -> None:
    outcome = check(torch.tensordot, "i k", "l j", dims=1, first={"i": 2, "k": 3, "l": 3, "j": 4})
    assert {"i": 2, "k": 3, "l": 1, "j": 4} in outcome.served


@pytest.mark.parametrize(
    ("function", "specs", "dtypes"),
    [
        (torch.matmul, ("2 3", "4 5"), {}),
        (torch.matmul, ("", "3"), {}),
        (torch.matmul, ("2 2 3", "3 3 4"), {}),
        (torch.matmul, ("2 3", "3 4"), {0: torch.float64}),
        (torch.matmul, ("2 3", "3 4"), {0: torch.bool, 1: torch.bool}),
        (torch.mm, ("2 3 4", "4 5"), {}),
        (torch.bmm, ("2 3 4", "1 4 5"), {}),
        (torch.dot, ("3", "1"), {}),
        (torch.addmm, ("1 2 5", "2 3", "3 5"), {}),
        (torch.addmm, ("3", "2 3", "3 5"), {}),
        (torch.addmm, ("2 5", "2 3", "3 5"), {0: torch.float64}),
        (lambda x, *m: x.addmm_(*m), ("1 5", "2 3", "3 5"), {}),
        (F.linear, ("2 3", "4 5"), {}),
        (F.linear, ("2 3", "4 3", "5"), {}),
        (F.linear, ("2 3", "3", "1"), {}),
        (F.bilinear, ("2 3", "1 4", "5 3 4"), {}),
        (torch.tensordot, ("2 3", "4 5", 1), {}),
        (torch.linalg.vecdot, ("3", "1"), {}),
    ],
)
def test_rejected(function: Callable[..., Any], specs: Any, dtypes: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={}, dtypes=dtypes)
