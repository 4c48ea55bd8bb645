"""Whole models of `transformers`, with random parameters: nothing is downloaded.

`transformers` is imported when a model is built, so that the other workloads are measured in
processes that have never seen it: it imports parts of torch.compile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from benchmarks.native.workload import Workload, sizes

LAYERS: Final = 4
_VOCABULARY: Final = 1000
_SIZES: Final[dict[str, Any]] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}
_TEXT: Final = sizes((1, 4), (4, 64), (8, 192), (3, 37))


def load() -> None:
    """Import what the models need, in a process that then measures them."""
    for build in (_bert, _llama, _vit):
        build(0)


def _bert(layers: int) -> nn.Module:
    import transformers as tf

    config = tf.BertConfig(**_SIZES, vocab_size=_VOCABULARY, num_hidden_layers=layers)
    return tf.BertModel(config).eval()


def _llama(layers: int) -> nn.Module:
    import transformers as tf

    config = tf.LlamaConfig(
        **_SIZES,
        vocab_size=_VOCABULARY,
        num_hidden_layers=layers,
        num_key_value_heads=2,
        use_cache=False,
    )
    return tf.LlamaForCausalLM(config).eval()


def _vit(layers: int) -> nn.Module:
    import transformers as tf

    config = tf.ViTConfig(**_SIZES, image_size=64, patch_size=8, num_hidden_layers=layers)
    return tf.ViTForImageClassification(config).eval()


def _tokens(batch: int, length: int) -> tuple[Any, ...]:
    return (torch.randint(0, _VOCABULARY, (batch, length)),)


def _tokens_and_mask(batch: int, length: int) -> tuple[Any, ...]:
    kept = torch.randint(1, length + 1, (batch, 1))
    return *_tokens(batch, length), (torch.arange(length) < kept).long()


def _pictures(batch: int) -> tuple[Any, ...]:
    return (torch.randn(batch, 3, 64, 64),)


def _model(
    name: str, build: Callable[[int], nn.Module], inputs: Any, sizes_of: dict[str, Any]
) -> Workload:
    return Workload(name, lambda: build(LAYERS), inputs, sizes_of, kind="model", with_layers=build)


MODELS = (
    _model("BERT-mini", _bert, _tokens_and_mask, _TEXT),
    _model("Llama-mini", _llama, _tokens, _TEXT),
    _model("ViT-mini", _vit, _pictures, sizes((1,), (8,), (24,), (3,))),
)
