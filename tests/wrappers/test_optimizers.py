"""Compiled optimizers as eager: parameters and state after each step, with a rate that changes at
each of them, and no graph more once the first changes were seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from anyshape.config import config
from tests.wrappers.optimizers import (
    ROWS,
    STEPS,
    Row,
    Told,
    gradients,
    graphs_of,
    parameters,
    train,
)
from tests.wrappers.programs import Compile, copied, difference, state

#: One of each kind; the others are slow together.
FAST = (
    Row("SGD", {"foreach": True, "momentum": 0.9, "nesterov": True}),
    Row("Adam", {"foreach": True, "amsgrad": True, "weight_decay": 0.1}),
    Row("AdamW", {"foreach": False}),
    Row("RMSprop", {"foreach": True, "momentum": 0.5, "centered": True}),
    Row("Adadelta", {"foreach": False, "lr": 0.5}),
    Row("Adamax", {"foreach": True}),
)
#: Steps until the rate is a dynamic number; from then on nothing is compiled.
SETTLED = 10
#: Most graphs of a step; those that branch on numbers of each parameter have some for each.
MOST = 6
MANY = {"RAdam": 24, "ASGD": 48, "Adafactor": 80}
#: It asks for numbers of each parameter: its function is split further, step after step.
UNSETTLED = frozenset({"Adafactor"})

identity: Compile = lambda function: function  # noqa: E731


def check(row: Row, between: Callable[..., None] = lambda *_: None, most: int = MOST) -> Told:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = train(identity, row, between)
        found = train(anyshape.compile, row, between)
    assert difference(expected.steps, found.steps) is None
    assert 0 < found.graphs[-1] <= MANY.get(row.kind, most)
    return found


def check_settles(row: Row) -> None:
    found = check(row)
    if row.kind not in UNSETTLED:
        assert found.graphs[SETTLED:] == found.graphs[-1:] * (STEPS - SETTLED)


@pytest.mark.parametrize("row", FAST, ids=lambda row: row.name)
def test_as_eager_with_a_changing_rate(row: Row):
    check_settles(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_optimizer(row: Row):
    check_settles(row)


def test_sparse_gradients():
    def run(compile: Compile) -> list[Any]:
        params = parameters(((6, 3), (4, 3)))
        optimizer = torch.optim.SparseAdam(params, lr=0.1)
        step = compile(optimizer.step)
        told: list[Any] = []
        for index in gradients(params, 8):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + index)
            for param in params:
                grad = param.grad
                assert grad is not None
                rows = torch.tensor([index % 3, 3])
                param.grad = torch.sparse_coo_tensor(
                    rows[None], grad[:2], param.shape, check_invariants=True
                )
            step()
            told.append(([copied(each) for each in params], state(optimizer)))
        return told

    assert difference(run(identity), run(anyshape.compile)) is None


def test_a_closure_that_is_called_several_times():
    def run(compile: Compile) -> list[Any]:
        params = parameters(((4, 3), (3,)))
        optimizer = torch.optim.LBFGS(params, lr=0.5, max_iter=3)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = sum(((each - 1) ** 2).sum() for each in params)
            assert isinstance(loss, torch.Tensor)
            loss.backward()
            return loss

        step = compile(optimizer.step)
        told: list[Any] = []
        for _ in range(5):
            told.append((copied(step(closure)), [copied(each) for each in params]))
        return told

    assert difference(run(identity), run(anyshape.compile)) is None


@pytest.mark.parametrize("foreach", [True, False])
def test_parameters_without_gradients(foreach: bool):
    def between(index: int, params: list[nn.Parameter], optimizer: Any) -> None:
        if index % 4 == 1:
            params[1].grad = None
        if index % 4 == 2:
            params[0].grad = params[3].grad = None

    check(Row("AdamW", {"foreach": foreach}), between, most=14)


@pytest.mark.parametrize("foreach", [True, False])
def test_groups_and_state_that_come_later(foreach: bool):
    kept: list[Any] = []

    def between(index: int, params: list[nn.Parameter], optimizer: Any) -> None:
        if index == 0:
            kept.clear()
        if index == 5:
            extra = nn.Parameter(torch.ones(2, 3))
            extra.grad = torch.full_like(extra, 0.5)
            optimizer.add_param_group({"params": [extra], "lr": 0.5})
        if index == 6:
            kept.append(optimizer.state_dict())
        if index == 9:
            optimizer.load_state_dict(kept[0])

    check(Row("Adam", {"foreach": foreach}), between, most=10)


def test_other_shapes_are_other_graphs_and_as_right():
    """One compiled function for optimizers of several networks."""

    def run(compile: Compile) -> list[Any]:
        def update(optimizer: Any) -> None:
            optimizer.step()

        compiled = compile(update)
        told: list[Any] = []
        for shapes in (((4, 3), (3,)), ((2, 7), (7,)), ((5,),)):
            params = parameters(shapes)
            optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
            for _ in gradients(params, 6):
                compiled(optimizer)
                told.append([copied(each) for each in params])
        return told

    assert difference(run(identity), run(anyshape.compile)) is None


def _clipped(params: list[nn.Parameter], foreach: bool) -> torch.Tensor:
    norm = nn.utils.clip_grad_norm_(params, 0.5, foreach=foreach)
    nn.utils.clip_grad_value_(params, 0.1, foreach=foreach)
    return norm


@pytest.mark.parametrize("foreach", [True, False])
def test_clipping(foreach: bool):
    def run(compile: Compile, *, inside: bool) -> list[Any]:
        params = parameters()
        optimizer = torch.optim.SGD(params, lr=0.1)

        def update() -> torch.Tensor:
            norm = _clipped(params, foreach)
            optimizer.step()
            return norm

        compiled = compile(update if inside else lambda: _clipped(params, foreach))
        told: list[Any] = []
        for _ in gradients(params, 8):
            norm = compiled()
            if not inside:
                optimizer.step()
            told.append((copied(norm), [copied(each) for each in params]))
        if compile is not identity:
            assert 0 < graphs_of(compiled) <= 10
        return told

    for inside in (True, False):
        expected, found = (run(each, inside=inside) for each in (identity, anyshape.compile))
        assert difference(expected, found) is None


def test_averages_of_parameters():
    def run(compile: Compile) -> list[Any]:
        params = parameters()
        net = nn.ParameterList(params)
        average = torch.optim.swa_utils.AveragedModel(
            net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        optimizer = torch.optim.SGD(params, lr=0.1)

        @compile
        def update() -> None:
            optimizer.step()
            average.update_parameters(net)

        told: list[Any] = []
        for _ in gradients(params, 10):
            update()
            told.append(state(net, average))
        return told

    assert difference(run(identity), run(anyshape.compile)) is None


def test_averages_as_lists():
    lerp: Any = getattr(torch, "_foreach_lerp_")  # noqa: B009 no stub has it

    def run(compile: Compile) -> list[Any]:
        params = [copied(each) for each in parameters()]
        averages = [torch.zeros_like(each) for each in params]
        update = compile(lambda weight: lerp(averages, params, weight))
        told: list[Any] = []
        for step in range(8):
            update(1 / (step + 2))
            told.append([copied(each) for each in averages])
        if compile is not identity:
            assert update.stats().graphs <= 2
        return told

    with config.patch(specialize_float=False):
        assert difference(run(identity), run(anyshape.compile)) is None


def test_scaled_gradients():
    def run(compile: Compile) -> list[Any]:
        params = parameters()
        optimizer = torch.optim.AdamW(params, lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
        update = compile(lambda: scaler.step(optimizer))
        told: list[Any] = []
        for index in gradients(params, 10):
            scaler.scale(torch.zeros(()))
            if index == 6:
                grad = params[0].grad
                assert grad is not None
                grad[0, 0] = float("inf")
            update()
            scaler.update()
            told.append(([copied(each) for each in params], state(optimizer), scaler.get_scale()))
        return told

    assert difference(run(identity), run(anyshape.compile)) is None


@pytest.mark.parametrize("foreach", [True, False])
def test_many_equal_parameters(foreach: bool):
    """Parts of the graph that are equal are lowered once; they write to what is their own."""
    shapes = ((4, 3), (3,)) * 30

    def run(compile: Compile) -> list[Any]:
        params = parameters(shapes)
        optimizer = torch.optim.AdamW(params, lr=0.1, foreach=foreach)
        step = compile(optimizer.step)
        told: list[Any] = []
        for index in gradients(params, 8):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + index)
            before = [each._version for each in params]
            step()
            versions = [each._version - old for each, old in zip(params, before, strict=True)]
            told.append((versions, [copied(each) for each in params], state(optimizer)))
        return told

    assert difference(run(identity), run(anyshape.compile)) is None


def test_gradients_of_another_kind_are_seen():
    """Many tensors are compared at a glance: whatever is not as it was is looked at."""

    def run(compile: Compile) -> list[Any]:
        params = parameters(((4, 4),) * 16)
        optimizer = torch.optim.SGD(params, lr=0.1)
        step = compile(optimizer.step)
        told: list[Any] = []
        for index in gradients(params, 14):
            grad = params[index % 16].grad
            assert grad is not None
            if index == 7:
                params[7].grad = grad.t()
            if index == 8:
                params[8].grad = torch.zeros(4, 8)[:, ::2].copy_(grad)
            if index == 9:
                params[9].grad = grad.expand(4, 4).clone().requires_grad_()
            if index == 10:
                params[3].requires_grad_(False)
            if index == 11:
                params[11].grad = params[10].grad
            if index == 12:
                params[12].data = torch.ones(4, 4).t()
            step()
            told.append([copied(each) for each in params])
        return told

    assert difference(run(identity), run(anyshape.compile)) is None


def test_factors_that_are_computed():
    """As numbers, as tensors of one element, and where torch refuses them."""

    @anyshape.compile
    def step(x: torch.Tensor, y: torch.Tensor, rate: float) -> torch.Tensor:
        x.add_(y, alpha=-rate)
        x.sub_(y, alpha=rate * 0.5)
        x.addcmul_(y, y, value=rate + 1)
        x.addcdiv_(y, y.abs() + 1, value=-rate)
        x.lerp_(y, rate)
        factor: Any = y.new_full((), 0.5) * rate
        return x.add(y, alpha=factor)

    for dtype in (torch.float32, torch.float64):
        for index in range(6):
            x, y = torch.randn(3, 4 + index, dtype=dtype), torch.randn(3, 4 + index, dtype=dtype)
            eager, rate = x.clone(), 0.1 / (1 + index)
            expected = step.__wrapped__(eager, y, rate)
            assert difference([expected, eager], [step(x, y, rate), x]) is None
    report = str(step.explain())
    assert "torch is called for" not in report
    with pytest.raises(RuntimeError, match="without overflow"):
        step(torch.ones(3, 4), torch.ones(3, 4), 1e300)


# -- schedulers ask a method for its function ------------------------------------------------------

SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "one after the other": lambda optimizer: torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3),
            torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
        ],
        [3],
    ),
}


def _scheduled(compiles: Compile, kind: Any, scheduler: str) -> tuple[list[Any], Any]:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    optimizer = kind(model.parameters(), lr=0.05)
    step = optimizer.step = compiles(optimizer.step)
    schedule = SCHEDULERS[scheduler](optimizer)
    told: list[Any] = []
    for n in range(3, 15):
        optimizer.zero_grad()
        model(torch.ones(n, 4)).square().mean().backward()
        optimizer.step()
        schedule.step()
        told += [optimizer.param_groups[0]["lr"], model.weight.detach().clone()]
    return told, step


@pytest.mark.filterwarnings("error:.*optimizer.step")
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_a_scheduler_is_made_of_a_compiled_step(kind: Any, scheduler: str) -> None:
    expected, _ = _scheduled(identity, kind, scheduler)
    found, step = _scheduled(anyshape.compile, kind, scheduler)
    assert difference(expected, found) is None
    assert step.stats().graphs  # what the scheduler calls is this one
    assert step.stats().hits


def test_the_function_of_a_compiled_method() -> None:
    class Counter:
        def __init__(self) -> None:
            self.by = torch.ones(3)

        def add(self, x: torch.Tensor, times: int = 1) -> torch.Tensor:
            return x + self.by * times

    one, other = Counter(), Counter()
    other.by = torch.zeros(3)
    add = anyshape.compile(one.add)
    assert add.__self__ is one
    function: Any = add.__func__
    assert function.__name__ == "add"
    assert function.__get__(one, Counter) is add
    x = torch.ones(3)
    assert function(one, x, times=2).tolist() == [3.0] * 3
    assert function.__get__(other, Counter)(x).tolist() == [1.0] * 3
    assert not hasattr(anyshape.compile(lambda x: x), "__func__")
    assert not hasattr(anyshape.compile(Counter.add), "__self__")
