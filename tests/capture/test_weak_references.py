"""Weak references from outside: what is read through them is what they refer to in each call."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape


class Holder:
    def __init__(self, scale: float, values: Tensor) -> None:
        self.scale = scale
        self.values = values


def test_what_is_read_is_that_of_now() -> None:
    holders = [Holder(float(n), torch.full((3,), float(n))) for n in range(4)]
    current = [weakref.ref(holders[0])]

    def program(x: Tensor) -> Tensor:
        holder: Any = current[0]()
        return x * holder.values + holder.scale

    compiled = anyshape.compile(program)
    for holder in (*holders, holders[0]):
        current[0] = weakref.ref(holder)
        for value in (1.0, 2.0):
            holder.values = torch.full((3,), value)
            x = torch.arange(3.0)
            assert torch.equal(compiled(x), x * value + holder.scale)
    stats = compiled.stats()
    assert (stats.graph_breaks, stats.eager_calls) == (0, 0)
    assert stats.graphs <= 2


def test_what_is_gone_is_none() -> None:
    def program(x: Tensor, reference: Any) -> Tensor:
        holder = reference()
        return x if holder is None else x + holder.scale

    compiled = anyshape.compile(program)
    x = torch.ones(2)
    for _ in range(3):
        holder = Holder(2.0, x)
        reference = weakref.ref(holder)
        assert torch.equal(compiled(x, reference), x + 2)
        assert torch.equal(compiled(x, reference), x + 2)
        del holder
        gc.collect()
        assert reference() is None
        assert torch.equal(compiled(x, reference), x)


def test_a_referent_that_is_known_by_another_way() -> None:
    first, second = Holder(1.0, torch.ones(2)), Holder(2.0, torch.ones(2))

    def program(x: Tensor, reference: Any, holder: Holder) -> Tensor:
        same = reference() is holder
        return x + holder.scale if same else x - reference().scale

    compiled = anyshape.compile(program)
    x = torch.ones(2)
    for one in (first, second):
        for other in (first, second, first):
            expected = program(x, weakref.ref(one), other)
            assert torch.equal(compiled(x, weakref.ref(one), other), expected)


def test_classes_of_references_are_told_apart() -> None:
    class Doubled(weakref.ref[Any]):
        def __call__(self) -> Any:
            return Holder(20.0, torch.ones(2))

    holder = Holder(1.0, torch.ones(2))

    def program(x: Tensor, reference: Any) -> Tensor:
        return x + reference().scale

    compiled = anyshape.compile(program)
    x = torch.ones(2)
    for reference in (weakref.ref(holder), Doubled(holder), weakref.ref(holder)):
        assert torch.equal(compiled(x, reference), program(x, reference))


SCHEDULERS: dict[str, Any] = {
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=60),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 40),
    "steps": lambda o: torch.optim.lr_scheduler.StepLR(o, 5),
}
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.1),
    "AdamW by one": lambda p: torch.optim.AdamW(p, 0.1, foreach=False),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_that_a_scheduler_has_wrapped(optimizer: str, scheduler: str) -> None:
    """A scheduler puts a function in the place of `step`, which has the optimizer weakly. One that
    changes the momentum, which is compared with 0, has no graph for each value."""
    found: list[list[Tensor]] = []
    for is_compiled in (False, True):
        parameters = [nn.Parameter(torch.ones(n, 3)) for n in (2, 4)]
        made = OPTIMIZERS[optimizer](parameters)
        rates = SCHEDULERS[scheduler](made)
        step: Any = anyshape.compile(made.step) if is_compiled else made.step
        for number in range(30):
            for each in parameters:
                each.grad = torch.full_like(each, 1 + number / 8)
            step()
            rates.step()
        found.append([each.detach() for each in parameters])
        if is_compiled:
            stats = step.stats()
            assert (stats.graph_breaks, stats.in_parts, stats.eager_calls) == (0, False, 1)
            assert stats.graphs <= 3
    for want, have in zip(*found, strict=True):
        torch.testing.assert_close(have, want)
