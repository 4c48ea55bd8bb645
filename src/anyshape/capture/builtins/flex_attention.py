"""`flex_attention`: its functions of scores and of positions are captured once, for all positions.

Eager code maps them over single positions (`each_position.py`). What they do that cannot be done
for all positions at once is left to torch's own function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.nn.attention import flex_attention as flex

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.each_position import along, at_all_positions
from anyshape.capture.builtins.model import Hooks, Models

_DTYPES: Final = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16})
_RANK: Final = 4


class _Positions:
    """All positions of a mask or of scores, and the functions that are given them."""

    def __init__(self, hooks: Hooks, sizes: tuple[Any, ...], device: object) -> None:
        self._hooks = hooks
        self._indices = [
            along(hooks, hooks.call(torch.arange, size, device=device), axis, _RANK)
            for axis, size in enumerate(sizes)
        ]

    def __call__(self, function: Any, *scores: torch.Tensor) -> torch.Tensor:
        given = (*scores, *self._indices)
        return at_all_positions(self._hooks, "flex_attention", function, given, given)


# -- models ----------------------------------------------------------------------------------------


def _flex_attention(
    hooks: Hooks,
    query: Any,
    key: Any,
    value: Any,
    score_mod: object = None,
    block_mask: object = None,
    scale: Any = None,
    enable_gqa: object = False,
    return_lse: object = False,
    kernel_options: object = None,
    *,
    return_aux: Any = None,
) -> object:
    sizes = _checked(hooks, query, key, value, block_mask, bool(enable_gqa))
    if kernel_options is not None or (return_lse and return_aux is not None):
        raise AbortCapture("flex_attention with these options")
    call = hooks.call
    if enable_gqa:
        groups = hooks.binary("floordiv", sizes[1], call(torch.Tensor.size, key, 1))
        key, value = (call(torch.repeat_interleave, each, groups, dim=1) for each in (key, value))
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    if scale is None:
        scale = hooks.binary("truediv", 1.0, call(math.sqrt, call(torch.Tensor.size, query, -1)))
    query32, key32 = (call(torch.Tensor.to, each, dtype) for each in (query, key))
    scores = call(torch.matmul, query32, call(torch.transpose, key32, -2, -1))
    scores = call(torch.mul, scores, scale)
    positions = _Positions(hooks, sizes, query.device)
    if score_mod is not None:
        scores = positions(score_mod, scores)
        if scores.dtype != dtype:
            raise AbortCapture(f"flex_attention with scores of {scores.dtype}")
    if block_mask is not None:
        mask = positions(hooks.attribute(block_mask, "mask_mod"))
        scores = call(torch.where, mask, scores, -math.inf)
    # A row without a key has no weights, and no gradients.
    empty = call(torch.all, hooks.compare("eq", scores, -math.inf), dim=-1, keepdim=True)
    weights = call(torch.softmax, call(torch.where, empty, 0.0, scores), dim=-1)
    weights = call(torch.Tensor.to, call(torch.where, empty, 0.0, weights), query.dtype)
    result = call(torch.matmul, weights, value)
    if not hooks.tracer.active:
        raise AbortCapture("flex_attention cannot be traced")
    if return_aux is not None:
        asked = {name: hooks.attribute(return_aux, name) for name in flex.AuxRequest._fields}
        found = {name: _AUX[name] for name in asked if hooks.truth(asked[name])}
        is_empty = bool(found) and _is_empty(hooks, sizes)
        rows = {} if is_empty else {name: make(hooks, scores) for name, make in found.items()}
        return result, flex.AuxOutput(**rows)
    if not return_lse:
        return result
    return result, None if _is_empty(hooks, sizes) else _logsumexp(hooks, scores)


def _is_empty(hooks: Hooks, sizes: tuple[Any, ...]) -> bool:
    """Whether there is no row of scores: of none, nothing is told."""
    return not all(hooks.truth(hooks.compare("gt", size, 0)) for size in sizes[:-1])


def _logsumexp(hooks: Hooks, scores: torch.Tensor) -> torch.Tensor:
    return hooks.call(torch.logsumexp, scores, dim=-1)


def _largest(hooks: Hooks, scores: torch.Tensor) -> torch.Tensor:
    return hooks.call(torch.amax, scores, dim=-1)


_AUX: Final[Mapping[str, Any]] = {"lse": _logsumexp, "max_scores": _largest}


def _checked(
    hooks: Hooks, query: Any, key: Any, value: Any, block_mask: object, grouped: bool
) -> tuple[Any, ...]:
    """Batch, heads and lengths. What eager code refuses, or knows better, it gets to see."""
    tensors = (query, key, value)
    if not all(type(each) in (torch.Tensor, torch.nn.Parameter) for each in tensors):
        raise AbortCapture("flex_attention of other than plain tensors")
    with torch._C.DisableTorchFunction():
        kinds = {(each.dtype, each.device, each.layout, each.dim()) for each in tensors}
        is_known = len(kinds) == 1 and query.dtype in _DTYPES and query.dim() == _RANK
    if not is_known or torch.is_autocast_enabled(query.device.type):
        raise AbortCapture("flex_attention of such tensors, or under autocast")

    def size(tensor: Any, dim: int) -> Any:
        return hooks.call(torch.Tensor.size, tensor, dim)

    def same(one: Any, other: Any) -> bool:
        return hooks.truth(hooks.compare("eq", one, other))

    heads, length = size(query, 1), size(key, 2)
    others = [hooks.binary("mod", heads, size(key, 1)), 0] if grouped else [heads, size(key, 1)]
    pairs = [others, [size(query, 0), size(key, 0)], [size(key, 0), size(value, 0)]]
    pairs += [[size(key, 1), size(value, 1)], [length, size(value, 2)]]
    pairs += [[size(query, 3), size(key, 3)]]
    if block_mask is not None:
        lengths = hooks.attribute(block_mask, "seq_lengths")
        pairs += [[size(query, 2), hooks.item(lengths, 0)], [length, hooks.item(lengths, 1)]]
        if type(block_mask) is not flex.BlockMask or not same(
            hooks.attribute(hooks.attribute(block_mask, "kv_num_blocks"), "device"), query.device
        ):
            raise AbortCapture("flex_attention with a mask of another kind")
    if not all(same(*pair) for pair in pairs) or not hooks.truth(hooks.compare("gt", length, 0)):
        raise AbortCapture("flex_attention of sizes that do not fit")
    return size(query, 0), heads, size(query, 2), length


def _create_mask(
    hooks: Hooks,
    mod_fn: Any,
    B: Any,
    H: Any,
    Q_LEN: Any,
    KV_LEN: Any,
    device: Any = None,
) -> object:
    if device is None:
        device = torch.accelerator.current_accelerator() or "cpu"
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if flex._get_mod_type(mod_fn) is not flex._ModificationType.MASK_MOD:
        raise AbortCapture("a mask of a function of scores")
    found = _Positions(hooks, sizes, device)(mod_fn)
    return hooks.call(torch.Tensor.expand, found, *sizes)


def _ordered_to_dense(
    hooks: Hooks, num_blocks_in_row: Any, col_indices: Any, num_cols: Any = None
) -> object:
    """Ones where a row has a block: the first so many of its columns."""
    call, item = hooks.call, hooks.item
    counts, columns = num_blocks_in_row, col_indices
    last = call(torch.Tensor.size, columns, -1)
    if num_cols is None:  # before torch 2.12
        num_cols = last
    order = call(torch.arange, last, dtype=torch.int32, device=counts.device)
    is_there = hooks.compare("lt", order, call(torch.unsqueeze, counts, -1))
    # Those that are not there are put behind the end.
    places = call(torch.Tensor.to, call(torch.where, is_there, columns, num_cols), torch.int64)
    rows = [call(torch.Tensor.size, columns, dim) for dim in range(columns.dim() - 1)]
    shape = (*rows, hooks.binary("add", num_cols, 1))
    none = call(torch.zeros, shape, dtype=torch.int32, device=columns.device)
    dense = call(torch.scatter, none, -1, places, 1)
    own = item(dense, (..., slice(None, num_cols)))
    return call(torch.clone, own, memory_format=torch.contiguous_format)


def _mod_type(hooks: Hooks, fn: Any) -> object:
    """By how many arguments it takes: guarded where it is called."""
    return flex._get_mod_type(fn)


MODELS: Final[Models] = {
    flex.flex_attention: _flex_attention,
    flex._get_mod_type: _mod_type,
    flex.create_mask: _create_mask,
    flex._ordered_to_dense: _ordered_to_dense,
}
