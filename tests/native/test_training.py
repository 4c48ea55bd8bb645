"""Graphs with gradients in native code: what eager gives, forward and backward, at all sizes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from tests import devices

WIDTH = 6
SIZES = (4, 1, 7, 0, 3)


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


def _matrix(seed: int, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, generator=devices.generator(seed)))


W, V, B = _matrix(0, WIDTH, WIDTH), _matrix(1, WIDTH), _matrix(2, WIDTH)
TABLE = _matrix(3, 9, WIDTH)
FROZEN = torch.ones(WIDTH)


def _positions(x: Tensor) -> Tensor:
    return torch.arange(x.shape[0]) % 9


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: x + V - 2 * B + (3 - x),
    "product": lambda x: x * V * 0.5,
    "quotient": lambda x: x / (V.abs() + 1) + 1 / (x * x + 1),
    "powers": lambda x: (x.abs() + 1).pow(1.5) + x**2 + x.square() + x**3,
    "bounds": lambda x: x.clamp(-0.5, 0.7) + x.clamp(min=0) + F.relu(x) + F.leaky_relu(x, 0.1),
    "functions": lambda x: x.sin() + x.cos() * x.tanh() + x.sigmoid() + x.exp() + x.erf(),
    "roots": lambda x: (x * x + 1).sqrt() + (x * x + 1).rsqrt() + (x * x + 2).log(),
    "more functions": lambda x: x.atan() + x.expm1() + (x.abs() + 1).log1p() + x.tan().tanh(),
    "activations": lambda x: F.gelu(x) + F.silu(x) + F.gelu(x, approximate="tanh") + F.mish(x),
    "linear": lambda x: F.linear(x, W, B).tanh(),
    "linear, more dimensions": lambda x: F.linear(x.view(-1, 1, WIDTH), W).sum(1),
    "matmul": lambda x: (x @ W) @ W.t(),
    "matmul of batches": lambda x: (
        x.view(-1, 2, 3) @ x.view(-1, 3, 2) + torch.bmm(x.view(-1, 2, 3), x.view(-1, 3, 2))
    ),
    "addmm": lambda x: torch.addmm(B, x, W, beta=0.5, alpha=2),
    "sums": lambda x: x.sum() + x.sum(0).sin().sum() + x.sum(-1, keepdim=True) * x,
    "means": lambda x: x.mean(-1) + x.mean((0, 1)) + x.mean(1, keepdim=True).squeeze(1),
    "softmax": lambda x: x.softmax(-1) * V + x.log_softmax(-1),
    "norms": lambda x: (
        F.layer_norm(x, (WIDTH,), V, B) + F.layer_norm(x, (WIDTH,)) + F.rms_norm(x, (WIDTH,), V)
    ),
    "views": lambda x: (
        x.view(-1, 2, 3).transpose(1, 2).flatten(1).unsqueeze(1).squeeze(1).reshape(-1, 3, 2) * 2
    ),
    "permuted": lambda x: x.view(-1, 2, 3).permute(2, 0, 1).contiguous().mT + 1,
    "expanded": lambda x: V.expand(x.shape[0], WIDTH) * x,
    "joined": lambda x: torch.cat([x, x * 2, V[None]], 0).sin(),
    "stacked": lambda x: torch.stack([x, x * V], 1).sum(1),
    "split": lambda x: (lambda a, b, c: a * c + b)(*x.split(2, 1)),
    "one of the parts": lambda x: x.chunk(3, 1)[1] * 2,
    "unbound": lambda x: x.view(-1, 2, 3).unbind(1)[0].sin(),
    "indexed": lambda x: x[:, 1:4].sin() + x[:, 0, None] + x[..., 2:5] * x[:, -3:],
    "narrowed": lambda x: x.narrow(1, 2, 3) + x.select(1, 0).unsqueeze(1),
    "by index": lambda x: x[_positions(x) % max(x.shape[0], 1)] * 2,
    "embedding": lambda x: F.embedding(_positions(x), TABLE) * x,
    "embedding with padding": lambda x: F.embedding(_positions(x), TABLE, padding_idx=2) * x,
    "chosen": lambda x: torch.where(x > 0, x * V, x.sin()).masked_fill(x > 1, 0.0),
    "greatest": lambda x: x.amax(-1) + x.amin(-1, keepdim=True).squeeze(-1),
    "classes": lambda x: F.cross_entropy(x, _positions(x) % WIDTH),
    "classes, some ignored": lambda x: F.cross_entropy(
        x, torch.where(_positions(x) == 1, -100, _positions(x) % WIDTH), reduction="sum"
    ),
    "squares": lambda x: F.mse_loss(x * V, x.sin()),
    "casts": lambda x: (x.to(torch.float64) * 2).float() + x.bfloat16().float(),
    "without a row": lambda x: x.cumsum(1).logsumexp(-1) + torch.linalg.norm(x, dim=-1),
    "frozen": lambda x: (x * FROZEN).detach() * x + x.data,
    "twice": lambda x: (x * V, (x * V).sum(-1)),
    "stretched parts": lambda x: x + x[:1] + x * x[-1:] + x / (x[1:2].abs() + 1),
    "more stretched parts": lambda x: (
        torch.where(V > 0, x[:1], x) + x[:1].expand_as(x) + x[:1].masked_fill(x > 0, 0.5)
    ),
    "from a computed place": lambda x: x[-(x.shape[0] // 2) :].sum() + x[1 - x.shape[0] :].sum(),
    "padding from the end": lambda x: F.embedding(_positions(x), TABLE, padding_idx=-1) * x,
    "one tensor twice": lambda x: (lambda a, b: a * b.sin())(x, x),
    "attention": lambda x: _attention(x.view(1, 1, -1, WIDTH)),
    "attention, causal": lambda x: _attention(x.view(1, 1, -1, WIDTH), is_causal=True),
    "attention, scaled": lambda x: _attention(x.view(-1, 1, 2, 3), scale=0.3),
    "attention, masked": lambda x: _attention(
        x.view(1, 1, -1, WIDTH), attn_mask=_positions(x)[:, None] >= _positions(x)
    ),
    "attention, a row without keys": lambda x: _attention(
        x.view(1, 1, -1, WIDTH), attn_mask=(_positions(x) != 1)[:, None].expand(-1, x.shape[0])
    ),
    "attention, no keys at all": lambda x: _attention(
        x.view(-1, 1, 2, 3), attn_mask=torch.zeros(2, 2, dtype=torch.bool)
    ),
    "attention, with a bias": lambda x: _attention(
        x.view(-1, 1, 2, 3), attn_mask=torch.linspace(-1, 1, 4).view(2, 2)
    ),
    "attention, with a gradient of the bias": lambda x: _attention(
        x.view(-1, 1, 2, 3), attn_mask=W[:2, :2]
    ),
    "attention, heads in groups": lambda x: F.scaled_dot_product_attention(
        x.view(-1, 2, 1, 3), x.view(-1, 1, 2, 3), x.view(-1, 1, 2, 3), enable_gqa=True
    ),
    "convolution": lambda x: F.conv1d(x.view(-1, 2, 3), W.view(6, 2, 3), B, padding=1).relu(),
    "convolution of images": lambda x: F.conv2d(
        x.view(-1, 2, 3, 1), W[:, :4].reshape(6, 2, 2, 1), stride=(2, 1), padding=(1, 0)
    ).sin(),
    "convolution by groups": lambda x: F.conv1d(
        x.view(-1, 2, 3), W[:4, :2].reshape(4, 1, 2), B[:4], groups=2, dilation=2
    ),
    "convolution of one image": lambda x: F.conv1d(x.t(), W[:, :, None], B),
    "without gradients inside": lambda x: _without(x) * x,
}
#: Nothing has no mean, and sums over nothing have no greatest element.
NOT_OF_NOTHING = (
    *("classes", "attention", "greatest", "by index", "stretched", "more stretched"),
    "convolution of one",
)


def _attention(x: Tensor, **named: Any) -> Tensor:
    return F.scaled_dot_product_attention(x, x * 2, x * 3, **named)


def _without(x: Tensor) -> Tensor:
    with torch.no_grad():
        return (x * 2).sin()


def outcome(function: Callable[..., Any], x: Tensor) -> list[Tensor | None]:
    """Results and gradients of all that has one."""
    x = x.clone().requires_grad_()
    results = function(x)
    results = list(results) if isinstance(results, tuple) else [results]
    inputs = [x, W, V, B, TABLE]
    weights = [torch.linspace(0.5, 1.5, each.numel()).view(each.shape) for each in results]
    found = torch.autograd.grad(results, inputs, weights, allow_unused=True)
    return [*(each.detach() for each in results), *found]


def compare(want: list[Tensor | None], got: list[Tensor | None]) -> None:
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a, rtol=2e-4, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function = PROGRAMS[name]
    compiled = anyshape.compile(function, dynamic=True)
    for size in SIZES:
        if size == 0 and name.startswith(NOT_OF_NOTHING):
            continue
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        compare(outcome(function, x), outcome(compiled, x))
    assert "forward: native code" in str(compiled.explain())


@pytest.mark.filterwarnings("ignore:std")  # torch warns of nothing, in eager code too
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("name", ["norm", "product", "deviation", "by index"])
def test_captured_at_nothing_and_at_one(name: str, first: int) -> None:
    """Whether a gradient reaches an argument is not asked of nothing."""
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "norm": lambda x: torch.linalg.norm(x * V, dim=-1),
        "product": lambda x: (x * V).prod(-1),
        "deviation": lambda x: (x * V).std(-1),
        "by index": lambda x: torch.zeros(9, WIDTH).index_add(0, _positions(x), x * V),
    }
    compiled = anyshape.compile(functions[name], dynamic=True)
    for size in (first, 4, 1, 0, 9):
        x = torch.randn(size, WIDTH)
        compare(outcome(functions[name], x), outcome(compiled, x))


def net() -> Callable[[Tensor], Tensor]:
    return anyshape.compile(lambda x: F.gelu(F.linear(x, W, B)) * V, dynamic=True)


def plain(x: Tensor) -> Tensor:
    return F.gelu(F.linear(x, W, B)) * V


def ready() -> Callable[[Tensor], Tensor]:
    """Compiled, and called once."""
    compiled = net()
    compiled(torch.randn(5, WIDTH, requires_grad=True))
    return compiled


def test_backward_graphs_are_counted() -> None:
    """Each when gradients of its outputs come back for the first time."""
    anyshape.reset()
    compiled = anyshape.compile(lambda x: ((x * V).sin(), (x @ W).exp()), dynamic=True)
    counted: list[int] = []
    for n, used in ((4, ()), (5, (0,)), (3, (0,)), (4, (1,))):
        outputs = compiled(torch.randn(n, WIDTH))
        if used:
            sum(outputs[number].sum() for number in used).backward()  # pyright: ignore[reportAttributeAccessIssue] a tensor
        counted.append(compiled.stats().backward_graphs)
    assert counted == [0, 1, 1, 2]
    assert anyshape.stats().backward_graphs == 2
    assert compiled.stats().graphs == 1
    with torch.no_grad():
        compiled(torch.randn(4, WIDTH))
    assert compiled.stats().backward_graphs == 2


def test_gradients_add_up() -> None:
    compiled, x = ready(), torch.randn(3, WIDTH)
    found: list[Tensor] = []
    for function in (plain, compiled):
        W.grad = None
        for _ in range(3):
            function(x).sum().backward()
        assert W.grad is not None
        found.append(W.grad)
    W.grad = V.grad = B.grad = None
    torch.testing.assert_close(found[1], found[0])


def test_backward_twice() -> None:
    result = ready()(torch.randn(3, WIDTH, requires_grad=True)).sum()
    first = torch.autograd.grad(result, W, retain_graph=True)[0]
    second = torch.autograd.grad(result, W)[0]
    assert torch.equal(first, second)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(result, W)


def test_gradients_of_gradients() -> None:
    compiled, x = ready(), torch.randn(3, WIDTH, requires_grad=True)
    found: list[tuple[Tensor, ...]] = []
    for function in (plain, compiled):
        (grad,) = torch.autograd.grad(function(x).pow(2).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(grad.pow(2).sum(), (x, W, V)))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b, a)


def warm(function: Callable[..., Any], inputs: int = 1) -> Callable[..., Any]:
    """Compiled, and called twice: the second call is native."""
    compiled = anyshape.compile(function, dynamic=True)
    for size in (4, 7):
        found = compiled(*(torch.randn(size, WIDTH, requires_grad=True) for _ in range(inputs)))
        (found[0] if isinstance(found, tuple) else found).sum().backward()
    W.grad = V.grad = B.grad = TABLE.grad = None
    return compiled


@pytest.mark.parametrize("other", [lambda x: x, lambda x: x * 2], ids=["itself", "its double"])
def test_gradients_of_gradients_where_inputs_depend_on_each_other(
    other: Callable[[Tensor], Tensor],
) -> None:
    function = lambda x, y: x * y.sin()  # noqa: E731
    x = torch.randn(3, WIDTH, requires_grad=True)
    want, got = (
        torch.autograd.grad(each(x, other(x)).sum(), x, create_graph=True)[0]
        for each in (function, warm(function, 2))
    )
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(
        torch.autograd.grad(got.sum(), x)[0], torch.autograd.grad(want.sum(), x)[0]
    )


def test_gradients_of_gradients_have_the_same_noise() -> None:
    compiled = warm(lambda x: F.dropout(x * x, 0.5))
    x = torch.randn(5, WIDTH, requires_grad=True)
    result = compiled(x)
    state = devices.random_state()
    (grad,) = torch.autograd.grad(result.sum(), x, create_graph=True)
    assert torch.equal(devices.random_state(), state)
    assert torch.equal(grad == 0, result == 0)


def test_gradients_of_gradients_of_what_was_changed_are_an_error() -> None:
    compiled = warm(lambda x: x.softmax(-1))
    x = torch.randn(5, WIDTH, requires_grad=True)
    result = compiled(x)
    with torch.no_grad():
        x.neg_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(result[:, 0].sum(), x, create_graph=True)


def test_what_no_gradient_reaches_has_none() -> None:
    """And what would be infinite times zero is not computed."""
    compiled = warm(lambda x: (x * 2, x.log() * B))
    x = torch.zeros(5, WIDTH, requires_grad=True)
    compiled(x)[0].sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((5, WIDTH), 2.0))
    assert B.grad is None


def test_gradients_share_no_memory() -> None:
    compiled = warm(lambda a, b: a.view(-1) + b.view(-1), 2)
    a, b = (torch.randn(5, WIDTH, requires_grad=True) for _ in range(2))
    compiled(a, b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    a.grad.add_(5)
    assert torch.equal(b.grad, torch.ones_like(b))


def test_a_result_that_is_a_view_may_be_written_to() -> None:
    for function in (lambda x: (x @ W).t(), lambda x: (x @ W).sin().t()):
        compiled = warm(function)
        x = torch.randn(5, WIDTH)
        compare(
            outcome(lambda y, f=function: f(y).relu_() * 1, x),
            outcome(lambda y, f=compiled: f(y).relu_() * 1, x),
        )


def test_many_gradients_at_once() -> None:
    compiled = warm(plain)
    x = torch.randn(5, WIDTH, requires_grad=True)
    weights = torch.randn(3, 5, WIDTH)
    want, got = (
        torch.autograd.grad(each(x), x, weights, is_grads_batched=True)
        for each in (plain, compiled)
    )
    torch.testing.assert_close(got, want)


def test_hooks_see_gradients() -> None:
    compiled, seen = ready(), list[Tensor]()
    handle = W.register_hook(lambda grad: seen.append(grad.clone()))
    try:
        for function in (plain, compiled):
            function(torch.ones(3, WIDTH)).sum().backward()
    finally:
        handle.remove()
        W.grad = V.grad = B.grad = None
    torch.testing.assert_close(seen[1], seen[0])


def test_an_output_that_nothing_comes_back_for() -> None:
    function = lambda x: (x.sin() * V, x.cos() @ W)  # noqa: E731
    compiled = anyshape.compile(function, dynamic=True)
    compiled(torch.randn(5, WIDTH, requires_grad=True))
    x = torch.randn(3, WIDTH, requires_grad=True)
    for place in (0, 1):
        want = torch.autograd.grad(function(x)[place].sum(), x)
        got = torch.autograd.grad(compiled(x)[place].sum(), x)
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "weight",
    [lambda y: torch.ones(()).expand(y.shape), lambda y: torch.randn(y.t().shape).t()],
    ids=["one number", "transposed"],
)
def test_gradients_of_other_layouts(weight: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(3, WIDTH, requires_grad=True)
    w = weight(plain(x))
    want = torch.autograd.grad(plain(x), (x, W), w)
    got = torch.autograd.grad(ready()(x), (x, W), w)
    torch.testing.assert_close(got, want)


def test_what_was_changed_meanwhile_is_an_error() -> None:
    for function in (plain, ready()):
        w = W.detach().clone().requires_grad_()
        x = torch.randn(3, WIDTH, requires_grad=True)
        scaled = x * 1
        result = function(scaled) + (scaled @ w)
        with torch.no_grad():
            scaled.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_what_is_not_needed_may_change() -> None:
    compiled = anyshape.compile(lambda x: x + V, dynamic=True)
    for size in (5, 3):
        x = torch.randn(size, WIDTH, requires_grad=True)
        moved = x * 1
        result = compiled(moved)
        with torch.no_grad():
            moved.add_(1)
        result.sum().backward()
        assert torch.equal(x.grad, torch.ones_like(x))  # pyright: ignore[reportArgumentType]
    V.grad = None


GATES = _matrix(3, 4 * WIDTH, WIDTH), _matrix(4, 4 * WIDTH, WIDTH)

DROPOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x * V, 0.3) + F.dropout(x, 0.6),
    "in place": lambda x: F.dropout(x * V, 0.3, inplace=True),
    "by name": lambda x: F.dropout(training=True, input=x * V, p=0.3),
    "of a part": lambda x: F.dropout(torch.max(x * V, -1)[0], 0.3) * x.chunk(2, 1)[1].sum(1),
    "of a cell": lambda x: F.dropout(torch.lstm_cell(x, (x, x), *GATES)[0], 0.3),
    "by feature": lambda x: F.dropout2d((x * V).view(-1, 2, 3, 1), 0.4),
    "by row": lambda x: F.dropout1d((x * V).view(-1, 2, 3), 0.4),
    "attention": lambda x: _attention(x.view(-1, 1, 2, 3) * 1, dropout_p=0.3),
    "attention, causal": lambda x: _attention(
        x.view(-1, 2, 3, 1), dropout_p=0.2, is_causal=True, scale=-0.7
    ),
    "attention, masked": lambda x: _attention(
        x.view(1, 1, x.shape[0], 6),
        dropout_p=0.2,
        attn_mask=(_positions(x) != 1)[:, None].expand(-1, x.shape[0]),
    ),
    "attention, biased": lambda x: _attention(
        x.view(-1, 1, 2, 3), dropout_p=0.5, attn_mask=W[:2, :2]
    ),
    "none": lambda x: F.dropout(x * V, 0.0) + F.dropout(x, 0.5, training=False),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_of_all_kinds(name: str) -> None:
    compiled = anyshape.compile(DROPOUTS[name], dynamic=True)
    for size in (4, 1, 7, 3):
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        torch.manual_seed(size)
        want = outcome(DROPOUTS[name], x)
        torch.manual_seed(size)
        compare(want, outcome(compiled, x))
    assert "forward: native code" in str(compiled.explain())


def test_dropout_draws_what_eager_draws() -> None:
    def function(x: Tensor) -> Tensor:
        return F.dropout(x * V, 0.4).sin() + F.dropout(x, 0.2)

    compiled = anyshape.compile(function, dynamic=True)
    for size in (5, 3, 8):
        x = torch.randn(size, WIDTH)
        found: list[list[Tensor | None]] = []
        for each in (function, compiled):
            torch.manual_seed(size)
            found.append(outcome(each, x))
        compare(*found)
    assert "forward: native code" in str(compiled.explain())


def test_a_model_learns_as_eager_does() -> None:
    """The losses of thirty steps, with batches of other sizes."""
    losses: list[list[float]] = []
    for compile in (lambda f: f, lambda f: anyshape.compile(f, dynamic=True)):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        model = nn.Sequential(nn.Linear(8, 16), layer, nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        function: Any = compile(
            lambda x, y, model=model: F.cross_entropy(model(x).flatten(0, 1), y)
        )
        own: list[float] = []
        for step in range(30):
            x = torch.randn(2 + step % 3, 5 + step % 4, 8)
            y = x.sum(-1).flatten().long() % 4
            optimizer.zero_grad()
            loss = function(x, y)
            loss.backward()
            optimizer.step()
            own.append(loss.item())
        losses.append(own)
    assert losses[1] == pytest.approx(losses[0], rel=2e-3)
    assert losses[1][-1] < losses[1][0]


def _data(x: Tensor) -> Tensor:
    x.data.mul_(2)
    return x.sin()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: x * torch.rand_like(x.detach()) * torch.rrelu(x, training=True), "are drawn"),
        (lambda x: _data(x * V), "behind autograd's back"),
    ],
)
def test_what_is_not_native_says_why(function: Callable[[Tensor], Tensor], why: str) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (4, 3):
            torch.manual_seed(0)
            x = torch.randn(size, WIDTH, requires_grad=True)
            compiled(x).sum().backward()
    assert why in str(compiled.explain())


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x.sin().sum(), y.cos().sum()),
        lambda x, y: ((x * 2).sin().sum(), (x.cos() * y).sum()),
        lambda x, y: ((x @ y.t()).sum(), (x + y).tanh().mean(), y.exp().sum()),
        lambda x, y: (((k := x > 0) * y.sin()).sum(), torch.where(k, y, x * 2).cos().sum()),
    ],
)
def test_results_that_have_only_inputs_in_common(function: Callable[..., Any]) -> None:
    """Each has its own backward, and nothing is kept for the others."""
    compiled = anyshape.compile(function, dynamic=True)
    for size in (3, 5, 4):
        found: list[list[torch.Tensor]] = []
        for each in (function, compiled):
            torch.manual_seed(size)
            x, y = (torch.randn(size, 4, requires_grad=True) for _ in range(2))
            results = each(x, y)
            for result in reversed(results):
                result.backward()
            with pytest.raises(RuntimeError, match="second time"):
                results[1].backward()
            assert x.grad is not None
            assert y.grad is not None
            found.append([*(r.detach() for r in results), x.grad, y.grad])
        torch.testing.assert_close(found[1], found[0])
    assert "forward: native code" in str(compiled.explain())
    assert compiled.stats().graphs == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: _added_behind_the_first(x),
        lambda x: _shifted(x),
        lambda x: x[:, 3:].sin().sum() + x[1::2].cos().sum(),
    ],
)
def test_parts_that_are_empty(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled = anyshape.compile(function, dynamic=True)
    for rows, columns in ((5, 4), (4, 5), (2, 2), (1, 4), (3, 1), (1, 1), (0, 3)):
        grads: list[torch.Tensor] = []
        for each in (function, compiled):
            x = torch.linspace(-1, 1, rows * columns).view(rows, columns).requires_grad_()
            grads += torch.autograd.grad(each(x).sum(), [x])
        torch.testing.assert_close(grads[1], grads[0])


def _added_behind_the_first(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[1:] += 1
    return y.tanh()


def _shifted(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[:, 1:] = x[:, :-1].sin()
    y[:, 3:].mul_(2)
    return y.tanh()


def test_other_memory_for_a_parameter_is_seen() -> None:
    layer = torch.nn.Linear(4, 4)
    compiled = anyshape.compile(lambda x: layer(x.sin()).tanh(), dynamic=True)
    for size in (3, 5):
        compiled(torch.randn(size, 4, requires_grad=True)).sum().backward()
    result = compiled(torch.randn(6, 4, requires_grad=True))
    old = layer.weight.data
    layer.weight.data = torch.zeros_like(old)
    with pytest.raises(RuntimeError, match="other memory"):
        result.sum().backward()
    layer.weight.data = old
    result.sum().backward()


def test_several_results_of_one_operator_go_together() -> None:
    compiled = anyshape.compile(lambda x: torch.var_mean(x * 2, 1), dynamic=True)
    for size in (3, 5, 4):
        x = torch.randn(size, 6, requires_grad=True)
        grads = [
            torch.autograd.grad([each.sum() for each in results], [x])[0]
            for results in (torch.var_mean(x * 2, 1), compiled(x))
        ]
        torch.testing.assert_close(grads[1], grads[0])
