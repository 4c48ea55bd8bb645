"""Networks: convolutions, recurrences, and attention in its variants."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

from tests.symbolic.corpus.collect.tracing import Tracer

F, R = nn.functional, torch.randn


def conv_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 5, groups=2),
        nn.BatchNorm2d(8).eval(),
        nn.AdaptiveAvgPool2d((3, 3)),
        nn.Flatten(),
        nn.Linear(72, 10),
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2 = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.o = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.d1(x).relu()
        b = self.d2(F.max_pool2d(a, 2)).relu()
        u = self.up(b)
        pad_h, pad_w = a.shape[2] - u.shape[2], a.shape[3] - u.shape[3]
        u = F.pad(u, [pad_w // 2, pad_w - pad_w // 2, pad_h // 2, pad_h - pad_h // 2])
        return self.o(torch.cat([a, u], 1))


def pools(x):
    return (
        F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, (2, 3), ceil_mode=True, count_include_pad=False),
        F.lp_pool2d(x, 2, 3, stride=2), F.adaptive_max_pool2d(x, (5, None)),
        F.max_pool2d(x, 3, 1, dilation=2), F.adaptive_avg_pool2d(x, x.shape[-1] // 2),
    )  # fmt: skip


def patch_embed(x, p=4):
    b, c, h, w = x.shape
    x = F.pad(x, (0, (p - w % p) % p, 0, (p - h % p) % p))
    h, w = x.shape[2:]
    y = (
        x.view(b, c, h // p, p, w // p, p)
        .permute(0, 2, 4, 3, 5, 1)
        .reshape(b, (h // p) * (w // p), p * p * c)
    )
    return y.view(b, h // p, w // p, p, p, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)


def window_attention(x, ws=4):
    b, h, w, c = x.shape
    pad_r, pad_b = (ws - w % ws) % ws, (ws - h % ws) % ws
    x = F.pad(x, (0, 0, 0, pad_r, 0, pad_b))
    _, hp, wp, _ = x.shape
    x = torch.roll(x, shifts=(-(ws // 2), -(ws // 2)), dims=(1, 2))
    win = x.view(b, hp // ws, ws, wp // ws, ws, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, c)
    qk = win @ win.transpose(1, 2)
    out = (qk.softmax(-1) @ win).view(-1, ws, ws, c)
    bb = int(out.shape[0] // (hp * wp // ws // ws))
    out = (
        out.view(bb, hp // ws, wp // ws, ws, ws, -1)
        .permute(0, 1, 3, 2, 4, 5)
        .reshape(bb, hp, wp, -1)
    )
    return out[:, :h, :w, :].contiguous()


def split_heads(x, heads=4):
    b, s, h = x.shape
    q = x.view(b, s, heads, h // heads).transpose(1, 2)
    m = torch.ones(s, s, dtype=torch.bool).tril()
    a = (q @ q.transpose(-1, -2)).masked_fill(~m, -1e9).softmax(-1) @ q
    return a.transpose(1, 2).contiguous().view(b, s, h) + x


def gqa(q, k, v, mask):
    b, hq, s, d = q.shape
    rep = hq // k.shape[1]
    k = k[:, :, None].expand(b, k.shape[1], rep, k.shape[2], d).reshape(b, hq, k.shape[2], d)
    v = v.repeat_interleave(rep, 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, :, -s:, : k.shape[2]])


def kv_cache(k, cache, n):
    total = cache.shape[1] + k.shape[1]
    full = torch.cat([cache, k], 1)
    recent = full[:, -16:]
    mask = torch.full((k.shape[1], total), float("-inf")).triu(total - k.shape[1] + 1)
    return recent, mask, full[:, n:], full.narrow(1, total - k.shape[1], k.shape[1])


def local_attention(x, w=4):
    b, s, d = x.shape
    pad = -s % w
    x = F.pad(x, (0, 0, 0, pad))
    n = x.shape[1] // w
    x = x.reshape(b, n, w, d)
    prev = F.pad(x, (0, 0, 0, 0, 1, 0))[:, :-1]
    kv = torch.cat([prev, x], 2)
    return torch.einsum("bnqd,bnkd->bnqk", x, kv).reshape(b, n * w, 2 * w)[:, :s]


def unfold_fold(x):
    return F.fold(F.unfold(x, 3, padding=1, stride=2), x.shape[-2:], 3, padding=1, stride=2)


# fmt: off
def run(t: Tracer) -> None:
    net, images = conv_net(), R(4, 3, 65, 70)
    t.fake("ConvNet", net, images)
    t.fake("ConvNet channels_last", net, images.to(memory_format=torch.channels_last))
    t.both("UNet", UNet(), R(2, 3, 33, 46))
    t.fake("LSTM", nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True), R(3, 7, 6))
    t.fake("GRU", nn.GRU(6, 8), R(5, 3, 6))
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    t.fake("TransformerEncoder", nn.TransformerEncoder(layer, 1).eval(), R(3, 7, 16))
    attention = nn.MultiheadAttention(16, 4).eval()
    t.fake("MultiheadAttention", lambda x, y: attention(x, y, y), R(5, 3, 16), R(9, 3, 16))
    for name, layers, shape in (
        ("Conv1d dilated",
         (nn.Conv1d(4, 4, 3, dilation=4, padding=8), nn.Conv1d(4, 8, 7, stride=3)), (2, 4, 50)),
        ("Conv3d+pool",
         (nn.Conv3d(2, 4, 3, stride=(1, 2, 2), padding=1), nn.AvgPool3d(2, ceil_mode=True)),
         (2, 2, 9, 14, 15)),
        ("ConvTranspose chain",
         (nn.ConvTranspose2d(3, 6, 4, 2, 1), nn.ConvTranspose2d(6, 3, 3, 3, output_padding=1)),
         (2, 3, 7, 9)),
    ):
        t.fake(name, nn.Sequential(*layers), R(shape))
    t.fake("pools", pools, R(2, 3, 19, 22))
    t.fake("unfold/fold", unfold_fold, R(2, 3, 19, 22))
    t.both("patch embedding", patch_embed, R(2, 3, 18, 23))
    t.both("Swin window attention", window_attention, R(2, 10, 13, 8))
    t.both("split heads", split_heads, R(2, 7, 16))
    heads = R(2, 8, 5, 16), R(2, 4, 9, 16), R(2, 4, 9, 16), R(2, 1, 12, 12)
    t.fake("grouped-query attention", gqa, *heads)
    t.fake("KV cache", kv_cache, R(2, 3, 8), R(2, 21, 8), 2)
    t.fake("local attention", local_attention, R(2, 10, 8))


def run_exports(t: Tracer) -> None:
    """With declared dimensions."""
    n, d = Dim("n"), Dim("d")
    image = {0: Dim("b"), 2: Dim("h", min=16, max=512), 3: Dim("w", min=16, max=512)}
    t.exported("linear batch 4*n", lambda x: x.view(-1, 4, x.shape[1]).sum(1),
               (R(8, 5),), ({0: 4 * Dim("n", min=1, max=64), 1: Dim("d")},))
    t.exported("two inputs n, n+1", lambda x, y: y[1:] + x,
               (R(6, 5), R(7, 5)), ({0: n, 1: d}, {0: n + 1, 1: d}))
    t.exported("sequence", split_heads,
               (R(2, 7, 16),), ({0: Dim("b", max=64), 1: Dim("s", min=2, max=4096)},))
    t.exported("conv", conv_net(), (R(4, 3, 64, 72),), (image,))
    t.exported("2*n+1", lambda x: x[::2] + 1, (R(7, 5),), ({0: 2 * Dim("n", min=1) + 1},))
# fmt: on
