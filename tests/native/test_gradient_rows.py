"""Rows of gradients against eager: at all sizes with one compiled function, where formulas have
corners, and in other dtypes. None of them is left to torch's autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from tests import devices

WIDTH = 6
DIM = 1
SIZES = (4, 1, 7, 0, 3)


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


def _matrix(seed: int, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, generator=devices.generator(seed)))


W, V, B = _matrix(0, WIDTH, WIDTH), _matrix(1, WIDTH), _matrix(2, WIDTH)
W4, B4 = torch.linspace(-1, 1, 4 * WIDTH * WIDTH).view(4 * WIDTH, -1), torch.linspace(0, 1, 24)
MEAN, SPREAD = torch.linspace(-1, 1, WIDTH), torch.linspace(0.5, 2, WIDTH)


def _rows(x: Tensor) -> Tensor:
    return torch.arange(x.shape[0]) % WIDTH


def _image(x: Tensor) -> Tensor:
    """Two channels of images, of sizes that are known; batches are not."""
    return torch.cat([x, x * 2, x.sin(), x * x], 1).view(-1, 2, 3, 4)


def _groups(x: Tensor) -> Tensor:
    """To which of two rows each element goes, if there are two."""
    return (torch.arange(x.numel()).view(x.shape) % 2).clamp(max=x.shape[0] - 1)


def _turned(x: Tensor) -> Tensor:
    """Halves of vectors in other places, as rotary positions have them."""
    heads = torch.cat([x, x.sin()], 1).view(-1, 3, 2, 2).transpose(1, 2)
    first, second = heads.chunk(2, -1)
    return torch.cat((-second, first), -1) * heads


def _signal(x: Tensor) -> Tensor:
    return torch.cat([x, x * 2], 1).view(-1, 2, 6)


def _volume(x: Tensor) -> Tensor:
    return torch.cat([x, x * 2, x.sin(), x * x], 1).view(-1, 1, 2, 3, 4)


Function = Callable[[Tensor], Any]

#: Functions of one number, which have native code.
POINTWISE: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "deg2rad", "rad2deg"),
            *("erfc", "erfinv", "sinc", "ceil", "floor", "round", "sign", "trunc", "frac"),
            *("exp2", "log2", "log10", "log1p", "reciprocal", "sqrt", "rsqrt", "nan_to_num"),
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            *("elu", "selu", "celu", "hardtanh", "relu6", "hardsigmoid", "hardswish", "mish"),
            *("hardshrink", "softshrink", "softplus", "logsigmoid", "softsign", "tanhshrink"),
        )
    },
    "entr": torch.special.entr,
    "elu, scaled": lambda x: F.elu(x, 0.7) + F.celu(x, 1.7),
    "threshold": lambda x: F.threshold(x, 0.5, 2.0),
    "softplus, scaled": lambda x: F.softplus(x, 2.0, 1.0),
    "logit": lambda x: torch.logit(x),
    "logit, bounded": lambda x: torch.logit(x, 0.2),
    "clamped": lambda x: x.clamp_min(0.5) + x.clamp_max(1) + x.clamp(-1, 1),
    "remainders": lambda x: x % 2 + torch.fmod(x, 2),
    "rounded quotients": lambda x: (
        torch.div(x, 2, rounding_mode="floor") + torch.div(x, 3, rounding_mode="trunc")
    ),
    "powers": lambda x: x**0 + x.pow(3) + x.float_power(2).float(),
    "powers of numbers": lambda x: 2.0**x + 0.0**x + torch.pow(3, x),
    "reflected": lambda x: 2 / x + (3 - x) + x.__rsub__(2),
    "a sign": lambda x: torch.copysign(x, 2.0),
}

#: Functions of two tensors, the second of which is a parameter.
OF_TWO: dict[str, Callable[[Tensor, Tensor], Any]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("atan2", "hypot", "copysign", "xlogy", "logaddexp", "logaddexp2", "maximum"),
            *("minimum", "fmax", "fmin", "fmod", "remainder", "true_divide", "pow", "dist"),
        )
    },
    "xlog1py": torch.special.xlog1py,
    "lerp": lambda x, y: torch.lerp(x, y, 0.3) + torch.lerp(x, y, y),
    "fused": lambda x, y: torch.addcmul(x, y, x, value=0.5) + torch.addcdiv(x, x, y, value=2),
    "clamped": lambda x, y: x.clamp(min=y) + x.clamp(max=y) + x.clamp(y, y + 1) + x.clamp(y, y - 1),
    "clamped at one end": lambda x, y: torch.clamp_min(x, y) + torch.clamp_max(x, y),
    "the greater": lambda x, y: torch.max(x, y) + torch.min(x, y),
    "ldexp": lambda x, y: torch.ldexp(x, y),
}

PROGRAMS: dict[str, Function] = {
    "prelu": lambda x: F.prelu(x, V) + F.prelu(x, B[:1]),
    "glu": lambda x: F.glu(x) + F.glu(x.view(-1, 2, 3), 1).squeeze(1),
    "softmax of torch.nn": lambda x: (
        F.softmax(x, -1) + F.log_softmax(x, 1) * V + F.softmin(x, dim=-1)
    ),
    "group norm": lambda x: F.group_norm(_image(x), 2, V[:2], B[:2]) + F.group_norm(_image(x), 1),
    "group norm of rows": lambda x: F.group_norm(x, 3, V, B),
    "frozen batch norm": lambda x: F.batch_norm(x, MEAN, SPREAD, V, B),
    "frozen batch norm of images": lambda x: F.batch_norm(_image(x), MEAN[:2], SPREAD[:2], V[:2]),
    "batch norm": lambda x: F.batch_norm(_signal(x), None, None, V[:2], B[:2], training=True),
    "instance norm": lambda x: F.instance_norm(_image(x), None, None, V[:2], B[:2]),
    "averages": lambda x: F.avg_pool2d(_image(x), 2, 1) + F.avg_pool2d(_image(x), 2, 1, 0, True),
    "averages of padded": lambda x: F.avg_pool2d(_image(x), 3, 2, 1, count_include_pad=False),
    "averages of signals": lambda x: F.avg_pool1d(_signal(x), 2),
    "averages of volumes": lambda x: F.avg_pool3d(_volume(x), 2, 1),
    "one average": lambda x: F.adaptive_avg_pool2d(_image(x), 1),
    "adaptive averages": lambda x: (
        F.adaptive_avg_pool2d(_image(x), (2, 3)).sum() + F.adaptive_avg_pool1d(_signal(x), 4).sum()
    ),
    "greatest of windows": lambda x: F.max_pool2d(_image(x), 2, 1) * 2,
    "greatest of padded windows": lambda x: F.max_pool2d(_image(x).relu(), 3, 2, 1),
    "greatest of signals": lambda x: F.max_pool1d(_signal(x), 3, 1),
    "greatest of volumes": lambda x: F.max_pool3d(_volume(x), 2),
    "greatest, with places": lambda x: F.max_pool2d(_image(x), 2, return_indices=True)[0],
    "adaptive greatest": lambda x: F.adaptive_max_pool2d(_image(x), (2, 2)),
    "nearest": lambda x: F.interpolate(_image(x), scale_factor=2),
    "nearest to a size": lambda x: F.interpolate(_signal(x), 5),
    "bilinear": lambda x: F.interpolate(_image(x), (5, 7), mode="bilinear"),
    "bilinear by corners": lambda x: F.interpolate(
        _image(x), scale_factor=1.5, mode="bilinear", align_corners=True
    ),
    "area": lambda x: F.interpolate(_image(x), (2, 2), mode="area"),
    "padded": lambda x: F.pad(_image(x), (1, 2, 0, 1)) + F.pad(_image(x), (2, 1, -1, 2), value=3.0),
    "padded to a multiple": lambda x: F.pad(x, (0, 1, 0, -x.shape[0] % 4)) * 2,
    "padded and cut": lambda x: F.pad(x, (-1, x.shape[0], 2, 0)) * 2,
    "reflected edges": lambda x: F.pad(_image(x), (1, 2, 0, 1), mode="reflect") * 2,
    "repeated edges": lambda x: F.pad(_signal(x), (1, 2), mode="replicate") * 2,
    "edges that go round": lambda x: F.pad(_image(x), (1, 2, 0, 1), mode="circular") * 2,
    "turned halves": _turned,
    "a cell with memory": lambda x: sum(
        torch.lstm_cell(x, (x.sin(), x * V), W.repeat(4, 1), W.t().repeat(4, 1), V.repeat(4), B4),
        start=x * 2,
    ),
    "its memory": lambda x: torch.lstm_cell(x, (x.t().cos().t(), x), W.repeat(4, 1), W4)[1],
    "its state": lambda x: torch.lstm_cell(x, [x.cos(), x], W.repeat(4, 1), W4)[0],
    "gated cells": lambda x: (
        torch.gru_cell(x, x.sin(), W.repeat(3, 1), W4[:18], V.repeat(3), B4[:18])
        + torch.gru_cell(x, V.expand(x.shape[0], -1), W.repeat(3, 1), W.t().repeat(3, 1))
    ),
    "plain cells": lambda x: (
        torch.rnn_tanh_cell(x, x.sin(), W, W.t(), V, B) + torch.rnn_relu_cell(x, x * V, W, W)
    ),
    "logsumexp": lambda x: x.logsumexp(-1) + x.logsumexp((0, 1)),
    "spread": lambda x: x.var(-1) + x.std(1, correction=0) + x.var(1, keepdim=True).squeeze(1),
    "spread of all": lambda x: x.var() + x.std(unbiased=False),
    "spread and mean": lambda x: (lambda a, b: a[0] * a[1] + b[1])(
        torch.var_mean(x, 1), torch.std_mean(x, -1)
    ),
    "spread, beside a mean": lambda x: torch.std_mean(x, -1)[0],
    "product": lambda x: x.prod(1) + (x * (x > 0)).prod(-1) + x.prod(),
    "lengths": lambda x: (
        x.norm(dim=-1) + torch.linalg.norm(x, dim=1) + x.norm(3, 1) + x.norm(1.5, 1)
    ),
    "other lengths": lambda x: (
        torch.linalg.vector_norm(x, math.inf, -1) + torch.linalg.vector_norm(x, 1, dim=-1)
    ),
    "length of all": lambda x: x.norm() + torch.linalg.vector_norm(x),
    "normalized": lambda x: F.normalize(x, dim=-1),
    "likeness": lambda x: F.cosine_similarity(x, V[None], -1) + F.cosine_similarity(x, x * x, 1),
    "distances": lambda x: F.pairwise_distance(x, V[None]),
    "greatest": lambda x: x.max(1).values + x.min(-1)[0],
    "greatest, with its place": lambda x: (lambda found: found[0] * found[1])(
        x.max(1, keepdim=True)
    ),
    "greatest of all": lambda x: x.max() + x.min(),
    "both ends": lambda x: (lambda found: found[0] + found[1] * 2)(torch.aminmax(x, dim=-1)),
    "numbers only": lambda x: (lambda y: y.nansum(-1) + y.nanmean(1))(x.where(x > 0, math.nan)),
    "running": lambda x: x.cumsum(1) + x.cumsum(0) + x.cumprod(1),
    "running extremes": lambda x: x.cummax(1).values + x.cummin(0)[0],
    "sorted": lambda x: x.sort(1).values * V + x.sort(-1, descending=True)[0],
    "the largest few": lambda x: x.topk(2).values + x.topk(2, largest=False)[0],
    "in the middle": lambda x: x.median(1).values + x.kthvalue(2, -1)[0] + x.median(),
    "along a dimension that is no constant": lambda x: (
        x.prod(DIM) + x.max(DIM).values + F.softmax(x, DIM).sum(DIM) + x.norm(dim=DIM) + x.std(DIM)
    ),
    "sorted along it": lambda x: x.sort(DIM)[0] * V + x.gather(DIM, x.argsort(DIM)),
    "a trace": lambda x: (x.t() @ x).trace(),
    "gathered": lambda x: x.gather(1, _rows(x)[:, None]) + torch.gather(x, 1, _rows(x)[:, None]),
    "chosen columns": lambda x: x.index_select(1, torch.tensor([0, 3, 3])) * 2,
    "looked up": lambda x: W[_rows(x)] * x,
    "looked up from the end": lambda x: W[-1 - _rows(x)] + W[:, _rows(x)].t(),
    "looked up by two": lambda x: W[_rows(x), _rows(x)] + x[..., torch.tensor([0, -1])].sum(-1),
    "looked up by one and a number": lambda x: (
        x[torch.arange(x.shape[0]), 2] * 2 + W[-1, _rows(x)] + x.view(-1, 2, 3)[_rows(x) * 0, 1, -1]
    ),
    "looked up by a table": lambda x: V[_rows(x).view(-1, 1).expand(-1, 2)] + 1,
    "taken": lambda x: x.take(torch.tensor([0, -1])) + W.take(torch.tensor([[3, 3]])),
    "taken along": lambda x: x.take_along_dim(x.argsort(1), 1) * 2,
    "slices": lambda x: (
        (x[:, 1:] * 2).sum(1) + x[:, 2:5].sin().sum(1) + x[:, -2:].cos().sum(1) + x[:, :1].sum(1)
    ),
    "slices of rows": lambda x: (
        (x[1:] * 2).sum(0)
        + x[2:5].sin().sum(0)
        + x[-2:].cos().sum(0)
        + x[:-1].sum(0) * x[1:3].sum()
    ),
    "slices with gaps": lambda x: (x[1::2] * 2).sum(0) + x[-3::2].sin().sum(0) + x[:4:3].sum(0),
    "with gaps": lambda x: x[:, ::2] * 2 + x[:, 1::2] + x[:, 0:5:2],
    "scattered": lambda x: torch.zeros_like(x).scatter(1, x.argsort(1), x * 2),
    "scattered over": lambda x: x.scatter(1, _rows(x)[:, None], 1.5),
    "added": lambda x: (x * 2).scatter_add(1, x.argsort(1), x.sin()),
    "means of groups": lambda x: (
        torch.zeros_like(x).scatter_reduce(0, _groups(x), x * 2, "mean", include_self=False)
        + x.scatter_reduce(0, _groups(x), x.sin(), "mean")
    ),
    "extremes of groups": lambda x: (
        torch.zeros_like(x).scatter_reduce(0, _groups(x), x * 2, "amax", include_self=False)
        + x.scatter_reduce(0, _groups(x), x.sin(), "amin")
    ),
    "added by index": lambda x: W.index_add(0, _rows(x), x, alpha=0.5),
    "filled by index": lambda x: x.index_fill(1, torch.tensor([0, 2]), 3.0) * 2,
    "copied by index": lambda x: x.index_copy(1, torch.tensor([1, 4]), x[:, :2] * 2) * 2,
    "put": lambda x: (x * 1).index_put((torch.tensor([0]), torch.tensor([1])), B[:1]),
    "flipped": lambda x: x.flip(0, 1) + x.fliplr() * 2 + x.flipud() * 3,
    "rolled": lambda x: x.roll(2, 1) + x.roll((1, -1), (0, 1)) + x.roll(3),
    "turned": lambda x: torch.rot90(x.view(-1, 2, 3), 1, (1, 2)) * 2,
    "repeated": lambda x: x.repeat(2, 3) * 2 + x.tile((2, 3)) + x.repeat(1, 2, 3).sum(0).sum(),
    "repeated side by side": lambda x: x.repeat_interleave(3, 1) + x.repeat_interleave(3, dim=-1),
    "triangles": lambda x: (x.tril() + x.triu(1)) * 2,
    "shuffled": lambda x: F.pixel_shuffle(x.view(-1, 6, 1, 1)[:, :4], 2) * 2,
    "unshuffled": lambda x: F.pixel_unshuffle(_image(x).reshape(-1, 1, 6, 4), 2) * 2,
    "shuffled channels": lambda x: F.channel_shuffle(x.view(-1, 6, 1), 3) * 2,
    "a diagonal": lambda x: (x[:, :, None] * x[:, None]).diagonal(0, 1, 2) * 2,
    "on a diagonal": lambda x: (
        x.diag_embed() * 2 + V.diag() + x.diag_embed().diagonal(0, -2, -1)[0]
    ),
    "a position written": lambda x: (
        x.select_scatter(x[:, 0] * V[0], 1, -1) * 2
        + torch.select_scatter(V * 2, x[:, 1].sum(), 0, 3)
    ),
    "a slice written": lambda x: (
        x.slice_scatter(x[:, 1:4] * 2, 1, 2, 5) * V + x.slice_scatter(x[:, ::2].sin(), 1, step=2)
    ),
    "nothing written": lambda x: x.slice_scatter(x[:, :0] * 2, 1, 0, 0, 2) * V,
    "every other row written": lambda x: x.slice_scatter(x[::2] * 2, 0, 0, step=2) * V,
    "rows written": lambda x: (
        x.slice_scatter(x[1:] * 2, 0, end=-1) * V + x.slice_scatter(x * 2).t().sum()
    ),
    "a diagonal written": lambda x: (
        W.diagonal_scatter(x.sum(0)) + (W.sin().diagonal_scatter(x.sum(0)[1:], 1) * 2)
    ),
    "windows": lambda x: x.unfold(1, 3, 2) * 2,
    "columns of images": lambda x: F.unfold(_image(x), 2, padding=1) * 2,
    "images of columns": lambda x: F.fold(x.view(-1, 6, 1).repeat(1, 2, 2) * 1, (2, 2), (2, 1)) * 2,
    "moved": lambda x: x.view(-1, 2, 3).movedim(0, 2) * 2 + x.view(-1, 2, 3).permute(1, 2, 0),
    "other views": lambda x: x.swapdims(0, 1).ravel() * 2 + x.adjoint().reshape(-1) + x.mH.ravel(),
    "stretched": lambda x: x[:, None].broadcast_to((x.shape[0], 2, WIDTH)) * 2,
    "side by side": lambda x: torch.hstack([x, x * 2]) + torch.cat([x, torch.vstack([x])], 1),
    "columns": lambda x: torch.column_stack([x, x[:, 0] * 2, V.expand(x.shape[0], -1)]) * 2,
    "differences": lambda x: (
        _signal(x).diff(n=2).sum(1) + torch.diff(x.view(-1, 6), prepend=x.view(-1, 6)[:, 4:])[:, 3:]
    ),
    "on top": lambda x: torch.vstack([x, V]) * 2,
    "matrix and vector": lambda x: x @ V + torch.mv(x, B) + (V @ x.t()) + F.linear(x, V),
    "vectors": lambda x: torch.dot(x.sum(0), V) + x.sum(0) @ B + torch.outer(V, B).sum() * x.sum(),
    "products of batches": lambda x: (
        torch.baddbmm(B[:1], x.view(-1, 2, 3), x.view(-1, 3, 2), beta=0.5, alpha=2)
        + torch.addbmm(W[:2, :2], x.view(-1, 2, 3), x.view(-1, 3, 2))
    ),
    "sums with products": lambda x: (
        torch.addmv(x.sum(1), x, V, alpha=0.5) + torch.addr(W, V, x.sum(0)).sum()
    ),
    "einsum": lambda x: torch.einsum("nd,ed->ne", x.view(-1, 6), W) * 2,
    "einsum of batches": lambda x: torch.einsum(
        "bij,bjk->bik", [x.view(-1, 2, 3), x.view(-1, 3, 2)]
    ).sin(),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:]) * 2,
    "classes": lambda x: F.nll_loss(x, _rows(x)) + F.nll_loss(x, _rows(x), SPREAD, ignore_index=1),
    "weighted classes": lambda x: F.cross_entropy(x, _rows(x), SPREAD, ignore_index=2),
    "smoothed classes": lambda x: (
        F.cross_entropy(x, _rows(x), label_smoothing=0.1)
        + F.cross_entropy(x, _rows(x), SPREAD, label_smoothing=0.2, reduction="sum")
    ),
    "classes of pixels": lambda x: F.cross_entropy(
        _image(x), _rows(x)[:, None, None].expand(-1, 3, 4) % 2
    ),
    "chances of classes": lambda x: F.cross_entropy(x, (x * V).softmax(1), SPREAD),
    "binary": lambda x: F.binary_cross_entropy(x.sigmoid(), (x * V).sigmoid(), reduction="none"),
    "binary, of logits": lambda x: (
        F.binary_cross_entropy_with_logits(x, x.sigmoid())
        + F.binary_cross_entropy_with_logits(x, x.sigmoid(), SPREAD, pos_weight=SPREAD * 2)
    ),
    "away": lambda x: (
        F.l1_loss(x, x * V)
        + F.smooth_l1_loss(x, x * V, beta=0.5)
        + F.huber_loss(x, x * V, delta=0.3)
    ),
    "away from one row": lambda x: F.mse_loss(x, V.expand(x.shape[0], -1), reduction="none"),
    "divergence": lambda x: (
        F.kl_div(x.log_softmax(1), x.softmax(1), reduction="sum")
        + F.kl_div(x, (x * V).log_softmax(1), reduction="batchmean", log_target=True)
    ),
    "hinges": lambda x: (
        F.hinge_embedding_loss(x, x.sign()) + F.margin_ranking_loss(x, x * V, x.sign(), 0.3)
    ),
    "triplets": lambda x: F.triplet_margin_loss(x, x * V, x.sin(), swap=True),
    "soft margins": lambda x: F.soft_margin_loss(x, x.detach().sign(), reduction="none"),
    "counts": lambda x: F.poisson_nll_loss(x, x.detach().abs(), reduction="none"),
    "transposed convolution": lambda x: F.conv_transpose1d(
        _signal(x), W[:2, :4].reshape(2, 2, 2), B[:2], stride=2, output_padding=1
    ),
    "convolution, padded to the same": lambda x: F.conv1d(
        _signal(x), W.reshape(6, 2, 3), padding="same"
    ),
}
#: Torch has no gradient of nothing there, or no result.
NOT_OF_NOTHING = (
    "looked up by one and",
    *("classes", "weighted", "smoothed", "chances", "greatest of all", "taken", "put", "running"),
    *("in the middle", "batch norm", "matrix and vector", "spread", "a diagonal", "lengths"),
    *(
        "length of all",
        "other lengths",
        "on a diagonal",
        "adaptive",
        "one average",
        "instance norm",
        "shuffled",
        "unshuffled",
    ),
)


def outcome(function: Function, x: Tensor) -> list[Tensor | None]:
    """Results and gradients of all that has one."""
    x = x.clone().requires_grad_()
    results = function(x)
    inputs = [x, W, V, B]
    weights = torch.linspace(0.5, 1.5, results.numel(), dtype=results.dtype).view(results.shape)
    found = torch.autograd.grad(results, inputs, weights, allow_unused=True)
    return [results.detach(), *found]


def compare(want: list[Tensor | None], got: list[Tensor | None], accuracy: float = 2e-4) -> None:
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None), "a gradient of zeros is not one that is missing"
        if a is not None:
            assert b is not None
            assert a.dtype == b.dtype
            torch.testing.assert_close(b, a, rtol=accuracy, atol=accuracy / 10, equal_nan=True)


def is_by_rows(compiled: Any) -> None:
    told = str(compiled.explain())
    assert "forward: native code" in told
    assert "autograd does" not in told, told


@pytest.mark.filterwarnings("ignore:std", "ignore:var")  # torch warns of nothing, in eager code too
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function, dynamic=True)
    for size in SIZES:
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        try:
            want = outcome(function, x)
        except (RuntimeError, IndexError, ValueError):
            assert size == 0
            assert name.startswith(NOT_OF_NOTHING)
            continue
        compare(want, outcome(compiled, x))
    is_by_rows(compiled)


#: Where formulas have corners: ends, bounds, ties, zeros of both signs, and what is no number.
CORNERS = torch.tensor(
    [
        *(-math.inf, -6.0, -3.0, -2.0, -1.0, -0.5, -0.2, -0.0, 0.0, 0.2, 0.5, 0.8, 1.0, 2.0, 3.0),
        *(6.0, math.inf, math.nan),
    ]
)


#: At -0.0, eager's own loops over vectors give another infinity than over single elements.
OF_EITHER_ZERO = {"logit"}


@pytest.mark.parametrize("name", POINTWISE)
def test_function(name: str) -> None:
    function = POINTWISE[name]
    compiled = anyshape.compile(function, dynamic=True)
    for size in SIZES:
        x = torch.rand(size, WIDTH, generator=devices.generator(size)) + 0.01
        compare(outcome(function, x), outcome(compiled, x))
    corners = CORNERS[None] if name not in OF_EITHER_ZERO else CORNERS.abs()[None]
    compare(outcome(function, corners), outcome(compiled, corners))
    wide = torch.linspace(0.1, 0.9, 12, dtype=torch.float64).view(2, 6)
    compare(outcome(function, wide), outcome(compiled, wide), 1e-9)
    is_by_rows(compiled)


@pytest.mark.parametrize("name", OF_TWO)
def test_function_of_two(name: str) -> None:
    function = OF_TWO[name]
    compiled = anyshape.compile(function, dynamic=True)
    pairs = [
        (torch.rand(size, WIDTH) + 0.5, torch.rand(size, WIDTH) + 0.5) for size in (4, 7, 1, 0)
    ]
    pairs.append((CORNERS[:, None].expand(-1, 18).clone(), CORNERS.expand(18, 18).clone()))
    for x, y in pairs:
        found: list[list[Tensor | None]] = []
        for each in (function, compiled):
            given = [one.clone().requires_grad_() for one in (x, y)]
            result = each(*given)
            weights = torch.linspace(0.5, 1.5, result.numel()).view(result.shape)
            grads = torch.autograd.grad(result, given, weights)
            found.append([result.detach(), *grads])
        compare(found[0], found[1])
    is_by_rows(compiled)


#: Programs whose formulas have corners, with what is there.
AT_CORNERS: dict[str, tuple[Function, Tensor]] = {
    "zeros have no direction": (
        lambda x: x.norm(dim=1) + x.norm(3, 1) + x.norm(1, 1) + F.normalize(x, dim=1).sum(1),
        torch.tensor([[0.0, 0, 0], [1, 0, -2], [0, -0.0, 3]]),
    ),
    "products with zeros": (
        lambda x: x.prod(1) + x.prod(),
        torch.tensor([[0.0, 2, 3], [0, 0, 3], [1, 2, 3]]),
    ),
    "a product with one zero": (lambda x: x.prod(), torch.tensor([[1.0, 2], [0, 3]])),
    "products of infinities": (
        lambda x: x.prod(1),
        torch.tensor([[math.inf, 2, 3], [1, math.inf, 0], [1, 2, math.nan]]),
    ),
    "running products with zeros": (lambda x: x.cumprod(1), torch.tensor([[2.0, 0, 3, 0, 1]])),
    "ties": (
        lambda x: x.max(1).values + x.min(1).values + x.amax(1) + x.max() + x.median(),
        torch.tensor([[1.0, 3, 3, 1], [2, 2, 2, 2], [3, 3, 3, 3]]),
    ),
    "what is greatest is no number": (
        lambda x: x.max(1).values + x.max() + x.norm(math.inf, 1) + x.median(1).values,
        torch.tensor([[1.0, math.nan, 3], [2, 2, math.nan]]),
    ),
    "greatest of windows that are equal": (
        lambda x: F.max_pool1d(x, 2, 1) * 2,
        torch.tensor([[1.0, 1, 1, 0, 0, 2]]),
    ),
    "sorted ties": (
        lambda x: x.sort(dim=1, stable=True).values * 2 + x.topk(4, 1).values,
        torch.tensor([[1.0, 1, 0, 1]]),
    ),
    "equal to each other": (lambda x: x.std(1) + x.var(1) + x.std(), torch.ones(2, 3)),
    "a single number": (lambda x: x.var(1) + x.std(0).sum(), torch.ones(2, 1)),
    "sums of nothing but -inf": (
        lambda x: x.logsumexp(1),
        torch.tensor([[-math.inf, -math.inf], [-math.inf, 1.0], [math.inf, 1.0]]),
    ),
    "chances at the ends": (
        lambda x: F.binary_cross_entropy(x, x.detach() * 0.5, reduction="none"),
        torch.tensor([[0.0, 1.0, 0.5]]),
    ),
    "likeness to zeros": (
        lambda x: F.cosine_similarity(x, x * 2 + 1, 1) + F.cosine_similarity(x, x * 0, 1),
        torch.tensor([[0.0, 0, 0], [1, 2, 3]]),
    ),
    "hinges where they bend": (
        lambda x: F.hinge_embedding_loss(x, x.sign(), reduction="none") + F.relu6(x),
        torch.tensor([[0.0, 1, -1, 6, 2]]),
    ),
    "all ignored": (
        lambda x: F.cross_entropy(x, torch.full((2,), -100), reduction="mean"),
        torch.ones(2, 3),
    ),
    "each at an edge": (
        lambda x: (
            F.huber_loss(x, x * 0, reduction="none") + F.smooth_l1_loss(x, x * 0, reduction="none")
        ),
        torch.tensor([[0.0, 1, -1, 2, math.nan, math.inf]]),
    ),
}


@pytest.mark.filterwarnings("ignore:std", "ignore:var")
@pytest.mark.parametrize("name", AT_CORNERS)
def test_corner(name: str) -> None:
    function, x = AT_CORNERS[name]
    compiled = anyshape.compile(function, dynamic=True)
    for _ in range(2):
        compare(outcome(function, x), outcome(compiled, x))
    is_by_rows(compiled)


@pytest.mark.filterwarnings("ignore:std", "ignore:var")
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "name",
    [
        *("glu", "averages", "greatest of windows", "logsumexp", "spread", "product", "lengths"),
        *("normalized", "greatest", "running", "sorted", "gathered", "repeated", "windows"),
        *("bilinear", "reflected edges", "edges that go round", "triangles", "one average"),
    ],
)
def test_other_dtypes(name: str, dtype: torch.dtype) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function, dynamic=True)
    for size in (5, 3):
        x = torch.randn(size, WIDTH, generator=devices.generator(size)).to(dtype)
        compare(outcome(function, x), outcome(compiled, x), 1e-9 if dtype.itemsize == 8 else 0.05)
    is_by_rows(compiled)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_norms_of_other_dtypes(dtype: torch.dtype) -> None:
    def function(x: Tensor) -> Tensor:
        image = x.view(-1, 2, 3, 4)
        frozen = F.batch_norm(image, x[0, :2].detach(), x[0, 2:4].detach().abs(), x[1, :2])
        own = F.batch_norm(image, None, None, x[2, :2], x[2, 2:4], training=True)
        return frozen + own + F.group_norm(image, 2, x[1, 2:4]) + F.instance_norm(image)

    compiled = anyshape.compile(function, dynamic=True)
    for size in (5, 4):
        x = torch.randn(size, 24, generator=devices.generator(size)).to(dtype)
        compare(outcome(function, x), outcome(compiled, x), 1e-9 if dtype.itemsize == 8 else 0.1)
    is_by_rows(compiled)
