"""What is measured: the workloads for the processor, moved, and models of a size that GPUs run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from benchmarks.native.registry import WORKLOADS
from benchmarks.native.workload import Dims, Workload

_LLAMA: Final = ((1, 64), (1, 1), (2, 33), (8, 256), (4, 100), (1, 200))
_BERT: Final = ((2, 50), (3, 200), (1, 17), (8, 128), (4, 64))
#: Of each value, and of the largest: torch's products for GPUs round in their own ways.
_CLOSE: Final = (1e-3, 1e-4)
_CLOSE_IN_TWO_BYTES: Final = (5e-2, 3e-2)


def workloads(device: str) -> dict[str, Workload]:
    """By name. Models come last: importing what they need is not undone."""
    every = (*WORKLOADS.values(), _SWEEP_OF_LLAMA, _SWEEP_OF_BERT)
    return {each.name: _moved(each, device) for each in every}


def _llama() -> nn.Module:
    import transformers as tf

    config = tf.LlamaConfig(
        vocab_size=32000,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
    )
    return _in_two_bytes(tf.LlamaForCausalLM(config))


def _bert() -> nn.Module:
    import transformers as tf

    return _in_two_bytes(tf.BertModel(tf.BertConfig()))


def _in_two_bytes(model: nn.Module) -> nn.Module:
    return model.to(torch.bfloat16).eval()


def _tokens(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randint(0, 1000, (batch, length)),)


def _sweep(name: str, build: Callable[[], nn.Module], shapes: tuple[Dims, ...]) -> Workload:
    sizes: Mapping[str, Dims] = {"x".join(map(str, shape)): shape for shape in shapes}
    return Workload(name, build, _tokens, sizes, kind="model", close=_CLOSE_IN_TWO_BYTES)


_SWEEP_OF_LLAMA: Final = _sweep("llama8, bfloat16", _llama, _LLAMA)
_SWEEP_OF_BERT: Final = _sweep("bert-base, bfloat16", _bert, _BERT)


def _moved(workload: Workload, device: str) -> Workload:
    """The same on a device."""
    close = workload.close if workload.close == _CLOSE_IN_TWO_BYTES else _CLOSE

    def build() -> Callable[..., Any]:
        _started(device)
        made = workload.build()
        return made.to(device) if isinstance(made, nn.Module) else made

    def inputs(*numbers: int) -> tuple[Any, ...]:
        return tree_map(
            lambda leaf: leaf.to(device) if isinstance(leaf, Tensor) else leaf,
            workload.inputs(*numbers),
        )

    settle = torch.cuda.synchronize if device == "cuda" else None
    return replace(
        workload, build=build, inputs=inputs, settle=settle, close=close, with_layers=None
    )


@functools.cache
def _started(device: str) -> None:
    """A context and torch's library of products: once a process, and no compiler's doing."""
    for dtype in (torch.float32, torch.bfloat16):
        one = torch.ones(8, 8, dtype=dtype, device=device)
        torch.nn.functional.linear(one, one).sum().item()
