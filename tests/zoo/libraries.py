"""Models of other libraries with tiny random configurations: one row each, nothing is downloaded.

Rows are made when they are asked for, library by library: none of these is a dependency of the
package, nor of the fast tests. A row is called at six pairs of a batch and a length, which is the
side of an image, a number of tokens, or a number of nodes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn

from tests.zoo.models import Call, Pair, Row
from tests.zoo.without_torchvision import imported

#: Images that windows and strides of 32 divide, a batch of 1 among them.
IMAGES: Final[tuple[Pair, ...]] = ((2, 64), (3, 96), (1, 64), (4, 128), (2, 96), (5, 64))
#: Batches only: for models that are made for one size of images.
BATCHES: Final[tuple[Pair, ...]] = ((2, 64), (3, 64), (1, 64), (4, 64), (5, 64), (2, 64))
LATENTS: Final[tuple[Pair, ...]] = ((2, 16), (3, 8), (1, 16), (2, 24), (4, 8), (3, 16))
TOKENS: Final[tuple[Pair, ...]] = ((2, 12), (3, 9), (1, 12), (4, 17), (2, 5), (5, 12))
GRAPHS: Final[tuple[Pair, ...]] = ((3, 10), (4, 17), (2, 30), (5, 12), (3, 21), (6, 8))

_VOCABULARY: Final = 50
_FEATURES: Final = 8


def rows(library: str) -> tuple[Row, ...]:
    """The rows of one library; raises ImportError without it."""
    return tuple(LIBRARIES[library]())


def _image(batch: int, side: int) -> Call:
    return (torch.randn(batch, 3, side, side),), {}


def _tokens(batch: int, length: int) -> Tensor:
    return torch.randint(0, _VOCABULARY, (batch, length))


# -- timm ------------------------------------------------------------------------------------------

#: Of any size of images. Most families have a model of their own for tests; the others are made
#: small.
_TIMM: Final[dict[str, dict[str, Any]]] = {
    "test_resnet": {},
    "test_convnext": {},
    "test_efficientnet": {},
    "test_byobnet": {},
    "test_nfnet": {},
    "test_mambaout": {},
    "densenet121": {"growth_rate": 8, "block_config": (2, 2, 2, 2)},
    "davit_tiny": {"depths": (1, 1), "embed_dims": (16, 32), "num_heads": (1, 2)},
    "mobilenetv3_small_050": {},
    "regnetx_002": {},
    "resnest14d": {},
    "dla34": {},
    "ghostnet_050": {},
    "edgenext_xx_small": {"depths": (1, 1, 2, 1)},
    "fastvit_t8": {},
    "pvt_v2_b0": {"depths": (1, 1, 1, 1)},
    "inception_next_atto": {"depths": (1, 1, 1, 1)},
    "repvit_m1": {},
    "skresnet18": {},
    "rexnet_100": {},
    "mobilevit_xxs": {},
    "vovnet39a": {},
    "hgnetv2_b0": {},
    "starnet_s1": {"depths": (1, 1, 1, 1)},
    "cs3darknet_focus_s": {},
    "efficientvit_b0": {},
}
#: Of one size of images.
_TIMM_FIXED: Final[dict[str, dict[str, Any]]] = {
    "test_vit": {},
    "beit_base_patch16_224": {"embed_dim": 32, "depth": 2, "num_heads": 2},
    "eva02_tiny_patch14_224": {"embed_dim": 32, "depth": 2, "num_heads": 2, "patch_size": 16},
    "cait_xxs24_224": {"embed_dim": 32, "depth": 2, "num_heads": 2},
    "xcit_nano_12_p8_224": {"embed_dim": 32, "depth": 2, "num_heads": 2},
    "swin_tiny_patch4_window7_224": {"depths": (2, 2), "embed_dim": 16, "num_heads": (1, 2)},
    "swinv2_tiny_window8_256": {"depths": (2, 2), "embed_dim": 16, "num_heads": (1, 2)},
    "deit_tiny_patch16_224": {"embed_dim": 32, "depth": 2, "num_heads": 2},
    "vit_srelpos_small_patch16_224": {"embed_dim": 32, "depth": 2, "num_heads": 2},
    "convit_tiny": {"embed_dim": 16, "depth": 3, "num_heads": 2, "local_up_to_layer": 2},
}
#: Whose functions say all of their sizes themselves: made by class.
_TIMM_CLASSES: Final[dict[str, tuple[dict[str, Any], tuple[Pair, ...]]]] = {
    "FocalNet": ({"depths": (1, 1), "embed_dim": 16}, IMAGES),
    "MetaFormer": ({"depths": (1, 1), "dims": (16, 32)}, IMAGES),
    "MlpMixer": ({"img_size": 64, "embed_dim": 32, "num_blocks": 2}, BATCHES),
}


def _timm() -> Iterator[Row]:
    timm = imported("timm")
    for name, (settings, pairs) in _TIMM_CLASSES.items():
        made = functools.partial(getattr(timm.models, name), num_classes=10, **settings)
        yield Row(f"timm {name}", made, _image, pairs)
    for name, settings in _TIMM.items():
        made = functools.partial(timm.create_model, name, num_classes=10, **settings)
        yield Row(f"timm {name}", made, _image, IMAGES)
    for name, settings in _TIMM_FIXED.items():
        made = functools.partial(timm.create_model, name, num_classes=10, img_size=64, **settings)
        yield Row(f"timm {name}", made, _image, BATCHES)
    flexible = functools.partial(timm.create_model, "test_vit", dynamic_img_size=True)
    yield Row("timm test_vit of any size", flexible, _image, IMAGES)


# -- segmentation_models_pytorch -------------------------------------------------------------------


def _segmentation() -> Iterator[Row]:
    smp = imported("segmentation_models_pytorch")
    shared: dict[str, Any] = {"encoder_weights": None, "classes": 3, "encoder_depth": 4}
    channels = {"decoder_channels": (32, 16, 16, 8)}
    for name, settings in {
        "Unet": channels,
        "UnetPlusPlus": channels,
        "FPN": {},
        "Linknet": {},
        "DeepLabV3Plus": {},
        "PSPNet": {},
    }.items():
        made = functools.partial(getattr(smp, name), "tu-test_resnet", **shared, **settings)
        yield Row(f"smp {name}", made, _image, IMAGES)


# -- diffusers -------------------------------------------------------------------------------------

_BLOCKS: Final[dict[str, Any]] = {
    "layers_per_block": 1,
    "block_out_channels": (32, 64),
    "norm_num_groups": 8,
}


def _diffusers() -> Iterator[Row]:
    diffusers = importlib.import_module("diffusers")

    def row(name: str, inputs: Callable[[int, int], Call], **settings: Any) -> Row:
        made = functools.partial(getattr(diffusers, name), **settings)
        return Row(f"diffusers {name}", made, inputs, LATENTS)

    def noisy(channels: int) -> Callable[[int, int], Call]:
        return lambda batch, side: (
            (torch.randn(batch, channels, side, side), torch.randint(0, 100, (batch,))),
            {},
        )

    def with_text(batch: int, side: int) -> Call:
        steps = torch.randint(0, 100, (batch,))
        return (torch.randn(batch, 4, side, side), steps, torch.randn(batch, 5, 32)), {}

    def picture(batch: int, side: int) -> Call:
        return (torch.randn(batch, 3, side, side),), {}

    yield row(
        "UNet2DModel",
        noisy(3),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        **_BLOCKS,
    )
    yield row(
        "UNet2DConditionModel",
        with_text,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
        **_BLOCKS,
    )
    coding: dict[str, Any] = {
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "block_out_channels": (32, 64),
        "norm_num_groups": 8,
    }
    yield row("AutoencoderKL", picture, latent_channels=4, **coding)
    yield row("VQModel", picture, latent_channels=3, **coding)
    yield row(
        "AutoencoderTiny",
        picture,
        encoder_block_out_channels=(16, 16),
        decoder_block_out_channels=(16, 16),
        num_encoder_blocks=(1, 1),
        num_decoder_blocks=(1, 1),
    )
    yield row(
        "SD3Transformer2DModel",
        lambda batch, side: (
            (),
            {
                "hidden_states": torch.randn(batch, 4, side, side),
                "encoder_hidden_states": torch.randn(batch, 7, 32),
                "pooled_projections": torch.randn(batch, 64),
                "timestep": torch.randint(0, 100, (batch,)),
            },
        ),
        sample_size=32,
        patch_size=2,
        in_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=4,
        joint_attention_dim=32,
        caption_projection_dim=32,
        pooled_projection_dim=64,
        out_channels=4,
        pos_embed_max_size=32,
    )


# -- x-transformers --------------------------------------------------------------------------------

_X_TRANSFORMERS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True},
    "alibi": {"alibi_pos_bias": True},
    "rmsnorm": {"use_rmsnorm": True},
    "swiglu": {"ff_glu": True, "ff_swish": True},
    "qk norm": {"attn_qk_norm": True},
    "one kv head": {"attn_kv_heads": 1},
    "macaron": {"macaron": True},
    "memory kv": {"attn_num_mem_kv": 4},
    "talking heads": {"attn_pre_talking_heads": True},
    "shifted tokens": {"shift_tokens": 1},
    "gated values": {"attn_gate_values": True},
}


def _x_transformers() -> Iterator[Row]:
    library = importlib.import_module("x_transformers")

    def decoder(**settings: Any) -> nn.Module:
        layers = library.Decoder(dim=64, depth=2, heads=2, attn_dim_head=32, **settings)
        return library.TransformerWrapper(
            num_tokens=_VOCABULARY, max_seq_len=64, attn_layers=layers
        )

    def text(batch: int, length: int) -> Call:
        return (_tokens(batch, length),), {}

    for name, settings in _X_TRANSFORMERS.items():
        yield Row(f"x-transformers {name}", functools.partial(decoder, **settings), text, TOKENS)
    yield Row(
        "x-transformers AutoregressiveWrapper",
        lambda: library.AutoregressiveWrapper(decoder()),
        text,
        TOKENS,
    )


# -- torch_geometric -------------------------------------------------------------------------------


class _Pooled(nn.Module):
    """A convolution, and what is pooled of each graph."""

    def __init__(self, convolution: nn.Module, pool: Callable[..., Any]) -> None:
        super().__init__()
        self.convolution = convolution
        self.pool = pool

    def forward(self, x: Tensor, edges: Tensor, batch: Tensor) -> Tensor:
        return self.pool(self.convolution(x, edges), batch)


def _graph(edges: int, nodes: int) -> Call:
    """So many edges a node."""
    ends = torch.randint(0, nodes, (2, edges * nodes))
    return (torch.randn(nodes, _FEATURES), ends), {}


def _graphs(edges: int, nodes: int) -> Call:
    args, _ = _graph(edges, nodes)
    return (*args, torch.arange(nodes) * 3 // nodes), {}


def _geometric() -> Iterator[Row]:
    library = importlib.import_module("torch_geometric.nn")
    for name in ("GCN", "GraphSAGE", "GIN", "GAT", "EdgeCNN"):
        made = functools.partial(getattr(library, name), _FEATURES, 16, 2, 4)
        made()  # The first of a class reads its own source, and keeps it for all.
        yield Row(f"torch_geometric {name}", made, _graph, GRAPHS)
    for name, settings in (
        ("GATv2Conv", {"heads": 2}),
        ("TransformerConv", {"heads": 2}),
        ("GraphConv", {}),
        ("TAGConv", {}),
        ("ARMAConv", {}),
        ("ResGatedGraphConv", {}),
        ("GENConv", {}),
    ):
        made = functools.partial(getattr(library, name), _FEATURES, 16, **settings)
        made()
        yield Row(f"torch_geometric {name}", made, _graph, GRAPHS)
    for name in ("global_mean_pool", "global_max_pool", "global_add_pool"):
        pool = getattr(library, name)
        yield Row(
            f"torch_geometric {name}",
            lambda pool=pool: _Pooled(library.GCNConv(_FEATURES, 16), pool),
            _graphs,
            GRAPHS,
        )


# -- peft ------------------------------------------------------------------------------------------


def _peft() -> Iterator[Row]:
    peft, transformers = map(importlib.import_module, ("peft", "transformers"))
    sizes = {
        "vocab_size": _VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
    }
    task = {"task_type": "CAUSAL_LM"}
    projections = {"target_modules": ["q_proj", "v_proj"]}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "LoRA": ("LoraConfig", {"r": 4, **projections}),
        "DoRA": ("LoraConfig", {"r": 4, "use_dora": True, **projections}),
        "IA3": (
            "IA3Config",
            {
                "target_modules": ["k_proj", "v_proj", "down_proj"],
                "feedforward_modules": ["down_proj"],
                **task,
            },
        ),
        "prefix tuning": ("PrefixTuningConfig", {"num_virtual_tokens": 3, **task}),
        "prompt tuning": ("PromptTuningConfig", {"num_virtual_tokens": 3, **task}),
        "LoHa": ("LoHaConfig", {"r": 2, **projections}),
    }

    def adapted(kind: str, settings: dict[str, Any]) -> nn.Module:
        base = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
        return peft.get_peft_model(base, getattr(peft, kind)(**settings))

    for name, (kind, settings) in kinds.items():
        yield Row(
            f"peft {name}",
            functools.partial(adapted, kind, settings),
            lambda batch, length: ((), {"input_ids": _tokens(batch, length)}),
            TOKENS,
        )


# -- einops ----------------------------------------------------------------------------------------


def _einops() -> Iterator[Row]:
    einops = importlib.import_module("einops")
    layers = importlib.import_module("einops.layers.torch")

    class Functions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(einops.rearrange(x, "b c h w -> b (h w) c"))
            z = einops.repeat(y.mean(1), "b c -> b n c", n=3)
            packed, shapes = einops.pack([y, z], "b * c")
            first, second = einops.unpack(packed, shapes, "b * c")
            scores = einops.einsum(first, second, "b i c, b j c -> b i j")
            return scores + einops.reduce(x, "b c h w -> b 1 1", "max")

    def stack() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 6, 5, padding=2),
            layers.Rearrange("b c (h s) (w t) -> b (h w) (s t c)", s=2, t=2),
            nn.Linear(24, 8),
            layers.Reduce("b n d -> b d", "mean"),
        )

    yield Row("einops functions", Functions, _image, LATENTS)
    yield Row("einops layers", stack, _image, LATENTS)


#: Models that cannot be captured whole yet, and why.
IN_PARTS: Final[dict[str, str]] = {
    "x-transformers alibi": "einx looks for a backend in sets of objects",
}

#: Shape rules that are known to disagree with torch, and why; what torch did counts then.
DEFECTS: Final[dict[str, str]] = {}

LIBRARIES: Final[dict[str, Callable[[], Iterator[Row]]]] = {
    "timm": _timm,
    "segmentation_models_pytorch": _segmentation,
    "diffusers": _diffusers,
    "x-transformers": _x_transformers,
    "torch_geometric": _geometric,
    "peft": _peft,
    "einops": _einops,
}
