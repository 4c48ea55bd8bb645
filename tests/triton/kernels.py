"""Kernels of many kinds, and programs that launch them."""

from __future__ import annotations

import itertools

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

#: Where there is no GPU, there is nothing to measure with: the last configuration is taken.
_times = itertools.count(0, -1)
BENCH = None
if not torch.cuda.is_available():

    def BENCH(kernel_call, quantiles):
        kernel_call()
        return [float(next(_times))] * len(quantiles)


# -- one kernel each -------------------------------------------------------------------------------


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
    return out * 2


def add_with_grid_of_sizes(x, y):
    x = x + 1
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.shape[0], 8),)](x, y, out, x.shape[0], 8)
    return out, x


def add_with_closure(x, y):
    out = torch.empty_like(x)
    blocks = (x.numel() + 31) // 32

    def grid(meta):
        return (blocks, 1, 1)

    add_kernel[grid](x=x, y=y, out=out, n=out.numel(), BLOCK=32, num_warps=2, num_stages=1)
    return out


def add_with_grid_of_arguments(x, y):
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](
        x, y, out, x.numel(), BLOCK=16
    )
    return out


@triton.jit
def softmax_kernel(x, out, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * x_stride + at, mask=at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * out_stride + at, values / tl.sum(values, axis=0), mask=at < columns)


def softmax(x):
    out = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](
        x, out, x.stride(0), out.stride(0), columns, BLOCK=triton.next_power_of_2(columns)
    )
    return out


@triton.jit
def layer_norm_kernel(x, weight, bias, out, mean, rstd, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * stride + at, mask=inside, other=0.0)
    average = tl.sum(values, axis=0) / columns
    centered = tl.where(inside, values - average, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, axis=0) / columns + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    found = centered * scale * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
    tl.store(out + row * stride + at, found, mask=inside)


def layer_norm(x, weight, bias, eps=1e-5):
    out = torch.empty_like(x)
    mean = torch.empty(x.shape[0], device=x.device)
    rstd = torch.empty_like(mean)
    layer_norm_kernel[(x.shape[0],)](
        x, weight, bias, out, mean, rstd, x.stride(0), x.shape[1], eps, BLOCK=32
    )
    return out, mean, rstd.sum()


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=2),
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=4),
    ],
    key=["m", "n", "k"],
    do_bench=BENCH,
)
@triton.jit
def matmul_kernel(
    a, b, c, m, n, k, am, ak, bk, bn, cm, cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, k, BLOCK_K):
        at = first + inner
        left = tl.load(
            a + rows[:, None] * am + at[None, :] * ak,
            mask=(rows[:, None] < m) & (at[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + at[:, None] * bk + columns[None, :] * bn,
            mask=(at[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        total += tl.dot(left, right, input_precision="ieee")
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * cm + columns[None, :] * cn, total, mask=inside)


def matmul(a, b):
    m, k = a.shape
    _, n = b.shape
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    matmul_kernel[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride()
    )
    return torch.relu(c)


@triton.heuristics(
    {
        "BLOCK": lambda args: triton.next_power_of_2(min(args["n"], 64)),
        "EVEN": lambda args: args["n"] % args["BLOCK"] == 0,
    }
)
@triton.jit
def scale_kernel(x, out, n, factor, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, tl.load(x + at) * factor)
    else:
        tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


def scale_by_heuristics(x):
    out = torch.empty_like(x)
    scale_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, out, x.numel(), 0.5)
    return out


def scale_by_heuristics_with_grid(x):
    out = torch.empty_like(x)
    scale_kernel[(x.numel(),)](x, out, x.numel(), 0.5)  # More programs than blocks: all is masked.
    return out + x


@triton.jit
def count_kernel(x, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.atomic_add(counts + tl.load(x + at, mask=inside, other=0), 1, mask=inside)


def histogram(x):
    counts = torch.zeros(8, dtype=torch.int32, device=x.device)
    count_kernel[(triton.cdiv(x.numel(), 16),)](x, counts, x.numel(), BLOCK=16)
    return counts, counts.sum()


@triton.jit
def max_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(out, tl.max(tl.load(x + at, mask=at < n, other=-1000), axis=0))


def largest(x):
    out = torch.full((1,), -1000, dtype=torch.int32, device=x.device)
    max_kernel[(triton.cdiv(x.numel(), 4),)](x, out, x.numel(), BLOCK=4)
    return out


@triton.jit
def activate_kernel(
    x, bias, out, n, HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    if HAS_BIAS:
        values += tl.load(bias + at, mask=at < n)
    if ACTIVATION == "relu":
        values = tl.maximum(values, 0.0)
    elif ACTIVATION == "square":
        values = values * values
    tl.store(out + at, values, mask=at < n)


def activate(x, bias=None, activation="relu"):
    out = torch.empty_like(x)
    activate_kernel[(triton.cdiv(x.numel(), 16),)](
        x, bias, out, x.numel(), HAS_BIAS=bias is not None, ACTIVATION=activation, BLOCK=16
    )
    return out


def activate_without_bias(x):
    return activate(x) + activate(x, None, "square")


def activate_with_bias(x, bias):
    return activate(x, bias, "square")


@triton.jit
def double_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def double_(x):
    double_kernel[(triton.cdiv(x.numel(), 16),)](x, x.numel(), BLOCK=16)
    return x


def in_place(x):
    before = x + 1
    double_(x)
    return before, x + 1


def in_place_of_made(x):
    y = x * 3
    z = y + 1
    double_(y)
    return y, z, y + z


def in_a_loop(x):
    y = x.clone()
    for _ in range(3):
        double_(y)
        y = y + 1
    return y


def twice(x, y):
    first = add(x, y)
    return add(first, first) + first


@triton.jit
def split_kernel(x, total, difference, product, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a, b = tl.load(x + at, mask=inside), tl.load(y + at, mask=inside)
    tl.store(total + at, a + b, mask=inside)
    tl.store(difference + at, a - b, mask=inside)
    tl.store(product + at, a * b, mask=inside)


def several_outputs(x, y):
    outs = [torch.empty_like(x) for _ in range(3)]
    split_kernel[(triton.cdiv(x.numel(), 16),)](x, *outs, y, x.numel(), BLOCK=16)
    return outs[0] * outs[1] - outs[2], outs


@triton.jit
def copy_kernel(x, out, rows, columns, x0, x1, out0, out1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * x0 + at * x1, mask=inside)
    tl.store(out + row * out0 + at * out1, values, mask=inside)


def copied(x):
    """Of a tensor with any strides."""
    out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
    rows, columns = x.shape
    copy_kernel[(rows, triton.cdiv(columns, 4))](
        x, out, rows, columns, *x.stride(), out.stride(0), out.stride(1), BLOCK=4
    )
    return out


def strided_input(x):
    return copied(x) + 1


def after_a_view(x):
    return copied(x.t()), copied((x * 2)[:, ::2]), copied(x[1:])


def of_expanded(x):
    return copied(x[:1].expand(5, x.shape[1]))


def into_a_view(x):
    out = torch.zeros(x.shape[0], 2 * x.shape[1], device=x.device)
    part = out[:, 1::2]
    rows, columns = x.shape
    copy_kernel[(rows, triton.cdiv(columns, 4))](
        x, part, rows, columns, *x.stride(), *part.stride(), BLOCK=4
    )
    return out, part * 2


@triton.jit
def cube_kernel(x, out, a, b, c):
    i, j, k = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (i * b + j) * c + k
    tl.store(out + at, tl.load(x + at) + i * 100 + j * 10 + k)


def three_dimensions(x):
    out = torch.empty_like(x)
    cube_kernel[tuple(x.shape)](x, out, *x.shape)
    return out


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    values = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.where(keep, values / (1 - p), 0.0), mask=at < n)


def dropout(x, p=0.5, seed=7):
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), p, seed, BLOCK=16)
    return out


OFFSET = tl.constexpr(3)


@triton.jit
def clipped(values, low, high):
    return tl.minimum(tl.maximum(values, low), high)


@triton.jit
def clip_kernel(x, out, n, low, high, BLOCK: tl.constexpr = 16):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, clipped(tl.load(x + at, mask=at < n), low, high) + OFFSET, mask=at < n)


def clip(x, low=-0.5, high=0.5):
    """With a helper, a constant from outside and a default."""
    out = torch.empty_like(x)
    clip_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](
        x, out, x.numel(), low, high=high
    )
    return out


def clip_by_sizes(x):
    """With floats that are made of sizes."""
    return clip(x, -1 / (x.shape[0] + 1), x.shape[0] * 0.1)


@triton.jit
def cast_kernel(x, out, n, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, (tl.load(x + at, mask=at < n) * 3).to(DTYPE), mask=at < n)


def cast(x, dtype, triton_dtype):
    out = torch.empty_like(x, dtype=dtype)
    cast_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), DTYPE=triton_dtype, BLOCK=16)
    return out


def dtypes(x):
    return (
        cast(x.to(torch.bfloat16), torch.float32, tl.float32),
        cast(x.to(torch.int8), torch.int64, tl.int64),
        cast(x, torch.float16, tl.float16),
    )


@triton.jit
def where_kernel(condition, x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(condition + at, mask=at < n, other=0)
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=at < n), -1.0), mask=at < n)


def booleans(x):
    out = torch.empty_like(x)
    where_kernel[(triton.cdiv(x.numel(), 16),)](x > 0, x, out, x.numel(), BLOCK=16)
    return out


@triton.jit
def repeat_kernel(x, out, n, times, flag, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    total = values
    for _ in range(1, times):
        total += values
    if flag:
        total = -total
    tl.store(out + at, total, mask=at < n)


def integers(x):
    """Integers that Triton itself treats apart, 1 and multiples of 16, and truth values."""
    outs = []
    for times in (1, 2, 16):
        out = torch.empty_like(x)
        repeat_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), times, times == 2, BLOCK=16)
        outs.append(out)
    return outs


@triton.jit
def sum_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, n, BLOCK):
        total += tl.load(x + first + at, mask=first + at < n, other=0.0)
    tl.store(out, tl.sum(total, axis=0))


def total(x):
    out = torch.empty((), device=x.device)
    sum_kernel[(1,)](x, out, x.numel(), BLOCK=16)
    return x / (out.abs() + 1)


@triton.jit
def gather_kernel(x, index, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    picked = tl.load(index + at, mask=at < n, other=0)
    tl.store(out + at, tl.load(x + picked, mask=at < n), mask=at < n)


def gathered(x):
    """Of indices of 64 bits, which might as well be addresses."""
    y = x * 2
    index = torch.arange(x.shape[0] - 1, -1, -1, device=x.device)
    out = torch.empty_like(x)
    gather_kernel[(triton.cdiv(x.numel(), 16),)](y, index, out, x.numel(), BLOCK=16)
    return out + y


@triton.jit
def cumulative_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at, mask=at < n, other=0.0), axis=0), mask=at < n)


def cumulative(x):
    out = torch.empty_like(x)
    cumulative_kernel[(1,)](x, out, x.numel(), BLOCK=64)
    return out


@triton.autotune(
    configs=[triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"], do_bench=BENCH
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + at, tl.load(x + at) + 1)
    else:
        tl.store(out + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)


def tuned_with_heuristics(x):
    out = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.shape[0], meta["BLOCK"]),)](x, out, x.shape[0])
    return out


def data_dependent_size(x):
    kept = x[x > 0]
    return add(kept, kept * 2)


# -- in modules and functions with gradients of their own ------------------------------------------


class Doubling(nn.Module):
    """Writes to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.block = 16
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("seen", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        double_kernel[(1,)](self.seen, 4, BLOCK=self.block)
        return add(x, x) * self.scale.detach() + self.seen.sum()


@triton.jit
def sine_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sin(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def sine_backward_kernel(grad, x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slope = tl.cos(tl.load(x + at, mask=at < n))
    tl.store(out + at, tl.load(grad + at, mask=at < n) * slope, mask=at < n)


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        sine_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
        return out

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        grad = grad.contiguous()
        sine_backward_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](
            grad, x, out, x.numel(), BLOCK=16
        )
        return out


def with_gradient(x):
    return (Sine.apply(x * 2) * x).sum()
