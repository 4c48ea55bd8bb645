"""The last resort: right for the sizes of this run, and it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from anyshape.errors import NeedsDecision, UnknownOperator
from anyshape.ops import infer as inference
from anyshape.ops.concrete import first_sentence
from anyshape.ops.infer import How, infer
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.shape_query import NeedKind
from anyshape.symbolic import NATURAL, Facts, Size, eq, symbol
from tests.ops.driver import check

pytestmark = pytest.mark.filterwarnings("ignore")

CPU = torch.device("cpu")
a, b = symbol("a"), symbol("b")
FACTS = Facts().declare(a, 5).declare(b, 7)


@pytest.fixture(autouse=True)
def _no_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference, "lookup", lambda function: None)


@pytest.fixture
def library() -> Iterator[Any]:
    """Operators of our own: with side effects, and without a shape function."""
    made = torch.library.Library("anyshape_test", "FRAGMENT")
    made.define("halves(Tensor x) -> Tensor")
    made.impl("halves", lambda x: RAN.append(1) or x[: x.shape[0] // 2].clone(), "CPU")
    made.define("doubles(Tensor x) -> Tensor")
    made.impl("doubles", lambda x: RAN.append(1) or torch.cat([x, x]), "CPU")
    made.impl("doubles", lambda x: x.new_empty((x.shape[0] * 2, *x.shape[1:])), "Meta")
    RAN.clear()
    yield torch.ops.anyshape_test
    made._destroy()


RAN: list[int] = []


def meta(*shape: Size, dtype: torch.dtype = torch.float32) -> Meta:
    return Meta(shape, dtype, contiguous(len(shape)), CPU)


@pytest.mark.parametrize(
    ("function", "specs", "hows"),
    [
        # No shape function at all: as in this run.
        (torch.geqrf, ("a b",), {How.SPECIALISED}),
        # C++ code that wants numbers: of a tensor, which cannot tell (before torch 2.14), or of a
        # symbol, which is fixed then and there.
        (torch.kron, ("a b", "2 3"), {How.SPECIALISED, How.META}),
    ],
)
def test_specialised(function: Callable[..., Any], specs: tuple[str, ...], hows: set[How]):
    outcome = check(function, *specs, first={"a": 5, "b": 7})
    [call] = outcome.calls
    assert call.inferred.how in hows
    assert bool(call.inferred.detail) is (call.inferred.how is How.SPECIALISED)
    assert {need.fact for need in outcome.needs} == {eq(a, 5), eq(b, 7)}
    assert all(need.kind is NeedKind.SPECIALISED for need in outcome.needs)
    assert not outcome.served


def test_a_result_that_needs_no_last_resort_has_no_detail():
    found = infer(FACTS, torch.special.entr, (meta(a, b),), {})
    assert (found.how, found.detail) == (How.META, "")


def test_arguments_that_no_shape_function_takes_are_not_guessed_at():
    with pytest.raises(UnknownOperator):
        infer(FACTS, torch.linalg.inv, (meta(a, b),), {})
    with pytest.raises(UnknownOperator):
        infer(FACTS, torch.kron, (meta(a, b), "text"), {})


def test_sizes_that_depend_on_data_cannot_be_fixed():
    u = symbol("u0", NATURAL, backed=False)
    with pytest.raises(NeedsDecision):
        infer(FACTS.declare(u), torch.geqrf, (meta(u, 3),), {})


def test_lengths_are_not_made_up():
    x, lengths = meta(a, b, 3), meta(b, dtype=torch.int64)
    with pytest.raises(UnknownOperator):
        infer(FACTS, torch.ops.aten._pack_padded_sequence, (x, lengths, False), {})


def test_an_operator_of_others_is_never_run(library: Any):
    with pytest.raises(UnknownOperator):
        infer(FACTS, library.halves, (meta(a, b),), {})
    assert not RAN


def test_an_operator_of_others_with_a_shape_function_is_dynamic(library: Any):
    found = infer(FACTS, library.doubles, (meta(a, b),), {})
    assert found.value.shape == (2 * a, b)
    assert not found.needs
    assert not RAN


def test_a_shape_function_that_disagrees_with_the_run_is_not_believed():
    """Data may have decided."""
    seen = meta(3, 3)
    with pytest.raises(UnknownOperator):
        infer(FACTS, torch.kron, (meta(a, b), meta(2, 3)), {}, seen=seen)


def test_without_shape_function_or_run_nothing_is_known():
    with pytest.raises(UnknownOperator):
        infer(FACTS, torch.geqrf, (meta(a, b),), {})


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no Meta kernel. Please see the tutorials: https://a.b", "ValueError: no Meta kernel"),
        ("none of torch.float32 and 0.5.", "ValueError: none of torch.float32 and 0.5."),
        ("one line\nanother", "ValueError: one line"),
        ("", "ValueError"),
    ],
)
def test_advice_of_torch_is_left_out(message: str, shown: str) -> None:
    assert first_sentence(ValueError(message)) == shown
