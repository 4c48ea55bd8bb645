"""Torch's own samples of its operators."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from tests.symbolic.corpus.collect.tracing import Tracer

SECONDS = 150
# fmt: off
SKIP = (
    "linalg.", "special.", "signal.", "masked.", "_refs", "cholesky", "svd", "pca", "lu", "ormqr",
    "triangular", "jiterator", "nn.functional.ctc",
)
# fmt: on
POINTWISE = ("UnaryUfuncInfo", "BinaryUfuncInfo", "ReductionOpInfo")


def run(t: Tracer) -> None:
    torch.manual_seed(0)
    deadline = time.time() + SECONDS
    for op in _operators():
        if time.time() > deadline:
            break
        for sample in _samples(op):
            started = time.time()
            _trace(t, op, sample)
            if time.time() - started > 1:
                break


def _operators() -> list[Any]:
    """In random order, but those that ask little last."""
    ops = [
        op
        for op in op_db
        if torch.float32 in op.dtypes
        and op.supports_out is not None
        and not op.name.startswith(SKIP)
    ]
    random.Random(0).shuffle(ops)
    return sorted(ops, key=lambda op: type(op).__name__ in POINTWISE)


def _samples(op: Any) -> list[Any]:
    """The first, and two from the middle."""
    try:
        samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32), 24))
    except Exception:  # torch's own samples fail for some operators
        return []
    return samples if len(samples) <= 3 else [samples[i * len(samples) // 3] for i in range(3)]


def _trace(t: Tracer, op: Any, sample: Any) -> None:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if not tensors or any(x.numel() > 100000 or x.is_sparse for x in tensors):
        return

    def call(*fakes: torch.Tensor) -> Any:
        given = iter(fakes)
        new = [next(given) if isinstance(x, torch.Tensor) else x for x in leaves]
        first, args, kwargs = pytree.tree_unflatten(new, spec)
        return op.op(first, *args, **kwargs)

    t.fake(f"op_db {op.name}", call, *tensors, duck=True)
