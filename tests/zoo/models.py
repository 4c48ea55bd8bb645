"""Real models with tiny random configurations: one row each, nothing is downloaded.

A row builds the model and makes its inputs for a batch and a length; what `length` means is the
model's own (tokens, image side, cached tokens). Inputs are fresh random data at every call; seed
torch before two calls to get twins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as tf
from torch import Tensor, nn

from tests.zoo import nets

Call = tuple[tuple[Any, ...], dict[str, Any]]
Pair = tuple[int, int]

tf.logging.set_verbosity_error()

#: The first pair is what a model is compiled at; then unseen sizes, with 1 in either place.
PAIRS: tuple[Pair, ...] = ((2, 8), (3, 11), (1, 9), (4, 1), (1, 1), (5, 7), (2, 16), (6, 2))
#: With an empty batch instead of the last pair, for the models that take one in eager mode.
PAIRS_WITH_0: tuple[Pair, ...] = (*PAIRS[:-1], (0, 5))

_VOCABULARY = 100
_SIZES: dict[str, Any] = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_TOKENS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_GROUPED: dict[str, Any] = {**_SIZES, "num_key_value_heads": 2}
_VISION: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 4,
}


@dataclass(frozen=True)
class Row:
    """A model of the zoo."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[[int, int], Call]
    pairs: tuple[Pair, ...] = PAIRS
    train: bool = False
    """Stay in training mode: for models whose buffers change there."""

    def module(self, seed: int = 0) -> nn.Module:
        """The model with the weights of `seed`; two calls give twins."""
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            return self.build().train(self.train)

    def call(self, pair: Pair, seed: int = 0) -> Call:
        """Inputs with the data of `seed`; two calls give twins."""
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            return self.inputs(*pair)


# -- inputs --------------------------------------------------------------------------------------


def tokens(batch: int, length: int) -> Tensor:
    return torch.randint(3, _VOCABULARY - 10, (batch, length))


def padding(batch: int, length: int) -> Tensor:
    """An attention mask that keeps at least the first token of each row."""
    kept = torch.randint(1, length + 1, (batch, 1))
    return (torch.arange(length) < kept).long()


def text(**fixed: Any) -> Callable[[int, int], Call]:
    return lambda batch, length: ((), {"input_ids": tokens(batch, length), **fixed})


def text_with_labels(batch: int, length: int) -> Call:
    return (), {"input_ids": tokens(batch, length), "labels": tokens(batch, length)}


def text_with_mask(batch: int, length: int) -> Call:
    return (), {"input_ids": tokens(batch, length), "attention_mask": padding(batch, length)}


def images(side: Callable[[int], int]) -> Callable[[int, int], Call]:
    return lambda batch, length: ((torch.randn(batch, 3, side(length), side(length)),), {})


def pixels(batch: int, length: int) -> Call:
    return (), {"pixel_values": torch.randn(batch, 3, 16, 16)}


def sequences(width: int) -> Callable[[int, int], Call]:
    return lambda batch, length: ((torch.randn(batch, length, width),), {})


def captions(batch: int, length: int) -> Call:
    """Texts end with the token that CLIP pools at; three images whatever the number of texts."""
    ids = tokens(batch, length)
    if length:
        ids[:, -1] = _VOCABULARY - 1
    return (), {"input_ids": ids, "pixel_values": torch.randn(3, 3, 16, 16)}


def speech(batch: int, length: int) -> Call:
    features = torch.randn(batch, 16, 40)
    return (), {"input_features": features, "decoder_input_ids": tokens(batch, length)}


def filled_cache(batch: int, length: int, layers: int = 2, heads: int = 2) -> tf.DynamicCache:
    """A cache as `length` tokens would have left it."""
    cache = tf.DynamicCache()
    for layer in range(layers):
        keys, values = torch.randn(2, batch, heads, length, 8).unbind(0)
        cache.update(keys, values, layer)
    return cache


def one_token_with_cache(batch: int, length: int) -> Call:
    cache = filled_cache(batch, length)
    return (), {"input_ids": tokens(batch, 1), "past_key_values": cache, "use_cache": True}


# -- models --------------------------------------------------------------------------------------


def _llama() -> nn.Module:
    return tf.LlamaForCausalLM(tf.LlamaConfig(**_GROUPED))


def _whisper() -> nn.Module:
    config = tf.WhisperConfig(
        vocab_size=_VOCABULARY,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=20,
        max_target_positions=32,
        decoder_start_token_id=1,
        **_TOKENS,
    )
    return tf.WhisperModel(config)


def _clip() -> nn.Module:
    texts = {**_SIZES, "max_position_embeddings": 32, "eos_token_id": _VOCABULARY - 1}
    config = tf.CLIPConfig(text_config=texts, vision_config=_VISION, projection_dim=16)
    return tf.CLIPModel(config)


def _t5() -> nn.Module:
    sizes: dict[str, Any] = {"decoder_start_token_id": 0}
    config = tf.T5Config(
        vocab_size=_VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        **sizes,
    )
    return tf.T5ForConditionalGeneration(config)


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def _mixtral() -> nn.Module:
    return tf.MixtralForCausalLM(tf.MixtralConfig(**_GROUPED, num_local_experts=4))


def _distilbert() -> Any:
    return tf.DistilBertConfig(vocab_size=_VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64)


def _opt() -> Any:
    return tf.OPTConfig(
        vocab_size=_VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        word_embed_proj_dim=32,
        **_TOKENS,
    )


ROWS: tuple[Row, ...] = (
    Row("Llama", _llama, text(use_cache=False)),
    Row("Llama use_cache", _llama, text(use_cache=True)),
    Row("Llama cache passed in", _llama, one_token_with_cache, (*PAIRS[:-1], (3, 0))),
    Row(
        "GPT2",
        lambda: tf.GPT2LMHeadModel(
            tf.GPT2Config(vocab_size=_VOCABULARY, n_embd=32, n_layer=2, n_head=4)
        ),
        text(),
    ),
    Row("BERT", lambda: tf.BertModel(tf.BertConfig(**_SIZES)), text_with_mask),
    Row("T5", _t5, text_with_labels),
    Row(
        "Mistral",
        lambda: tf.MistralForCausalLM(tf.MistralConfig(**_GROUPED, sliding_window=4)),
        text(),
    ),
    Row("Qwen2", lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**_GROUPED)), text_with_labels),
    Row("Whisper", _whisper, speech),
    Row("ViT", lambda: tf.ViTForImageClassification(tf.ViTConfig(**_VISION)), pixels),
    Row("CLIP", _clip, captions),
    Row(
        "Mamba",
        lambda: tf.MambaForCausalLM(
            tf.MambaConfig(
                vocab_size=_VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4
            )
        ),
        text(use_cache=False),
        PAIRS_WITH_0,
    ),
    Row("Mixtral", _mixtral, text(use_cache=False)),
    Row("DistilBERT", lambda: tf.DistilBertModel(_distilbert()), text_with_mask),
    Row("OPT", lambda: tf.OPTForCausalLM(_opt()), text_with_mask),
    Row("Phi", lambda: tf.PhiForCausalLM(tf.PhiConfig(**_GROUPED)), text(use_cache=False)),
    Row(
        "Gemma",
        lambda: tf.GemmaForCausalLM(tf.GemmaConfig(**_GROUPED, head_dim=8)),
        text(use_cache=False),
    ),
    Row(
        "GPT-NeoX",
        lambda: tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**_SIZES)),
        text(use_cache=False),
    ),
    Row("nn.TransformerEncoder", _encoder, sequences(32), PAIRS_WITH_0),
    Row("nn.LSTM", lambda: nn.LSTM(16, 32, 2, batch_first=True), sequences(16), PAIRS_WITH_0),
    Row(
        "nn.GRU",
        lambda: nn.GRU(16, 32, 2, batch_first=True, bidirectional=True),
        sequences(16),
        PAIRS_WITH_0,
    ),
    Row("MLP", nets.MLP, sequences(nets.WIDTH), PAIRS_WITH_0),
    Row("ResNet", nets.ResNet, images(lambda length: 2 * length + 3), PAIRS_WITH_0),
    Row(
        "ResNet training", nets.ResNet, images(lambda length: length + 5), PAIRS_WITH_0, train=True
    ),
    Row("U-Net", nets.UNet, images(lambda length: length + 4), PAIRS_WITH_0),
    Row("ConvNeXt", nets.ConvNext, images(lambda length: 4 * length), PAIRS_WITH_0),
    Row("Transformer", nets.Transformer, sequences(32), PAIRS_WITH_0),
)

BY_NAME = {row.name: row for row in ROWS}
