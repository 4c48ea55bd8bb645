"""Programs of a few operators each: slices, splits, views, broadcasts, indices, padding."""

from __future__ import annotations

import torch

from tests.symbolic.corpus.collect.tracing import Tracer

F, R = torch.nn.functional, torch.randn


def slices(x, y):
    n = x.shape[0]
    return (
        x[1:], x[:-1], x[-3:], x[:100], x[2:-2], x[::2], x[1::3], x[n // 2 :], x[: n - 4],
        x[-n // 2 :], x[n - 5 : n - 1], x[:, -1:], x[..., ::4], x[: y.shape[0]], x[y.shape[0] :],
        x[y.shape[0] : 2 * y.shape[0]], x.narrow(0, 2, n - 4), x[max(n - 6, 0) :], x[n:],
        x[-(n + 3) :], x[3:1],
    )  # fmt: skip


def splits(x):
    n = x.shape[1]
    return (
        x.chunk(3, 1), x.split(4, 1), x.split([2, n - 5, 3], 1), x.tensor_split(3, 1),
        x.unbind(0)[0], torch.cat([x, x[:, :3], x.flip(1)], 1),
        torch.stack([x, x], 1).flatten(0, 1), x.split(n // 2, 1), torch.cat(x.chunk(2, 1), 0),
        x.hsplit([2, n - 1]),
    )  # fmt: skip


def views(x):
    b, s, h = x.shape
    return (
        x.view(-1, h), x.view(b * s, h).view(b, s, h), x.view(b, -1), x.reshape(-1),
        x.transpose(0, 1).reshape(s, -1), x.transpose(1, 2).reshape(b, h * s),
        x.view(b, s, 2, h // 2), x.view(b, s, h // 2, 2).flatten(2), x.unflatten(2, (-1, 4)),
        x.flatten(1), x.permute(2, 0, 1).contiguous().view(h, b * s),
        x.unsqueeze(1).expand(b, 3, s, h).reshape(3 * b, s, h), x[:, :, ::2].reshape(b * s, -1),
        x[:, 1:].reshape(-1, h), x.squeeze(0), x.squeeze(), x.view(b, s * h).unfold(1, 4, 2),
        x.as_strided((b, h), (s * h, 1)), x.diagonal(0, 1, 2), x.diagonal(2, 0, 1),
        x.t if x.dim() == 2 else None, x.unsqueeze(-1).squeeze(-1), x.swapaxes(0, 2).flatten(),
        x.expand(4, b, s, h).reshape(-1, s, h), x.movedim(0, -1).reshape(s, h * b),
        x.repeat(2, 1, 3).view(2 * b, -1),
    )  # fmt: skip


def broadcasts(a, b, c):
    return (
        a + b, a * c[None], torch.where(a > 0, b, c), torch.broadcast_to(c, a.shape),
        a @ b.transpose(-1, -2), a.expand_as(torch.ones(2, *a.shape)), torch.baddbmm(a, a, b),
        torch.outer(c[0], c[1]),
    )  # fmt: skip


def indexing(x, i):
    x[i] = 0
    return (
        x[i], x[:, None, i % 3], x.index_select(0, i),
        x.gather(0, i[:, None].expand(-1, x.shape[1])), x.scatter(0, i[:, None], 1.0),
        torch.arange(0, x.shape[0], 2), torch.arange(3, x.shape[1]), F.one_hot(i, 10), x.roll(2, 0),
        x.flip(0), x.topk(2, 0), x.sort(), x.cumsum(0), torch.tril(x, -1),
        torch.triu_indices(x.shape[0], x.shape[1], 1), torch.tril_indices(x.shape[0], x.shape[1]),
        F.embedding(i, x), x.index_put((i,), x[0]), x.kthvalue(2, 0), x.diag(), x.diag(1),
        torch.diag_embed(i.float(), 2), x.rot90(), torch.searchsorted(x[0].sort()[0], x[1]),
        torch.linspace(0, 1, x.shape[0]), torch.meshgrid(x[0], x[1], indexing="ij"),
        torch.block_diag(x, x), torch.vander(i.float(), 3), torch.combinations(x[0], 2),
        torch.cartesian_prod(x[0], x[1]),
    )  # fmt: skip


def pads(x):
    return (
        F.pad(x, (1, 2, 3, 4)), F.pad(x, (-1, 2)), F.pad(x, (-1, -2, -3, 0)),
        F.pad(x, (2, 2), mode="reflect"), F.pad(x, (1, 1, 2, 2), mode="replicate"),
        F.pad(x, (3, 3), mode="circular"), F.pad(x, (x.shape[-1] // 2, x.shape[-1] % 2)),
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=(x.shape[2] * 2, 7)),
        F.pixel_shuffle(x, 2), F.pixel_unshuffle(x[:, :, :8, :8], 2),
        F.interpolate(x, scale_factor=0.5, mode="bilinear"), F.channel_shuffle(x, 2),
        F.group_norm(x, 2), x.unfold(2, 3, 2).unfold(3, 3, 2), F.grid_sample(x, R(2, 5, 5, 2)),
        torch.stft(x[0, 0], 8, window=torch.ones(8), return_complex=True),
    )  # fmt: skip


VIEWS = (
    lambda x: x.view(-1, 2, x.shape[2] // 2),
    lambda x: x.view(x.shape[0], -1, 4),
    lambda x: x.view(x.shape[0] * x.shape[1] * x.shape[2]),
    lambda x: x.reshape(x.shape[1], x.shape[0], -1),
    lambda x: x.transpose(0, 1).view(-1),
    lambda x: x[:, ::2].flatten(0, 1),
    lambda x: x.permute(0, 2, 1).reshape(x.shape[0] * 2, -1),
    lambda x: x.view(x.shape[0], x.shape[1] * x.shape[2] // 4, 4),
    lambda x: x.unsqueeze(2).expand(-1, -1, 3, -1).flatten(1, 2),
    lambda x: x.reshape(-1, x.shape[1] * 2),
    lambda x: x.view(torch.int32).view(-1),
    lambda x: x.view(torch.float64),
    lambda x: x.view(torch.int16).unflatten(-1, (-1, 2)),
    lambda x: torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()),
    lambda x: (
        x.contiguous()
        .view(x.shape[0], x.shape[1], 1, x.shape[2])
        .expand(-1, -1, x.shape[1], -1)
        .reshape(x.shape[0], -1, x.shape[2])
    ),
)
UNBACKED_VIEWS = (
    lambda x: x.view(-1),
    lambda x: x.view(x.shape[0] * x.shape[1], x.shape[2]),
    lambda x: x.reshape(x.shape[0], -1),
    lambda x: x.flatten(1).unsqueeze(0),
    lambda x: x.transpose(0, 1).contiguous(),
    lambda x: x.transpose(1, 2).reshape(x.shape[0], -1),
    lambda x: x.expand(3, -1, -1, -1).sum(0),
    lambda x: x[1:-1].contiguous(),
    lambda x: x + x.sum(1, keepdim=True),
    lambda x: x.unfold(2, 2, 1),
    lambda x: x @ x.transpose(1, 2),
    lambda x: F.pad(x, (1, 2)),
    lambda x: torch.cat([x, x], 2).chunk(2, 2),
    lambda x: x.diagonal(0, 1, 2),
    lambda x: x.mean((0, 2)).softmax(0),
    lambda x: F.layer_norm(x, x.shape[-1:]),
)
BROADCASTS = (
    lambda a, b: a + b,
    lambda a, b: torch.add(a, b[:, None]),
    lambda a, b: torch.broadcast_tensors(a, b),
    lambda a, b: a @ b[..., None],
    lambda a, b: torch.maximum(a[:, None], b[None, :]),
    lambda a, b: torch.einsum("bi,bj->ij", a, b),
    lambda a, b: a * b.sum(0, keepdim=True),
    lambda a, b: torch.where(a > 0, a, b[:1]),
    lambda a, b: a.addmm(a, b.t() @ b),
    lambda a, b: torch.cdist(a, b),
    lambda a, b: F.linear(a, b),
    lambda a, b: torch.kron(a, b),
    lambda a, b: torch.addcmul(a, a, b),
)
RESIZES = (
    lambda x: F.pixel_shuffle(x, 2),
    lambda x: F.pixel_unshuffle(x, 2),
    lambda x: F.pad(x, (4, 4), mode="reflect"),
    lambda x: F.pad(x, (-2, -3, 1, -1)),
    lambda x: F.interpolate(x, scale_factor=0.5),
    lambda x: F.group_norm(x, 2),
    lambda x: F.unfold(x, 2, dilation=2),
    lambda x: torch.stft(x[:, 0, 0], 4, 2, window=torch.ones(4), return_complex=True),
    lambda x: F.channel_shuffle(x, 2),
    lambda x: x.view(x.shape[0], 2, x.shape[1] // 2, *x.shape[2:]).mean(2),
    lambda x: F.avg_pool2d(x, x.shape[2:]),
    lambda x: F.glu(x, 1),
    lambda x: torch.fft.irfft(torch.fft.rfft(x)),
    lambda x: x.chunk(2, -1)[1].contiguous(),
)


def run(t: Tracer) -> None:
    t.fake("slices", slices, R(11, 9), R(4, 5))
    t.fake("slices unbacked", slices, R(11, 9), R(4, 5), unbacked=(0,))
    t.fake("splits", splits, R(3, 11))
    t.fake("views", views, R(3, 5, 8))
    t.each("view", VIEWS, R(3, 6, 8))
    t.each("view unbacked", UNBACKED_VIEWS, R(3, 6, 8), unbacked=(0,))
    t.fake("broadcast", broadcasts, R(3, 5, 8), R(3, 5, 8), R(5, 8))
    t.each("broadcast", BROADCASTS, R(6, 6), R(6, 6))
    t.fake("indexing", indexing, R(9, 7), torch.arange(5))
    t.fake("pads", pads, R(2, 4, 10, 12))
    t.each("resize", RESIZES, R(2, 4, 10, 12))
