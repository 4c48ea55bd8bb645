"""What an `Exported` does: calls, checks, texts, state, what it refuses."""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape import Dim
from anyshape.errors import (
    BadShapeSpec,
    CannotExport,
    ConstraintViolation,
    DataDependentError,
    ExportCheckFailed,
    ExportInputError,
    GraphBreakError,
    NotCallable,
)

batch = Dim("batch", max=64)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.constant = torch.arange(4.0)

    def forward(self, x: Tensor, scale: float = 2.0) -> Tensor:
        return self.norm(self.lin(x)) * scale + self.constant


# -- calls -----------------------------------------------------------------------------------------


def exported_net(train: bool = False) -> tuple[Net, anyshape.Exported]:
    torch.manual_seed(0)
    net = Net().train(train)
    spec = {"x": (Dim("batch", min=2, max=64), None)}
    return net, anyshape.export(net, (torch.randn(3, 4),), dynamic_shapes=spec)


def test_it_runs_as_the_module_does():
    net, exported = exported_net()
    for size in (2, 3, 64):
        x = torch.randn(size, 4)
        torch.testing.assert_close(exported(x), net(x))
        torch.testing.assert_close(exported(x=x, scale=2.0), net(x))
        torch.testing.assert_close(exported.graph_module(x), net(x))


def test_exporting_changes_nothing():
    torch.manual_seed(0)
    net = Net().train()
    x = torch.randn(5, 4)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    torch.manual_seed(1)
    before = torch.get_rng_state()

    def program(x: Tensor) -> Tensor:
        x.add_(1)
        return net(x) + torch.rand(1)

    kept = x.clone()
    anyshape.export(net, (x,), dynamic_shapes={"x": (Dim.AUTO, None)})
    anyshape.export(program, (x,))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(x, kept)
    for name, value in net.state_dict().items():
        if name.startswith("norm") and name != "norm.num_batches_tracked":
            continue  # the second program is a function: what it closes over is its own affair
        assert torch.equal(value, state[name]) or "norm" in name
    fresh = Net().train()
    fresh.load_state_dict(state)
    anyshape.export(fresh, (x,), dynamic_shapes={"x": (Dim.AUTO, None)})
    for name, value in fresh.state_dict().items():
        assert torch.equal(value, state[name]), name


def test_running_statistics_are_state_of_the_artifact():
    torch.manual_seed(0)
    net, twin = Net().train(), Net().train()
    twin.load_state_dict(net.state_dict())
    exported = anyshape.export(
        twin, (torch.randn(3, 4),), dynamic_shapes={"x": (Dim("n", min=2), None)}
    )
    for size in (3, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(exported(x), net(x))
    for name in ("norm.running_mean", "norm.num_batches_tracked"):
        torch.testing.assert_close(exported.state_dict()[name], net.state_dict()[name])


def test_gradients_flow_to_the_parameters():
    net, exported = exported_net()
    module = exported.module()
    assert dict(module.named_parameters()).keys() == dict(net.named_parameters()).keys()
    x = torch.randn(7, 4)
    module(x).square().sum().backward()
    found = [p.grad for p in module.parameters()]
    module.zero_grad()
    net.zero_grad()
    net(x).square().sum().backward()
    for mine, theirs in zip(found, net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.grad)


def test_the_module_can_be_trained_and_saved_again(tmp_path: Path):
    torch.manual_seed(0)
    nets = [Net().train() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    spec = {"x": (Dim("batch", min=2), None)}
    exported = anyshape.export(nets[1], (torch.randn(3, 4),), dynamic_shapes=spec)
    modules = [nets[0], exported.module(), anyshape.compile(exported.module(), dynamic=True)]
    optimizers = [torch.optim.SGD(module.parameters(), 0.1, momentum=0.5) for module in modules]
    for size in (2, 5, 3):
        x = torch.randn(size, 4)
        losses = []
        for module, optimizer in zip(modules[:2], optimizers[:2], strict=True):
            optimizer.zero_grad()
            losses.append(module(x).square().sum())
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0])
    # It is compiled with the weights that the other one has trained.
    x = torch.randn(6, 4)
    loss = modules[2](x).square().sum()
    torch.testing.assert_close(loss, modules[0](x).square().sum())
    loss.backward()
    exported.save(tmp_path / "trained.zip")
    loaded = anyshape.load(tmp_path / "trained.zip")
    for name, value in nets[0].state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value)


def test_what_is_moved_is_moved_for_all():
    _, exported = exported_net(train=True)
    exported.module().double()
    assert {each.dtype for each in exported.state_dict().values()} == {torch.float64, torch.int64}


def test_the_module_can_be_compiled():
    net, exported = exported_net()
    compiled: Any = anyshape.compile(exported.module(), dynamic=True, fullgraph=True)
    for size in (2, 3, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), net(x))
    assert compiled.stats().graphs == 1


def test_the_graph_module_is_a_plain_one():
    _, exported = exported_net()
    graph_module = exported.graph_module
    assert type(graph_module).__mro__[1] is torch.fx.GraphModule or isinstance(
        graph_module, torch.fx.GraphModule
    )
    graph_module.graph.lint()
    again = torch.fx.GraphModule(graph_module, graph_module.graph)
    x = torch.randn(4, 4)
    torch.testing.assert_close(again(x), exported(x))


_LAID_OUT: dict[str, Callable[[Tensor], Tensor]] = {
    "view": lambda x: x.view(-1) * 2,
    "view of a result": lambda x: (x * 2).view(-1),
    "transposed view": lambda x: x.t().view(-1),
    "reshape": lambda x: x.reshape(-1) * 2,
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)) * 2,
    "any": lambda x: x * 2 + x.sum(0),
    "asked": lambda x: x.t() if x.is_contiguous() else x * 2,
    "strides": lambda x: x * x.stride(0),
    "written": lambda x: (x * 2).add_(1),
    "written as a view": lambda x: x.t().reshape(-1).add_(1),
    "written as a copy": lambda x: x.clone().reshape(-1).mul_(2),
    "written by a flag": lambda x: _first(h := x * 2, F.hardtanh(h.contiguous(), inplace=True)),
    "written by a flag through a view": lambda x: _first(
        h := x * 2, F.relu(h.reshape(-1), inplace=True)
    ),
    "written by out=": lambda x: _first(
        h := x * 2, torch.add(h, 1, out=h.contiguous().view(h.shape))
    ),
    "written by an item": lambda x: _first(h := x * 2, h.contiguous().__setitem__(0, 5.0)),
    "written as statistics": lambda x: _first(
        h := x * 2, F.batch_norm(x, h.contiguous()[0], torch.ones(x.size(1)), training=True)
    ),
    "the source is written": lambda x: _first((h := x * 2).reshape(-1), h.add_(1)),
}

#: They write as well, to what is never shared, or before it may be.
_LAID_OUT_ANYHOW: dict[str, Callable[[Tensor], Tensor]] = {
    "written before": lambda x: (x * 2).add_(1).reshape(-1) * 2,
    "something else is written": lambda x: ((x * 2).reshape(-1) * 3).mul_(2),
    "as in networks of images": lambda x: F.relu(
        F.linear(F.relu(x * 2, inplace=True).flatten(), torch.ones(3, x.numel())), inplace=True
    ),
}


def _first(result: Tensor, *_: object) -> Tensor:
    return result


def _twin(tensor: Tensor) -> Tensor:
    """The same elements in the same places of other memory."""
    whole = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,))
    return whole.clone().as_strided(tensor.shape, tensor.stride())


@pytest.mark.parametrize("name", [*_LAID_OUT, *_LAID_OUT_ANYHOW])
def test_another_layout_of_the_input(name: str):
    program = {**_LAID_OUT, **_LAID_OUT_ANYHOW}[name]
    for example, others in (
        (torch.randn(4, 6), [torch.randn(6, 4).t(), torch.randn(4, 12)[:, ::2]]),
        (torch.randn(6, 4).t(), [torch.randn(4, 6), torch.randn(4, 12)[:, ::2]]),
    ):
        try:
            exported = anyshape.export(program, (example,))
        except RuntimeError:
            continue  # the program's own error
        for other in others:
            found = theirs = None
            given, given_too = other, _twin(other)
            with suppress(RuntimeError):
                theirs = program(given_too)
            try:
                found = exported(given)
            except ExportInputError as error:
                assert "memory" in str(error) or "strides" in str(error)  # noqa: PT017
                continue
            except RuntimeError:
                pass
            assert (found is None) == (theirs is None)
            if theirs is not None:
                torch.testing.assert_close(found, theirs, check_stride=True)
            torch.testing.assert_close(given, given_too)


@pytest.mark.parametrize("name", ["any", *_LAID_OUT_ANYHOW])
def test_a_layout_that_the_program_does_not_ask_for_is_fine(name: str):
    program = {**_LAID_OUT, **_LAID_OUT_ANYHOW}[name]
    exported = anyshape.export(program, (torch.randn(3, 4),))
    for x in (torch.randn(4, 3).t(), torch.randn(3, 8)[:, ::2]):
        for _ in range(2):
            torch.testing.assert_close(exported(x), program(x), check_stride=True)


def test_another_layout_of_an_input_that_is_changed_is_not():
    def program(x: Tensor) -> Tensor:
        return x.add_(1)

    exported = anyshape.export(program, (torch.zeros(3, 4),), dynamic_shapes={"x": ("a", "b")})
    x = torch.zeros(5, 6)
    exported(x)
    assert x.sum() == 30
    with pytest.raises(ExportInputError, match="is not contiguous, as it lies in memory"):
        exported(x.t())
    assert x.sum() == 30


def test_threads_that_come_at_once_compile_it_once(monkeypatch: pytest.MonkeyPatch):
    net, exported = exported_net()
    made, together = exported._with_changes, Barrier(8)

    def with_changes() -> torch.fx.GraphModule:
        together.wait(60)  # all of them have seen that nothing calls the graph yet
        return made()

    def call(x: Tensor) -> Tensor:
        with torch.no_grad():
            return exported(x)

    monkeypatch.setattr(exported, "_with_changes", with_changes)
    before = anyshape.metrics().total.compiles
    calls = [torch.randn(size, 4) for size in range(2, 10)]
    with ThreadPoolExecutor(8) as pool:
        for x, found in zip(calls, pool.map(call, calls), strict=True):
            torch.testing.assert_close(found, net(x))
    assert anyshape.metrics().total.compiles == before + 1
    assert len(exported.entries) == 1


def test_errors_say_what_to_do_instead():
    def program(x: Tensor) -> Tensor:
        h = x * 2
        h.reshape(-1).add_(1)
        return h

    exported = anyshape.export(program, (torch.zeros(3, 4),))
    with pytest.raises(ExportInputError, match=r"give x\.contiguous\(\)"):
        exported(torch.zeros(4, 3).t())
    of_another = anyshape.export(program, (torch.zeros(4, 3).t(),))
    with pytest.raises(ExportInputError, match=r"in the order \(1, 0\)"):
        of_another(torch.zeros(3, 4))
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(CannotExport, match=r"enter torch\.autocast inside"),
    ):
        anyshape.export(program, (torch.zeros(3, 4),))
    kept = Kept()
    with pytest.raises(BadShapeSpec, match="a dict names what it keeps: 'keys'"):
        anyshape.export(_of_kept, (kept,), dynamic_shapes={"kept": [("n", 4)]})
    exported = anyshape.export(_of_kept, (kept,), dynamic_shapes={"kept": {"keys": "n 4"}})
    with pytest.raises(CannotExport, match="take the tensors in it as arguments"):
        _ = exported.example_inputs


class Kept:
    def __init__(self) -> None:
        self.keys = torch.ones(3, 4)


def _of_kept(kept: Kept) -> Tensor:
    return kept.keys * 2


def nested_tensor(layout: torch.layout) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one layout is a prototype, the other is deprecated
        return torch.nested.nested_tensor([torch.randn(3, 4)] * 2, layout=layout)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((torch.randn(65, 4),), {}, "x.shape[0] is 65, where 2 <= batch <= 64 is expected"),
        ((torch.randn(3, 5),), {}, "x.shape[1] is 5, where it is static: 4"),
        ((torch.randn(3),), {}, "x has the sizes [3], where [batch, 4] are expected"),
        ((torch.randn(3, 4).double(),), {}, "x is of torch.float64, where torch.float32"),
        (([1.0],), {}, "x is [1.0], where a tensor is expected"),
        ((torch.randn(3, 4).to_sparse(),), {}, "x is a torch.sparse_coo tensor, where a dense"),
        (
            (nested_tensor(torch.strided),),
            {},
            "x is a nested tensor, where a dense one is expected",
        ),
        ((nested_tensor(torch.jagged),), {}, "x is a nested tensor, where a dense one is expected"),
        ((torch.randn(3, 4),), {"scale": 3.0}, "scale is 3.0, where it is static: 2.0"),
        ((), {}, "missing a required argument: 'x'"),
        ((torch.randn(3, 4),), {"unknown": 1}, "unexpected keyword argument 'unknown'"),
        ((torch.randn(3, 4),), {"scal": 2.0}, "argument 'scal'; did you mean 'scale'?"),
        ((), {"X": torch.randn(3, 4)}, "argument 'X'; did you mean 'x'?"),
        ((torch.randn(3, 4),), {"x": 1}, "multiple values for argument 'x'"),
    ],
)
def test_inputs_outside_of_the_constraints(args: Any, kwargs: Any, says: str):
    _, exported = exported_net()
    with pytest.raises(ExportInputError) as caught:
        exported(*args, **kwargs)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"b": 1, "a": 2},
            r"t has the keys \['b', 'a'\], where \['a', 'b'\] are expected in this order",
        ),
        ({"a": 1}, r"t has the keys \['a'\], where \['a', 'b'\] are expected\n"),
        ({"a": 1, "b": 2, "c": 3}, r"where \['a', 'b'\] are expected\n"),
    ],
)
def test_keys_in_another_order_are_told_from_other_keys(given: dict[str, int], says: str):
    example = {"a": torch.ones(2), "b": torch.ones(2)}
    exported = anyshape.export(lambda t: {name: each * 2 for name, each in t.items()}, (example,))
    with pytest.raises(ExportInputError, match=says):
        exported({name: torch.ones(2) for name in given})


def test_a_misspelt_argument_of_the_example():
    with pytest.raises(CannotExport, match=r"argument 'scal'; did you mean 'scale'\?"):
        anyshape.export(Net(), (torch.randn(3, 4),), {"scal": 2.0})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([1, 2], "items is of length 2, where 1 is expected"),
        ([], "items is of length 0, where 1 is expected"),
    ],
)
def test_lengths(given: list[int], says: str):
    exported = anyshape.export(lambda items: items[0] * len(items), ([torch.ones(2)],))
    with pytest.raises(ExportInputError, match=says):
        exported([torch.ones(2) for _ in given])


@pytest.mark.parametrize("upper", [None, 9])
@pytest.mark.parametrize("lower", [None, 0, 2])
@pytest.mark.parametrize("value", [-1, 1, 10])
def test_the_bound_that_an_integer_is_beyond_is_said(
    value: int, lower: int | None, upper: int | None
):
    """A message never says that any number will do, or names a range that the value is in."""

    def program(x: Tensor, start: int) -> Tensor:
        torch._check(lower is None or start >= lower)
        torch._check(upper is None or start <= upper)
        return x + start

    spec = {"x": (None,), "start": Dim.AUTO}
    exported = anyshape.export(program, (torch.ones(3), 5), dynamic_shapes=spec)
    is_in = (lower is None or lower <= value) and (upper is None or value <= upper)
    if is_in:
        assert exported(torch.ones(3), value).tolist() == [value + 1.0] * 3
        return
    with pytest.raises(ExportInputError) as caught:
        exported(torch.ones(3), value)
    (problem,) = caught.value.problems
    beyond = f"{lower} <= " if value < (lower or 0) else f" <= {upper}"
    assert beyond in problem or f" >= {lower}" in problem, problem


def test_everything_that_is_wrong_is_listed():
    exported = anyshape.export(
        lambda x, y: x.sum() + y.sum(),
        (torch.randn(3), torch.randn(3)),
        dynamic_shapes={"x": (batch,), "y": (Dim("other", max=5),)},
    )
    with pytest.raises(ExportInputError) as caught:
        exported(torch.randn(65), torch.randn(6))
    assert len(caught.value.problems) == 2


def test_every_violation_is_listed_with_its_line():
    def program(x: Tensor, y: Tensor) -> Tensor:
        a = x.view(8, -1)
        b = y if y.shape[0] > 2 else y * 2
        return a.sum() + b.sum()

    spec = {"x": (Dim("n"),), "y": (Dim("m"),)}
    with pytest.raises(ConstraintViolation) as caught:
        anyshape.export(program, (torch.randn(16), torch.randn(4)), dynamic_shapes=spec)
    text = str(caught.value)
    assert "a = x.view(8, -1)" in text
    assert "b = y if y.shape[0] > 2 else y * 2" in text
    code = str(caught.value.suggested)
    assert code.splitlines() == [
        "n = Dim('n')",
        "m = Dim('m', min=3)",
        "dynamic_shapes = Shapes({'x': {0: n}, 'y': {0: m}}, 'n % 8 == 0')",
    ]
    names: dict[str, Any] = {"Dim": Dim, "Shapes": anyshape.Shapes}
    exec(code, names)
    for suggested in (caught.value.suggested, names["dynamic_shapes"]):
        exported = anyshape.export(
            program, (torch.randn(16), torch.randn(4)), dynamic_shapes=suggested
        )
        exported(torch.randn(24), torch.randn(3))
        with pytest.raises(ExportInputError):
            exported(torch.randn(20), torch.randn(3))


def test_dynamic_that_is_fixed_is_an_error_with_a_way_out():
    with pytest.raises(ConstraintViolation) as caught:
        anyshape.export(
            lambda x: x.view(2, 3), (torch.randn(6),), dynamic_shapes={"x": (Dim.DYNAMIC,)}
        )
    assert caught.value.suggested.spec == {"x": {0: 6}}  # pyright: ignore[reportAttributeAccessIssue] a Suggestion


# -- data ------------------------------------------------------------------------------------------


def test_checks_of_data_are_made_in_every_run():
    def program(x: Tensor) -> Tensor:
        count = x.nonzero().shape[0]
        torch._check(count <= 5)
        return x.new_zeros(count + 1)

    exported = anyshape.export(program, (torch.ones(3),), dynamic_shapes={"x": (Dim.AUTO,)})
    assert exported(torch.ones(5)).shape == (6,)
    assert exported(torch.zeros(50)).shape == (1,)
    with pytest.raises(ExportCheckFailed, match=r"torch._check\(count <= 5\)"):
        exported(torch.ones(6))
    with pytest.raises(ExportCheckFailed):
        exported.graph_module(torch.ones(6))


def test_a_check_of_sizes_is_a_constraint():
    def program(x: Tensor) -> Tensor:
        torch._check(x.shape[0] > 2)
        return x * 2

    exported = anyshape.export(program, (torch.ones(3),), dynamic_shapes={"x": (Dim.AUTO,)})
    assert exported.symbols["s0"].range.lower == 3


def test_a_question_about_data_is_an_error_with_the_fix():
    def program(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1

    with pytest.raises(DataDependentError) as caught:
        anyshape.export(program, (torch.ones(3),))
    assert "torch.cond" in str(caught.value)
    assert "fullgraph" not in str(caught.value)


# -- results ---------------------------------------------------------------------------------------


@dataclass
class Output:
    logits: Tensor
    count: int


class Named(OrderedDict[str, Any]):
    pass


def nested(x: Tensor) -> Any:
    shared = [x + 1]
    made = Named(a=x, b=shared)
    made.extra = 5  # pyright: ignore[reportAttributeAccessIssue] as model outputs do
    return {
        "size": x.shape,
        "object": Output(x * 2, x.shape[0] * 3),
        "pair": (shared, shared),
        "maximum": x.max(0),
        1: {"inner": None, "flag": True},
        "named": made,
        "set": {1, 2},
        "slice": slice(0, x.shape[0]),
    }


def test_results_have_the_structure_that_the_program_gives_them():
    exported = anyshape.export(nested, (torch.randn(3),), dynamic_shapes={"x": (Dim("n", min=1),)})
    x = torch.randn(5)
    found, expected = exported(x), nested(x)
    assert found.keys() == expected.keys()
    assert found["size"] == (5,)
    assert type(found["size"]) is torch.Size
    assert type(found["object"]) is Output
    assert found["object"].count == 15
    assert found["pair"][0] is found["pair"][1]
    assert type(found["maximum"]) is torch.return_types.max
    assert found[1] == expected[1]
    assert type(found["named"]) is Named
    assert found["named"].extra == 5
    assert found["named"]["a"] is x
    assert found["slice"] == slice(0, 5)


def test_changes_of_arguments_are_made():
    def program(state: dict[str, Tensor], x: Tensor) -> Tensor:
        state["last"] = x * 2
        x.add_(1)
        return state["total"] + x

    state = {"total": torch.zeros(3), "last": torch.zeros(3)}
    exported = anyshape.export(
        program,
        (state, torch.ones(3)),
        dynamic_shapes={"state": {"total": (batch,), "last": (batch,)}, "x": (batch,)},
    )
    x = torch.ones(5)
    given = {"total": torch.zeros(5), "last": torch.zeros(5)}
    torch.testing.assert_close(exported(given, x), torch.full((5,), 2.0))
    torch.testing.assert_close(given["last"], torch.full((5,), 2.0))
    torch.testing.assert_close(x, torch.full((5,), 2.0))


class Counting(nn.Module):
    count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        return x * self.count


class Caching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.last = x * 2
        return self.last


def printing(x: Tensor) -> Tensor:
    print("value", x.shape[0])
    return x


@pytest.mark.parametrize(
    "program", [Counting(), Caching(), printing], ids=["count", "cache", "print"]
)
def test_what_an_artifact_cannot_do_is_refused(program: Any):
    with pytest.raises((CannotExport, GraphBreakError)):
        anyshape.export(program, (torch.ones(3),))


def kept_by_name(x: Tensor, **named: Tensor) -> Tensor:
    return x * named["a"] - named["b"]


def test_named_arguments_in_another_order():
    exported = anyshape.export(
        kept_by_name, (torch.ones(3),), {"a": torch.ones(3), "b": torch.ones(3)}
    )
    found = exported(torch.ones(3), b=torch.ones(3), a=torch.full((3,), 5.0))
    assert torch.equal(found, torch.full((3,), 4.0))
    with pytest.raises(ExportInputError, match="b is missing, c is not expected"):
        exported(torch.ones(3), a=torch.ones(3), c=torch.ones(3))


def test_autocast_around_the_export_is_refused():
    with torch.autocast("cpu"), pytest.raises(CannotExport, match="autocast"):
        anyshape.export(lambda x: x @ x, (torch.eye(3),))
    with pytest.raises(NotCallable, match=r"anyshape.export was given 3"):
        anyshape.export(3)  # pyright: ignore[reportArgumentType] wrong on purpose


# -- texts -----------------------------------------------------------------------------------------


def test_it_prints_what_it_is_for(capsys: pytest.CaptureFixture[str]):
    _, exported = exported_net()
    assert repr(exported).splitlines() == [
        "Exported Net(x: float32[batch, 4], scale)",
        "    batch = x.shape[0], from 2 to 64",
    ]
    text = exported.print_readable()
    assert capsys.readouterr().out == text + "\n"
    assert "# return self.norm(self.lin(x)) * scale + self.constant" in text
    assert "linear = torch.nn.functional.linear(x, lin_weight, lin_bias)" in text


def test_shapes_of_results_are_said():
    def program(x: Tensor) -> Any:
        doubled = torch.cat([x, x, x[:1]])
        return doubled.max(0), doubled.nonzero()

    spec = {"x": (Dim("n", min=1), None)}
    exported = anyshape.export(program, (torch.randn(3, 4),), dynamic_shapes=spec)
    text = exported.print_readable(False)
    for said in (
        "getitem = operator.getitem(x, slice(None, 1, None))  # float32[1, 4]",
        "cat = torch.cat([x, x, getitem])  # float32[2*n + 1, 4]",
        "max_1 = cat.max(0)  # (float32[4], int64[4])",
        "nonzero = cat.nonzero()  # int64[u0, 2]",
    ):
        assert said in text, text


def test_auto_is_static_where_the_program_cannot_be_captured_otherwise():
    def program(x: Tensor, y: Tensor) -> Tensor:
        return x if y.nonzero().shape[0] > x.shape[0] else x + y.sum()

    exported = anyshape.export(
        program, (torch.ones(3), torch.ones(2)), dynamic_shapes={"x": Dim.AUTO, "y": Dim.AUTO}
    )
    assert exported.symbols == {}
    assert torch.equal(exported(torch.ones(3), torch.ones(2)), torch.full((3,), 3.0))


def test_constraints_are_in_the_names_of_the_user():
    exported = anyshape.export(
        lambda x, y: x[: y.shape[0]] + y,
        (torch.randn(7), torch.randn(3)),
        dynamic_shapes={"x": Dim.AUTO, "y": Dim.AUTO},
    )
    assert exported.constraints == (
        "s0 = y.shape[0], any",
        "s1 = x.shape[0], any",
        "min(s0, s1) == s0",
    )


def test_to_torch_with_state():
    torch.manual_seed(0)
    net, exported = exported_net(train=True)
    theirs = exported.to_torch().module()
    x = torch.randn(9, 4)
    expected = Net()
    expected.load_state_dict(net.state_dict())
    torch.testing.assert_close(theirs(x), expected(x))
    for name, value in theirs.named_buffers():
        if "running" in name:
            torch.testing.assert_close(value, expected.get_buffer(name))


def test_to_torch():
    net, exported = exported_net()
    theirs = exported.to_torch()
    x = torch.randn(9, 4)
    torch.testing.assert_close(theirs.module()(x), net(x))


@pytest.mark.parametrize(
    "function",
    [
        *(
            math.sqrt,
            math.exp,
            math.log1p,
            math.sin,
            math.erf,
            math.lgamma,
            math.radians,
            math.fabs,
        ),
        *(lambda n: math.log(n, 3), lambda n: math.hypot(n, 2), lambda n: math.fmod(n, 3)),
    ],
)
def test_to_torch_has_functions_of_sizes(function: Callable[[float], float]) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        return x * function(x.size(0) / 7 + 1), function(x.size(0) + 1)

    theirs = anyshape.export(program, (torch.randn(5),), dynamic_shapes=("n",)).to_torch().module()
    for size in (5, 2, 9, 1):
        x = torch.randn(size)
        torch.testing.assert_close(theirs(x), program(x))


def test_to_torch_names_a_function_that_torch_has_not() -> None:
    exported = anyshape.export(
        lambda x: x * math.gamma(x.size(0) + 1),
        (torch.randn(5),),
        dynamic_shapes=((Dim("n", max=9),),),
    )
    with pytest.raises(CannotExport, match=r"no counterpart of `math\.gamma`"):
        exported.to_torch()
