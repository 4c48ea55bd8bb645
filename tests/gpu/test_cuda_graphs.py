"""CUDA graphs by hot shape, on a GPU: eager's answers, memory that is bounded, nothing left behind
where a graph cannot be recorded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from anyshape.runtime.cuda import graph_pool
from tests.codegen import gradient_scenarios as gradients
from tests.gpu.device import DEVICE, needs_gpu
from tests.gpu.scripts import output

pytestmark = needs_gpu


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"), torch.no_grad():
        yield
    anyshape.reset()


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, device=DEVICE)


def by_graphs(function: Any, **more: Any) -> Any:
    return anyshape.compile(function, dynamic=True, mode="reduce-overhead", **more)


def said(compiled: Any) -> str:
    return str(compiled.explain())


def block(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = F.gelu(F.layer_norm(x, x.shape[-1:])) @ w
    return y, y.softmax(-1)


def test_results_are_eagers_and_stay() -> None:
    compiled = by_graphs(block)
    w = randn(64, 64)
    held: list[tuple[Tensor, Tensor]] = []
    for _ in range(6):
        for n in (5, 1, 33, 0, 128):
            x = randn(n, 64)
            held += zip(compiled(x, w), block(x, w), strict=True)
    for ours, eager in held:
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
    assert compiled.stats().graphs == 1
    assert "CUDA graphs: 5 shapes" in said(compiled)


def test_a_module_whose_parameters_change() -> None:
    first = nn.Linear(32, 64)
    model = nn.Sequential(first, nn.GELU(), nn.Linear(64, 8)).to(DEVICE)
    compiled = by_graphs(model)
    x = randn(7, 32)
    for _ in range(5):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    first.weight.mul_(2)
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    first.weight.data = randn(64, 32)
    for _ in range(5):
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


class Heads(nn.Module):
    """Products that are independent of each other, of one row and of more."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(64, n, bias=bool(n % 3)) for n in (64, 32, 96))
        self.out = nn.Linear(192, 64)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + self.out(torch.cat([part(x) for part in self.parts], -1))
        return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_side_by_side(dtype: torch.dtype) -> None:
    model = Heads().to(DEVICE, dtype)
    compiled = by_graphs(model)
    for n in (1, 3, 50, 300, 2000):
        for _ in range(6):
            x = randn(n, 64).to(dtype)
            close = (3e-2, 3e-2) if dtype is torch.bfloat16 else (1.3e-6, 1e-5)
            torch.testing.assert_close(compiled(x), model(x), rtol=close[0], atol=close[1])
    assert "CUDA graphs: 5 shapes" in said(compiled)


def test_dropout_draws_as_torch_does() -> None:
    """Each replay draws other numbers, and leaves the generator where a run does."""

    def noisy(x: Tensor) -> Tensor:
        return F.dropout(x * 2, 0.5, True)

    compiled = by_graphs(noisy)
    x = torch.ones(4096, device=DEVICE)
    for _ in range(6):
        torch.manual_seed(3)
        ours = [compiled(x), compiled(x)]
        torch.manual_seed(3)
        eager = [noisy(x), noisy(x)]
        assert not torch.equal(ours[0], ours[1])
        for one, other in zip(ours, eager, strict=True):
            torch.testing.assert_close(one, other)


def test_casts_of_autocast_do_not_outlive_a_recording() -> None:
    """Autocast keeps casts of parameters while it is on: not those in memory of a graph."""
    model, other = nn.Linear(64, 64).to(DEVICE), nn.Linear(64, 32).to(DEVICE)
    for module in (model, other):
        module.requires_grad_(True)
    compiled = by_graphs(lambda x: model(x) + 1)
    noise = by_graphs(lambda x: (x @ x.mT).softmax(-1) @ x)
    x = randn(16, 64)
    with torch.autocast("cuda", torch.bfloat16):
        for _ in range(6):
            expected = F.linear(x.bfloat16(), model.weight.bfloat16(), model.bias.bfloat16())
            torch.testing.assert_close(compiled(x), expected + 1, rtol=2e-2, atol=2e-2)
            noise(randn(16, 64))
            torch.testing.assert_close(model(x), expected, rtol=2e-2, atol=2e-2)


def test_caches_are_written_in_place() -> None:
    def step(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
        cache.index_copy_(1, at, x)
        return (cache * cache).sum((1, 2))

    compiled = by_graphs(step)
    ours, eager = (torch.zeros(2, 16, 8, device=DEVICE) for _ in range(2))
    for position in range(16):
        x, at = randn(2, 1, 8), torch.tensor([position], device=DEVICE)
        torch.testing.assert_close(compiled(ours, x, at), step(eager, x, at))
        torch.testing.assert_close(ours, eager)
    assert "CUDA graphs: 1 shapes" in said(compiled)


def test_what_waits_for_the_gpu_is_not_recorded() -> None:
    """And torch's generator works behind it."""

    def picks(x: Tensor) -> Tensor:
        return torch.nonzero(x > 0).float().sum() + x.sum()

    def inverts(x: Tensor) -> Tensor:
        return torch.linalg.inv(x @ x.mT + torch.eye(x.shape[-1], device=x.device)) + 1

    for function, size in ((picks, (9, 4)), (inverts, (5, 4, 4))):
        compiled = by_graphs(function)
        for _ in range(6):
            x = randn(*size)
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-3, atol=1e-3)
            assert torch.rand(3, device=DEVICE).max() <= 1
    x = randn(8)
    again = by_graphs(lambda x: x.sin() * 2)
    for _ in range(5):
        torch.testing.assert_close(again(x), x.sin() * 2)
    assert "CUDA graphs: 1 shapes" in said(again)


def test_streams_and_threads() -> None:
    compiled = by_graphs(block)
    w = randn(64, 64)
    compiled(randn(3, 64), w)
    wrong: list[str] = []

    def work(seed: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), torch.no_grad():
            stream.wait_stream(torch.cuda.default_stream())
            for step in range(40):
                x = torch.full((4 + step % 3, 64), float(seed + step), device=DEVICE)
                x += torch.arange(64.0, device=DEVICE)
                for ours, eager in zip(compiled(x, w), block(x, w), strict=True):
                    if not torch.allclose(ours, eager, rtol=1e-3, atol=1e-3):
                        wrong.append(f"{seed} {step}")
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_streams_to_record_with_are_nobody_elses() -> None:
    """Torch hands out its streams by turns: one that a user has may be another's as well, and
    graphs that run at the same time would have one workspace for products."""
    compiled = by_graphs(block)
    w = randn(64, 64)
    users = [torch.cuda.Stream() for _ in range(40)]
    for stream in users[:3]:
        with torch.cuda.stream(stream):
            for _ in range(5):
                compiled(randn(7, 64), w)
    torch.cuda.synchronize()
    own = [each.cuda_stream for pool in graph_pool._pools.values() for each in pool._streams]
    assert len(own) >= 12
    assert len({*own, *(stream.cuda_stream for stream in users)}) == len(own) + 32


def test_precision_is_as_it_was_set_last() -> None:
    def product(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return x @ w, x.sin()

    compiled = by_graphs(product)
    x, w = randn(256, 512), randn(512, 512)
    exact = x.double() @ w.double()
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    errors: dict[str, list[float]] = {"ieee": [], "tf32": []}
    try:
        for precision in ("ieee", "tf32", "ieee", "tf32"):
            matmul.fp32_precision = precision
            for _ in range(5):
                errors[precision].append(float((compiled(x, w)[0] - exact).abs().max()))
    finally:
        matmul.fp32_precision = before
    assert max(errors["ieee"]) < 1e-3 < min(errors["tf32"])


def test_inside_a_graph_of_the_user() -> None:
    compiled = by_graphs(block)
    w, x = randn(64, 64), randn(6, 64)
    for _ in range(5):
        compiled(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = compiled(x, w)
    x.copy_(randn(6, 64))
    graph.replay()
    for ours, eager in zip(found, block(x, w), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


def test_memory_is_stable_over_many_shapes() -> None:
    compiled = by_graphs(block)
    w = randn(64, 64)
    generator = torch.Generator().manual_seed(0)
    taken: list[int] = []
    for call in range(3000):
        n = int(torch.randint(1, 201, (), generator=generator))
        x = randn(n, 64)
        found = compiled(x, w)
        if call % 100 == 0:
            for ours, eager in zip(found, block(x, w), strict=True):
                torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
            torch.cuda.synchronize()
            taken.append(torch.cuda.memory_reserved())
    assert taken[-1] <= taken[10]
    assert compiled.stats().recompiles == 0


@pytest.fixture
def with_gradients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gradients, "DEVICE", DEVICE)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    with torch.enable_grad():
        yield


@pytest.mark.usefixtures("with_gradients")
@pytest.mark.parametrize("drop", [0.0, 0.4])
@pytest.mark.parametrize("name", gradients.SCENARIOS)
def test_gradients_are_eagers(name: str, drop: float) -> None:
    gradients.both(gradients.Loss(gradients.Network(drop))).check(gradients.SCENARIOS[name], 10)


@pytest.mark.usefixtures("with_gradients")
@pytest.mark.parametrize("name", ["plain", "shapes_by_turns", "two_pending", "retained"])
def test_forward_and_backward_are_replayed(name: str) -> None:
    pair = gradients.both()
    pair.check(gradients.SCENARIOS[name], 10)
    forward, backward = gradients.replays(pair)
    assert forward >= 6
    assert backward >= forward


@pytest.mark.usefixtures("with_gradients")
@pytest.mark.parametrize("kind", [gradients.Several, gradients.Staged])
@pytest.mark.parametrize("scenario", [gradients.all_results, gradients.one_after_the_other])
def test_several_results_with_gradients(kind: type[nn.Module], scenario: Any) -> None:
    gradients.both(kind()).check(scenario, 12)


@pytest.mark.usefixtures("with_gradients")
def test_statistics_are_written_in_training() -> None:
    pair = gradients.both(gradients.Loss(gradients.Normed()))
    pair.check(gradients.two_pending, 10)
    found, wanted = dict(pair.module.named_buffers()), dict(pair.eager.named_buffers())
    torch.testing.assert_close(found, wanted)
    assert gradients.replays(pair)[1] > 6


@pytest.mark.usefixtures("with_gradients")
def test_training_beside_answers() -> None:
    """Pending forwards, graphs without gradients and memory of the program use one stream."""
    pair = gradients.both()
    answers = by_graphs(block)
    w = randn(64, 64)

    def mixed(call: Any, module: nn.Module, step: int) -> None:
        losses = [call(gradients.x(4)), call(gradients.x(30))]
        noise = [torch.full((1 << n,), 1e9, device=DEVICE) for n in range(8, 20)]
        with torch.no_grad():
            x = torch.ones(9 + step % 2, 64, device=DEVICE)
            for ours, eager in zip(answers(x, w), block(x, w), strict=True):
                torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)
        del noise
        for loss in losses if step % 2 else losses[::-1]:
            loss.backward()

    pair.check(mixed, 20)
    assert gradients.replays(pair)[1] > 20


@pytest.mark.usefixtures("with_gradients")
def test_memory_of_training_is_that_of_the_largest_shape() -> None:
    pair = gradients.both()
    taken: list[int] = []
    for n in range(200, 0, -4):
        for _ in range(5):
            pair.module.zero_grad()
            pair.compiled(gradients.x(16 * n)).backward()
        torch.cuda.synchronize()
        taken.append(torch.cuda.memory_reserved())
    assert taken[-1] <= taken[5] + (8 << 20)


counts: list[int] = []


@torch.library.custom_op("anyshape_gpu_tests::counted", mutates_args=())
def counted(x: Tensor) -> Tensor:
    counts.append(1)
    return x + 1


@counted.register_fake
def counted_shape(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_code_in_python_runs_at_each_call() -> None:
    compiled = by_graphs(lambda x: counted(x * 2) * 3)
    x = randn(5, 4)
    compiled(x)
    counts.clear()
    for _ in range(6):
        torch.testing.assert_close(compiled(x), (x * 2 + 1) * 3)
    assert len(counts) == 6
    assert "no CUDA graphs" in said(compiled)


def test_an_index_out_of_range_is_told() -> None:
    """By torch or by us, as soon as somebody waits: not by a wrong answer. In a process of its own,
    since the GPU does not work for it any more."""
    text = output(
        """
        f = anyshape.compile(lambda t, i: t[i] * 2, dynamic=True, mode="reduce-overhead")
        t, i = torch.ones(4, device="cuda"), torch.zeros(3, dtype=torch.long, device="cuda")
        for _ in range(5):
            f(t, i)
        try:
            f(t, i + 9)
            torch.cuda.synchronize()
            f(t, i)
            print("nothing")
        except Exception as error:
            print("told")
        """
    )
    assert "told" in text
