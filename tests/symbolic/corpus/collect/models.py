"""Models of transformers, tiny and random."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import transformers as T

from tests.symbolic.corpus.collect.tracing import Tracer

Model = Callable[..., Any]

# fmt: off
LAYERS = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
          "num_attention_heads": 4}
TEXT = {**LAYERS, "vocab_size": 50, "max_position_embeddings": 64}
IMAGE = {**LAYERS, "image_size": 32, "patch_size": 8}


def _text(model: Model) -> Model:
    return lambda ids, mask: model(input_ids=ids, attention_mask=mask)


def _with_decoder(model: Model) -> Model:
    return lambda ids, mask: model(
        input_ids=ids, attention_mask=mask, decoder_input_ids=ids[:, :4])


def _unmasked(model: Model) -> Model:
    return lambda ids, mask: model(input_ids=ids)


def _interpolated(model: Model) -> Model:
    return lambda pixels: model(pixels, interpolate_pos_encoding=True)


def _text_and_image(model: Model) -> Model:
    return lambda ids, mask, pixels: model(
        input_ids=ids, attention_mask=mask, pixel_values=pixels)


def _encoder(model: Any) -> Model:
    return lambda features: model.encoder(features)


def _itself(model: Model) -> Model:
    return model


# Name, how it is called, class, configuration's class, its arguments.
OF_TEXT: tuple[tuple[str, Callable[[Any], Model], Any, Any, dict[str, Any]], ...] = (
    ("Llama", _text, T.LlamaForCausalLM, T.LlamaConfig, {**TEXT, "num_key_value_heads": 2}),
    ("Mistral sliding window", _text, T.MistralModel, T.MistralConfig,
     {**TEXT, "num_key_value_heads": 2, "sliding_window": 4}),
    ("Mixtral", _text, T.MixtralForCausalLM, T.MixtralConfig,
     {**TEXT, "num_key_value_heads": 2, "num_local_experts": 4}),
    ("Qwen2", _text, T.Qwen2Model, T.Qwen2Config, {**TEXT, "num_key_value_heads": 2}),
    ("Bert", _text, T.BertModel, T.BertConfig, TEXT),
    ("GPT2", _text, T.GPT2LMHeadModel, T.GPT2Config,
     {"n_embd": 16, "n_layer": 1, "n_head": 4, "vocab_size": 50, "n_positions": 64}),
    ("GPT-NeoX", _text, T.GPTNeoXModel, T.GPTNeoXConfig, TEXT),
    ("T5", _with_decoder, T.T5Model, T.T5Config,
     {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 4, "vocab_size": 50}),
    ("Longformer", _text, T.LongformerModel, T.LongformerConfig,
     {**TEXT, "attention_window": [4], "pad_token_id": 0}),
    ("XLNet", _text, T.XLNetModel, T.XLNetConfig,
     {"d_model": 16, "n_layer": 1, "n_head": 4, "d_inner": 32, "vocab_size": 50}),
    ("Bloom", _text, T.BloomModel, T.BloomConfig,
     {"hidden_size": 16, "n_layer": 1, "n_head": 4, "vocab_size": 50}),
    ("Mamba", _unmasked, T.MambaModel, T.MambaConfig,
     {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 50, "state_size": 4}),
    ("BigBird", _text, T.BigBirdModel, T.BigBirdConfig,
     {**TEXT, "attention_type": "original_full"}),
    ("Reformer", _text, T.ReformerModel, T.ReformerConfig,
     {"attention_head_size": 4, "hidden_size": 16, "num_attention_heads": 4,
      "feed_forward_size": 32, "vocab_size": 50, "attn_layers": ["local"],
      "axial_pos_embds": False, "max_position_embeddings": 64, "local_attn_chunk_length": 4}),
)
# The same, and the shape of the input.
OF_SIGNALS: tuple[tuple[str, Callable[[Any], Model], Any, Any, dict[str, Any], tuple[int, ...]], ...] = (  # noqa: E501
    ("ViT", _itself, T.ViTModel, T.ViTConfig, IMAGE, (2, 3, 32, 32)),
    ("ViT interpolate", _interpolated, T.ViTModel, T.ViTConfig, IMAGE, (2, 3, 40, 48)),
    ("Swin", _itself, T.SwinModel, T.SwinConfig,
     {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2],
      "window_size": 4}, (2, 3, 32, 40)),
    ("SegFormer", _itself, T.SegformerModel, T.SegformerConfig,
     {"hidden_sizes": [8] * 4, "depths": [1] * 4, "num_attention_heads": [1, 1, 2, 2],
      "decoder_hidden_size": 8}, (2, 3, 64, 80)),
    ("ResNet", _itself, T.ResNetModel, T.ResNetConfig,
     {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, (2, 3, 50, 60)),
    ("ConvNext", _itself, T.ConvNextModel, T.ConvNextConfig,
     {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, (2, 3, 50, 60)),
    ("Whisper encoder", _encoder, T.WhisperModel, T.WhisperConfig,
     {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
      "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 60,
      "num_mel_bins": 8, "max_source_positions": 20, "pad_token_id": 0, "bos_token_id": 1,
      "eos_token_id": 2, "decoder_start_token_id": 1}, (2, 8, 40)),
    ("Wav2Vec2", _itself, T.Wav2Vec2Model, T.Wav2Vec2Config,
     {**LAYERS, "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3),
      "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}, (2, 400)),
)
CLIP = {"text_config": {**TEXT, "eos_token_id": 49}, "vision_config": IMAGE}
COMPILED = ("Llama", "Bert", "Longformer", "ViT interpolate", "Swin")
# fmt: on


def run(t: Tracer) -> None:
    words = torch.randint(0, 50, (3, 7)), torch.ones(3, 7, dtype=torch.long)
    table = [
        *((row, words) for row in OF_TEXT),
        *((row, (torch.randn(shape),)) for *row, shape in OF_SIGNALS),
        (
            ("CLIP", _text_and_image, T.CLIPModel, T.CLIPConfig, CLIP),
            (*words, torch.randn(2, 3, 32, 32)),
        ),
    ]
    for (name, called, model_class, config_class, options), inputs in table:
        started = time.time()
        model: Any = None
        with t.noting_failure(f"build {name}"):
            torch.manual_seed(0)
            model = called(model_class(config_class(**options)).eval())
        if model is None:
            continue
        t.fake(f"transformers {name}", model, *inputs, duck=len(inputs) == 2)
        if name in COMPILED:
            t.compiled(f"transformers {name}", model, *inputs)
        t.report(f"  {name}: {time.time() - started:.0f} s")
