"""Results of operators with packed weights (see `ops.packed_weights`): what a weight decided in
this run, and the check that it decides the same in every later one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.record.unbacked import pairs
from anyshape.ops.infer import map_metas
from anyshape.ops.meta import Dense, Meta
from anyshape.ops.runtime_checks import check_dense
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr

Recorder = Any


def with_sizes(sizes: Mapping[Expr, int], value: object) -> object:
    """The metas with these sizes for the symbols."""

    def settled(meta: Meta) -> Meta:
        shape = [sizes.get(size, size) if isinstance(size, Expr) else size for size in meta.shape]
        return replace(meta, shape=tuple(shape))

    return map_metas(settled, value) if sizes else value


def check_results(recorder: Recorder, value: object, result: object) -> None:
    """Check in the graph what was said of the results: what a packed weight holds is not
    guarded."""
    recorder.checks_forms = True
    for meta, tensor in pairs(value, result):
        if not isinstance(meta.layout, Dense):
            raise AbortCapture("a result that a packed weight decides is not dense")
        shape = tuple(map(recorder.sizes.of, meta.shape))
        order = None if meta.is_contiguous else meta.layout.order
        arguments = (recorder.node(tensor), shape, order, tensor.dtype)
        recorder.graph.call_function(check_dense, arguments)


def is_quantized(result: object) -> bool:
    """Whether there is a tensor in it that has a scale of its own."""
    if isinstance(result, torch.Tensor):
        return result.is_quantized
    return isinstance(result, tuple | list) and any(map(is_quantized, result))
