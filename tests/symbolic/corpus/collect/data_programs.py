"""Programs whose sizes come from data."""

from __future__ import annotations

import torch

from tests.symbolic.corpus.collect.tracing import Tracer

F = torch.nn.functional


def nonzero(x):
    i = x.nonzero()
    y = x[i[:, 0]]
    return (
        y.sum(), y.view(-1, x.shape[1]), y[: x.shape[0]], torch.cat([y, x]), y + y,
        y.reshape(y.shape[0] * y.shape[1]), y.unsqueeze(1).expand(-1, 3, -1).flatten(0, 1),
        y.chunk(2),
    )  # fmt: skip


def masked(x):
    y = x.masked_select(x > 0)
    z = x[x > 0.5]
    torch._check(z.shape[0] <= y.shape[0])
    return (
        y.view(-1, 1) * 2, z.sum(), torch.cat([y, z]), y[: z.shape[0]], F.pad(y, (0, 3)),
        y.unfold(0, 1, 1), y[None] @ y[:, None],
    )  # fmt: skip


def item(x, i):
    u = i[0].item()
    v = i[1].item()
    torch._check(u >= 0)
    torch._check(u <= x.shape[0])
    torch._check(v >= 2)
    torch._check(v % 4 == 0)
    return (
        x[:u], x[u:], x.narrow(0, 0, u), torch.zeros(u, v).view(-1, 4), torch.arange(u),
        torch.ones(v).view(v // 4, 4), torch.zeros(u + 1, v).view(u + 1, 2, v // 2),
        x[:u].sum(0) + x[0], torch.ones(v // 2, 2).view(v),
    )  # fmt: skip


def split_sizes(x, i):
    n = i.tolist()
    for k in n:
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
    torch._check(sum(n) == x.shape[0])
    return [p + 1 for p in x.split(n)], torch.cat(list(x.split(n))).view(x.shape)


def repeat(x, i):
    y = x.repeat_interleave(i, 0)
    a, b = torch.unique(i, return_inverse=True)
    return (
        y + 1, y @ y.t(), y.view(y.shape[0], -1), a.sum(), b.view(-1), F.one_hot(b),
        torch.bincount(i), y[:, ::2].reshape(-1),
    )  # fmt: skip


def ragged(x, i):
    n = i.max().item()
    torch._check(n > 0)
    torch._check(n < 512)
    m = torch.arange(n)[None] < i[:, None]
    pad = (n + 7) // 8 * 8
    buf = torch.zeros(i.shape[0], pad, x.shape[1])
    return (
        m.sum(), buf[:, :n], buf.view(i.shape[0], -1, 8, x.shape[1]), buf.flatten(0, 1)[:n],
        m.view(-1), F.pad(m, (0, pad - n)), buf[:, n:].sum(1),
    )  # fmt: skip


def run(t: Tracer) -> None:
    x = torch.randn(6, 5)
    t.both("nonzero", nonzero, x, static=(1,))
    t.both("masked_select", masked, x, static=(1,))
    t.both("item", item, x, torch.tensor([3, 8]), static=(1,))
    t.both("split sizes", split_sizes, x, torch.tensor([1, 2, 3]), static=(1,))
    t.both("repeat/unique", repeat, x, torch.tensor([1, 2, 3, 1, 2, 3]))
    t.both("ragged", ragged, x, torch.tensor([1, 2, 3]), static=(1,))
