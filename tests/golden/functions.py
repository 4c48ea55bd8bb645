"""Plain functions: arithmetic, reductions, views, writes, losses, random numbers, sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape import Dim
from tests.golden.program import Program, floats, integers, program

BATCH = {0: Dim("batch", min=1)}


def sized(*sizes: int, width: int = 4) -> list[tuple[Tensor]]:
    return [(floats(size, width),) for size in sizes]


@program
def pointwise() -> Program:
    def f(x: Tensor, scale: float = 0.5) -> Tensor:
        return (x * scale + 1).sigmoid() * x.exp().log1p() - x.abs().sqrt()

    return Program(f, sized(3, 5, 8), export={"dynamic_shapes": (BATCH,)}, llvm=True)


@program
def activations() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        smooth = F.gelu(x) + F.silu(x) + F.softplus(x) + F.mish(x)
        return smooth, F.elu(x, 0.5) + F.leaky_relu(x, 0.2), F.hardswish(x) + F.relu6(x)

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def broadcast() -> Program:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(x > y, x / (y.abs() + 1), y[:, None].squeeze(1) * 2)

    calls = [(floats(3, 1, 4), floats(5, 4)), (floats(6, 1, 4), floats(2, 4))]
    return Program(f, calls, export={"dynamic_shapes": ({0: Dim.AUTO}, {0: Dim.AUTO})})


@program
def dtypes() -> Program:
    def f(x: Tensor, n: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return x + n, n // 3, (n % 4).to(torch.int32) & 1, h * x, (x > 0) & (n > 4), n / 2

    calls = [(floats(k, 4), integers(k, 4), floats(k, 4, dtype=torch.bfloat16)) for k in (3, 5)]
    return Program(f, calls, export={"dynamic_shapes": ({0: Dim.AUTO},) * 3})


@program
def reductions() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        return x.sum(), x.mean(1), x.amax(0), x.var(1), x.argmax(1), x.logsumexp(-1), (x > 0).any()

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def softmax() -> Program:
    def f(x: Tensor) -> Tensor:
        return (x / x.size(-1) ** 0.5).softmax(-1)

    calls = [(floats(3, 4),), (floats(5, 9),), (floats(2, 70),)]
    rows, columns = Dim("rows"), Dim("columns", min=2, max=4096)
    return Program(f, calls, export={"dynamic_shapes": ((rows, columns),)}, llvm=True)


@program
def norms() -> Program:
    def f(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return (
            F.layer_norm(x, (8,), weight, bias),
            x * scale * weight,
            x / x.norm(dim=1, keepdim=True),
        )

    calls = [(floats(k, 8), floats(8), floats(8)) for k in (3, 5)]
    return Program(f, calls, export={"dynamic_shapes": (BATCH, None, None)})


@program
def running_sums() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        values, places = x.sort(1, descending=True)
        return x.cumsum(0), x.cumsum(-1), x.diff(dim=0), values, places, x.topk(2, 1).values

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def matmuls() -> Program:
    def f(x: Tensor, y: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        z = torch.baddbmm(bias, x, y)
        return z.relu(), x @ y[0], torch.einsum("bij,bjk->bik", x, y) + z

    calls = [(floats(b, n, 4), floats(b, 4, 6), floats(6)) for b, n in ((2, 3), (3, 5))]
    b, n = Dim("b", min=1), Dim("n")
    return Program(f, calls, export={"dynamic_shapes": ({0: b, 1: n}, {0: b}, None)})


@program
def views() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        heads = x.view(x.size(0), 2, -1).transpose(0, 1)
        first, second = x.chunk(2, 1)
        return heads, heads.reshape(2, -1), first + second, x[1:, ::2], x.t()

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def joined() -> Program:
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        both = torch.cat([x, y * 2, x[:1]])
        return both, torch.stack([x, x + 1], 1), F.pad(both, (1, 2), value=3.0), both.flip(0)

    calls = [(floats(3, 4), floats(2, 4)), (floats(5, 4), floats(7, 4))]
    return Program(f, calls, export={"dynamic_shapes": ({0: Dim("n")}, {0: Dim("m")})})


@program
def indexing() -> Program:
    def f(x: Tensor, where: Tensor) -> tuple[Tensor, ...]:
        rows = x[where]
        picked = x.gather(1, where[:, None].expand(-1, 2) % x.size(1))
        return rows * 2, picked, x.index_select(0, where), F.one_hot(where, 12)

    calls = [(floats(k, 4), integers(k, below=k)) for k in (3, 5)]
    n = Dim("n", min=2)
    return Program(f, calls, export={"dynamic_shapes": ({0: n}, {0: n})}, llvm=True)


@program
def scattering() -> Program:
    def f(x: Tensor, where: Tensor) -> tuple[Tensor, ...]:
        sums = x.new_zeros(10, x.size(1)).index_add(0, where, x)
        most = torch.zeros(10).scatter_reduce(0, where, x[:, 0], "amax", include_self=False)
        return sums, most, x.masked_fill(x < 0, -1.0)

    calls = [(floats(k, 4), integers(k)) for k in (3, 5)]
    return Program(f, calls, export={"dynamic_shapes": ({0: Dim.AUTO}, {0: Dim.AUTO})})


@program
def writes_to_an_argument() -> Program:
    def f(x: Tensor, total: Tensor) -> Tensor:
        x.mul_(2).add_(1)
        total[1:] += x.sum(0)[1:]
        x[0].zero_()
        return x.relu_() + total

    calls = [(floats(k, 4), floats(4)) for k in (3, 5)]
    return Program(f, calls, export={"dynamic_shapes": (BATCH, None)}, llvm=True)


@program
def writes_through_views() -> Program:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        left = y[:, :2]
        left += 1
        y.t()[3] = 5
        y[:, 1:3] = left + 1
        return y, left

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def losses() -> Program:
    def f(x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        dense = F.mse_loss(x, y) + F.smooth_l1_loss(x, y, reduction="sum") + F.huber_loss(x, y)
        binary = F.binary_cross_entropy_with_logits(x, y.sigmoid())
        classes = F.cross_entropy(x, target, label_smoothing=0.1, ignore_index=3)
        return dense + binary + classes + F.nll_loss(x.log_softmax(1), target)

    calls = [(floats(k, 4), floats(k, 4) / 2, integers(k, below=4)) for k in (3, 5)]
    n = {0: Dim("n", min=1)}
    return Program(f, calls, export={"dynamic_shapes": (n, n, n)})


@program
def random_numbers() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        noise = torch.randn_like(x) + torch.rand(x.size(0), 1)
        return F.dropout(x, 0.5) + noise, torch.bernoulli(x.sigmoid()), torch.randperm(x.size(0))

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def factories() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        n = x.size(0)
        places = torch.arange(n, device=x.device)
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        return places * 2, mask, torch.full((n, 2), 0.5), x.new_zeros(n)

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def sizes_in_arithmetic() -> Program:
    def f(x: Tensor, k: int) -> tuple[Any, ...]:
        n = x.size(0)
        half, rest = divmod(n, 2)
        return x * (n // 3 + k), x[:half].sum(), half + rest, x.numel() / n, (n, n * k)

    calls = [(floats(6, 4), 2), (floats(8, 4), 2), (floats(10, 4), 3), (floats(12, 4), 5)]
    return Program(f, calls, export={"dynamic_shapes": ({0: Dim("n", min=2)}, None)})


@program
def branch_on_a_size() -> Program:
    def f(x: Tensor) -> Tensor:
        if x.size(0) > 4:
            return x.sum(0)
        if x.size(0) % 2 == 0:
            return x.mean(0) * 2
        return x[0]

    n = Dim("n", min=5, max=100)
    calls = sized(7, 2, 3, 4, 5, 6)
    return Program(f, calls, {"dynamic": True}, export={"dynamic_shapes": ({0: n},)})


@program
def branch_on_data() -> Program:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        if y.sum() > 0:
            y = y.sqrt()
            y = y.nan_to_num(0.0)
        else:
            y = -y
        return y + y.max().item()

    calls = [(floats(3, 4),), (-floats(3, 4) - 9,), (floats(5, 4) + 3,), (-floats(6, 4) - 9,)]
    return Program(f, calls, export={"dynamic_shapes": (BATCH,)})


@program
def loop_on_data() -> Program:
    def f(x: Tensor) -> Tensor:
        steps = 0
        while x.abs().max() > 1 and steps < 5:
            x = x / 2
            steps += 1
        return x * steps

    return Program(f, [(floats(3, 4) + 3,), (floats(3, 4) * 4 + 3,), (floats(4, 4) + 3,)])


@program
def unbacked_sizes() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        found = x[x > 0]
        places = (x > 0).nonzero()
        return found * 2, places + 1, found.sum() / found.numel()

    return Program(f, sized(3, 5), export={"dynamic_shapes": (BATCH,)})


@program
def sizes_from_items() -> Program:
    def f(x: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
        n = int(counts[0].item())
        anyshape.check(n >= 0)
        anyshape.check(n <= x.size(0))
        return x[:n] * 2, torch.zeros(n, 2) + n, x.narrow(0, 0, n).sum()

    calls = [(floats(k, 4), torch.tensor([c, 9])) for k, c in ((4, 3), (6, 2), (6, 5))]
    return Program(f, calls, export={"dynamic_shapes": ({0: Dim.AUTO}, None)})


@program
def graph_break() -> Program:
    def f(x: Tensor) -> Tensor:
        y = ((x.relu() + 1) * 2).sqrt().tanh()
        anyshape.graph_break()
        return ((y.softmax(-1) - 1).exp() * y).sum(0)

    return Program(f, sized(3, 5, 6, 6), export={"dynamic_shapes": (BATCH,)})


@program
def disabled_call() -> Program:
    @anyshape.disable
    def disabled(x: Tensor) -> Tensor:
        return x.fill_diagonal_(1.0)

    def g(x: Tensor) -> Tensor:
        return (x * 2 + 1).relu().sqrt() * x

    def f(x: Tensor) -> Tensor:
        return g(disabled(g(x)).exp() + 1)

    return Program(f, sized(3, 5, 6, 6), export={"dynamic_shapes": (BATCH,)})


@program
def containers() -> Program:
    def f(batch: dict[str, Any], *more: Tensor, scale: int = 2) -> dict[str, Any]:
        x, (y, z) = batch["x"], batch["pair"]
        seen = [each * scale for each in (x, *more)]
        batch["seen"] = len(seen)
        return {"sum": sum(seen), "both": (y + z, [z])}

    calls = [
        ({"x": floats(k, 4), "pair": (floats(k), floats(1))}, floats(k, 4), floats(4))
        for k in (3, 5)
    ]
    return Program(f, calls, export=None)


@program
def state_outside() -> Program:
    counts = {"calls": 0}
    seen: list[Tensor] = []

    def f(x: Tensor) -> Tensor:
        counts["calls"] += 1
        seen.append(x.mean())
        return x * counts["calls"] + len(seen)

    return Program(f, sized(3, 5, 5), export={"dynamic_shapes": (BATCH,)})


@program
def declared_shapes() -> Program:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return (x[:, :, None] * y[:, None, :]).sum(1).tanh()

    calls = [
        (floats(2, 3), floats(2, 5)),
        (floats(1, 4), floats(1, 1)),
        (floats(2, 3), floats(3, 5)),
    ]
    shapes = {"x": "batch n", "y": "batch m"}
    auto = {"dynamic_shapes": ((Dim.AUTO, Dim.AUTO), (Dim.STATIC, Dim.AUTO)), "promote": True}
    return Program(f, calls, {"shapes": shapes}, export=auto)


@program
def static_sizes() -> Program:
    def f(x: Tensor) -> Tensor:
        return x.reshape(2, 6).sum(0) * x.size(0)

    wrong = {"dynamic_shapes": ({0: Dim("n")},)}
    return Program(f, sized(3, 3, 6), {"dynamic": False}, export=wrong)


@program
def complex_and_fourier() -> Program:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        # Of at least one row: some builds of torch transform none, others do.
        spectrum = torch.fft.rfft(F.pad(x, (0, 0, 0, 1)), dim=-1)
        return spectrum.abs(), torch.fft.irfft(spectrum * 2, n=x.size(-1)), torch.linalg.norm(x)

    return Program(f, sized(3, 5, width=8), export={"dynamic_shapes": (BATCH,)})


@program
def gradients() -> Program:
    def f(x: Tensor, weight: Tensor) -> Tensor:
        return F.relu(x @ weight).square().mean()

    calls = [(floats(k, 4), floats(4, 2).requires_grad_()) for k in (3, 5)]
    return Program(f, calls, export={"dynamic_shapes": (BATCH, None)}, grad=True)
