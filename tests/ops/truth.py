"""What torch does with a sample at given sizes: the truth that formulas are measured by."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tests.ops.samples import Template, Values


class Outcome(Enum):
    """How a call ended."""

    RESULT = auto()
    #: torch rejects these sizes
    RAISES = auto()
    #: it fails on the values that the harness made up, or cannot be run without values: nothing can
    #: be said
    UNKNOWN = auto()


@dataclass(frozen=True)
class Truth:
    """The tensors that torch returned, or the error."""

    outcome: Outcome
    tensors: tuple[torch.Tensor, ...] = ()
    error: str = ""


#: Errors about the elements of a tensor rather than its sizes.
_ABOUT_VALUES = re.compile(
    r"singular|positive[- ]definite|failed to converge|ill-conditioned|probability|not be completed"
    r"|allocated size does not match|number of ones in mask|full rank|division by zero"
)
#: An index that is out of range: about elements where the index is a tensor.
_ABOUT_INDICES = re.compile(r"out of (range|bounds)|invalid index|not in range|must be less than")


def torch_at(
    function: Callable[..., Any], template: Template, values: Values, trusting: bool = False
) -> Truth:
    """What torch does at these sizes, eagerly; without data where the elements are not valid ones.

    The kernel of a `trusting` function reads memory wherever an integer tensor points to, so that
    made up elements would crash the process: it is never run on them.
    """
    if trusting and template.has_integers and values != template.values:
        found = _attempt(function, *template.on_meta(values))
        return found if isinstance(found, Truth) else Truth(Outcome.UNKNOWN, error=_text(found))
    found = _attempt(function, *template.build(values))
    if isinstance(found, Truth):
        return found
    if template.has_integers:
        again = _attempt(function, *template.build(values, zeroed=True))
        if isinstance(again, Truth):
            return again
    if _is_about_indices(found, template, values):
        return Truth(Outcome.UNKNOWN, error=_text(found))
    if not _is_about_values(found):
        return Truth(Outcome.RAISES, error=_text(found))
    on_meta = _attempt(function, *template.on_meta(values))
    return on_meta if isinstance(on_meta, Truth) else Truth(Outcome.UNKNOWN, error=_text(found))


def meta_accepts(function: Callable[..., Any], template: Template, values: Values) -> bool:
    """Whether torch's meta functions, which check less, take these sizes."""
    return isinstance(_attempt(function, *template.on_meta(values)), Truth)


def _attempt(function: Callable[..., Any], args: Any, kwargs: Any) -> Truth | Exception:
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*args, **kwargs)
    except Exception as error:
        return error
    tensors = tuple(leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
    return Truth(Outcome.RESULT, tensors)


def _is_about_values(error: Exception) -> bool:
    return type(error).__name__ == "LinAlgError" or bool(_ABOUT_VALUES.search(str(error)))


def _is_about_indices(error: Exception, template: Template, values: Values) -> bool:
    """Zeros are valid indices, unless there is nothing to index."""
    nothing = any(0 in tensor.shape_at(values) for tensor in template.tensors)
    return nothing and template.has_integers and bool(_ABOUT_INDICES.search(str(error)))


def _text(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"
