"""Graphs with gradients by CUDA graphs, without a GPU (`emulated_graphs.py`): whatever is pending,
retained or asked for again, gradients are eager's and nothing that is held is overwritten."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import backend, cuda_graphs, paired_graphs, placed, small_graphs
from anyshape.runtime.cuda.graph_pool import MOST_LEASES, CannotRecord
from tests.codegen.emulated_graphs import EmulatedDevice, EmulatedPool
from tests.codegen.gradient_scenarios import (
    SCENARIOS,
    Checkpointed,
    Kept,
    Loss,
    Network,
    Normed,
    Several,
    Staged,
    all_results,
    both,
    changed_input,
    changed_result,
    grad_of,
    leaked,
    one_after_the_other,
    one_result,
    plain,
    replays,
    said,
    two_pending,
    unscaled,
    x,
)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDevice]:
    """The processor as if graphs could be recorded there."""
    device = EmulatedDevice()
    monkeypatch.setattr(backend, "_is_by_shape", lambda graph, _: placed.wants_cuda_graphs(graph))
    monkeypatch.setattr(cuda_graphs, "_why_not_on", lambda devices: "")
    for module in (cuda_graphs, paired_graphs):
        monkeypatch.setattr(module, "graph_device", lambda _: device)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield device
    anyshape.reset()


@pytest.mark.parametrize("name", SCENARIOS)
def test_as_eager(name: str) -> None:
    both().check(SCENARIOS[name])


@pytest.mark.parametrize("name", ["plain", "two_pending", "retained", "checkpointed"])
def test_dropout_draws_eagers_numbers(name: str, gpu: EmulatedDevice) -> None:
    both(Loss(Network(drop=0.4))).check(SCENARIOS[name])


@pytest.mark.parametrize("name", ["plain", "two_pending", "retained", "input_gradients"])
def test_pairs_are_replayed(name: str, gpu: EmulatedDevice) -> None:
    pair = both()
    pair.check(SCENARIOS[name])
    forward, backward = replays(pair)
    assert forward >= 5
    assert backward >= forward


def test_scaled_losses_under_autocast() -> None:
    pair = both()
    for step in range(6):
        found: list[list[Tensor]] = []
        for call, module in pair.sides():
            torch.manual_seed(step)
            module.zero_grad()
            unscaled(call, module, step)
            found.append([each.detach().clone() for each in module.parameters()])
        torch.testing.assert_close(found[1], found[0], rtol=3e-2, atol=3e-3)
    assert replays(pair)[1] >= 3


# -- what modules do -------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", [one_result, all_results, one_after_the_other])
@pytest.mark.parametrize("kind", [Several, Staged])
def test_several_results(kind: type[nn.Module], scenario: Any) -> None:
    both(kind()).check(scenario, 12)


def test_a_stage_waits_for_the_ones_behind_it() -> None:
    pair = both(Staged())
    pair.check(all_results)
    lines = [line for line in said(pair) if "CUDA graphs: 1 shapes" in line]
    assert len(lines) == 2
    assert all("replayed 0 times" not in line for line in lines)


def test_statistics_are_written() -> None:
    pair = both(Loss(Normed()))
    pair.check(two_pending)
    torch.testing.assert_close(dict(pair.module.named_buffers()), dict(pair.eager.named_buffers()))
    assert replays(pair)[1] > 3


def test_regions_of_checkpoint() -> None:
    pair = both(Checkpointed(0.0))
    pair.check(plain)
    pair.check(two_pending)
    assert replays(pair)[1] > 3
    pair = both(Checkpointed(0.5))
    pair.check(plain)
    assert any("no CUDA graphs: `draw_record`" in line for line in said(pair))


@pytest.mark.parametrize("scenario", [changed_result, changed_input])
def test_what_is_kept_may_not_be_changed(scenario: Any) -> None:
    both(Kept()).check(scenario, 12)


# -- what is held ----------------------------------------------------------------------------------


def test_gradients_and_results_stay() -> None:
    """Whoever holds one keeps it, and torch adds to those that it was given."""
    pair = both(Staged())
    held: list[list[Any]] = [[], []]
    for step in range(10):
        for place, (call, module) in enumerate(pair.sides()):
            torch.manual_seed(step)
            if step % 3 == 0:
                module.zero_grad(set_to_none=True)
            elif step % 3 == 1:
                module.zero_grad(set_to_none=False)
            given = x().requires_grad_()
            loss, logits = call(given)
            (loss + logits.sum()).backward()
            grads = [grad_of(each) for each in module.parameters()]
            assert len({each.untyped_storage().data_ptr() for each in grads}) == len(grads)
            held[place] += [loss.detach(), logits.detach(), given.grad]
            held[place] += [each.clone() for each in grads]
    torch.testing.assert_close(held[1], held[0], rtol=1e-4, atol=1e-6)


def test_places_are_given_back() -> None:
    """With the gradients, or with the result."""
    pair = both()
    for _ in range(6):
        pair.compiled(x()).backward()
    gc.disable()
    try:
        for _ in range(3 * MOST_LEASES):
            pair.compiled(x())  # nobody asks for its gradients
            pair.compiled(x()).backward()
            loss = pair.compiled(x())
            loss.backward()
            with pytest.raises(RuntimeError, match="second time"):
                loss.backward()
    finally:
        gc.enable()
    assert not any("pending" in line for line in said(pair))
    assert replays(pair)[0] >= 9 * MOST_LEASES


def test_more_forwards_than_places(gpu: EmulatedDevice) -> None:
    pair = both()
    pair.check(leaked, 6)
    assert any("pending" in line for line in said(pair))


def test_forwards_alone_are_not_recorded(gpu: EmulatedDevice) -> None:
    pair = both()
    for _ in range(8):
        pair.compiled(x())
    assert not gpu.pools or not gpu.pool(0).graphs


def test_a_backward_that_was_not_recorded_with_its_forward(gpu: EmulatedDevice) -> None:
    """Its memory may be used by other shapes meanwhile: the pair is recorded anew."""
    pair = both()

    def skipping(call: Any, module: nn.Module, step: int) -> Any:
        loss = call(x())
        if step != 4:
            loss.backward()

    def others(call: Any, module: nn.Module, step: int) -> Any:
        skipping(call, module, step)
        call(x(9)).backward()

    pair.check(others, 14)
    assert replays(pair)[1] > 8


def test_gradients_that_come_back_in_ever_other_ways(gpu: EmulatedDevice) -> None:
    pair = both(Several())
    pair.check(one_result, 30)
    assert len(gpu.pool(0).graphs) < 30


# -- what cannot be recorded -----------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_capture_that_fails(gpu: EmulatedDevice, allowed: int) -> None:
    """Of the forward, or of the backward."""
    gpu.pool(0).refuses, gpu.pool(0).allows = "not permitted while capturing", allowed
    pair = both()
    pair.check(plain)
    pair.check(two_pending)
    assert any("not permitted" in line for line in said(pair))


def test_backwards_that_cannot_be_recorded(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken capture takes its time: it is not tried at all shapes."""
    pool, tried = gpu.pool(0), []

    def record(run: Any, place: int = 0) -> Any:
        tried.append(place)
        if len(tried) % 2 == 0:
            raise CannotRecord("not permitted while capturing")
        return EmulatedPool.record(pool, run, place)

    monkeypatch.setattr(pool, "record", record)
    pair = both()
    for n in range(2, 16):
        pair.check(lambda call, module, step, n=n: call(x(n)).backward(), 5)
    assert len(tried) == 16
    assert any("no CUDA graphs: backward: not permitted" in line for line in said(pair))


def test_memory_is_bounded(gpu: EmulatedDevice) -> None:
    gpu.pool(0).taken = 2 << 20
    pair = both()
    with anyshape.config.patch(cuda_graph_memory_mb=1):
        pair.check(plain)
    assert not gpu.pool(0).graphs
    assert any("cuda_graph_memory_mb" in line for line in said(pair))


def test_what_is_kept_may_be_too_much(gpu: EmulatedDevice) -> None:
    pair = both()
    with anyshape.config.patch(cuda_graph_memory_mb=1):
        pair.check(lambda call, module, step: call(x(9000)).backward())
        assert not gpu.pool(0).graphs
        pair.check(plain)
    assert replays(pair)[1] > 3


def test_few_shapes_are_kept(gpu: EmulatedDevice) -> None:
    pair = both()
    with anyshape.config.patch(cuda_graph_limit=2):
        for n in (2, 3, 4, 5):
            pair.check(lambda call, module, step, n=n: call(x(n)).backward(), 25)
    assert any("CUDA graphs: 2 shapes" in line for line in said(pair))


def test_a_stream_has_its_own(gpu: EmulatedDevice) -> None:
    """Where the gradients are asked for in another stream, or while somebody records, what is kept
    is copied out."""
    pair = both()

    def elsewhere(call: Any, module: nn.Module, step: int) -> Any:
        gpu.current = step % 2
        loss = call(x())
        gpu.current = None if step == 9 else (step + (step > 7)) % 2
        loss.backward()

    pair.check(elsewhere, 12)
    assert len(gpu.pools) == 2
    assert any("came in another way" in line for line in said(pair))


# -- with others -----------------------------------------------------------------------------------


def test_models_share_a_stream() -> None:
    """With each other, and with graphs that have no gradients."""
    one, other = both(), both(Loss(Normed()))
    answer = anyshape.compile(
        lambda x: (x.softmax(-1) @ x.mT).sin(), dynamic=True, mode="reduce-overhead"
    )

    def mixed(call: Any, module: nn.Module, step: int) -> Any:
        loss = call(x())
        second = other.compiled(x(5)) if step % 2 else other.compiled(x(3))
        with torch.no_grad():
            given = x(8)
            torch.testing.assert_close(answer(given), (given.softmax(-1) @ given.mT).sin())
        if step % 3:
            loss.backward()
            second.backward()
        else:
            second.backward()
            loss.backward()

    one.check(mixed, 16)
    assert replays(one)[1] > 8
    assert replays(other)[1] > 8


def test_threads() -> None:
    pair = both()
    wrong: list[float] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(30):
            given = torch.randn(4, 6, generator=generator)
            found = []
            for call in (pair.compiled, pair.eager):
                own = given.clone().requires_grad_()
                found.append(torch.autograd.grad(call(own), [own])[0])
            if not torch.allclose(*found, rtol=1e-4, atol=1e-6):
                wrong.append(float((found[0] - found[1]).abs().max()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("compiles", [False, True])
def test_losses_of_a_hundred_steps(compiles: bool) -> None:
    """With eager's AdamW, and with a compiled one."""
    pair = both(Loss(Network(drop=0.1)))
    losses: list[list[float]] = []
    for call, module in pair.sides():
        optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
        is_ours = compiles and module is pair.module
        if is_ours:
            optimizer.step = anyshape.compile(optimizer.step, mode="reduce-overhead")
        torch.manual_seed(1)
        losses.append([])
        for step in range(100):
            optimizer.zero_grad()
            loss = call(x(3 + step % 3))
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            losses[-1].append(loss.item())
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-2, atol=1e-4)
    assert losses[1][-1] < losses[1][0]
    assert replays(pair)[1] > 80
