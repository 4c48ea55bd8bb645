"""Attention with gradients on GPUs: which of its kernels torch takes, and graphs that name it.

That depends on sizes, strides, dtypes and switches of torch's. It is asked with tensors that have
no memory; where the answer is a fused kernel, the operator is one whose forward and backward are
native calls. Otherwise, and with dropout, torch's autograd does it.

cuDNN's kernel is not among them, though torch may prefer it: its plans are made for one tuple of
sizes each (a tenth of a second), and the plan of its backward is found again for gradients with
other strides, which it then reads wrongly (torch 2.11). The next one in torch's order is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
import torch.fx

from anyshape.graph.attention_logsumexp import attention_arguments, heads_fit, tensor_terms
from anyshape.graph.term_graph import TermGraph
from anyshape.ops.families.attention_kernels import KERNELS, attention_by_kernel
from anyshape.ops.meta import Meta
from anyshape.ops.node_meta import RESULT
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Facts, Size, Symbol
from anyshape.symbolic.evaluate import evaluate

#: Where torch has several fused kernels.
DEVICES: Final = {"cuda"}
_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
#: Elements in 16 bytes: heads are a multiple of it wide, or torch pads them first.
_LANES: Final = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}


class AttentionCall(NamedTuple):
    """An attention of a graph that may be a native call, and what it is given."""

    node: torch.fx.Node
    given: Mapping[str, Any]

    @property
    def metas(self) -> list[Meta | None]:
        return [self.given[name] for name in ("query", "key", "value", "attn_mask")]

    @property
    def symbols(self) -> frozenset[Symbol]:
        sizes = [size for each in self.metas if each for size in (*each.shape, *each.strides)]
        found = [size.symbols for size in sizes if not isinstance(size, int)]
        return frozenset[Symbol]().union(*found)

    def kernel(self, values: Mapping[Symbol, int]) -> str | None:
        """The fused kernel that torch takes at these sizes, if it does."""
        query, key = self.given["query"], self.given["key"]
        width = evaluate(query.shape[3], values)
        found = KERNELS.get(asked(self.metas, self.given, values))
        if found is None or width % _LANES[query.dtype]:
            return None
        is_grouped = evaluate(query.shape[1], values) != evaluate(key.shape[1], values)
        return None if is_grouped and found == "efficient" else found


def attention_calls(graph: torch.fx.Graph, facts: Facts) -> list[AttentionCall]:
    """Those whose kernel is worth asking for."""
    terms = TermGraph(torch.fx.Graph(), facts)
    found: list[AttentionCall] = []
    for node in graph.nodes:
        given = attention_arguments(node, DEVICES)
        if given is not None and given["query"].dtype in _DTYPES and heads_fit(given, terms):
            found.append(AttentionCall(node, given))
    return found


def asked(metas: list[Meta | None], given: Mapping[str, Any], values: Mapping[Symbol, int]) -> int:
    """The number of the kernel that eager code takes, or would take without cuDNN."""
    tensors = [None if each is None else _example(each, values) for each in metas]
    named = {"scale": given["scale"], "enable_gqa": given["enable_gqa"]}
    was_enabled = _C._get_cudnn_sdp_enabled()
    _C._set_sdp_use_cudnn(False)
    try:
        # Of wrappers, as of any tensor, the function looks at sizes, strides and flags.
        with torch.enable_grad(), _C._DisableTorchDispatch():
            return _choice(*tensors, 0.0, given["is_causal"], **named)
    finally:
        _C._set_sdp_use_cudnn(was_enabled)


def switches() -> tuple[Any, ...]:
    """What a program may have told torch of the kernels to take."""
    return (
        _C._get_flash_sdp_enabled(),
        _C._get_mem_efficient_sdp_enabled(),
        _C._get_cudnn_sdp_enabled(),
        _C._get_math_sdp_enabled(),
        *_priorities(),
    )


_C: Any = torch._C
_choice: Any = _C._VariableFunctions._fused_sdp_choice
_priorities: Any = getattr(_C, "_get_sdp_priority_order", tuple)


class _Example(torch.Tensor):
    """A tensor on a device without memory."""

    __torch_function__: Any = _C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def _example(meta: Meta, values: Mapping[Symbol, int]) -> torch.Tensor:
    def known(sizes: tuple[Size, ...]) -> list[int]:
        return [evaluate(size, values) for size in sizes]

    return torch.Tensor._make_wrapper_subclass(
        _Example,
        known(meta.shape),
        strides=known(meta.strides),
        dtype=meta.dtype,
        device=meta.device,
        requires_grad=meta.requires_grad,
    )


def with_kernel(
    node: torch.fx.Node, terms: TermGraph, mapped: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    """The result, of a call by the kernel that was asked for."""
    kernel = terms.kernels.get(node)
    given = None if kernel is None else attention_arguments(node, DEVICES)
    if given is None:
        return None
    tensors = tensor_terms(node, given, terms, mapped)
    rest = (given["is_causal"], given["scale"], kernel)
    result, _ = terms.record(attention_by_kernel, *tensors, *rest)
    whole = result.node.args[0]
    logsumexp = replace(whole.meta[RESULT][1], requires_grad=False)
    whole.meta[RESULT] = node.meta[RESULT], logsumexp
    result.node.meta[RESULT] = node.meta[RESULT]
    return result.node
