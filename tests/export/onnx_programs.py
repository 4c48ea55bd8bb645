"""Small programs that between them use every row of the ONNX tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Program = Callable[..., Any]


#: Of a tensor of sizes [n, 4]. Each gives all that it computes.
POINTWISE: dict[str, Program] = {
    "arithmetic": lambda x: (
        (x * 2 - 1).relu() / x.shape[0] + x.exp().sum(1, keepdim=True) ** 2,
        3 - x,
        2 / (x.abs() + 1),
        2**x,
        torch.add(x, x, alpha=3),
        torch.rsub(x, 1),
    ),
    "numbers": lambda x: (
        x * math.cos(x.shape[0] / 20) + math.exp(-x.shape[0]),
        x / math.sqrt(x.shape[0]) - math.log2(x.shape[0]),
        x + math.pow(2, x.shape[0]) * math.tanh(x.shape[0] * 0.1),
        x * math.fmod(x.shape[0], 1.5) + math.hypot(x.shape[0], 3.0) - math.erf(x.shape[0] / 9),
    ),
    "division": lambda x: (
        torch.div(x * 7, 2, rounding_mode="floor"),
        torch.div(x * 7, 2, rounding_mode="trunc"),
        (x * 7) // 2,
        (x * 7) % 2,
        torch.remainder(-x * 7, 3),
    ),
    "integers": lambda x: (
        (x * 9).long() // 4,
        (x * 9).long() % 4,
        (x * 9).int() & 3,
        (x * 9).int() | 1,
        ~(x * 9).int(),
        torch.div((x * 9).long(), -4, rounding_mode="floor"),
    ),
    "sizes below zero": lambda x: (
        x * ((x.shape[0] - 9) // 2),
        x * ((x.shape[0] - 9) % 4),
        x + max(x.shape[0] - 5, 0) + min(x.shape[0], 3) + abs(x.shape[0] - 5),
    ),
    "comparisons": lambda x: (
        (x > 0) & (x < 1) | (x == 0),
        ~(x >= 0),
        (x <= 0) ^ (x != 1),
        torch.logical_and(x > 0, x),
        torch.logical_not(x > 0),
        torch.logical_xor(x > 0, x > 1),
        (x > 0).eq(x < 0),
        x.isnan(),
        (x / 0).isinf(),
    ),
    "functions": lambda x: (
        x.sigmoid() + x.tanh() + x.erf() + x.sin() + x.cos() + x.atan() + x.sinh() + x.cosh(),
        x.abs().sqrt() + x.abs().rsqrt() + (x.abs() + 1).log() + x.abs().log1p() + x.reciprocal(),
        x.floor() + x.ceil() + (x * 3).round() + x.sign() + x.square() + x.neg(),
        (x.tanh() * 0.9).asin() + (x.tanh() * 0.9).acos() + x.clamp(-1, 1).tan(),
    ),
    "activations": lambda x: (
        F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.softplus(x) + F.mish(x),
        F.elu(x, 0.5) + F.leaky_relu(x, 0.2) + F.celu(x) + F.selu(x) + F.softsign(x),
        F.relu6(x * 9) + F.hardtanh(x) + F.hardswish(x) + F.hardsigmoid(x) + F.hardtanh(x, -2, 2),
    ),
    "choices": lambda x: (
        torch.where(x > 0, x, 0.0).masked_fill(x < -1, 5.0),
        x.where(x > 0, -x),
        x.clamp(max=2.0).clamp(min=-1.0),
        torch.maximum(x, -x) + torch.minimum(x, x * 2) + torch.max(x, x * 3) + torch.min(x, -x),
        x.clamp_min(0.1),
    ),
    "fake quantization": lambda x: (
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
        torch.fake_quantize_per_tensor_affine(x / 0, torch.ones(1), torch.ones(1).int(), 0, 15),
        torch.fake_quantize_per_channel_affine(
            x * 30, torch.arange(1, 5) * 0.1, torch.arange(4, dtype=torch.int32), 1, -128, 127
        ),
    ),
    "derived: one argument": lambda x: (
        x.trunc() + (x * 5).frac() + x.round(decimals=2),
        x.exp2() + x.expm1() + (x * 1e-6).expm1(),
        x.erfc() + x.asinh() + (x.abs() + 1).acosh() + x.tanh().atanh(),
        torch.log10(x.abs() + 1) + torch.log2(x.abs() + 1),
        x.sinc() + torch.deg2rad(x) + torch.rad2deg(x),
        torch.special.entr(x) + torch.logit(x.sigmoid()),
        torch.sgn(x) + torch.nan_to_num(x / 0),
        torch.isfinite(x / 0) | torch.isposinf(x / 0) | torch.isneginf(x / 0) | torch.isreal(x),
    ),
    "derived: two arguments": lambda x: (
        torch.lerp(x, x.flip(0), 0.3) + torch.lerp(x, x[:1], x.sigmoid()),
        x.addcmul(x, x[:1], value=2) + x.addcdiv(x, x.abs() + 1, value=3),
        torch.xlogy(x.relu(), x.abs()) + torch.special.xlog1py(x.relu(), x.abs()),
        torch.logaddexp(x, x[:1]) + torch.logaddexp2(x, x.flip(1)),
        torch.hypot(x, x[:1]) + torch.heaviside(x, x[:1]),
        torch.fmod(x * 7, 3) + torch.ldexp(x, x[:1]),
        torch.isclose(x, x[:1]) & (x > 0),
        torch.float_power(x.abs(), 2),
    ),
    "derived: activations": lambda x: (
        F.hardshrink(x) + F.softshrink(x) + F.tanhshrink(x),
        F.threshold(x, 0.1, 20.0) + F.logsigmoid(x) + F.rrelu(x),
        F.softplus(x, 2.0) + F.softplus(x),
        F.prelu(x, torch.full((4,), 0.2)) + F.prelu(x, torch.full((1,), 0.3)),
    ),
    "kinds": lambda x: (x.long(), x.double(), x.bool(), (x > 0).int(), x.to(torch.int32), x > 0),
}

REDUCTIONS: dict[str, Program] = {
    "sums": lambda x: (x.sum(), x.sum(0), x.sum((0, 1)), (x > 0).sum(-1), x.mean(1), x.prod(1)),
    "extremes": lambda x: (
        *x.max(1),
        *x.min(0, keepdim=True),
        x.max(),
        x.amax(0),
        x.amin((0, 1)),
        x.max(1).values,
    ),
    "places": lambda x: (x.argmax(1), x.argmin(0), x.argmax(), x.argsort(1), x.argsort(0, True)),
    "spread": lambda x: (
        x.var(1),
        x.std(0),
        x.var(1, unbiased=False),
        x.std(),
        x.var(0, keepdim=True),
    ),
    "norms": lambda x: (x.norm(), x.norm(1, 1), x.logsumexp(1), x.norm(dim=0, keepdim=True)),
    "truth": lambda x: ((x > 0).all(1), (x > 1).any(), (x > 1).any(0, keepdim=True)),
    "along": lambda x: (x.cumsum(0), x.cumsum(-1), x.diff(), x.diff(dim=0, prepend=x[:1])),
    "sorted": lambda x: (*x.sort(1), *x.sort(0, descending=True), *x.topk(2, 1), x.topk(1, 0)[0]),
    "triangles": lambda x: (x.tril(), x.triu(1), x.tril(-1)),
}

SHAPES: dict[str, Program] = {
    "views": lambda x: (
        x.reshape(-1),
        x.view(x.shape[0], 2, 2),
        x.t(),
        x.T,
        x.mT,
        x[None].transpose(0, 1),
        x.view(-1, 2, 2).permute(2, 0, 1),
        x.view(-1, 2, 2).movedim(2, 0),
        x.flatten(),
        x.view(-1, 2, 2).flatten(1),
        x.unflatten(1, (2, 2)),
        x.view_as(x * 2),
    ),
    "sizes": lambda x: (x.size(0) * x.numel(), torch.tensor(x.shape), x.new_zeros(x.size())),
    "one": lambda x: (x.unsqueeze(1).squeeze(1), x[:, :1].squeeze(1), x[..., None]),
    "copies": lambda x: (
        x[None].expand(3, -1, -1),
        x.repeat(2, 1),
        x.repeat(2, 1, 3),
        x.repeat_interleave(2, dim=0),
        x[:1].expand_as(x),
        x.repeat_interleave(3, dim=1),
    ),
    "parts": lambda x: (
        *x.split([1, 3], dim=1),
        *x.split(3, dim=1),
        *x.chunk(2, dim=1),
        *x.unbind(1),
        torch.stack([x.sum(1), x.mean(1)]),
        torch.cat([x, x.long()], dim=0),
        x.narrow(1, 1, 2),
        x.select(1, 2),
    ),
    "flips": lambda x: (x.flip(0), x.flip([0, 1])),
    "pads": lambda x: (
        F.pad(x, (1, 2)),
        F.pad(x, (1, 0, 2, 1), value=3.0),
        F.pad(x[None], (1, 1), mode="replicate"),
        F.pad(x[None], (1, 2), mode="reflect"),
        F.pad(x, (0, x.shape[0])),
        F.pad(x, (-1, 0)),
    ),
}


def by_places(x: Tensor) -> Any:
    rows, columns = torch.arange(x.shape[0]), torch.tensor([3, 0, -1])
    cube = x.view(-1, 2, 2)
    return (
        x[rows],
        x[:, columns],
        x[rows[:, None], columns],
        cube[:, torch.tensor([0, 1]), torch.tensor([1, 0])],
        cube[torch.tensor([0, 1]), :, torch.tensor([1, 0])],
        cube[rows, None, 0],
        x.index_select(1, columns.abs()),
        x.gather(1, (x > 0).long()),
    )


INDEXING: dict[str, Program] = {
    "slices": lambda x: (
        x[: x.shape[0] // 2, 1:],
        x[1:, -2:],
        x[::2, ::2],
        x[:-1],
        x[0],
        x[-1, 1],
        x[..., 1],
        x[x.shape[0] - 1],
        x[None, :, None, 1:3],
        x.view(-1, 2, 2)[..., 0, :1],
    ),
    "places": by_places,
    "masks": lambda x: (x[x > 0], x[x.sum(1) > 0], x.view(-1, 2, 2)[:, torch.eye(2) > 0]),
    "added at": lambda x: (
        torch.zeros(x.shape[0], 5).scatter_add(1, (x > 0).long() * 3, x),
        x.scatter_add(-1, (x[:, :2] > 0).long(), x * 2),
        x.scatter_add(0, torch.zeros(1, 3, dtype=torch.long), x),
        x.clone().scatter_add_(1, (x > 1).long(), x),
    ),
    "found": lambda x: (x.nonzero(), (x > 0).nonzero()),
    "item": lambda x: x * x.sum().item(),
}

MAKING: dict[str, Program] = {
    "filled": lambda x: (
        torch.zeros(x.shape[0], 4),
        torch.ones(x.shape[0]).long(),
        torch.full((x.shape[0], 2), 7),
        torch.zeros_like(x),
        torch.full_like(x, 3.0),
        x.new_ones(3, x.shape[0]),
        x.new_full((x.shape[0],), 2),
        torch.full((2,), x.shape[0]),
    ),
    "counted": lambda x: (
        torch.arange(x.shape[0]).float()[:, None] + x.mean(0),
        torch.arange(1, x.shape[0] + 1, 2),
        torch.arange(0, 2, 0.5),
        torch.eye(x.shape[0]),
        F.one_hot((x > 0).long(), 3),
        torch.tensor([x.shape[0], 2]),
        torch.tensor(3.0) * x,
    ),
}


def grouped(x: Tensor) -> Tensor:
    query = x.view(1, 4, -1, 1)
    return F.scaled_dot_product_attention(query, query[:, :2], query[:, :2], enable_gqa=True)


def masked(x: Tensor) -> Tensor:
    """One row sees nothing."""
    query = x[None]
    seen = torch.arange(x.shape[0])[:, None] > torch.arange(x.shape[0])
    return F.scaled_dot_product_attention(query, query, query, attn_mask=seen)


LAYERS: dict[str, Program] = {
    "products": lambda x: (
        x @ x.t(),
        torch.mm(x, x.t()),
        torch.addmm(x, x, torch.eye(4), beta=2, alpha=3),
        torch.einsum("nd,md->nm", x, x),
        torch.outer(x[:, 0], x[0]),
        F.linear(x, torch.ones(2, 4)),
        torch.bmm(x[None], x.t()[None]),
        torch.baddbmm(x[None], x[None], torch.eye(4)[None]),
    ),
    "normal": lambda x: (
        F.layer_norm(x, (4,)),
        F.layer_norm(x, (4,), torch.arange(4.0), torch.ones(4)),
        F.rms_norm(x, (4,), torch.arange(4.0)),
        F.group_norm(x, 2),
        F.softmax(x, 1),
        F.log_softmax(x, 0),
        x.softmax(-1, dtype=torch.float64),
        F.dropout(x, 0.5, training=False),
    ),
    "losses": lambda x: (
        F.cross_entropy(x, (x[:, 0] > 0).long()),
        F.cross_entropy(x, (x[:, 0] > 0).long() - 1, ignore_index=-1, reduction="sum"),
        F.cross_entropy(x, x.argmax(1), weight=torch.arange(1.0, 5.0)),
    ),
    "looked up": lambda x: F.embedding((x > 0).long(), torch.arange(6.0).view(2, 3)),
    "grouped attention": grouped,
    "masked attention": masked,
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (
            self.qkv(self.norm(x)).view(rows, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))


class Resized(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, size=(7, x.shape[3] * 2), mode="bilinear", align_corners=False),
            F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
        )


def pooled(x: Tensor) -> Any:
    return (
        F.max_pool2d(x, 2),
        F.max_pool2d(x, 3, 2, 1),
        F.avg_pool2d(x, 2, padding=1, count_include_pad=False),
        F.avg_pool2d(x, 3, 1),
        F.adaptive_avg_pool2d(x, 1),
        F.max_pool2d(x[0], 2),
    )


Sizes = tuple[int | str, ...]

#: Modules with the sizes of what they take.
MODULES: list[tuple[Program, Sizes]] = [
    (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2), nn.LogSoftmax(-1)), ("n", 4)),
    (Block(), ("n", "m", 8)),
    (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.BatchNorm2d(4, affine=False),
        ),
        ("n", 3, "m", "m"),
    ),
    (nn.Sequential(nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()), ("n", 4, "m", "m")),
    (nn.Conv1d(3, 4, 3, padding="same", dilation=2), ("n", 3, "m")),
    (nn.Conv1d(3, 4, 2, padding="valid", groups=1), (3, "m")),
    (nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), ("n", 3, "m", "m")),
    (pooled, ("n", 3, "m", "m")),
    (Resized(), ("n", 3, "m", "m")),
    (nn.LSTM(5, 3, 2), ("m", "n", 5)),
    (nn.LSTM(5, 3, 2, bias=False, batch_first=True, bidirectional=True), ("n", "m", 5)),
    (nn.GRU(5, 3, 2, batch_first=True), ("n", "m", 5)),
    (
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                8, 2, 16, batch_first=True, norm_first=True, activation="gelu"
            ),
            1,
            enable_nested_tensor=False,
        ),
        ("n", "m", 8),
    ),
    (nn.MultiheadAttention(8, 2, batch_first=True), ("n", "m", 8)),
]

PROGRAMS: list[tuple[str, Program, Sizes]] = [
    *(
        (f"{kind}: {name}", program, ("n", 4))
        for kind, programs in (
            ("pointwise", POINTWISE),
            ("reductions", REDUCTIONS),
            ("shapes", SHAPES),
            ("indexing", INDEXING),
            ("making", MAKING),
            ("layers", LAYERS),
        )
        for name, program in programs.items()
    ),
    *((f"module {at}", program, sizes) for at, (program, sizes) in enumerate(MODULES)),
]
