"""Writes in place and shared memory in graphs with gradients: what eager gives, natively."""

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
from tests.native.test_training import SIZES, WIDTH, B, V, W, compare, outcome


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


def _written(made: Callable[[Tensor], Tensor], *writes: Callable[[Tensor], Any]) -> Any:
    """A program that makes a tensor, writes to it, and gives it."""

    def program(x: Tensor) -> Tensor:
        y = made(x)
        for write in writes:
            write(y)
        return y

    return program


def _product(x: Tensor) -> Tensor:
    return x * V


def _iadd(y: Tensor) -> None:
    y += B


def _imul(y: Tensor) -> None:
    y *= 2


def _set(index: Any, value: Callable[[Tensor], Any]) -> Callable[[Tensor], None]:
    def write(y: Tensor) -> None:
        y[index] = value(y)

    return write


def _view_before(x: Tensor) -> Tensor:
    y = x * V
    flat = y.view(-1)
    part = y[:, 1:3]
    y.add_(B)
    part.mul_(3)
    return flat.sin().sum() + y.cos().sum() + part.sum()


def _view_of_view(x: Tensor) -> Tensor:
    y = x * V
    part = y.view(-1, 2, 3).transpose(1, 2)[:, 1:]
    part.add_(1)
    part[..., 0] = 0.5
    return y * 2


def _read_between(x: Tensor) -> Tensor:
    y = x * V
    before = y * 2
    y.mul_(3)
    after = y + B
    y[:, 0] = x[:, 1]
    return before + after.sin() + y


def _mask(x: Tensor) -> Tensor:
    mask = torch.zeros(x.shape[0], WIDTH)
    mask[:, 2:] = 1
    mask[:, 3] += 0.5
    return x * mask * V


def _buffer(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0] + 1, WIDTH)
    y[1:] = x * V
    y[0] = B
    return y


def _parts(x: Tensor) -> Tensor:
    y = torch.empty(2, x.shape[0], WIDTH)
    y[0].copy_(x * V)
    y[1].copy_(x).mul_(B)
    return y


def _accumulate(x: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for n in range(3):
        total += x * V * n
    return total


def _detached(x: Tensor) -> Tensor:
    y = x * V
    seen = y.detach()
    y.add_(1)
    return y * seen


def _without(x: Tensor) -> Tensor:
    y = x * V
    with torch.no_grad():
        scale = torch.ones_like(y)
        scale.mul_(y.abs() + 1)
    return y * scale


def _part_of_part(x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0], WIDTH)
    for n in range(2):
        part = y.view(-1, 2, 3)[:, n]
        part[:, 1:].copy_(x[:, :2] * V[:2])
        part.t()[0] = 2.0
    return y * B


def _diagonal(x: Tensor) -> Tensor:
    y = x.t() @ x
    y.diagonal().add_(1)
    return y * W


def _indexed(x: Tensor) -> Tensor:
    y = x * V
    rows = torch.arange(x.shape[0])
    y[rows, rows % WIDTH] = 0.5
    return y * 2


def _indexed_by_values(x: Tensor) -> Tensor:
    y = x * V
    rows = torch.arange(x.shape[0])
    y[rows] = x.sin()
    return y * 2


def _strided(x: Tensor) -> Tensor:
    y = x * V
    y[:, ::2] = B[:3]
    return y


def _noise(x: Tensor) -> Tensor:
    keep = x.new_empty(x.shape[0], 1).bernoulli_(0.7)
    keep.div_(0.7)
    return x * keep * V


def _into_channels(x: Tensor) -> Tensor:
    y = (x.view(-1, 2, 3, 1) * W[0, 0]).contiguous(memory_format=torch.channels_last)
    y += 1
    return F.relu(y, inplace=True) * 2


def _mul_all(y: Tensor) -> None:
    y.t().mul_(2)


def _first_rows(y: Tensor) -> None:
    y[:2].unsqueeze(1).add_(B)


def _chunks(x: Tensor) -> Tensor:
    y = torch.ones_like(x) * 2
    y.chunk(2, 1)[1].t()[1:].mul_(3)
    return x * V * y


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "relu_": _written(_product, lambda y: y.relu_()),
    "relu, asked for": _written(_product, lambda y: F.relu(y, inplace=True)),
    "leaky": _written(_product, lambda y: F.leaky_relu_(y, 0.2)),
    "elu": _written(_product, lambda y: F.elu(y, 0.5, True)),
    "hardtanh": _written(_product, lambda y: F.relu6(y, inplace=True), lambda y: F.hardtanh_(y)),
    "sum": _written(_product, _iadd, _imul, lambda y: y.sub_(1, alpha=2)),
    "chain": lambda x: (x * V).mul_(2).add_(B).clamp_(0.2, 0.7),
    "quotient": _written(_product, lambda y: y.div_(V.abs() + 1)),
    "masked": _written(_product, lambda y: y.masked_fill_(torch.arange(WIDTH) > 3, 0.5)),
    "zeros": _written(_product, lambda y: y[:, :2].zero_(), lambda y: y[:, 3].fill_(2.0)),
    "number into a part": _written(_product, _set((slice(None), 1), lambda y: 3.0)),
    "row": _written(_product, _set((Ellipsis, slice(2, 4)), lambda y: B[2:4])),
    "part of itself": _written(_product, _set((slice(None), slice(3)), lambda y: y[:, 3:] * 2)),
    "mask, number": lambda x: _written(_product, lambda y: y.__setitem__(y > 0.5, 0.25))(x),
    "all of it": lambda x: _written(_product, _set(slice(None), lambda y: x.sin()))(x),
    "copied": _written(_product, lambda y: y.copy_(B)),
    "double": _written(lambda x: (x * V).double(), lambda y: y.add_(B)),
    "views taken before": _view_before,
    "view of a view": _view_of_view,
    "read between": _read_between,
    "mask made in place": _mask,
    "buffer": _buffer,
    "parts of a buffer": _parts,
    "accumulated": _accumulate,
    "seen through detach": _detached,
    "without gradients": _without,
    "diagonal": _diagonal,
    "by index": _indexed,
    "by index, values": _indexed_by_values,
    "with gaps": _strided,
    "noise": _noise,
    "channels last": _into_channels,
    "transposed": _written(_product, lambda y: y.t().mul_(2), lambda y: y.unsqueeze(0).add_(1)),
    "part of several": _written(_product, lambda y: y.view(-1, 2, 3).select(1, 0).mul_(2)),
    "views of a part": lambda x: _written(lambda x: (x * V).sort(0)[0], _mul_all)(x),
    "first rows of a part": lambda x: _written(lambda x: (x * V).sort(0)[0], _first_rows)(x),
    "views of a chunk": lambda x: _chunks(x),
    "addcmul": _written(_product, lambda y: y.addcmul_(V, B, value=2), lambda y: y.lerp_(B, 0.3)),
    "part of a part": lambda x: _part_of_part(x),
    # -- results that share memory
    "view of an input": lambda x: (x.view(-1, 3), x * V),
    "input": lambda x: (x, x * V),
    "part of an input": lambda x: (x * 1)[:2] + x[0:1].sum() + V,
    "result and a view of it": lambda x: (lambda y: (y, y.view(-1, 3), y[:, 1]))(x * V),
    "views of what is not given": lambda x: (lambda y: (y[:, :2], y.t()))(x * V),
    "one result twice": lambda x: (lambda y: (y, y))(x * V),
    "parameter": lambda x: (x * V, V.view(2, 3), B),
    "reshaped": lambda x: (lambda y: (y, y.t().reshape(-1), y.t().contiguous()))(x * V),
    "written, and views": lambda x: (lambda y: (y.mul_(2), y.view(-1), y.detach() + 1))(x * V),
    "parts": lambda x: (x * V).split(2, 1),
    "greatest and where": lambda x: (x * V).max(1),
}
#: Eager's own writes do not do with nothing, or no part of the program is left.
NOT_OF_NOTHING = ("by index",)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function, dynamic=True)
    for size in SIZES:
        if size == 0 and name.startswith(NOT_OF_NOTHING):
            continue
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        torch.manual_seed(3)
        want = differentiable(function, x)
        torch.manual_seed(3)
        compare(want, differentiable(compiled, x))
    assert "forward: native code" in str(compiled.explain())


def differentiable(function: Callable[..., Any], x: Tensor) -> list[Tensor | None]:
    """Results, and gradients by those that have one."""
    rest: list[Tensor] = []

    def with_gradients(x: Tensor) -> tuple[Tensor, ...]:
        given = function(x)
        results = list(given) if isinstance(given, tuple | list) else [given]
        rest.extend(each for each in results if not each.requires_grad)
        return tuple(each for each in results if each.requires_grad)

    return [*outcome(with_gradients, x), *rest]


@pytest.mark.parametrize("name", ["result and a view of it", "views of what is not given"])
def test_results_share_memory_as_in_eager_code(name: str) -> None:
    compiled = anyshape.compile(PROGRAMS[name], dynamic=True)
    for size in (4, 3):
        first, second, *_ = compiled(torch.randn(size, WIDTH))
        assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
        with torch.no_grad():
            first.fill_(7.0)
        assert (second == 7.0).any()


def test_an_input_is_given_back_itself() -> None:
    compiled = anyshape.compile(lambda x: (x, x * V), dynamic=True)
    for size in (4, 3):
        x = torch.randn(size, WIDTH)
        assert compiled(x)[0] is x


class Norm(nn.Module):
    """Batch norm in training, as networks of images have it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4, **options)
        self.more = nn.BatchNorm2d(4, **options)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.conv(x)), inplace=True)
        z = self.more(y)
        z += y
        return z


@pytest.mark.parametrize(
    "options",
    [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}, {"momentum": 0.3}],
)
def test_batch_norm(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    ours, eager = Norm(**options), Norm(**options)
    eager.load_state_dict(ours.state_dict())
    compiled: Any = anyshape.compile(ours, dynamic=True)
    for shape in (
        (2, 3, 5, 4),
        (1, 3, 7, 3),
        (4, 3, 2, 2),
        (0, 3, 4, 4),
        (3, 3, 1, 1),
        (2, 3, 6, 6),
    ):
        x = torch.randn(shape)
        own = x.clone().requires_grad_()
        x.requires_grad_()
        a, b = eager(x), compiled(own)
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
        for each, result in ((eager, a), (ours, b)):
            each.zero_grad()
            (result * torch.linspace(0, 1, result.numel()).view(result.shape)).sum().backward()
        for given, made in zip(eager.parameters(), ours.parameters(), strict=True):
            torch.testing.assert_close(made.grad, given.grad, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(own.grad, x.grad, rtol=1e-3, atol=1e-4)
        for given, made in zip(eager.buffers(), ours.buffers(), strict=True):
            torch.testing.assert_close(made, given, rtol=1e-5, atol=1e-6)
    if options.get("momentum", 0.1) is not None:
        assert "forward: native code" in str(compiled.explain())


def test_parts_share_memory_and_the_rest_of_a_tensor() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        y = x * V
        return y, *y.split(2, 1), *(x * B).unbind(1)[:2]

    compiled = anyshape.compile(program, dynamic=True)
    for size in (4, 3):
        whole, *parts = compiled(torch.randn(size, WIDTH))
        for place, part in enumerate(parts[:3]):
            with torch.no_grad():
                part.fill_(float(place))
            assert (whole[:, 2 * place : 2 * place + 2] == place).all()
        assert parts[3]._base is not None
        assert parts[3]._base is parts[4]._base
    assert "forward: native code" in str(compiled.explain())


def _results_of_results(x: Tensor) -> tuple[Tensor, ...]:
    y = (x * V).sin()
    other = x + B
    z = (y * other).exp()
    return y, z, (z * y).sum(), other.detach()


@pytest.mark.parametrize("size", [4, 1, 0])
def test_gradients_go_through_results(size: int) -> None:
    """Hooks, `retain_grad` and gradients of a result that another one is computed of."""
    compiled = anyshape.compile(_results_of_results, dynamic=True)
    compiled(torch.randn(3, WIDTH, requires_grad=True))
    x = torch.randn(size, WIDTH)
    found: list[list[Tensor | None]] = []
    for function in (_results_of_results, compiled):
        own = x.clone().requires_grad_()
        y, z, total, _ = function(own)
        y.retain_grad()
        y.register_hook(lambda grad: grad * 2)
        z.register_hook(lambda grad: grad.cos())
        total.backward(retain_graph=True)
        (between,) = torch.autograd.grad(z.sum(), y, retain_graph=True)
        (second,) = torch.autograd.grad(total, z)
        found.append([y.grad, between, second, own.grad])
    compare(found[0], found[1])
    assert "stage 2: forward: native code" in str(compiled.explain())


def test_loss_beside_logits() -> None:
    """As models give them: the loss is computed of logits that the program gets, too."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True))

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = F.dropout(model(x), 0.2)
        return F.cross_entropy(logits, y), logits

    state = {name: each.clone() for name, each in model.state_dict().items()}
    outcomes: list[list[Tensor | None]] = []
    for function in (step, anyshape.compile(step, dynamic=True)):
        model.load_state_dict(state)
        found: list[Tensor | None] = []
        for size in (4, 3, 7):
            torch.manual_seed(size)
            model.zero_grad()
            loss, logits = function(torch.randn(size, WIDTH), torch.arange(size) % 8)
            loss.backward()
            found += [loss.detach(), logits.detach(), *(each.grad for each in model.parameters())]
        outcomes.append([*found, *(each.clone() for each in model.buffers())])
    compare(outcomes[0], outcomes[1])


def test_hooks_where_no_gradient_comes() -> None:
    """They are not called, and parameters that nothing reaches have no gradient."""
    a, b = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 4)
    called: list[Any] = []
    b.weight.register_hook(called.append)
    b.weight.register_post_accumulate_grad_hook(called.append)
    programs = (lambda x: a(x) + b(x).detach(), lambda x: (a(x), b(x))[0], lambda x: (a(x), b(x)))
    for program in programs:
        compiled = anyshape.compile(program, dynamic=True)
        for size in (4, 5, 3):
            found = compiled(torch.randn(size, WIDTH))
            (found[0] if isinstance(found, tuple) else found).sum().backward()
    assert not called
    assert b.weight.grad is None


def test_sparse_gradients() -> None:
    table = nn.Embedding(11, WIDTH, sparse=True)
    compiled = anyshape.compile(lambda i: table(i).sin(), dynamic=True)
    for size in (4, 7):
        table.zero_grad()
        compiled(torch.arange(size) % 4).sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad.is_sparse


def test_strides_of_a_part_of_what_is_kept() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        h = x @ W
        return h[:, 1:], h.softmax(-1) * h

    compiled = anyshape.compile(program, dynamic=True)
    for size in (4, 5):
        x = torch.randn(size, WIDTH)
        assert compiled(x)[0].stride() == program(x)[0].stride()


def test_leaves_that_are_made_inside() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        leaf = torch.ones(WIDTH, requires_grad=True)
        return leaf, (x * leaf * V).sum()

    compiled = anyshape.compile(program, dynamic=True)
    for size in (4, 3):
        leaf, total = compiled(torch.ones(size, WIDTH))
        total.backward()
        torch.testing.assert_close(leaf.grad, V.detach() * size)


def test_statistics_that_are_made_inside() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        mean, var = torch.zeros(WIDTH), torch.ones(WIDTH)
        y = F.batch_norm(x * V, mean, var, training=True)
        return y * 2, mean + var

    compiled = anyshape.compile(program, dynamic=True)
    for size in (4, 3, 7):
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        compare(differentiable(program, x), differentiable(compiled, x))


def _kept_before(x: Tensor, state: Tensor) -> Tensor:
    before = torch.zeros_like(state)
    before.copy_(state)
    state.add_(1)
    return x * V + before


def _swapped(x: Tensor, state: Tensor) -> Tensor:
    other, held = state.flip(0), torch.empty_like(state)
    held.view(-1).copy_(state.view(-1))
    state.copy_(other)
    other.copy_(held)
    return x * V * other


def _read_and_written(x: Tensor, state: Tensor) -> Tensor:
    state.add_(1)
    weight = state * state
    state.mul_(2)
    return (x * V * weight) ** 2


def _a_view_of_it(x: Tensor, state: Tensor) -> tuple[Tensor, ...]:
    state[1:3] = x.detach().sum()
    return x * V, state[:3], state.view(-1)


def _in_stages(x: Tensor, state: Tensor) -> tuple[Tensor, ...]:
    y, part = (x * V).sin(), state[1:2]
    state.add_(1)
    z = y.exp() + part
    state.add_(1)
    return y, z, (z * state).mean()


STATES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "kept before": _kept_before,
    "swapped": _swapped,
    "read and written": _read_and_written,
    "a view of it": _a_view_of_it,
    "in stages": _in_stages,
}


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("name", STATES)
def test_state_of_the_caller(name: str, second: bool) -> None:
    """Read before and after it is written to; by gradients of gradients too. In float64: the cosine
    of a sum of exponentials is anything in float32."""
    compiled = anyshape.compile(STATES[name], dynamic=True)
    for size in (3, 1, 5, 2):
        outcomes: list[list[Tensor | None]] = []
        for function in (STATES[name], compiled):
            x = torch.linspace(-1, 1, size * WIDTH, dtype=torch.float64)
            x = x.view(size, WIDTH).requires_grad_()
            state = torch.linspace(0, 1, WIDTH, dtype=torch.float64)
            given = function(x, state)
            results = [given] if isinstance(given, Tensor) else list(given)
            total = sum((each.cos().sum() for each in results if each.requires_grad), x.sum() * 0)
            grads = torch.autograd.grad(total, [x, V], create_graph=second)
            if second:
                penalty = sum((each.square().sum() for each in grads), x.sum() * 0)
                grads += torch.autograd.grad(penalty, [x, V])
            outcomes.append([*(each.detach() for each in results), *grads, state])
        compare(outcomes[0], outcomes[1])


def test_results_of_copies_are_their_own() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, a, b = x * V, torch.zeros_like(x), torch.empty_like(x)
        a.copy_(y)
        b.copy_(x)
        return y, a, b

    compiled = anyshape.compile(program, dynamic=True)
    for size in (4, 3):
        x = torch.randn(size, WIDTH, requires_grad=True)
        results = compiled(x)
        places = {each.untyped_storage().data_ptr() for each in (x, *results)}
        assert len(places) == 4


def _overlapping(x: Tensor) -> Tensor:
    y = x.detach() * 2
    y.unfold(1, 3, 1)[:, :, 1].zero_()
    return x * y * V


def _without_a_name(x: Tensor) -> Tensor:
    y = x * V
    torch.atleast_3d(y).mul_(2)
    return y * 3


@pytest.mark.parametrize("function", [_overlapping, _without_a_name])
def test_views_of_other_kinds(function: Callable[[Tensor], Tensor]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    for size in (4, 3, 1):
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        compare(outcome(function, x), outcome(compiled, x))


def test_a_view_without_gradients_in_gradients_of_gradients() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * V
        y.add_(1)
        with torch.no_grad():
            part = y[:, :1]
        return (y * part).sum()

    compiled = anyshape.compile(program, dynamic=True)
    for size in (4, 3):
        x = torch.ones(size, WIDTH, requires_grad=True)
        want = torch.autograd.grad(program(x), x, create_graph=True)
        compare([*want], [*torch.autograd.grad(compiled(x), x, create_graph=True)])


def test_gradient_penalty_through_batch_norm() -> None:
    """Its counter changes between a call and the gradient of its gradient."""
    norm = nn.BatchNorm1d(WIDTH)
    compiled = anyshape.compile(lambda x: norm(x) ** 3, dynamic=True)
    for size in (4, 3):
        x = torch.randn(size, WIDTH, requires_grad=True)
        first, _ = compiled(x), compiled(x * 2)
        (grad,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        assert torch.autograd.grad(grad.square().sum(), x)[0].isfinite().all()


def _with_gaps_written(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.t()[::2].select_scatter(x[:, 0].sin(), 0, 0)
    y.clamp_(min=0)
    return y, y * 2


STRIDES: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "expanded, kept for the gradient": lambda x: ((x * 2).softmax(1)[:, None].expand(-1, 3, -1),),
    "expanded in front": lambda x: (lambda y: (y.expand(2, *y.shape), y.sin() * 2))(x * 2 + 1),
    "windows of what is kept": lambda x: ((x * 2).softmax(1).unfold(1, 3, 2),),
    "gaps of what is kept": lambda x: ((x * 2).softmax(1)[:, ::2],),
    "a copy with gaps": _with_gaps_written,
}


@pytest.mark.parametrize("name", STRIDES)
def test_results_have_the_strides_of_eager_code(name: str) -> None:
    function = STRIDES[name]
    compiled = anyshape.compile(function, dynamic=True)
    for size in (4, 3, 5, 1):
        x = torch.randn(size, WIDTH, requires_grad=True)
        want, got = function(x), compiled(x)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        assert [each.stride() for each in got] == [each.stride() for each in want]
        grads = [torch.autograd.grad([(e * e).sum() for e in each], [x])[0] for each in (want, got)]
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)
