"""Torch's own table of operators and sample calls (`op_db`), for the judge."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any, TypeVar

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves

from tests.ops.judge import Judgement, Operator, Verdict, judge
from tests.ops.samples import Sample, plain

__all__ = ["Judgement", "Operator", "Verdict", "can_be_run", "judge", "operators", "sampled"]

#: Samples judged of each operator, and how many are looked at to choose them.
_SAMPLES, _CANDIDATES = 12, 200

T = TypeVar("T")

#: Their kernels take elements of integer tensors for offsets into memory, without a check.
_TRUSTING = {
    "_segment_reduce.lengths",
    "_segment_reduce.offsets",
    "linalg.ldl_solve",
    "linalg.lu_solve",
    "lu_solve",
    "lu_unpack",
    "nn.functional.embedding_bag",
}

#: Their kernels divide by sizes, without a check: a size of 0 ends the process. They are for
#: torch's own use; the function that calls them does not do so at these sizes.
_FATAL = {"torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"}


def operators() -> list[Operator]:
    """All of torch's table that can be judged, in its order."""
    return [
        Operator(info.full_name, info.op, partial(sampled, info), info.full_name in _TRUSTING)
        for info in op_db
        if info.full_name not in _FATAL
    ]


def can_be_run(info: OpInfo) -> bool:
    """Whether it has samples for this machine, and no call of it ends the process."""
    return info.full_name not in _FATAL and bool(info.dtypes)


def sampled(info: OpInfo) -> Sequence[Sample]:
    """A few calls of an operator: the same in every process and every order of operators."""
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    found = info.sample_inputs("cpu", _dtype(info), requires_grad=False)
    return _diverse(
        Sample(plain((sample.input, *sample.args)), plain(sample.kwargs))
        for sample in islice(found, _CANDIDATES)
    )


#: Preferred first.
_DTYPES = (torch.float32, torch.int64, torch.complex64)


def _dtype(info: OpInfo) -> torch.dtype:
    supported = info.dtypes
    if not supported:
        raise ValueError("torch supports it for no dtype on the CPU")
    preferred = next((dtype for dtype in _DTYPES if dtype in supported), None)
    return preferred or min(supported, key=str)


def _diverse(samples: Iterable[Sample]) -> list[Sample]:
    """A few of the samples, in their order: many kinds of shapes, many kinds of other arguments.

    Shapes with sizes that can change come first.
    """
    groups: dict[Any, dict[Any, list[tuple[int, Sample]]]] = {}
    for position, sample in enumerate(samples):
        shapes, others = _shapes(sample), _others(sample)
        groups.setdefault(shapes, {}).setdefault(others, []).append((position, sample))
    queues = [_in_turns(group.values()) for group in groups.values()]
    queues.sort(key=lambda queue: not any(_can_change(sample) for _, sample in queue))
    chosen = _in_turns(queues)[:_SAMPLES]
    return [sample for _, sample in sorted(chosen, key=lambda pair: pair[0])]


def _in_turns(lists: Iterable[Sequence[T]]) -> list[T]:
    """The first of each list, then the second of each, and so on."""
    rows = zip_longest(*lists, fillvalue=_NOTHING)
    return [item for row in rows for item in row if item is not _NOTHING]


_NOTHING: Any = object()


def _tensors(sample: Sample) -> list[torch.Tensor]:
    leaves = tree_leaves((sample.args, sample.kwargs))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _can_change(sample: Sample) -> bool:
    return any(size > 1 for tensor in _tensors(sample) for size in tensor.shape)


def _shapes(sample: Sample) -> Any:
    """What is alike in calls on shapes of one kind: numbers of dimensions, zeros and ones, gaps."""
    return tuple(
        (
            tuple(min(size, 2) for size in tensor.shape),
            tensor.layout is torch.strided and tensor.is_contiguous(),
        )
        for tensor in _tensors(sample)
    )


def _others(sample: Sample) -> Any:
    """What is alike in calls with other arguments of one kind: names and types, flags and words."""

    def of(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return tuple(map(of, value))
        return value if isinstance(value, bool | str) else type(value).__name__

    return of(sample.args), tuple((name, of(value)) for name, value in sample.kwargs.items())
