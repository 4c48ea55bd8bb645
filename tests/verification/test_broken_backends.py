"""Backends that get one thing wrong each: every one of them is caught, by what it gets wrong."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape import config
from anyshape.errors import VerificationError
from anyshape.events import kinds
from anyshape.events.stream import stream

Change = Callable[[Tensor], Any]


def breaking(change: Callable[[Sequence[Any], Callable[..., Any], tuple[Any, ...]], Any]) -> Any:
    """A backend that runs the graph and lets `change` spoil what comes out."""

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            return change(args, graph, args)

        return run

    return backend


def results(change: Change) -> Any:
    """A backend that spoils every tensor that it returns."""

    def spoiled(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
        return tuple(change(each) if isinstance(each, Tensor) else each for each in graph(*args))

    return breaking(spoiled)


def plus_one(x: Tensor) -> Tensor:
    return x + 1


def counted(x: Tensor) -> Tensor:
    return (x > 0).sum(0)


def positive(x: Tensor) -> Tensor:
    return x > 0


def transposed(x: Tensor) -> Tensor:
    return x.T + 1


def twice(x: Tensor) -> tuple[Tensor, Tensor]:
    return x + 1, x * 2


def view(x: Tensor) -> Tensor:
    return x[1:]


def row(x: Tensor) -> Tensor:
    return x[1]


def in_place(x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def logarithm(x: Tensor) -> Tensor:
    return x.log()


def drawn(x: Tensor) -> Tensor:
    return x + torch.rand_like(x)


def strange(x: Tensor) -> Any:
    return x.reshape(-1)[int(x.numel()) - 1].item()


def _one_off(t: Tensor) -> Tensor:
    made = t.clone()
    made.view(-1)[0] = made.view(-1)[0] + 1 if made.dtype is not torch.bool else ~made.view(-1)[0]
    return made


def _wrong_stride(t: Tensor) -> Tensor:
    return t.T.contiguous().T if t.is_contiguous() else t.contiguous()


def _on_clones(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    return graph(*(a.clone() if isinstance(a, Tensor) else a for a in args))


def _next_row(t: Tensor) -> Tensor:
    assert t._base is not None
    return t._base[2]


def _also_in_place(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    made = graph(*args)
    with torch.no_grad():
        args[0].mul_(2)
    return made


def _draws(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    made = graph(*args)
    torch.rand(1)
    return made


def _draws_python(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    random.random()
    return graph(*args)


def _leaves_grad_off(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    made = graph(*args)
    torch._C._set_grad_enabled(not torch.is_grad_enabled())
    return made


def _resizes(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    made = graph(*args)
    args[0].requires_grad_(False)
    return made


def _one_more(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    return tuple(each + 1 for each in graph(*args))


def _one_memory(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
    first, second = graph(*args)
    joined = torch.stack([first, second])
    return joined[0], joined[1]


X = torch.linspace(-1, 2, 16).reshape(4, 4)
#: what is spoiled -> program, argument, backend, what the error says
CASES: dict[str, tuple[Callable[..., Any], Tensor, Any, str]] = {
    "a float": (plus_one, X, results(lambda t: t * 1.001), "elements differ"),
    "one element": (plus_one, X, results(_one_off), "1 of 16 elements differ"),
    "half precision": (plus_one, X.half(), results(lambda t: t * 1.01), "elements differ"),
    "double precision": (plus_one, X.double(), results(lambda t: t + 1e-6), "elements differ"),
    "complex": (plus_one, X + 1j * X, results(lambda t: t.conj().resolve_conj()), "differ"),
    "an integer": (counted, X, results(_one_off), "elements differ"),
    "a bool": (positive, X, results(_one_off), "elements differ"),
    "a number for a NaN": (logarithm, X, results(lambda t: t.nan_to_num(0.0)), "elements differ"),
    "a NaN for a number": (plus_one, X, results(lambda t: t / (t != t)), "elements differ"),
    "dtype": (plus_one, X, results(lambda t: t.double()), "dtype is torch.float64"),
    "integer dtype": (counted, X, results(lambda t: t.int()), "dtype is torch.int32"),
    "shape": (plus_one, X, results(lambda t: t[:2]), "shape is (2, 4)"),
    "one more dimension": (plus_one, X, results(lambda t: t[None]), "shape is (1, 4, 4)"),
    "stride": (plus_one, X, results(_wrong_stride), "stride() is (1, 4)"),
    "stride of a transpose": (transposed, X, results(_wrong_stride), "stride() is"),
    "requires_grad": (
        *(plus_one, X.clone().requires_grad_()),
        *(results(lambda t: t.detach()), "requires_grad is False"),
    ),
    "is_leaf": (
        *(plus_one, X.clone().requires_grad_()),
        *(results(lambda t: t.detach().requires_grad_()), "is_leaf is True"),
    ),
    "a gradient too many": (
        *(plus_one, X),
        *(results(lambda t: t + torch.zeros((), requires_grad=True)), "requires_grad is True"),
    ),
    "inference": (
        *(plus_one, X),
        *(breaking(lambda _, graph, args: _in_inference(graph, args)), "is_inference() is True"),
    ),
    "a lazy conjugate": (
        *(plus_one, X + 1j * X),
        *(results(lambda t: t.conj().resolve_conj().conj()), "is_conj() is True"),
    ),
    "a class of its own": (
        *(plus_one, X),
        *(results(lambda t: nn.Parameter(t, requires_grad=False)), "a Parameter"),
    ),
    "a copy for a view": (view, X, results(Tensor.clone), "memory is not shared"),
    "another part of the memory": (row, X, results(_next_row), "storage_offset()"),
    "an argument for a copy": (
        *(plus_one, X.clone()),
        *(breaking(lambda _, graph, args: (args[0].copy_(args[0] + 1).view(4, 4),)), "differ"),
    ),
    "two results in one memory": (twice, X, breaking(_one_memory), "memory is not shared"),
    "a change that is not made": (in_place, X.clone(), breaking(_on_clones), "L['x']"),
    "a change that eager does not make": (plus_one, X.clone(), breaking(_also_in_place), "L['x']"),
    "form of an argument": (
        *(plus_one, X.clone().requires_grad_()),
        *(breaking(_resizes), "L['x']: requires_grad is False"),
    ),
    "random numbers": (drawn, X, breaking(_draws), "torch.default_generator"),
    "Python's random numbers": (plus_one, X, breaking(_draws_python), "random: has another state"),
    "grad mode": (plus_one, X, breaking(_leaves_grad_off), "torch's modes"),
    "a Python number": (strange, X, breaking(_one_more), "where eager has 2.0"),
}


def _call_often(compiled: Any, x: Tensor) -> None:
    """The first call is eager's, and a tree may grow in the second."""
    for _ in range(3):
        compiled(x)


def _in_inference(graph: Any, args: tuple[Any, ...]) -> Any:
    with torch.inference_mode():
        return graph(*args)


@pytest.mark.parametrize("case", CASES)
def test_is_caught(case: str):
    program, x, backend, said = CASES[case]
    compiled = anyshape.compile(program, backend=backend)
    grad = torch.is_grad_enabled()
    try:
        with pytest.raises(VerificationError) as caught:
            _call_often(compiled, x)
    finally:
        torch._C._set_grad_enabled(grad)
    assert said in str(caught.value), caught.value
    assert caught.value.code == "AS198"


@pytest.mark.parametrize("case", CASES)
def test_is_not_caught_where_nothing_is_wrong(case: str):
    program, x, _, _ = CASES[case]
    compiled = anyshape.compile(program, backend="eager")
    for _ in range(3):
        compiled(x.detach().clone().requires_grad_(x.requires_grad))
    assert sum(entry.verified for entry in compiled.entries) >= 1


class Keeps(nn.Module):
    """Stores what it computes in all the ways that programs do."""

    total: Tensor = torch.zeros(())

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.mean = nn.Buffer(torch.zeros(4))
        self.last: Any = None
        self.all: dict[str, Any] = {}

    def forward(self, x: Tensor) -> Tensor:
        made = self.linear(x)
        self.last = made * 2
        self.all["x"] = made * 3
        with torch.no_grad():
            self.mean.add_(x.mean(0))
        return made


def test_attributes_items_and_buffers_are_compared():
    compiled = anyshape.compile(Keeps(), backend=results(lambda t: t * 1.01))
    compiled(X)
    compiled(X)  # what it kept is a tensor now
    with pytest.raises(VerificationError) as caught:
        compiled(X)
    text = str(caught.value)
    assert "L['self'].last" in text
    assert "L['self'].all['x']" in text
    compiled = anyshape.compile(Keeps(), backend=breaking(_on_clones))
    compiled(X)
    compiled(X)  # what it kept is a tensor now
    with pytest.raises(VerificationError, match=r"L\['self'\]\._buffers\['mean'\]"):
        compiled(X)


def test_an_exception_is_compared():
    def raises(_: Any, graph: Any, args: tuple[Any, ...]) -> Any:
        x = args[0]
        x.add_(1)
        raise RuntimeError("a mistake of the backend")

    compiled = anyshape.compile(in_place, backend=breaking(raises))
    compiled(X.clone())
    with pytest.raises(VerificationError, match=r"raises RuntimeError.*where eager returns"):
        compiled(X.clone())


def test_a_difference_may_be_an_event():
    heard: list[kinds.VerificationFailed] = []
    stop = stream.subscribe(heard.append, (kinds.VerificationFailed,))  # pyright: ignore[reportArgumentType] of one kind
    compiled = anyshape.compile(plus_one, backend=results(Tensor.double))
    try:
        with config.patch(on_verify="event"):
            compiled(X)
            assert compiled(X).dtype is torch.float64  # as the backend has it
    finally:
        stop()
    (event,) = heard
    assert event.function == "plus_one"
    assert "dtype" in event.differences[0]
    assert event.compile_id == compiled.entries[0].id


def test_the_file_shows_the_graph_and_its_inputs():
    compiled = anyshape.compile(plus_one, backend=results(lambda t: t * 2))
    compiled(X)
    with pytest.raises(VerificationError) as caught:
        compiled(X)
    text = Path(caught.value.file).read_text()
    assert "elements differ" in text
    assert "def forward(" in text
    # The native backend has no such defect: the program ends well.
    runpy.run_path(caught.value.file)
