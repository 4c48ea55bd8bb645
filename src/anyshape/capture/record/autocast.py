"""Shapes of results while autocast is on, which makes floats of one dtype of what an operator gets.

    with torch.autocast("cpu", torch.bfloat16):
        half @ single           # no rule is for two dtypes; torch multiplies two bfloat16

Shapes do not depend on which dtype that is, and the real result says what its own is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import _C

from anyshape.capture.record.bound_call import CallForms
from anyshape.errors import ShapeMismatch
from anyshape.ops.infer import Inferred, infer
from anyshape.ops.meta import Meta
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Facts


def inferred(
    facts: Facts, function: Callable[..., object], call: CallForms, seen: object
) -> Inferred:
    """What the rule of the function says."""
    try:
        return infer(facts, function, call.metas, call.meta_kwargs, seen=seen)
    except ShapeMismatch:
        if not _C._is_any_autocast_enabled():
            raise
    metas, kwargs = _of_one_dtype(call.metas), _of_one_dtype(call.meta_kwargs)
    return infer(facts, function, metas, kwargs, seen=seen)


def _of_one_dtype(value: Any) -> Any:
    if isinstance(value, Meta):
        return replace(value, dtype=torch.float32) if value.dtype.is_floating_point else value
    if type(value) in (tuple, list):
        return type(value)(map(_of_one_dtype, value))
    if type(value) is dict:
        return {key: _of_one_dtype(each) for key, each in value.items()}
    return value
