"""The way from a call to its result: what is refused, what is never run, what requires grad."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import SymbolicTypeError, UnknownOperator
from anyshape.ops.infer import How, infer
from anyshape.ops.meta import Meta, contiguous
from anyshape.symbolic import Answer, Facts, Size, eq, symbol
from tests.ops.driver import check, dynamic

s = symbol("s")
FACTS = Facts().declare(s, 5)


def meta(*shape: Size, dtype: torch.dtype = torch.float32) -> Meta:
    return Meta(shape, dtype, contiguous(len(shape)), torch.device("cpu"))


def test_own_rules_come_first():
    assert infer(FACTS, torch.relu, (meta(s),), {}).how is How.RULE
    assert infer(FACTS, torch.ops.aten.relu.default, (meta(s),), {}).how is How.META


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (torch.save, (meta(2), "file")),
        (torch.manual_seed, (0,)),
        (torch.set_default_dtype, (torch.float64,)),
        (print, (meta(2),)),
        (torch.nn.BatchNorm1d(3), (meta(s, 3),)),
        (lambda x: x + 1, (meta(s),)),
        ([], (meta(s),)),
        (None, ()),
    ],
)
def test_what_is_no_operator_is_not_run(function: Any, args: tuple[Any, ...]):
    before = torch.get_rng_state(), torch.get_default_dtype()
    with pytest.raises(UnknownOperator):
        infer(FACTS, function, args, {})
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == torch.get_default_dtype()


def test_a_real_tensor_is_not_taken_for_a_number():
    with pytest.raises(SymbolicTypeError, match="of_tensor"):
        infer(FACTS, torch.add, (meta(3), torch.ones(4, 3)), {})


@pytest.mark.parametrize("taken", ["u0", "u1", "units"])
def test_a_new_size_is_unlike_every_other(taken: str):
    mine = symbol(taken, backed=False)
    found = infer(FACTS.declare(mine), torch.nonzero, (meta(s),), {})
    assert found.facts.prove(eq(found.value.shape[0], mine)) is Answer.UNKNOWN


def _without_grad(function: Any) -> Any:
    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return function(x)

    return run


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(-1),
        lambda x: x[0],
        lambda x: x[[0, 1]],
        lambda x: x.t().reshape(-1),
        lambda x: torch.cat([x, x]),
        lambda x: F.pad(x, (1, 1)),
        lambda x: x.repeat(2, 1),
        lambda x: torch.roll(x, 1),
        lambda x: x.narrow(1, 0, 1),
        lambda x: torch.flip(x, (0,)),
        lambda x: x.index_select(0, torch.tensor([0])),
        lambda x: torch.tril(x),
        lambda x: x.contiguous(),
        lambda x: x.t().contiguous(),
        lambda x: x.clone(),
        torch.t_copy,
        torch.t,
        torch.relu,
        lambda x: x * 2,
        torch.zeros_like,
    ],
)
def test_grad_where_nothing_is_recorded(function: Any):
    first = {"a": 2, "b": 3}
    for run in (function, _without_grad(function)):
        assert check(run, "a b", first=first, then=[{"a": 4, "b": 5}], prepare=_requiring)


def _requiring(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.requires_grad_()


def test_a_block_of_a_model_needs_nothing():
    def block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.layer_norm(x, (8,)) @ weight) + x

    assert dynamic(check(block, "b s 8", "8 8", first={"b": 2, "s": 3}))
