"""Workloads that are one function: everything they use is an argument."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.native.workload import Workload, sizes


def ten_sines(x: Tensor) -> Tensor:
    for _ in range(10):
        x = torch.sin(x)
    return x


def norm_gelu_softmax(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    normal = F.layer_norm(x, (x.shape[-1],), weight, bias)
    return F.softmax(F.gelu(normal), dim=-1)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _half_turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rope(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotary positions, as Llama applies them."""
    cos, sin = cos[None, None], sin[None, None]
    return query * cos + _half_turned(query) * sin, key * cos + _half_turned(key) * sin


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


def masked_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    scaled = scores * 0.125
    return scaled.masked_fill(~keep[:, None, None, :], float("-inf")).softmax(-1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target)


def middle_logsumexp(x: Tensor) -> Tensor:
    return torch.logsumexp(x, dim=1)


def image_to_float(images: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Bytes with channels last to normalised floats with channels first, padded to whole 32s."""
    height, width = images.shape[1], images.shape[2]
    channels_first = images.permute(0, 3, 1, 2).float() / 255
    normal = (channels_first - mean[:, None, None]) / deviation[:, None, None]
    return F.pad(normal, (0, -width % 32, 0, -height % 32))


def message_passing(x: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
    """The mean of the weighted messages over the edges that end at a node, added to the node."""
    source, end = edges[0], edges[1]
    messages = torch.relu(x[source] * weight[:, None])
    total = torch.zeros_like(x).index_add(0, end, messages)
    count = x.new_zeros(x.shape[0]).index_add(0, end, torch.ones_like(weight))
    return x + total / count.clamp(min=1)[:, None]


def segment_mean(values: Tensor, offsets: Tensor) -> Tensor:
    """Means of the rows between neighbouring offsets; an empty segment has mean 0."""
    lengths = offsets.diff()
    numbers = torch.arange(lengths.shape[0], device=lengths.device)
    segment = torch.repeat_interleave(numbers, lengths, output_size=values.shape[0])
    total = values.new_zeros(lengths.shape[0], values.shape[1]).index_add(0, segment, values)
    return total / lengths.clamp(min=1)[:, None]


# -- inputs ----------------------------------------------------------------------------------------


def _rows_with_affine(rows: int, width: int) -> tuple[Any, ...]:
    return torch.randn(rows, width), torch.randn(width), torch.randn(width)


def _rows_with_weight(rows: int, width: int) -> tuple[Any, ...]:
    return torch.randn(rows, width), torch.randn(width)


def _heads(batch: int, heads: int, length: int, width: int) -> tuple[Any, ...]:
    query, key = torch.randn(2, batch, heads, length, width).unbind(0)
    angles = torch.rand(length, width // 2).repeat(1, 2) * 6
    return query, key, angles.cos(), angles.sin()


def _scores(batch: int, heads: int, queries: int, keys: int) -> tuple[Any, ...]:
    keep = torch.rand(batch, keys) > 0.2
    keep[:, 0] = True  # a row without anything kept is NaN
    return torch.randn(batch, heads, queries, keys) * 3, keep


def _labelled(rows: int, classes: int) -> tuple[Any, ...]:
    return torch.randn(rows, classes), torch.randint(0, classes, (rows,))


def _pictures(batch: int, height: int, width: int) -> tuple[Any, ...]:
    pixels = torch.randint(0, 256, (batch, height, width, 3), dtype=torch.uint8)
    return pixels, torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def _graph(nodes: int, edges: int, width: int) -> tuple[Any, ...]:
    return torch.randn(nodes, width), torch.randint(0, nodes, (2, edges)), torch.rand(edges)


def _jagged(segments: int, rows: int, width: int) -> tuple[Any, ...]:
    inner = torch.randint(0, rows + 1, (segments - 1,)).sort().values
    offsets = torch.cat([torch.tensor([0]), inner, torch.tensor([rows])])
    return torch.randn(rows, width), offsets


FUNCTIONS = (
    Workload(
        "ten sines",
        lambda: ten_sines,
        lambda n: (torch.randn(n),),
        sizes((7,), (1_000_000,), (6_000_000,), (100_003,)),
    ),
    Workload(
        "layer_norm gelu softmax",
        lambda: norm_gelu_softmax,
        _rows_with_affine,
        sizes((2, 64), (512, 768), (8192, 768), (333, 773)),
    ),
    Workload(
        "rms_norm",
        lambda: rms_norm,
        _rows_with_weight,
        sizes((2, 64), (512, 1024), (6144, 1024), (331, 1027)),
        memory_bound=True,
    ),
    Workload(
        "rope",
        lambda: rope,
        _heads,
        sizes((1, 2, 3, 8), (2, 8, 256, 64), (4, 16, 1024, 64), (3, 5, 127, 62)),
        memory_bound=True,
    ),
    Workload(
        "bias gelu",
        lambda: bias_gelu,
        _rows_with_weight,
        sizes((2, 8), (512, 3072), (2048, 3072), (333, 3071)),
        memory_bound=True,
    ),
    Workload(
        "masked softmax",
        lambda: masked_softmax,
        _scores,
        sizes((1, 2, 4, 4), (2, 8, 128, 128), (3, 8, 512, 512), (3, 5, 77, 131)),
        memory_bound=True,
    ),
    Workload(
        "cross-entropy",
        lambda: cross_entropy,
        _labelled,
        sizes((2, 10), (256, 4096), (768, 8192), (127, 5003)),
    ),
    Workload(
        "middle logsumexp",
        lambda: middle_logsumexp,
        lambda a, b, c: (torch.randn(a, b, c),),
        sizes((2, 3, 5), (64, 128, 128), (64, 384, 256), (31, 127, 129)),
    ),
    Workload(
        "image to float",
        lambda: image_to_float,
        _pictures,
        sizes((1, 8, 8), (4, 224, 224), (8, 512, 512), (3, 225, 223)),
        memory_bound=True,
    ),
    Workload(
        "GNN messages",
        lambda: message_passing,
        _graph,
        sizes((5, 8, 4), (2000, 16_000, 64), (20_000, 100_000, 64), (1001, 7919, 33)),
    ),
    Workload(
        "jagged segment mean",
        lambda: segment_mean,
        _jagged,
        sizes((3, 10, 4), (200, 10_000, 64), (2000, 100_000, 64), (101, 7919, 33)),
    ),
)
