"""Programs on a GPU: native code gives what eager gives, at sizes that it was not compiled for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

import anyshape
from tests.gpu.device import DEVICE, needs_device
from tests.zoo.models import ROWS, Row

pytestmark = needs_device

SHAPES = ((16, 64), (3, 50), (1, 1024), (128, 4096), (7, 1), (513, 33), (0, 8))


def _positions(x: Tensor) -> Tensor:
    return torch.arange(x.shape[0], device=x.device)


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "sines": lambda x: x.sin().sin().sin(),
    "norm, gelu, softmax": lambda x: F.gelu(F.layer_norm(x, x.shape[-1:])).softmax(-1),
    "rms_norm": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),
    "sums": lambda x: (x.sum(), x.sum(0), x.sum(-1), x.mean(0)),
    "means": lambda x: (
        x.mean(-1),
        x.var(-1, correction=0),
        (x > 0).any(-1),
        x.float().norm(dim=-1),
    ),
    "casts": lambda x: (x.to(torch.bfloat16) + 1, x.half() * 2, (x * 10).int(), x > 0, x.double()),
    "transposed": lambda x: (x.t() * 2).contiguous(),
    "running sums": lambda x: (x.float().cumsum(-1), x.float().cumsum(0)),
    "joined": lambda x: (torch.cat([x, x * 2], 0), F.pad(x, (1, 2)), torch.where(x > 0, x, -x)),
    "indexed": lambda x: (x[_positions(x).flip(0)], x.index_select(0, _positions(x)) * 2),
    "added by index": lambda x: (
        x.float().new_zeros(7, x.shape[1]).index_add(0, _positions(x) % 7, x.float())
    ),
    "in place": lambda x: x.clone().add_(1).mul_(2),
    "set": lambda x: x.clone().index_fill_(1, torch.tensor([0], device=x.device), 3.0),
    "product": lambda x: F.linear(F.relu(x), x[:1]) + 1,
    "attention, a row without keys": lambda x: F.scaled_dot_product_attention(
        *(x.float().new_ones(1, 2, x.shape[0], 16) * (n + 1) for n in range(3)),
        attn_mask=(_positions(x) != 1)[:, None].expand(-1, x.shape[0]),
    ),
    "to the processor": lambda x: (x * 2).cpu() + 1,
    "from the processor": lambda x: x * torch.ones(x.shape[-1]).to(x.device) + 1,
}


def check(want: Any, got: Any, tolerance: float) -> None:
    if isinstance(want, tuple | list):
        for a, b in zip(want, got, strict=True):
            check(a, b, tolerance)
        return
    assert (got.dtype, got.shape, got.device) == (want.dtype, want.shape, want.device)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, dtype: torch.dtype) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function, dynamic=True)
    with torch.no_grad():
        for shape in SHAPES:
            if 0 in shape and name in ("set", "product"):
                continue
            x = torch.randn(shape, device=DEVICE).to(dtype)
            check(function(x), compiled(x), 2e-4 if dtype is torch.float32 else 3e-2)


def _leaves(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    parts = value.values() if isinstance(value, dict) else value
    return (
        [leaf for part in parts for leaf in _leaves(part)]
        if isinstance(value, dict | tuple | list)
        else []
    )


def _moved(value: Any) -> Any:
    return tree_map(lambda leaf: leaf.to(DEVICE) if isinstance(leaf, Tensor) else leaf, value)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_model(row: Row) -> None:
    module, twin = row.module().to(DEVICE), row.module().to(DEVICE)
    compiled = anyshape.compile(module, dynamic=True)
    with torch.no_grad():
        for pair in row.pairs:
            args, kwargs = map(_moved, row.call(pair))
            others, named = map(_moved, row.call(pair))
            try:
                want = twin(*others, **named)
            except (RuntimeError, ValueError):
                continue  # a size that the model does not take on a GPU
            for a, b in zip(_leaves(want), _leaves(compiled(*args, **kwargs)), strict=True):
                check(a, b, 2e-3)


def test_more_elements_than_32_bits_count() -> None:
    """Coordinates have 64 bits there, and 32 in the first calls of the same code."""

    def program(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x[:, None] * y, F.pad(y.expand(x.shape[0], -1), (1, 2))], 1)

    compiled = anyshape.compile(program, dynamic=True)
    with torch.no_grad():
        for rows, length in ((3, 5), (64, 1000), (40_000, 30_001), (1, 1 << 30)):
            x = torch.arange(rows, dtype=torch.uint8, device=DEVICE)
            y = torch.arange(length, dtype=torch.uint8, device=DEVICE)
            got = compiled(x, y)
            for row in {0, rows // 2, rows - 1}:
                assert torch.equal(got[row : row + 1], program(x[row : row + 1], y))
            del got
    assert compiled.stats().graphs == 1
