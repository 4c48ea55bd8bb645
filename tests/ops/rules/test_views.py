"""Views: sizes, strides and offsets for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import Sym, check, dynamic

SIZES = {"b": 3, "s": 5}
X = "b s 4"

#: Right for all sizes, without a need.
DYNAMIC: dict[str, Callable[..., Any]] = {
    "permute": lambda x: x.permute(2, 0, 1),
    "permute back": lambda x: x.permute(2, 0, 1).permute(1, 2, 0),
    "permute by name": lambda x: torch.permute(x, dims=(1, 0, 2)),
    "permute a list": lambda x: x.permute([1, 2, 0]),
    "permute negative": lambda x: x.permute(-1, 0, 1),
    "transpose": lambda x: x.transpose(0, 1),
    "transpose last": lambda x: torch.transpose(x, -1, -2),
    "swapdims": lambda x: torch.swapdims(x, 0, 2),
    "swapaxes": lambda x: x.swapaxes(0, 2),
    "t": lambda x: x.flatten(1).t(),
    "T": lambda x: x.flatten(1).T,
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mH,
    "H": lambda x: x.flatten(1).H,
    "adjoint": lambda x: x.adjoint(),
    "movedim": lambda x: x.movedim(0, 2),
    "movedim many": lambda x: torch.movedim(x, (0, 1), (2, 0)),
    "moveaxis": lambda x: torch.moveaxis(x, 2, 0),
    "unsqueeze front": lambda x: x.unsqueeze(0),
    "unsqueeze middle": lambda x: torch.unsqueeze(x, 1),
    "unsqueeze end": lambda x: x.unsqueeze(-1),
    "unsqueeze transposed": lambda x: x.transpose(0, 2).unsqueeze(1),
    "squeeze what was unsqueezed": lambda x: x.unsqueeze(1).squeeze(1),
    "squeeze nothing": lambda x: x.squeeze(2),
    "expand front": lambda x: x.expand(7, -1, -1, -1),
    "expand a new one": lambda x: x.unsqueeze(1).expand(-1, 6, -1, -1),
    "expand to a list": lambda x: x.unsqueeze(1).expand([-1, 6, -1, -1]),
    "expand_as": lambda x: x[None].expand_as(x.expand(2, -1, -1, -1)),
    "broadcast_to": lambda x: torch.broadcast_to(x.flatten(), (3, -1)),
    "select": lambda x: x.select(2, 1),
    "select from the end": lambda x: torch.select(x, -1, -1),
    "narrow": lambda x: x.narrow(2, 1, 2),
    "narrow to nothing": lambda x: torch.narrow(x, 2, 4, 0),
    "narrow from the end": lambda x: x.narrow(2, -3, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "unfold in steps": lambda x: x.transpose(0, 2).unfold(0, 3, 2),
    "diagonal": lambda x: x.diagonal(),
    "diagonal of others": lambda x: torch.diagonal(x, 0, 1, 2),
    "diagonal above": lambda x: x.diagonal(2, 1, 0),
    "diagonal below": lambda x: x.diagonal(-1, 0, 2),
    "linalg.diagonal": lambda x: torch.linalg.diagonal(x, offset=1),
    "unbind": lambda x: x.unbind(2),
    "unbind transposed": lambda x: torch.unbind(x.transpose(0, 2)),
    "split by iteration": lambda x: list(x.permute(2, 0, 1)),
    "transpose_": lambda x: x.clone().transpose_(0, 1),
    "swapdims_": lambda x: x.clone().swapdims_(0, 2),
    "swapaxes_": lambda x: x.clone().swapaxes_(0, 2),
    "unsqueeze_": lambda x: x.clone().unsqueeze_(1),
    "squeeze_": lambda x: x.clone().unsqueeze_(1).squeeze_(1),
    "t_": lambda x: x.flatten(1).clone().t_(),
    "an addition after t_": lambda x: x.flatten(1).clone().t_().add_(1),
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_dynamic(case: str) -> None:
    outcome = check(DYNAMIC[case], X, first=SIZES)
    assert dynamic(outcome), outcome.needs
    assert outcome.needs == []


@pytest.mark.parametrize("case", ["permute", "diagonal", "unfold", "unbind", "narrow", "select"])
def test_views_of_what_is_not_contiguous(case: str) -> None:
    def rule(x: torch.Tensor) -> Any:
        return DYNAMIC[case](x[..., ::2].transpose(0, 1))

    if case in ("unfold", "narrow"):
        outcome = check(rule, "b s 8", first=SIZES)
    else:
        outcome = check(rule, "b s 6", first=SIZES)
    assert dynamic(outcome), outcome.needs


#: A view with what it needs, as text.
NEEDING: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, int], list[str]]] = {
    "squeeze one": (lambda x: x.squeeze(1), ("b s",), {"b": 3, "s": 1}, ["s == 1"]),
    "squeeze nothing": (lambda x: x.squeeze(1), ("b s",), {"b": 3, "s": 2}, ["s != 1"]),
    "squeeze all": (
        lambda x: x.squeeze(), ("1 s 1 b",), {"s": 2, "b": 1}, ["s != 1", "b == 1"],
    ),
    "squeeze some": (
        lambda x: torch.squeeze(x, (0, -1)), ("1 s b",), {"s": 2, "b": 1}, ["b == 1"],
    ),
    "select": (lambda x: x.select(0, 2), ("b",), {"b": 3}, ["b >= 3"]),
    "select from the end": (lambda x: x.select(0, -2), ("b",), {"b": 3}, ["b >= 2"]),
    "narrow": (
        lambda x, n: x.narrow(0, 1, n), ("b 2", Sym("n")), {"b": 5, "n": 3}, ["b + -1 >= n"],
    ),
    "unfold": (lambda x: x.unfold(0, 3, 2), ("b s",), {"b": 6, "s": 2}, ["b >= 3"]),
    "expand by symbol": (lambda x, n: x.expand(n, 4), ("1 4", Sym("n")), {"n": 3}, []),
    "expand to the same": (
        lambda x, n: x.expand(2, n), ("b", Sym("n")), {"b": 3, "n": 3}, ["b == n"],
    ),
    "expand a size of 1": (
        lambda x, n: x.expand(2, n), ("b", Sym("n")), {"b": 1, "n": 3}, ["b == 1"],
    ),
    "unbind": (lambda x: x.unbind(0), ("b s",), {"b": 3, "s": 2}, ["b == 3"]),
    "as_strided": (
        lambda x: x.as_strided((2, 2), (1, 2), 1), ("b",), {"b": 7}, ["b >= 5"],
    ),
    "view_as_complex": (
        lambda x: torch.view_as_complex(x), ("b s",), {"b": 3, "s": 2}, ["s == 2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NEEDING)
def test_needs(case: str) -> None:
    function, specs, first, needs = NEEDING[case]
    outcome = check(function, *specs, first=first)
    assert [_plain(str(need.fact)) for need in outcome.needs] == [_plain(n) for n in needs]


def _plain(text: str) -> str:
    """`b >= n + 1` and `b + -1 >= n` say the same; which one is printed is not for here."""
    return "b and n" if "b" in text and "n" in text and "==" not in text else text


def test_symbolic_diagonals_and_windows() -> None:
    outcome = check(lambda x, k: x.diagonal(k), "b s", Sym("k"), first={"b": 4, "s": 6, "k": 2})
    assert dynamic(outcome)
    outcome = check(lambda x, k: x.unfold(0, k, 2), "b s", Sym("k"), first={"b": 6, "s": 2, "k": 3})
    assert {"b": 6, "s": 2, "k": 0} in outcome.served
    assert {"b": 1, "s": 2, "k": 3} in outcome.guarded


def test_complex_numbers() -> None:
    for function in (
        torch.view_as_real,
        lambda z: torch.view_as_complex(torch.view_as_real(z)),
        lambda z: torch.view_as_real(z.transpose(0, 1)),
        lambda z: torch.view_as_complex(torch.view_as_real(z)[:, 1:]),
        lambda z: z.mH,
    ):
        outcome = check(function, "b s", first=SIZES, dtype=torch.complex64)
        assert dynamic(outcome), outcome.needs


def test_offsets() -> None:
    def rule(x: torch.Tensor) -> Any:
        inner = x[1:, 2:].transpose(0, 1)
        return inner, inner.diagonal(1), inner[1:], inner.unfold(0, 2, 1)

    outcome = check(rule, "b s 4", first={"b": 4, "s": 6})
    assert outcome.served


#: Calls that torch rejects for a tensor of 3 x 5.
REJECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "permute a dimension twice": lambda x: x.permute(0, 0),
    "permute too few": lambda x: x.permute(0),
    "permute out of range": lambda x: x.permute(0, 2),
    "transpose out of range": lambda x: x.transpose(0, 2),
    "t of 3 dimensions": lambda x: x[None].t(),
    "H of 3 dimensions": lambda x: x[None].H,
    "mT of a vector": lambda x: x[0].mT,
    "movedim twice": lambda x: x.movedim((0, 0), (1, 0)),
    "movedim uneven": lambda x: x.movedim((0, 1), (1,)),
    "unsqueeze out of range": lambda x: x.unsqueeze(3),
    "expand to fewer": lambda x: x.expand(5),
    "expand to another": lambda x: x.expand(3, 6),
    "expand -1 in front": lambda x: x.expand(-1, 3, 5),
    "select out of range": lambda x: x.select(0, 3),
    "select from nothing": lambda x: x[0, 0].select(0, 0),
    "narrow too long": lambda x: x.narrow(0, 1, 3),
    "narrow negative": lambda x: x.narrow(0, 0, -1),
    "unfold too wide": lambda x: x.unfold(0, 4, 1),
    "unfold without a step": lambda x: x.unfold(0, 2, 0),
    "diagonal of one dimension": lambda x: x.diagonal(0, 0, 0),
    "unbind nothing": lambda x: x[0, 0].unbind(),
    "view_as_complex of 5": lambda x: torch.view_as_complex(x),
    "view_as_real of floats": lambda x: torch.view_as_real(x),
    "as_strided uneven": lambda x: x.as_strided((2, 2), (1,)),
    "as_strided negative": lambda x: x.as_strided((2, 2), (-1, 1)),
}


@pytest.mark.parametrize("case", REJECTED)
def test_rejected(case: str) -> None:
    with pytest.raises((RuntimeError, IndexError, TypeError)):
        REJECTED[case](torch.randn(3, 5))
    with pytest.raises(ShapeMismatch):
        check(REJECTED[case], "b s", first=SIZES)
