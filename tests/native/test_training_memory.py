"""Memory of a step: what was kept goes back while the backward function runs, as in eager code."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from anyshape.graph.plan import BufferDecl
from anyshape.graph.segment_cuts import cuts, part_of_rounds
from anyshape.loops.program import Area, Extern, Repeated
from benchmarks.native.memory import allocator_peak
from tests import devices

WIDTH = 64


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def _blocks(count: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(count)))


def _loss(model: Any, x: Tensor) -> Tensor:
    return model(x).square().mean()


@pytest.mark.parametrize("rows", [3, 64, 512])
def test_a_step_takes_no_more_than_eager(rows: int) -> None:
    x = torch.randn(rows, WIDTH, generator=devices.generator(0))
    peaks: list[int] = []
    grads: list[list[Tensor | None]] = []
    for compiles in (False, True):
        model = _blocks(6)
        run: Any = anyshape.compile(model) if compiles else model
        # The sizes that it is captured with are others.
        for given in (x[:2], x):
            model.zero_grad()
            _loss(run, given).backward()
        grads.append([each.grad for each in model.parameters()])
        model.zero_grad()
        peaks.append(allocator_peak(lambda run=run: _loss(run, x).backward()))
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-5)
    assert peaks[1] <= 1.05 * peaks[0], peaks


class _Seen:
    """Tensors that were saved, as long as they live."""

    def __init__(self) -> None:
        self.tensors: list[weakref.ref[Tensor]] = []

    def pack(self, tensor: Tensor) -> Tensor:
        # Memory is what counts: an alias lives as long as it.
        own = tensor.view_as(tensor)
        self.tensors.append(weakref.ref(own))
        return own

    def alive(self) -> int:
        return sum(each() is not None for each in self.tensors)


def test_kept_tensors_are_let_go_unless_the_graph_is_retained() -> None:
    model = _blocks(2)
    run = anyshape.compile(model)
    x = torch.randn(5, WIDTH, generator=devices.generator(1))
    _loss(run, x).backward()
    seen = _Seen()
    with torch.autograd.graph.saved_tensors_hooks(seen.pack, lambda each: each):
        result = run(x)
    loss = result.square().mean()
    count = seen.alive()
    assert count
    first = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    assert seen.alive() == count
    second = torch.autograd.grad(loss, list(model.parameters()))
    assert seen.alive() == 0
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()


def test_what_needs_nothing_kept_runs_again() -> None:
    run = anyshape.compile(lambda x: x + 1)
    x = torch.ones(3, requires_grad=True)
    loss = run(x)
    loss = run(x)
    for _ in range(3):
        loss.backward(torch.ones(3))
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3, 3]


# -- where segments are cut ------------------------------------------------------------------------


def _step(*names: str) -> Extern:
    return Extern("mm_out", tuple(Area(name, (8,), (1,)) for name in names))


def _cut(
    steps: list[Extern],
    given: int,
    gives: int,
    repeated: Repeated | None = None,
    elements: int = 1 << 16,
) -> Any:
    names = {area.buffer for step in steps for area in step.arguments}
    held = {name: BufferDecl(name, "f32", (elements,), (1,), given=False) for name in names}
    visible = {f"a{n}" for n in range(given)}
    after = {f"r{n}" for n in range(gives)}
    return cuts(steps, held, visible, after, lambda _: None, repeated, visible)


def test_cuts_are_where_least_is_handed_on() -> None:
    steps: list[Extern] = []
    for n in range(20):
        steps += [_step(f"g{n}", f"u{n}", f"w{n}", f"a{n}"), _step(f"u{n}", f"v{n}")]
        steps += [_step(f"w{n}", f"v{n}", f"r{n}"), _step(f"w{n}", f"v{n}", f"g{n + 1}")]
    found = _cut(steps, 20, 20)
    assert 4 <= len(found) <= 20
    assert all(each % 4 == 0 for each in found)


def test_rounds_are_not_cut() -> None:
    steps = [_step(f"a{n}", f"r{n}") for n in range(60)]
    found = _cut(steps, 60, 60, Repeated(3, 9, 6))
    assert found
    assert all(each <= 3 or each >= 57 or (each - 3) % 9 == 0 for each in found)
    assert part_of_rounds(Repeated(3, 9, 6), 12, 39) == Repeated(0, 9, 3)
    assert part_of_rounds(Repeated(3, 9, 6), 0, 12) is None


def test_little_is_not_cut() -> None:
    assert _cut([_step("a0", "r0"), _step("a1", "r1")], 2, 2, elements=8) == []
    assert _cut([], 0, 0) == []
