"""Masks that are made of indices alone: what is known of them is true at all sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import anyshape
from anyshape.loops import expr
from anyshape.loops.expr import Scalar
from anyshape.ops.families import attention
from anyshape.ops.lowering.index_cases import outcomes
from anyshape.ops.lowering.values import Index, Values
from anyshape.symbolic import Facts, as_symbol, le, symbol

MINUS = float("-inf")


def _rows(n: int) -> Tensor:
    return torch.arange(n)[:, None]


def _columns(n: int) -> Tensor:
    return torch.arange(n)[None]


def _ones(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool)


def _inverted(shown: Tensor) -> Tensor:
    """As libraries make what is added of what is shown."""
    hidden = torch.tensor(1.0) - shown.to(torch.float32)
    return hidden.masked_fill(hidden.to(torch.bool), MINUS)


def _packed(n: int) -> Tensor:
    """As libraries find several sequences in one row."""
    positions = (torch.arange(n) + 0).unsqueeze(0).expand(2, -1)
    starts = torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1
    number = starts.cumsum(-1)
    batch = torch.arange(2)[:, None, None, None]
    rows, columns = torch.arange(n)[None, None, :, None], torch.arange(n)[None, None, None, :]
    causal = columns <= rows
    causal.to(causal.device)
    return causal & (number[batch, rows] == number[batch, columns])


CAUSAL: dict[str, Callable[[int], Tensor]] = {
    "compared": lambda n: _columns(n) <= _rows(n),
    "the other way": lambda n: ~(_rows(n) < _columns(n)),
    "tril": lambda n: _ones(n).tril(),
    "triu": lambda n: ~_ones(n).triu(1),
    "of numbers": lambda n: torch.ones(n, n).tril() == 1,
    "floats": lambda n: torch.triu(torch.full((n, n), MINUS), 1),
    "filled": lambda n: torch.zeros(n, n).masked_fill(~_ones(n).tril(), MINUS),
    "chosen": lambda n: torch.where(_columns(n) > _rows(n), MINUS, 0.0),
    "both": lambda n: (_columns(n) <= _rows(n)) & (_columns(n) < _rows(n) + 5 + n),
    "stretched": lambda n: _ones(n).tril()[None, None].expand(2, 1, n, n),
    "packed": _packed,
    "moved": lambda n: (_columns(n) + 3) <= (_rows(n) + 3),
    "inverted": lambda n: _inverted(_ones(n).tril()),
}
NOTHING_HIDDEN: dict[str, Callable[[int], Tensor]] = {
    "ones": _ones,
    "a row of them": lambda n: torch.ones(1, n, dtype=torch.bool),
    "zeros": lambda n: torch.zeros(n, n),
    "always": lambda n: (_columns(n) < n) & (_rows(n) >= 0),
    "inverted": lambda n: _inverted(_ones(n)),
    "multiplied": lambda n: (1.0 - torch.ones(n, n)) * torch.finfo(torch.float32).min,
}
OTHERS: dict[str, Callable[[int], Tensor]] = {
    "beyond 64 bits": lambda n: (_columns(n) * (1 << 62) >= 0) & (_rows(n) >= 0),
    "far beyond": lambda n: (_columns(n) * (1 << 40) * (1 << 30) <= _rows(n)) | (_columns(n) == 0),
    "a sum beyond": lambda n: (_columns(n) + ((1 << 63) - 2) >= 0) | (_columns(n) == 0),
    "rounded": lambda n: (torch.full((n, n), 0.1) + 0.2) == 0.3,
    "a third": lambda n: (torch.full((n, n), 3.0) * (1 / 3)) == 1,
    "rounded as it is made": lambda n: (torch.full((n, n), 0.1) > 0.0999999999) | _ones(n).tril(),
    "a number that there is not": lambda n: (
        (torch.full((n, n), 2.0**24 + 1) != 2.0**24) | (_columns(n) == 0)
    ),
    "infinite": lambda n: ~((torch.full((n, n), MINUS) * 0.0) == 0),
    "one more": lambda n: _ones(n).tril(1),
    "one less": lambda n: _ones(n).tril(-1) | (_columns(n) == 0),
    "a window": lambda n: (_columns(n) <= _rows(n)) & (_columns(n) > _rows(n) - 3),
    "a prefix": lambda n: (_columns(n) <= _rows(n)) | (_columns(n) < 2),
    "the other triangle": lambda n: _ones(n).triu(),
    "from the end": lambda n: _ones(n).tril().flip(0, 1),
    "even ones": lambda n: (_columns(n) <= _rows(n)) & ((_columns(n) % 2 == 0) | (_rows(n) < 9)),
    "one row for all": lambda n: _columns(n) <= 0,
    "a finite number": lambda n: torch.triu(torch.full((n, n), -1.0), 1),
    "a small number": lambda n: torch.where(_columns(n) > _rows(n), MINUS, 0.5),
}


def _attention(mask: Callable[[int], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=mask(x.shape[2]))


def _known(program: Any, monkeypatch: pytest.MonkeyPatch) -> set[tuple[bool, bool]]:
    """Whether there was a mask, and a causal one, in what was compiled."""
    found: set[tuple[bool, bool]] = set()
    own = attention.known_mask

    def known(*args: Any) -> Any:
        mask, is_causal = own(*args)
        found.add((mask is not None, is_causal))
        return mask, is_causal

    monkeypatch.setattr(attention, "known_mask", known)
    with anyshape.config.patch(on_compile_error="raise"):
        compiled = anyshape.compile(program, dynamic=True)
        for size in (5, 1, 2, 9, 0, 17):
            x = torch.randn(2, 3, size, 8)
            torch.testing.assert_close(compiled(x), program(x), equal_nan=True)
    return found


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_masks_are_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (False, True) in _known(_attention(CAUSAL[name]), monkeypatch)


@pytest.mark.parametrize("name", NOTHING_HIDDEN)
def test_masks_that_hide_nothing_are_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _known(_attention(NOTHING_HIDDEN[name]), monkeypatch) == {(False, False)}


@pytest.mark.parametrize("scale", [-0.7, 0.0])
def test_scales_that_causal_kernels_multiply_what_is_hidden_by(
    scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(x: Tensor) -> Tensor:
        mask = _ones(x.shape[2]).tril()
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask, scale=scale)

    assert _known(program, monkeypatch) == {(True, False)}


@pytest.mark.parametrize("name", OTHERS)
def test_other_masks_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = _known(_attention(OTHERS[name]), monkeypatch)
    assert (False, True) not in known
    assert (True, False) in known


GIVEN: dict[str, Callable[[int, int], Tensor]] = {
    "added": lambda n, s: (_columns(n) + s) <= (_rows(n) + s),
    "subtracted": lambda n, s: (_columns(n) - s) <= (_rows(n) - s),
    "turned": lambda n, s: -(_rows(n) - s) <= -(_columns(n) - s),
    "multiplied": lambda n, s: (_columns(n) * s <= _rows(n) * s) | (_columns(n) == _rows(n)),
    "alone": lambda n, s: (_columns(n) <= _rows(n)) | (_columns(n) == s),
}


@pytest.mark.parametrize("name", GIVEN)
def test_integers_that_are_given_may_be_any(name: str) -> None:
    """Behind the largest they begin anew."""

    def program(x: Tensor, s: int) -> Tensor:
        mask = GIVEN[name](x.shape[2], s)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    compiled = anyshape.compile(program, dynamic=True)
    for size, s in ((5, 3), (17, 7), (6, 2**63 - 3), (9, 2**62), (5, -(2**63) + 2), (1, 0)):
        x = torch.randn(2, 3, size, 8)
        torch.testing.assert_close(compiled(x, s), program(x, s), equal_nan=True)


class Layers(torch.nn.Module):
    """Equal layers, which are lowered a few times, and a mask for all of them."""

    def __init__(self, mask: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.mask = mask
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 24) for _ in range(12))

    def forward(self, x: Tensor) -> Tensor:
        mask = self.mask(x.shape[2])
        for layer in self.layers:
            query, key, value = layer(F.layer_norm(x, (8,))).chunk(3, -1)
            x = x + F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            x = F.layer_norm(x + F.gelu(layer(x)[..., :8]), (8,))
        return x


@pytest.mark.parametrize("name", ["stretched", "floats"])
@torch.no_grad()
def test_a_mask_of_many_layers_is_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = _known(Layers(CAUSAL[name]), monkeypatch)
    assert (False, True) in known
    assert (True, False) not in known


def test_no_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a mask that is no square, kernels disagree about where it begins."""

    def program(x: Tensor) -> Tensor:
        n = x.shape[2]
        mask = torch.ones(n, n + 3, dtype=torch.bool).tril()
        key = F.pad(x, (0, 0, 1, 2))
        return F.scaled_dot_product_attention(x, key, key, attn_mask=mask)

    assert _known(program, monkeypatch) <= {(True, False)}


def test_a_mask_of_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: Tensor) -> Tensor:
        mask = _ones(x.shape[2]).tril() | (x[0, 0, :, :1] > 0)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    assert _known(program, monkeypatch) <= {(True, False)}


@pytest.mark.parametrize(
    "shift", [0, -1, 1][: 2 if torch.get_default_device().type == "cuda" else 3]
)
def test_positions_are_checked_unless_they_are_known(shift: int) -> None:
    def program(x: Tensor) -> Tensor:
        return x[torch.arange(x.shape[0]) + shift] * 2

    compiled = anyshape.compile(program, dynamic=True)
    for size in (5, 1, 7, 0):
        x = torch.randn(size, 3)
        if shift == 1 and size:
            with pytest.raises(IndexError):
                compiled(x)
        else:
            torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
@pytest.mark.parametrize("fold", [torch.cumsum, torch.cumprod])
def test_running_sums_of_what_is_known(fold: Any, dtype: torch.dtype) -> None:
    for number in (0, 1, -0.0):

        def program(x: Tensor, number: float = number) -> Tensor:
            return fold(torch.full((x.shape[0], 4), number).to(dtype), 0) + x.sum().to(torch.int64)

        compiled = anyshape.compile(program, dynamic=True)
        for size in (5, 1, 3, 0):
            found, wanted = compiled(torch.ones(size)), program(torch.ones(size))
            assert found.dtype == wanted.dtype
            assert torch.equal(found, wanted)


# -- any expression --------------------------------------------------------------------------------

ROWS, COLUMNS = symbol("m"), symbol("n")
FACTS = Facts().declare(ROWS, 5).declare(COLUMNS, 3)
_INTEGERS = ("add", "sub", "mul")
_TESTS = ("lt", "le", "gt", "ge", "eq", "ne")


def _numbers(depth: int) -> st.SearchStrategy[Any]:
    leaf = st.sampled_from(["row", "column", "m", "n"]) | st.integers(-3, 3)
    if not depth:
        return leaf
    smaller = _numbers(depth - 1)
    return (
        leaf
        | st.tuples(st.sampled_from(_INTEGERS), smaller, smaller)
        | st.tuples(st.just("where"), _tests(depth - 1), smaller, smaller)
    )


def _tests(depth: int) -> st.SearchStrategy[Any]:
    numbers = _numbers(depth)
    found: st.SearchStrategy[Any] = st.tuples(st.sampled_from(_TESTS), numbers, numbers)
    if depth:
        smaller = _tests(depth - 1)
        found |= st.tuples(st.sampled_from(["and", "or"]), smaller, smaller)
        found |= st.tuples(st.just("not"), smaller)
    return found


def _scalar(tree: Any, index: Index) -> Scalar:
    named = {"row": index[0], "column": index[1], "m": ROWS, "n": COLUMNS}
    if not isinstance(tree, tuple):
        return expr.index(named[tree] if isinstance(tree, str) else tree)
    name, *args = tree
    given = [_scalar(each, index) for each in args]
    is_number = name in _INTEGERS or name == "where"
    return expr.operation(name, *given, dtype="i64" if is_number else "b1")


def _number(tree: Any, given: dict[str, int]) -> int:
    if not isinstance(tree, tuple):
        return given[tree] if isinstance(tree, str) else tree
    name, *args = tree
    numbers = [_number(each, given) for each in args]
    if name == "where":
        return numbers[1] if numbers[0] else numbers[2]
    own = {"and": lambda a, b: a and b, "or": lambda a, b: a or b, "not": lambda a: not a}
    operator = own.get(name) or getattr(__import__("operator"), name)
    return int(operator(*numbers))


@settings(max_examples=150, deadline=None)
@given(_tests(2) | _numbers(2))
def test_every_element_is_among_the_outcomes(tree: Any) -> None:
    with expr.fresh_scope():
        is_number = not isinstance(tree, tuple) or tree[0] in (*_INTEGERS, "where")
        value = Values().new(
            (ROWS, COLUMNS), "i64" if is_number else "b1", lambda index: _scalar(tree, index)
        )
        everywhere = outcomes(FACTS, value)
        below = outcomes(FACTS, value, lambda index: [le(index[1], index[0])])
        for m, n in itertools.product((0, 1, 2, 5), (0, 1, 3, 4)):
            for row, column in itertools.product(range(m), range(n)):
                found = _number(tree, {"row": row, "column": column, "m": m, "n": n})
                assert everywhere is None or found in everywhere
                assert below is None or column > row or found in below


def test_outcomes_are_of_the_facts() -> None:
    with expr.fresh_scope():
        values = Values()
        value = values.new((ROWS,), "i64", lambda index: expr.index(index[0] - index[0] + ROWS))
        assert outcomes(FACTS, value) is None
        known = FACTS.assume(le(ROWS, 1), "a test")
        assert outcomes(known, value) == {1}
        nothing = values.new((0,), "i64", lambda index: expr.index(index[0]))
        assert outcomes(FACTS, nothing) == set()


def test_symbols_that_are_no_sizes() -> None:
    """Whatever they were declared with; a size is no larger than a tensor."""

    def at(index: Index) -> Scalar:
        ends = (expr.operation("add", expr.index(each), many, dtype="i64") for each in index)
        return expr.operation("ge", *ends, dtype="b1")

    with expr.fresh_scope():
        many = expr.index(ROWS)
        value = Values().new((ROWS, ROWS), "b1", at)

        def below(index: Index) -> Any:
            return [le(index[1], index[0])]

        assert outcomes(FACTS, value, below) == {1}
        assert outcomes(FACTS, value, below, {as_symbol(ROWS)}) is None


def test_elements_that_are_long_are_not_followed() -> None:
    """Each use of a scalar counts: what is made of itself again and again has no end."""

    def at(index: Index) -> Scalar:
        found = expr.index(index[0])
        for _ in range(40):
            smaller = expr.operation("lt", found, expr.index(ROWS), dtype="b1")
            found = expr.operation("where", smaller, found, found, dtype="i64")
        return found

    with expr.fresh_scope():
        assert outcomes(FACTS, Values().new((ROWS,), "i64", at)) is None
