"""ONNX models of exported programs, run by onnxruntime at three sizes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape import Dim
from anyshape.errors import CannotExport

MISSING = (
    importlib.util.find_spec("onnx") is None or importlib.util.find_spec("onnxruntime") is None
)
needs_onnx = pytest.mark.skipif(MISSING, reason="onnx and onnxruntime are not installed")


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


def arithmetic(x: Tensor) -> Tensor:
    return (x * 2 - 1).relu() / x.shape[0] + x.exp().sum(1, keepdim=True) ** 2


def shapes(x: Tensor) -> Any:
    half = x[: x.shape[0] // 2, 1:]
    return {"cat": torch.cat([half, half]).unsqueeze(0), "flat": x.reshape(-1), "rows": x.shape[0]}


def masked(x: Tensor) -> Tensor:
    low = torch.zeros(x.shape[0], 4)
    return torch.where(x > 0, x, low).masked_fill(x < -1, 5.0).clamp(max=2.0).softmax(-1)


def made(x: Tensor) -> Tensor:
    return torch.arange(x.shape[0]).float()[:, None] + x.mean(0) + F.gelu(x)


def parts(x: Tensor) -> Tensor:
    first, second = x.split([1, 3], dim=1)
    a, b = x.chunk(2, dim=1)
    return torch.stack([(first * second).sum(1), (a - b).amax(1)])


PROGRAMS: list[tuple[Any, tuple[int | str, ...]]] = [
    (arithmetic, ("n", 4)),
    (shapes, ("n", 4)),
    (masked, ("n", 4)),
    (made, ("n", 4)),
    (parts, ("n", 4)),
    (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2), nn.LogSoftmax(-1)), ("n", 4)),
    (Block(), ("n", "m", 8)),
    (
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
        ("n", 3, "m", "m"),
    ),
    (nn.Sequential(nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()), ("n", 4, "m", "m")),
]


@needs_onnx
@pytest.mark.parametrize(("program", "sizes"), PROGRAMS)
def test_right_at_three_sizes(program: Any, sizes: tuple[int | str, ...], tmp_path: Path):
    runtime: Any = pytest.importorskip("onnxruntime")
    if isinstance(program, nn.Module):
        program.eval()

    def make(n: int, m: int) -> Tensor:
        return torch.randn([{"n": n, "m": m}.get(each, each) for each in sizes])  # pyright: ignore[reportArgumentType, reportCallIssue] names or sizes

    spec = (tuple(Dim.AUTO if isinstance(each, str) else None for each in sizes),)
    with torch.no_grad():
        exported = anyshape.export(program, (make(4, 6),), dynamic_shapes=spec)
        exported.to_onnx(tmp_path / "model.onnx")
        session = runtime.InferenceSession(tmp_path / "model.onnx")
        (given,) = session.get_inputs()
        assert isinstance(given.shape[0], str)
        for n, m in ((4, 6), (2, 5), (7, 9)):
            x = make(n, m)
            expected = program(x)
            found = session.run(None, {given.name: x.numpy()})
            wanted = [*expected.values()] if isinstance(expected, dict) else [expected]
            for mine, theirs in zip(found, wanted, strict=True):
                torch.testing.assert_close(
                    torch.tensor(mine), torch.as_tensor(theirs), rtol=1e-4, atol=1e-5
                )


@needs_onnx
def test_what_does_not_map_is_named(tmp_path: Path):
    exported = anyshape.export(lambda x: torch.fft.rfft(x), (torch.ones(4),))
    with pytest.raises(CannotExport, match=r"ONNX has no operator here for .*rfft"):
        exported.to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.skipif(not MISSING, reason="onnx is installed")
def test_without_the_package(tmp_path: Path):
    exported = anyshape.export(lambda x: x + 1, (torch.eye(3),))
    with pytest.raises(CannotExport, match="pip install onnx"):
        exported.to_onnx(tmp_path / "model.onnx")
