"""`mode="max-autotune"`: plans are tried, kept and told of, and nothing else changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import anyshape
from anyshape.backends.native import autotune
from anyshape.backends.native.autotune import CpuPlans, Measured, Tuner, size_class
from anyshape.codegen.llvm.choice import USUAL, CpuChoice
from anyshape.config import config
from anyshape.events import Event, kinds
from anyshape.events.stream import stream

TUNED = "max-autotune-no-cudagraphs"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> Iterator[None]:
    with config.patch(cache_dir=str(tmp_path), profile=False):
        yield


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[CpuChoice]:
    """Every plan is run once, and takes less time the later it is tried; gives what was tried."""
    tried: list[CpuChoice] = []
    taken: dict[int, float] = {}

    def microseconds(self: CpuPlans, run: Callable[[], Any]) -> float:
        run()
        closure = dict(zip(run.__code__.co_freevars, run.__closure__ or (), strict=True))
        choice = closure["choice"].cell_contents
        if choice not in tried:
            tried.append(choice)
        return taken.setdefault(tried.index(choice), 100.0 * 0.5 ** tried.index(choice))

    monkeypatch.setattr(CpuPlans, "microseconds", microseconds)
    monkeypatch.setattr(autotune, "copy_bandwidth", lambda plans: 1e9)
    return tried


def norm(x: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x, x.shape[-1:])).softmax(-1)


def several(x: Tensor) -> Any:
    return (x + 1).exp(), x.sum(0), (x * 2).cumsum(-1), x.amax(-1, keepdim=True) - x


def said(compiled: Any) -> str:
    return str(compiled.explain())


def calls(compiled: Any, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    for shape in shapes:
        x = torch.randn(shape)
        before = x.clone()
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-5, atol=1e-5)
        assert torch.equal(x, before)


@pytest.mark.parametrize("function", [norm, several])
def test_tuned_code_computes_the_same(function: Callable[..., Any], timed: list[CpuChoice]):
    with torch.no_grad():
        compiled = anyshape.compile(function, dynamic=True, mode=TUNED)
        calls(compiled, function, *[(9, 33)] * 4, *[(64, 256)] * 3, (65, 255), (0, 3), (0, 3))
        assert compiled.stats().graphs == 1
    assert len(timed) > 3
    assert USUAL in timed
    assert "now " in said(compiled), "the last plan that was tried is the fastest"
    assert "now " in said(compiled)


def test_a_first_call_is_not_hot(timed: list[CpuChoice]):
    compiled = anyshape.compile(norm, dynamic=True, mode=TUNED)
    calls(compiled, norm, (4, 8), (4, 8), (100, 30), (7, 129))
    assert not timed
    assert "not tuned yet" in said(compiled)
    calls(compiled, norm, (4, 8))
    assert timed


def test_the_default_mode_tunes_nothing(timed: list[CpuChoice]):
    compiled = anyshape.compile(norm, dynamic=True)
    calls(compiled, norm, *[(4, 8)] * 4)
    assert not timed
    assert "tuned" not in said(compiled)


def test_a_setting_asks_for_all(timed: list[CpuChoice]):
    with config.patch(max_autotune=True):
        compiled = anyshape.compile(norm, dynamic=True)
        calls(compiled, norm, *[(4, 8)] * 3)
    assert timed


def test_what_was_found_is_kept_on_disk(timed: list[CpuChoice]):
    calls(anyshape.compile(norm, dynamic=True, mode=TUNED), norm, *[(20, 8)] * 4)
    assert timed
    timed.clear()
    again = anyshape.compile(norm, dynamic=True, mode=TUNED)
    calls(again, norm, *[(28, 8)] * 4)
    assert not timed, "another function, the same size class"
    assert "now " in said(again)
    calls(again, norm, *[(5, 80)] * 3)
    assert timed


def test_damage_on_disk_is_no_plan():
    for data in (b"", b"[]", b'[{"no": 1}, 2, 3]', b'[{"width": 1}, "x", 3]', b"\xff"):
        assert Measured.from_bytes(data, USUAL) is None
    kept = Measured(CpuChoice(1, 2), 3.0, 2.0)
    assert Measured.from_bytes(kept.to_bytes(), USUAL) == kept


def test_a_plan_that_is_hardly_faster_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    times = iter([100.0, *[98.0] * 1000])
    monkeypatch.setattr(CpuPlans, "microseconds", lambda self, run: (run(), next(times))[1])
    compiled = anyshape.compile(norm, dynamic=True, mode=TUNED)
    calls(compiled, norm, *[(4, 8)] * 3)
    assert "tuned: 0 of 1 kernels" in said(compiled)
    assert "now " not in said(compiled).partition("kernel `")[2]


def in_place(x: Tensor) -> Tensor:
    return x.add_(1).mul_(x.sum(-1, keepdim=True))


def scattered(x: Tensor) -> Tensor:
    index = torch.arange(x.shape[0]) % 2
    return torch.zeros(2, x.shape[1]).index_add(0, index, x)


@pytest.mark.parametrize("function", [in_place, scattered])
def test_what_is_written_to_is_written_once(function: Callable[..., Any], timed: list[CpuChoice]):
    compiled = anyshape.compile(function, dynamic=True, mode=TUNED)
    for _ in range(5):
        x = torch.randn(6, 5)
        own, other = x.clone(), x.clone()
        torch.testing.assert_close(compiled(own), function(other))
        torch.testing.assert_close(own, other)


def test_why_kernels_are_not_tuned(timed: list[CpuChoice]):
    compiled = anyshape.compile(in_place, dynamic=True, mode=TUNED)
    for _ in range(4):
        compiled(torch.randn(6, 5))
    assert "it writes in place" in said(compiled)
    table = torch.randn(10, 4)
    chosen = anyshape.compile(lambda i: table[i] * 2, dynamic=True, mode=TUNED)
    for _ in range(4):
        assert torch.equal(chosen(torch.arange(3)), table[:3] * 2)
    assert "it checks data" in said(chosen)
    assert not timed


def test_random_numbers_are_those_of_the_default_mode(timed: list[CpuChoice]):
    def noisy(x: Tensor) -> Tensor:
        return (x * 2).softmax(-1) + torch.rand_like(x)

    found: list[Tensor] = []
    for mode in (None, TUNED):
        compiled = anyshape.compile(noisy, dynamic=True, mode=mode)
        torch.manual_seed(0)
        found.append(torch.stack([compiled(torch.ones(3, 4)) for _ in range(5)]))
    torch.testing.assert_close(*found)
    assert timed


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch, timed: list[CpuChoice]):
    monkeypatch.setattr(CpuPlans, "room", lambda self: 100)
    compiled = anyshape.compile(norm, dynamic=True, mode=TUNED)
    calls(compiled, norm, *[(40, 80)] * 4)
    assert not timed
    assert "too little memory" in said(compiled)


def test_whatever_fails_the_usual_code_runs(monkeypatch: pytest.MonkeyPatch):
    def broken(self: CpuPlans, run: Callable[[], Any]) -> float:
        raise RuntimeError("no clock\nhere")

    monkeypatch.setattr(CpuPlans, "microseconds", broken)
    compiled = anyshape.compile(norm, dynamic=True, mode=TUNED)
    calls(compiled, norm, *[(4, 8)] * 4)
    assert "not tuned: no clock\n" in said(compiled) + "\n"


def test_nothing_is_measured_while_a_graph_is_recorded(
    monkeypatch: pytest.MonkeyPatch, timed: list[CpuChoice]
):
    """What is known is used then."""
    calls(anyshape.compile(norm, dynamic=True, mode=TUNED), norm, *[(4, 8)] * 4)
    timed.clear()
    made: list[Any] = []
    make = Tuner.tuned

    def counted(self: Tuner, segment: Any, usual: Any) -> Any:
        inner = self.make

        def count(segment: Any, choices: Any) -> Any:
            made.append(choices)
            return inner(segment, choices)

        self.make = count
        return make(self, segment, usual)

    monkeypatch.setattr(Tuner, "tuned", counted)
    monkeypatch.setattr(CpuPlans, "can_measure", lambda self: False)
    compiled = anyshape.compile(norm, dynamic=True, mode=TUNED)
    calls(compiled, norm, (4, 8), (4, 8), (4, 80), (4, 80))
    assert not timed
    assert len(made) == 1
    assert all(choice != USUAL for choice in made[0].values())


def test_threads_do_not_wait_for_a_measurement(monkeypatch: pytest.MonkeyPatch):
    inside, go_on = threading.Event(), threading.Event()

    def slow(self: CpuPlans, run: Callable[[], Any]) -> float:
        run()
        inside.set()
        assert go_on.wait(60)
        return 1.0

    monkeypatch.setattr(CpuPlans, "microseconds", slow)
    compiled = anyshape.compile(norm, dynamic=True, mode=TUNED)
    calls(compiled, norm, (4, 8), (4, 8))
    other = threading.Thread(target=calls, args=(compiled, norm, (4, 8)))
    other.start()
    try:
        assert inside.wait(60)
        calls(compiled, norm, *[(4, 8)] * 3)
    finally:
        go_on.set()
        other.join()
    assert not autotune._measuring.locked()


def test_gradients(timed: list[CpuChoice]):
    compiled = anyshape.compile(norm, dynamic=True, mode=TUNED)
    for _ in range(4):
        x = torch.randn(20, 300, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        weight = torch.randn(20, 300)
        (compiled(x) * weight).sum().backward()
        (norm(y) * weight).sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-6)
    assert timed
    assert "forward: tuned" in said(compiled)


@contextmanager
def _plan(choice: CpuChoice, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as m:
        m.setattr(Tuner, "measure", lambda *_: Measured(choice, 2.0, 1.0))
        yield


@pytest.mark.parametrize("choice", [CpuChoice(1, 2, -2), CpuChoice(-1, 1, 2)], ids=str)
def test_a_layer_with_products(choice: CpuChoice, monkeypatch: pytest.MonkeyPatch):
    layer = torch.nn.Sequential(
        torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)
    )
    with torch.no_grad(), _plan(choice, monkeypatch):
        compiled = anyshape.compile(layer, dynamic=True, mode=TUNED)
        for shape in ((2, 5, 32), (2, 5, 32), (2, 5, 32), (3, 40, 32), (3, 40, 32), (3, 40, 32)):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), layer(x), rtol=1e-4, atol=1e-5)
    assert "now 1.0" in said(compiled)


def test_size_classes():
    assert size_class(0) == (0, 0)
    assert size_class(4096) == size_class(6144) == (13, 16)
    assert size_class(4095) == (12, 1)
    assert size_class(4100) == (13, 4)


# -- measured, without tuning ----------------------------------------------------------------------


def test_kernels_can_be_measured_alone(timed: list[CpuChoice]):
    found: list[kinds.KernelMeasured] = []
    with config.patch(measure_kernels=True), events(found):
        compiled = anyshape.compile(norm, dynamic=True)
        calls(compiled, norm, *[(10, 100)] * 4)
    assert timed == [USUAL], "no other plan is tried"
    assert "measured: 1 kernels and size classes, 100.0 us" in said(compiled)
    # 8000 bytes in 100 microseconds are 80 MB a second.
    assert "100.0 us, 0.008 MB at 0.08 GB/s, 8% of a copy's" in said(compiled)
    (event,) = found
    assert (event.reads, event.writes) == ("4*s0*s1", "4*s0*s1")
    assert (event.launches, event.before, event.after) == (1, 100.0, 100.0)
    assert event.compile_id


@contextmanager
def events(found: list[kinds.KernelMeasured]) -> Iterator[None]:
    def take(event: Event) -> None:
        assert isinstance(event, kinds.KernelMeasured)
        found.append(event)

    stop = stream.subscribe(take, [kinds.KernelMeasured])
    try:
        yield
    finally:
        stop()


def test_the_speed_of_a_copy_is_measured_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(autotune, "_COPIED", 1 << 20)
    measured: list[float] = []

    def microseconds(self: CpuPlans, run: Callable[[], Any]) -> float:
        run()
        measured.append(1000.0)
        return 1000.0

    monkeypatch.setattr(CpuPlans, "microseconds", microseconds)
    for _ in range(3):
        assert autotune.copy_bandwidth(CpuPlans()) == (2 << 20) * 1000
    assert len(measured) == 1
    monkeypatch.setattr(CpuPlans, "kind", lambda self: "another")
    monkeypatch.setattr(CpuPlans, "room", lambda self: 0)
    assert autotune.copy_bandwidth(CpuPlans()) == 0
