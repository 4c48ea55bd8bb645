"""`triton_op`, `wrap_triton`, and custom operators that launch kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from torch import Tensor
from torch.library import custom_op, triton_op, wrap_triton

import anyshape
from tests.triton.kernels import add_kernel, double_kernel, sine_backward_kernel, sine_kernel

SIZES = (5, 5, 33, 1, 0, 16)


@triton_op("anyshape_triton::plus", mutates_args={})
def plus(x: Tensor, y: Tensor, block: int = 16) -> Tensor:
    out = torch.empty_like(x)
    n = x.numel()

    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]),)

    wrap_triton(add_kernel)[grid](x, y, out, n, block)
    return out


@triton_op("anyshape_triton::twice_", mutates_args={"x"})
def twice_(x: Tensor) -> None:
    wrap_triton(double_kernel)[(triton.cdiv(x.numel(), 16),)](x, x.numel(), BLOCK=16)


@triton_op("anyshape_triton::sine", mutates_args={})
def sine(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    wrap_triton(sine_kernel)[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
    return out


@triton_op("anyshape_triton::sine_backward", mutates_args={})
def sine_backward(grad: Tensor, x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    wrap_triton(sine_backward_kernel)[(triton.cdiv(x.numel(), 16),)](
        grad, x, out, x.numel(), BLOCK=16
    )
    return out


sine.register_autograd(
    lambda ctx, grad: sine_backward(grad.contiguous(), *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@custom_op("anyshape_triton::opaque_plus", mutates_args={})
def opaque_plus(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 16),)](x, y, out, x.numel(), BLOCK=16)
    return out


@opaque_plus.register_fake
def _(x, y):
    return torch.empty_like(x)


def of_operators(x):
    y = plus(x * 2, x)
    return plus(y, y, block=32) + torch.ops.anyshape_triton.plus(x, y)


def written(x):
    y = x + 1
    before = y * 1
    twice_(y)
    twice_(x)
    return before, y, x * 1


def wrapped(x):
    out = torch.empty_like(x)
    wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 16),)](x, x, out, x.numel(), BLOCK=16)
    return out + 1


def opaque(x):
    return opaque_plus(x + 1, x) * 2


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("program", [of_operators, written, wrapped, opaque])
def test_one_graph_for_all_sizes(program: Any, backend: Any, device: str) -> None:
    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for n in SIZES:
        theirs = torch.randn(n, device=device)
        ours = theirs.clone()
        expected = program(theirs)
        torch.testing.assert_close(compiled(ours), expected)
        torch.testing.assert_close(ours, theirs)
    stats = compiled.stats()
    assert (stats.graphs, stats.graph_breaks, stats.eager_calls) == (1, 0, 0)


def test_gradients(device: str) -> None:
    def program(x, w):
        return (sine(x * w) * w).sum()

    compiled = anyshape.compile(program, dynamic=True)
    for n in SIZES:
        x = torch.randn(n, device=device)
        theirs, ours = (torch.linspace(1, 2, n, device=device, requires_grad=True) for _ in "ab")
        program(x, theirs).backward()
        compiled(x, ours).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
    stats = compiled.stats()
    assert (stats.graphs, stats.graph_breaks, stats.eager_calls) == (1, 0, 0)


def test_what_is_around_them_is_native(device: str) -> None:
    compiled = anyshape.compile(of_operators, dynamic=True)
    x = torch.randn(5, device=device)
    compiled(x)
    assert "native code: 2 operators" in str(compiled.explain())


@pytest.mark.parametrize("program", [of_operators, written, opaque])
def test_operators_are_exported_by_their_names(program: Any, device: str, tmp_path: Path) -> None:
    x = torch.randn(5, device=device)
    exported = anyshape.export(program, (x,), dynamic_shapes={"x": "n"})
    exported.save(tmp_path / "program")
    for each in (exported, anyshape.load(tmp_path / "program")):
        for n in SIZES:
            ours = torch.randn(n, device=device)
            theirs = ours.clone()
            torch.testing.assert_close(each(ours), program(theirs))
            torch.testing.assert_close(ours, theirs)


def test_launches_are_exported_for_this_process_only(device: str, tmp_path: Path) -> None:
    x = torch.randn(5, device=device)
    exported = anyshape.export(wrapped, (x,), dynamic_shapes={"x": "n"})
    for n in SIZES:
        x = torch.randn(n, device=device)
        torch.testing.assert_close(exported(x), wrapped(x))
    with pytest.raises(anyshape.errors.CannotExport, match=r"`add_kernel`.*triton_op"):
        exported.save(tmp_path / "program")


def test_the_page_of_the_documentation(tmp_path: Path) -> None:
    """In a process of its own: it defines operators."""
    root = Path(__file__).parents[2]
    page = root / "docs" / "kernels.md"
    found = subprocess.run(
        [sys.executable, "-m", "tests.snippets", str(page), str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) == 4
