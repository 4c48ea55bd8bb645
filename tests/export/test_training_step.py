"""Exported training steps: loss, gradients, state and parameters are those of eager code, at any
size, in a process that has none of the program."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import anyshape
from anyshape import Dim, errors
from anyshape.ops.families.autograd_gradients import gradients
from tests.export.training_programs import (
    BY_AUTOGRAD,
    PROGRAMS,
    RUN,
    After,
    Step,
    after,
    mlp,
    rows,
    run_eagerly,
)

_SPEC = {"x": ("n", None), "y": ("n",)}
_NET = mlp()


def _close(found: After, expected: After) -> None:
    torch.testing.assert_close(found.result, expected.result, equal_nan=True)
    for name, value in expected.state.items():
        _alike(found.state[name], value)
    assert {name for name, grad in expected.grads.items() if grad is not None} == {
        name for name, grad in found.grads.items() if grad is not None
    }
    for name, grad in expected.grads.items():
        if grad is not None:
            _alike(found.grads[name], grad)


def _alike(found: Tensor | None, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def _operators(ep: anyshape.Exported) -> set[Any]:
    return {node.target for node in ep.graph.nodes}


# -- packages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["", "trusted"])
def test_packages_train_as_eager_code_does_in_another_process(tmp_path: Path, trust: str) -> None:
    names = list(PROGRAMS) if not trust else ["sgd", "conv and batch norm", "transformer layer"]
    expected: dict[str, list[After]] = {}
    for name in names:
        torch.manual_seed(0)
        program = PROGRAMS[name]
        step = program.make()
        batches = [program.batch(size) for size in program.sizes]
        expected[name] = list(run_eagerly(step, batches))
        before = copy.deepcopy(step.state_dict())
        ep = anyshape.export(step, program.batch(4), dynamic_shapes=program.spec)
        assert (gradients in _operators(ep)) == (name in BY_AUTOGRAD), name
        ep.save(tmp_path / f"{name}.zip", native_code=bool(trust))
        # Neither of it has trained the program itself.
        for key, value in step.state_dict().items():
            torch.testing.assert_close(value, before[key], rtol=0, atol=0)
        assert all(each.grad is None for each in step.parameters())
        torch.save(batches, tmp_path / f"{name}.batches")
    command = [sys.executable, "-c", RUN, ",".join(names), str(tmp_path), trust]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=240)
    for name in names:
        for run in torch.load(tmp_path / f"{name}.results", weights_only=True):
            for found, there in zip(run, expected[name], strict=True):
                _close(After(*found), there)


def test_it_says_what_a_call_changes_and_which_gradients_it_gives(tmp_path: Path) -> None:
    step = Step(nn.Linear(8, 3), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5))
    ep = anyshape.export(step, rows(3), dynamic_shapes=_SPEC)
    ep.save(tmp_path / "step.zip")
    for each in (ep, anyshape.load(tmp_path / "step.zip")):
        assert each.gradients == ("net.weight", "net.bias")
        assert set(each.changes) == {
            *("net.weight", "net.bias"),
            *("optimizer.momentum_buffer.0", "optimizer.momentum_buffer.1"),
        }


# -- gradients -------------------------------------------------------------------------------------


def test_gradients_are_results_by_the_names_of_their_parameters() -> None:
    net = mlp()
    parameters = dict(net.named_parameters())

    def joint(x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        loss = F.cross_entropy(net(x), y)
        grads = torch.autograd.grad(loss, list(parameters.values()))
        return loss.detach(), dict(zip(parameters, grads, strict=True))

    ep = anyshape.export(joint, rows(3), dynamic_shapes=_SPEC)
    assert gradients not in _operators(ep)
    assert [name for name, _ in ep.graph_module.named_parameters()] == [
        f"net.{k}" for k in parameters
    ]
    for size in (5, 1, 2, 0):
        batch = rows(size)
        for found, expected in zip(ep(*batch), joint(*batch), strict=True):
            torch.testing.assert_close(found, expected, equal_nan=True)


def test_gradients_that_nobody_reads_are_added_to_those_that_are_there() -> None:
    net = mlp()
    twin = copy.deepcopy(net)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    ep = anyshape.export(step, rows(3), dynamic_shapes=_SPEC)
    for size in (4, 1, 6):
        batch = rows(size)
        ep(*batch)
        F.cross_entropy(twin(batch[0]), batch[1]).backward()
    for own, other in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own.grad, other.grad)


def test_gradients_that_are_read_are_not_those_of_another_call() -> None:
    net = nn.Linear(8, 3)

    def step(x: Tensor, y: Tensor) -> Any:
        F.cross_entropy(net(x), y).backward()
        return net.weight.grad

    ep = anyshape.export(step, rows(3), dynamic_shapes=_SPEC)
    ep(*rows(2))
    with pytest.raises(errors.ExportCheckFailed, match=r"(?s)net\.weight\.grad is None.*zero_grad"):
        ep(*rows(2))
    net.zero_grad()
    ep(*rows(2))


def test_an_argument_has_a_gradient_too() -> None:
    def saliency(x: Tensor) -> Any:
        x.sin().sum().backward()
        return x.grad

    given = torch.randn(3, requires_grad=True)
    ep = anyshape.export(saliency, (given,), dynamic_shapes={"x": ("n",)})
    assert given.grad is None
    assert ep.gradients == ("x",)
    for size in (5, 1, 0):
        x = torch.randn(size, requires_grad=True)
        torch.testing.assert_close(ep(x), x.cos().detach())
        torch.testing.assert_close(x.grad, x.cos().detach())


def test_gradients_share_no_memory() -> None:
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

    def step(x: Tensor) -> Tensor:
        loss = (x + a + b).sum()
        loss.backward()
        return loss

    ep = anyshape.export(step, (torch.ones(3),))
    ep(torch.ones(3))
    assert a.grad is not None
    assert b.grad is not None
    a.grad.add_(1)
    assert b.grad.tolist() == [1, 1, 1]


def test_what_is_frozen_or_not_used_has_no_gradient() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(3, 3))
    net[0].requires_grad_(False)
    step = Step(net[:2])
    ep = anyshape.export(step, rows(3), dynamic_shapes=_SPEC)
    assert set(ep.gradients) == {"net.1.weight", "net.1.bias"}


def test_gradients_of_two_losses_are_left_to_autograd() -> None:
    net, twin = nn.Linear(8, 3), nn.Linear(8, 3)
    twin.load_state_dict(net.state_dict())

    def two(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        found = net(x)
        F.cross_entropy(found, y).backward(retain_graph=True)
        found.square().mean().backward()
        return found.detach()

    ep = anyshape.export(lambda x, y: two(net, x, y), rows(3), dynamic_shapes=_SPEC)
    assert "more than once" in ep.notes[0]
    batch = rows(6)
    ep(*batch)
    two(twin, *batch)
    torch.testing.assert_close(net.weight.grad, twin.weight.grad)


def _of_several(x: Tensor, y: Tensor) -> Tensor:
    found = _NET(x)
    loss = F.cross_entropy(found, y)
    torch.autograd.backward([loss, found.square().mean()])
    return loss.detach()


def _of_some(x: Tensor, y: Tensor) -> Tensor:
    loss = F.cross_entropy(_NET(x), y)
    loss.backward(inputs=list(_NET.parameters())[:1])
    return loss.detach()


def _weighted(x: Tensor, y: Tensor) -> Tensor:
    found = _NET(x)
    found.backward((x[:, :3] * 2).t().contiguous().t())
    return found.detach()


def _of_a_copy(x: Tensor, y: Tensor) -> Any:
    own: Any = x.clone().requires_grad_()
    F.cross_entropy(_NET(own), y).backward()
    return (own + 0.1 * own.grad.sign()).detach()


def _in_two_parts(x: Tensor, y: Tensor) -> Tensor:
    _NET.zero_grad()
    for factor in (1, 2):
        (F.cross_entropy(_NET(x * factor), y) / 2).backward()
    return x


def _with_autocast(x: Tensor, y: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(_NET(x).float(), y)
    loss.backward()
    return loss.detach()


@pytest.mark.parametrize(
    ("program", "by_autograd"),
    [
        (_of_several, False),
        (_of_some, False),
        (_weighted, False),
        (_of_a_copy, True),
        (_in_two_parts, True),
        (_with_autocast, True),
    ],
)
@pytest.mark.parametrize("size", ["n", Dim.AUTO])
def test_forms_of_backward(tmp_path: Path, program: Any, by_autograd: bool, size: Any) -> None:
    _NET.zero_grad()
    ep = anyshape.export(program, rows(3), dynamic_shapes={"x": (size, Dim.STATIC), "y": (size,)})
    assert (gradients in _operators(ep)) == by_autograd
    assert any("autograd" in note for note in ep.notes) == by_autograd
    ep.save(tmp_path / "step.zip")
    loaded = anyshape.load(tmp_path / "step.zip")
    for count in (5, 1, 2, 0):
        batch = rows(count)
        _NET.zero_grad()
        loaded.graph_module.zero_grad()
        _alike(loaded(*batch), program(*batch))
        for name, own in loaded.graph_module.named_parameters():
            other = _NET.get_parameter(name.removeprefix("_NET."))
            assert (own.grad is None) == (other.grad is None)
            if other.grad is not None:
                _alike(own.grad, other.grad)
    _NET.zero_grad()


def test_the_mode_of_the_caller_stays() -> None:
    ep = anyshape.export(Step(nn.Linear(8, 3)), rows(3), dynamic_shapes=_SPEC)
    with torch.no_grad():
        ep(*rows(2))
        assert not torch.is_grad_enabled()
    ep(*rows(2))
    assert torch.is_grad_enabled()


# -- updates by hand -------------------------------------------------------------------------------


def test_parameters_are_updated_by_hand() -> None:
    net = mlp()
    twin = copy.deepcopy(net)

    def step(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(net(x), y)
        parameters = list(net.parameters())
        grads = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for each, grad in zip(parameters, grads, strict=True):
                each -= 0.1 * grad
        return loss.detach()

    ep = anyshape.export(lambda x, y: step(net, x, y), rows(3), dynamic_shapes=_SPEC)
    assert len(ep.changes) == len(list(net.parameters()))
    for size in (5, 1, 2, 9):
        batch = rows(size)
        torch.testing.assert_close(ep(*batch), step(twin, *batch))
    for own, other in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own, other)


def test_a_scheduler_outside_changes_a_rate_that_is_a_tensor(tmp_path: Path) -> None:
    step = Step(mlp(), lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01)))
    twin = copy.deepcopy(step)
    ep = anyshape.export(step, rows(3), dynamic_shapes=_SPEC)
    ep.save(tmp_path / "step.zip")
    loaded = anyshape.load(tmp_path / "step.zip")
    for rate in (0.01, 0.005, 0.1):
        batch = rows(4)
        loaded.state_dict()["optimizer.lr.0"].fill_(rate)
        assert twin.optimizer is not None
        twin.optimizer.param_groups[0]["lr"].fill_(rate)
        torch.testing.assert_close(loaded(*batch), twin(*batch))
    for name, value in twin.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value)


# -- a package that is trained further -------------------------------------------------------------


def test_a_loaded_module_is_trained_from_outside(tmp_path: Path) -> None:
    net = nn.Sequential(mlp(), nn.BatchNorm1d(3))
    ep = anyshape.export(
        net, (torch.randn(4, 8),), dynamic_shapes={"input": (Dim("n", min=2), None)}
    )
    ep.save(tmp_path / "net.zip")
    loaded = anyshape.load(tmp_path / "net.zip")
    mine = torch.optim.SGD(loaded.graph_module.parameters(), lr=0.1)
    theirs = torch.optim.SGD(net.parameters(), lr=0.1)
    for size in (5, 2, 7, 3):
        x, y = rows(size)
        for program, optimizer in ((loaded, mine), (net, theirs)):
            optimizer.zero_grad()
            F.cross_entropy(program(x), y).backward()
            optimizer.step()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value)


# -- what cannot be exported -----------------------------------------------------------------------


def _loss(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(_NET(x), y)


def _penalty(x: Tensor, y: Tensor) -> Tensor:
    (grad,) = torch.autograd.grad(_loss(x, y), list(_NET.parameters())[:1], create_graph=True)
    return grad.norm()


def _zeros(x: Tensor, y: Tensor) -> None:
    _NET.zero_grad(set_to_none=False)
    _loss(x, y).backward()


def _if_large(x: Tensor, y: Tensor) -> None:
    if _loss(x, y) > 1:
        _loss(x, y).backward()


_SPARSE = nn.Embedding(5, 4, sparse=True)


def _sparse(x: Tensor, y: Tensor) -> None:
    _SPARSE(y).sum().backward()


_RPROP = torch.optim.Rprop(_NET.parameters())
_DAMPENED = torch.optim.SGD(_NET.parameters(), lr=0.1, momentum=0.9, dampening=0.5)
_SCHEDULED = torch.optim.SGD(_NET.parameters(), lr=0.1)
_SCHEDULER = torch.optim.lr_scheduler.StepLR(_SCHEDULED, 1)


def _other_optimizer(x: Tensor, y: Tensor) -> None:
    _loss(x, y).backward()
    _RPROP.step()


def _dampened(x: Tensor, y: Tensor) -> None:
    _loss(x, y).backward()
    _DAMPENED.step()


def _scheduled(x: Tensor, y: Tensor) -> None:
    _loss(x, y).backward()
    _SCHEDULED.step()
    _SCHEDULER.step()


@pytest.mark.parametrize(
    ("program", "said", "line"),
    [
        (_penalty, "create_graph=True", "create_graph=True)"),
        (_zeros, "set_to_none=False", "set_to_none=False)"),
        (_if_large, "branches on a tensor's value", "if _loss"),
        (_sparse, "sparse gradient", "backward()"),
        (_other_optimizer, "`Rprop.step` is not exported", "_RPROP.step()"),
        (_dampened, "call `step\\(\\)` once before", "_DAMPENED.step()"),
        (_scheduled, "have the rate in a tensor", "_SCHEDULER.step()"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_exported_says_why_and_where(program: Any, said: str, line: str) -> None:
    _NET.zero_grad()
    state = copy.deepcopy(_NET.state_dict())
    with pytest.raises((errors.GraphBreakError, errors.DataDependentError), match=said) as raised:
        anyshape.export(program, rows(3), dynamic_shapes=_SPEC)
    where = str(raised.value).rpartition("at:  ")[2]
    number = int(where.rpartition(" in ")[0].rpartition(":")[2])
    assert line in Path(__file__).read_text().splitlines()[number - 1]
    # The program has not gone on by itself.
    assert all(each.grad is None for each in _NET.parameters())
    for name, value in _NET.state_dict().items():
        torch.testing.assert_close(value, state[name], rtol=0, atol=0)
    _NET.zero_grad()


def test_a_program_that_cannot_be_captured_does_not_train() -> None:
    step = Step(nn.Linear(8, 3), lambda p: torch.optim.AdamW(p, lr=0.1))
    before = copy.deepcopy(step.state_dict())

    def program(x: Tensor, y: Tensor) -> Tensor:
        print(x.numpy().sum())
        return step(x, y)

    with pytest.raises(errors.GraphBreakError, match="numpy"):
        anyshape.export(program, rows(3), dynamic_shapes={"x": (Dim.AUTO, None), "y": (Dim.AUTO,)})
    assert step.optimizer is not None
    assert not step.optimizer.state
    for name, value in step.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_data_is_updated_by_hand() -> None:
    net = mlp()
    twin = copy.deepcopy(net)

    def step(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        net.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        for each in net.parameters():
            each.data -= 0.1 * each.grad  # pyright: ignore[reportOperatorIssue]
        return loss.detach()

    ep = anyshape.export(lambda x, y: step(net, x, y), rows(3), dynamic_shapes=_SPEC)
    for size in (5, 1, 2, 9):
        batch = rows(size)
        torch.testing.assert_close(ep(*batch), step(twin, *batch))
    for own, other in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(own, other)
        torch.testing.assert_close(own.grad, other.grad)


def test_hooks_of_gradients_are_refused() -> None:
    net = nn.Linear(8, 3)
    net.weight.register_hook(lambda grad: grad * 2)
    with pytest.raises(errors.GraphBreakError, match="hooks"):
        anyshape.export(Step(net), rows(3), dynamic_shapes=_SPEC)


def test_a_package_takes_no_module_as_an_argument(tmp_path: Path) -> None:
    def step(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss.detach()

    net = mlp()
    ep = anyshape.export(step, (net, *rows(3)), dynamic_shapes=_SPEC)
    ep(net, *rows(5))
    assert net[0].weight.grad is not None
    with pytest.raises(errors.CannotExport, match="a module that is given as an argument"):
        ep.save(tmp_path / "step.zip")


def test_onnx_has_no_place_for_a_step(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    ep = anyshape.export(Step(nn.Linear(8, 3)), rows(3), dynamic_shapes=_SPEC)
    with pytest.raises(errors.CannotExport, match="backward"):
        ep.to_onnx(tmp_path / "step.onnx")


def test_a_step_that_is_run_again_is_the_same(tmp_path: Path) -> None:
    """Two that were loaded of one file do not share anything."""
    step = Step(mlp(), lambda p: torch.optim.SGD(p, lr=0.1))
    ep = anyshape.export(step, rows(3), dynamic_shapes=_SPEC)
    ep.save(tmp_path / "step.zip")
    first, second = (anyshape.load(tmp_path / "step.zip") for _ in range(2))
    batch = rows(4)
    found = after(first(*batch), first.graph_module)
    first(*batch)
    _close(after(second(*batch), second.graph_module), found)


def test_gradients_are_for_what_required_grad_in_the_export() -> None:
    net = nn.Linear(8, 3)
    ep = anyshape.export(Step(net), rows(3), dynamic_shapes=_SPEC)
    x, y = rows(4)
    with pytest.raises(errors.ExportCheckFailed, match=r"x\.requires_grad is False"):
        ep(x.requires_grad_(), y)
    net.bias.requires_grad_(False)
    with pytest.raises(errors.ExportCheckFailed, match=r"net\.bias\.requires_grad is True"):
        ep(*rows(4))


def test_what_the_program_itself_makes_require_grad() -> None:
    def step(w: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        w.requires_grad_()
        loss = (x @ w).tanh().pow(2).mean()
        (grad,) = torch.autograd.grad(loss, w)
        return (w - 0.1 * grad).detach(), loss.detach()

    spec = {"w": None, "x": (anyshape.Dim("rows"), None)}
    ep = anyshape.export(step, (torch.randn(4, 2), torch.randn(3, 4)), dynamic_shapes=spec)
    for count in (3, 1, 7):
        w, x = torch.randn(4, 2), torch.randn(count, 4)
        own = w.clone()
        torch.testing.assert_close(ep(own, x), step(w, x))
        assert own.requires_grad is w.requires_grad
    with pytest.raises(errors.ExportCheckFailed, match=r"w\.requires_grad is False"):
        ep(own, x)


def test_a_loss_without_gradients_is_the_error_that_it_is() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        anyshape.export(lambda x: x.sum().backward(), (torch.ones(3),))
