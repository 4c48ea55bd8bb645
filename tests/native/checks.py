"""A function compiled to native code, held against eager at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

import anyshape
from tests import devices
from tests.native.opdb import same
from tests.native.plans import Plans, watched

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
#: not a number, infinities, zeros with a sign
SPECIAL = torch.tensor([float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, -1.0, 100.0])


def check(
    function: Callable[..., Any],
    calls: Iterable[Sequence[Any]],
    *,
    called: Iterable[str] = (),
) -> Plans:
    """Compile once and compare with eager for each call, the first of which is made twice. Torch is
    called for no operators but these."""
    listed = [tuple(call) for call in calls]

    # Functions of torch that are written in C have no source to compile.
    def program(*inputs: Any) -> Any:
        return function(*inputs)

    compiled = anyshape.compile(program, dynamic=True)
    with watched() as plans, torch.no_grad():
        for call in [listed[0], *listed]:
            same(compiled(*_copies(call)), function(*_copies(call)))
    assert plans.runs, "no native program has run"
    assert not plans.errors, plans.errors
    assert set(plans.called) == set(called), plans.called
    return plans


def _copies(call: Sequence[Any]) -> list[Any]:
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in call]


def floats(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """One tensor a shape."""
    maker = devices.generator(0)
    return [(torch.randn(shape, generator=maker) * 3).to(dtype) for shape in shapes]
