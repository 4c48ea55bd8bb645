"""Results written into a tensor that the program gives (`out=`): what eager gives, in native code,
and in order with what else touches that tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from tests import devices

WIDTH = 4


class State(nn.Module):
    u: Tensor
    matrix: Tensor
    whole: Tensor
    other: Tensor

    def __init__(self) -> None:
        super().__init__()
        made = devices.generator(0)
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH, generator=made))
        self.register_buffer("u", torch.randn(WIDTH, generator=made))
        self.register_buffer("matrix", torch.randn(WIDTH, WIDTH, generator=made))
        self.register_buffer("whole", torch.ones(WIDTH))
        self.register_buffer("other", torch.ones(1))
        self.double()
        self.whole = self.whole.float()


def _by_norm(m: State, w: Tensor) -> None:
    F.normalize(torch.mv(w, m.u), dim=0, out=m.u)


#: Each writes to a buffer of the state; the matrix may be one that gradients go to.
WRITES: dict[str, Callable[[State, Tensor], object]] = {
    "elements": lambda m, w: torch.add(m.u, 0.5, out=m.u),
    "elements of others": lambda m, w: torch.mul(w[0], m.u.sin(), out=m.u),
    "product": lambda m, w: torch.mv(w, m.u.clone(), out=m.u),
    "product of itself": lambda m, w: torch.mv(m.matrix, m.u, out=m.u),
    "norm": _by_norm,
    "norm, by position": lambda m, w: F.normalize(torch.mv(w, m.u), 2.0, 0, 1e-12, m.u),
    "contraction, by position": lambda m, w: torch.tensordot(w, m.u * 2, 1, m.u),
    "reduction": lambda m, w: torch.sum(w, 1, out=m.u),
    "a part": lambda m, w: torch.exp(m.u[1:3] * 0.1, out=m.u[:2]),
    "a matrix": lambda m, w: torch.mm(w, m.matrix.clone(), out=m.matrix),
    "another dtype": lambda m, w: torch.sum(w, 1, out=m.whole),
    "another shape": lambda m, w: torch.mul(m.u[:3], 2, out=m.other.resize_(0)),
    "drawn": lambda m, w: torch.bernoulli(w.sigmoid()[0], out=m.u),
    "two": lambda m, w: torch.sort(m.u * -1, out=(m.u, torch.empty(WIDTH, dtype=torch.long))),
    "none": lambda m, w: m.u.copy_(torch.add(m.u, w[1], out=None)),
    "without a row": lambda m, w: torch.linalg.multi_dot([w, m.matrix, w], out=m.matrix),
}
#: in whose graphs torch alone has to do something
BY_TORCH = ("drawn", "two", "another", "product of itself", "a part", "without", "contraction")


def _sums(m: State) -> Tensor:
    return m.u.clone() + m.matrix.sum(0) + m.whole + m.other.sum()


def _agree(program: Callable[[State, Tensor], Any]) -> anyshape.Compiled[..., Any]:
    compiled = anyshape.compile(program, dynamic=True)
    mine, eager = State(), State()
    for size in (3, 3, 5, 1, 4):
        x = torch.randn(size, WIDTH, generator=devices.generator(size)).double()
        found: list[Any] = []
        for function, module in ((program, eager), (compiled, mine)):
            module.zero_grad()
            torch.manual_seed(size)
            results = function(module, x)
            if results[0].requires_grad:
                results[0].backward()
            found.append((results, module.weight.grad, dict(module.named_buffers())))
        torch.testing.assert_close(found[1], found[0])
    return compiled


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


@pytest.mark.parametrize("name", WRITES)
def test_written_twice_and_read_between(name: str) -> None:
    write = WRITES[name]

    def program(m: State, x: Tensor) -> tuple[Tensor, ...]:
        before = _sums(m)
        write(m, m.matrix.tanh())
        between = _sums(m)
        write(m, m.matrix.tanh())
        return ((x * before).sin() * between + _sums(m)).sum(), before, between

    with torch.no_grad():
        _agree(program)


@pytest.mark.parametrize("name", WRITES)
def test_what_was_read_before_is_as_it_was(name: str) -> None:
    """Also where it is computed of the tensor behind the write: by elements, in one kernel."""
    write = WRITES[name]

    def program(m: State, x: Tensor) -> tuple[Tensor, ...]:
        before = m.u * 2, m.matrix - 1, m.whole.exp(), m.u[1:] + m.u[:-1]
        write(m, m.matrix.tanh())
        return x * 2, *(each + 1 for each in before)

    with torch.no_grad():
        _agree(program)


@pytest.mark.parametrize("name", WRITES)
def test_independent_results_keep_the_order_of_writes(name: str) -> None:
    """As a discriminator does that is called with what is real and with what is not."""
    write = WRITES[name]

    def weight(m: State) -> Tensor:
        own = m.weight.reshape(WIDTH, -1)
        with torch.no_grad():
            write(m, own)
            kept = _sums(m)
        return m.weight / (own @ kept).square().mean().add(1)

    def program(m: State, x: Tensor) -> tuple[Tensor, ...]:
        first = weight(m)
        second = weight(m)
        return F.linear(x, first).mean() - F.linear(x * 2, second).sin().mean(), first, second

    _agree(program)


@pytest.mark.parametrize("name", [each for each in WRITES if not each.startswith(BY_TORCH)])
def test_all_of_it_is_native(name: str) -> None:
    write = WRITES[name]

    def program(m: State, x: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            write(m, m.weight)
            kept = _sums(m)
        return (F.linear(x, m.weight) * kept).sin().sum(), kept

    said = str(_agree(program).explain())
    assert "forward: native code" in said
    assert "no native code:" not in said


def test_spectral_norm_of_a_module_that_is_called_twice() -> None:
    torch.manual_seed(0)
    mine = nn.utils.spectral_norm(nn.Linear(WIDTH, 3))
    torch.manual_seed(0)
    eager = nn.utils.spectral_norm(nn.Linear(WIDTH, 3))

    def loss(module: nn.Module, x: Tensor) -> Tensor:
        return module(x).mean() - module(x * 2).sin().mean()

    compiled = anyshape.compile(loss, dynamic=True)
    for size in (3, 5, 2, 4):
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        for function, module in ((loss, eager), (compiled, mine)):
            module.zero_grad()
            function(module, x).backward()
        torch.testing.assert_close(mine.weight, eager.weight)
        torch.testing.assert_close(
            [each.grad for each in mine.parameters()], [each.grad for each in eager.parameters()]
        )


INTO: dict[str, Callable[[Tensor, Tensor], object]] = {
    "product of numbers": lambda a, b: torch.mul(b, 2, out=a),
    "itself and another": lambda a, b: torch.add(b, a, out=a),
    "function": lambda a, b: torch.exp(b, out=a),
    "reduction": lambda a, b: torch.sum(b, 1, out=a[:, 0]),
    "matrix product": lambda a, b: torch.mm(b, b, out=a),
}


@pytest.mark.parametrize("name", INTO)
@pytest.mark.parametrize("where", ["a program", "beside gradients"])
def test_what_overlaps_is_refused_as_by_eager(name: str, where: str) -> None:
    def program(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
        with torch.no_grad():
            INTO[name](a, b)
        return (weight * 2).exp() * b.sum() if where == "beside gradients" else b * 2

    compiled = anyshape.compile(program, dynamic=True)
    weight = torch.ones(3, requires_grad=True)
    for size, overlaps in ((4, False), (5, False), (6, True), (6, False)):
        found: list[list[Any]] = []
        for function in (program, compiled):
            whole = torch.arange(2.0 * size * (size + 1)).reshape(2 * size + 2, size) / 64
            a, b = whole[:size], whole[1 : size + 1] if overlaps else whole[size : 2 * size]
            try:
                made: Tensor | str = function(a, b, weight)
            except RuntimeError as error:
                made = str(error)
            found.append([a, b, made])
        (*eager, want), (*ours, result) = found
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
        if isinstance(want, str):
            assert result == want
        else:
            torch.testing.assert_close(result, want, rtol=1e-5, atol=1e-5)
