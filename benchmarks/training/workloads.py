"""What is trained: functions of tensors that need gradients, and modules that give their loss.

A module is in training mode. Nothing is dropped at random: compilers draw other numbers than eager.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.native.functions import FUNCTIONS
from benchmarks.native.workload import Dims, Workload, sizes
from tests.zoo import nets

#: Of each value, and of the largest: a gradient is a sum over all rows, in an order of its own.
_CLOSE: Final = (1e-3, 1e-4)
_CLASSES, _WIDTH = 10, 256
_INPUT, _HIDDEN, _STEPS = 64, 128, 8
_VOCABULARY, _LAYERS = 1000, 4
_SIZES: Final[dict[str, Any]] = {
    "hidden_size": 128,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "num_hidden_layers": _LAYERS,
}
_TEXT: Final = sizes((1, 8), (4, 64), (8, 128), (3, 37))


class Classified(nn.Module):
    """The loss of a network that gives scores of classes."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.network(x), labels)


class Residual(nn.Module):
    """Two convolutions behind norms, as the U-Nets of diffusion models have them."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, inside), nn.GroupNorm(4, outside)
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1)
        self.shortcut = nn.Conv2d(inside, outside, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class Denoiser(nn.Module):
    """A step down and up again, with what was kept on the way down joined; the loss of noise."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.first = Residual(width, width)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.middle = Residual(2 * width, 2 * width)
        self.last = Residual(3 * width, width)
        self.norm = nn.GroupNorm(4, width)
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        kept = self.first(self.enter(x + noise))
        low = self.middle(self.down(kept))
        high = F.interpolate(low, size=kept.shape[-2:], mode="nearest")
        found = self.leave(F.silu(self.norm(self.last(torch.cat([kept, high], dim=1)))))
        return F.mse_loss(found, noise)


class CellLoop(nn.Module):
    """An LSTM as a Python loop over a fixed number of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(_INPUT, _HIDDEN)
        self.head = nn.Linear(_HIDDEN, _CLASSES)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[1], _HIDDEN)
        memory = torch.zeros_like(state)
        for step in range(_STEPS):
            state, memory = self.cell(x[step], (state, memory))
        return F.cross_entropy(self.head(state), labels)


class Pictured(nn.Module):
    """The loss of a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        import transformers as tf

        sizes: dict[str, Any] = {**_SIZES, "num_labels": _CLASSES}
        config = tf.ViTConfig(**sizes, image_size=32, patch_size=4)
        self.model: Any = tf.ViTForImageClassification(config)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.model(x).logits, labels)


class Masked(nn.Module):
    """The loss of BERT, with padding."""

    def __init__(self) -> None:
        super().__init__()
        import transformers as tf

        none: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = tf.BertConfig(**_SIZES, **none, vocab_size=_VOCABULARY)
        self.model: Any = tf.BertForMaskedLM(config)

    def forward(self, tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        return self.model(tokens, attention_mask=mask, labels=labels).loss


class Generated(nn.Module):
    """The loss of GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        import transformers as tf

        none: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        config = tf.GPT2Config(
            vocab_size=_VOCABULARY, n_embd=128, n_layer=_LAYERS, n_head=4, use_cache=False, **none
        )
        self.model: Any = tf.GPT2LMHeadModel(config)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, labels=tokens).loss


# -- inputs ----------------------------------------------------------------------------------------


def _labels(rows: int) -> Tensor:
    return torch.randint(0, _CLASSES, (rows,))


def _rows(rows: int) -> tuple[Any, ...]:
    return torch.randn(rows, _WIDTH), _labels(rows)


def _images(batch: int, side: int) -> tuple[Any, ...]:
    return torch.randn(batch, 3, side, side), _labels(batch)


def _noisy(batch: int, height: int, width: int) -> tuple[Any, ...]:
    return torch.randn(batch, 3, height, width), torch.randn(batch, 3, height, width)


def _sequences(batch: int) -> tuple[Any, ...]:
    return torch.randn(_STEPS, batch, _INPUT), _labels(batch)


def _tokens(batch: int, length: int) -> Tensor:
    return torch.randint(0, _VOCABULARY, (batch, length))


def _padded(batch: int, length: int) -> tuple[Any, ...]:
    mask = torch.arange(length) < torch.randint(1, length + 1, (batch, 1))
    labels = torch.where(mask, _tokens(batch, length), -100)
    return _tokens(batch, length), mask.long(), labels


def _mlp() -> nn.Module:
    widths = (_WIDTH, 512, 512, _CLASSES)
    layers = [nn.Linear(*pair) for pair in itertools.pairwise(widths)]
    return Classified(nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU(), layers[2]))


def _trained(
    name: str,
    build: Callable[[], nn.Module],
    inputs: Callable[..., tuple[Any, ...]],
    dims: dict[str, Dims],
) -> Workload:
    return Workload(name, lambda: build().train(), inputs, dims, kind="model", close=_CLOSE)


_STEPPED: Final = (
    _trained("MLP", _mlp, _rows, sizes((2,), (128,), (2048,), (37,))),
    _trained(
        "ResNet-mini",
        lambda: Classified(nets.ResNet(16)),
        _images,
        sizes((2, 8), (4, 32), (8, 48), (3, 29)),
    ),
    _trained(
        "U-Net step", Denoiser, _noisy, sizes((1, 8, 8), (2, 32, 32), (4, 64, 64), (3, 29, 37))
    ),
    _trained("LSTM loop", CellLoop, _sequences, sizes((2,), (64,), (1024,), (37,))),
    # These import transformers, which imports parts of torch.compile.
    _trained("ViT-mini", Pictured, lambda n: _images(n, 32), sizes((1,), (4,), (16,), (3,))),
    _trained("BERT-mini", Masked, _padded, _TEXT),
    _trained("GPT-mini", Generated, lambda *dims: (_tokens(*dims),), _TEXT),
)

#: By name.
WORKLOADS: Final[dict[str, Workload]] = {
    each.name: each for each in (*(replace(each, close=_CLOSE) for each in FUNCTIONS), *_STEPPED)
}
