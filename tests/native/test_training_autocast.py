"""Graphs with gradients under autocast: native, with eager's dtypes and gradients."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from anyshape.ops.autocast_casts import Autocast, CastsInside, autocast_casts, require_parts
from anyshape.ops.meta import Meta, contiguous
from anyshape.ops.meta_tensors import mapped_tree
from anyshape.ops.op import CASTS_BETWEEN
from anyshape.support.lazy_dataclass import replace
from tests import devices

#: its kind
DEVICE = torch.get_default_device().type
WIDTH = 8
#: Of the largest gradient: results are rounded to eight bits.
CLOSE = 2e-2


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anyshape.config, "native_training", True)
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    monkeypatch.setattr(anyshape.config, "on_compile_error", "raise")


def _matrix(seed: int, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape, generator=devices.generator(seed)) / WIDTH**0.5)


W, V, B = _matrix(0, WIDTH, WIDTH), _matrix(1, WIDTH), _matrix(2, WIDTH)
FILTER = _matrix(3, 4, 2, 3)
PARAMETERS = (W, V, B, FILTER)


def _heads(x: Tensor) -> Tensor:
    return x.view(-1, 2, 2, 2).transpose(1, 2)


def _nested(x: Tensor) -> Tensor:
    with torch.autocast(DEVICE, torch.bfloat16):
        y = F.linear(x, W, B)
        with torch.autocast(DEVICE, enabled=False):
            z = y.float() @ W
        return y + F.linear(z, W)


def _partly(x: Tensor) -> Tensor:
    y = x @ W
    with torch.autocast(DEVICE, torch.bfloat16):
        y = y @ W
    return y @ W.to(y.dtype)


def _without_gradient(x: Tensor) -> Tensor:
    with torch.autocast(DEVICE, torch.bfloat16):
        with torch.no_grad():
            shares = (x.detach() @ x.detach().t()).softmax(-1)
        return shares @ (x @ W)


#: Under autocast as a whole.
PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "linear": lambda x: F.linear(x, W, B).relu(),
    "not dense": lambda x: F.linear(torch.stack([x, x], 1)[:, 0], W, B).relu(),
    "more dimensions": lambda x: F.linear(x.view(-1, 1, WIDTH), W, B).sum(1),
    "a weight twice": lambda x: F.linear(F.linear(x, W), W) + x @ W,
    "products": lambda x: torch.addmm(B, x, W) + x.mm(W),
    "two dtypes": lambda x: (x @ W) * x + V,
    "norm": lambda x: F.layer_norm(F.linear(x, W), (WIDTH,), V, B),
    "joined": lambda x: torch.cat([x, x @ W], -1).sin(),
    "losses": lambda x: F.mse_loss(x @ W, x) + F.cross_entropy(x @ W, torch.arange(len(x)) % 3),
    "attention": lambda x: F.scaled_dot_product_attention(_heads(x @ W), _heads(x), _heads(x)),
    "convolution": lambda x: F.conv1d(x.view(-1, 2, 4), FILTER, padding=1).tanh(),
    "written": lambda x: (x @ W).mul_(2).add_(x.to(torch.bfloat16)),
    "a loop": lambda x: _steps(x, 3),
    "views": lambda x: (x @ W).t()[1:].reshape(-1) * 3,
    "T": lambda x: (x @ W).T.sin() @ x,
    "mT": lambda x: (x @ W.mT).unflatten(-1, (2, -1)).mT.tanh() * 2,
    "mH": lambda x: x @ (W.mH @ W).sin(),
    "H": lambda x: (x @ W).H.sin() @ x,
    "data": lambda x: (x @ W) * (x @ W).data.sin(),
    "real": lambda x: (x @ W).real.sin() * x,
}


def _steps(x: Tensor, count: int) -> Tensor:
    for _ in range(count):
        x = torch.tanh(F.linear(x, W, B)) + x
    return x


def _in_half(x: Tensor) -> Tensor:
    with torch.autocast(DEVICE, torch.float16):
        y = x @ W
    return y.float() + x @ W


def _outcome(call: Callable[[Tensor], Any], x: Tensor, around: bool) -> list[Any]:
    x = x.clone().requires_grad_()
    for each in PARAMETERS:
        each.grad = None
    with torch.autocast(DEVICE, torch.bfloat16, enabled=around):
        result = call(x)
    weight = torch.linspace(-1, 1, result.numel()).view(result.shape).to(result.dtype)
    (result * weight).float().sum().backward()
    return [result.detach(), x.grad, *(each.grad for each in PARAMETERS)]


def _assert_close(ours: list[Any], theirs: list[Any]) -> None:
    for own, other in zip(ours, theirs, strict=True):
        assert (own is None) == (other is None)
        if own is not None:
            assert own.dtype is other.dtype
            assert own.shape == other.shape
            largest = float(other.abs().max()) if other.numel() else 0.0
            torch.testing.assert_close(own, other, rtol=CLOSE, atol=CLOSE * largest)


def _check(
    program: Callable[[Tensor], Any],
    around: bool,
    sizes: tuple[int, ...] = (4, 7, 1, 9, 4),
    dynamic: bool | None = None,
) -> Any:
    compiled = anyshape.compile(program, dynamic=dynamic)
    for size in sizes:
        x = torch.randn(size, WIDTH, generator=devices.generator(size))
        torch.manual_seed(size)
        theirs = _outcome(program, x, around)
        torch.manual_seed(size)
        _assert_close(_outcome(compiled, x, around), theirs)
    return compiled


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("inside", [False, True])
def test_gradients(name: str, inside: bool) -> None:
    def region(x: Tensor) -> Tensor:
        with torch.autocast(DEVICE, torch.bfloat16):
            return PROGRAMS[name](x)

    compiled = _check(region if inside else PROGRAMS[name], not inside)
    told = str(compiled.explain())
    assert "forward: native code" in told, told


#: With operators that torch computes, and autocast leaves alone.
LEFT_ALONE: dict[str, Callable[[Tensor], Any]] = {
    "dropout": lambda x: F.dropout(x, 0.4) @ W,
    "dropout of 16 bits": lambda x: F.dropout(x @ W, 0.4).sin(),
    "channels dropped": lambda x: F.dropout1d(x.view(-1, 2, 4), 0.4).view(-1, WIDTH) @ W,
    "pooling": lambda x: F.max_pool1d(x.view(-1, 2, 4), 2).view(-1, 4).repeat(1, 2) @ W,
}


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
@pytest.mark.parametrize("name", [*PROGRAMS, *LEFT_ALONE])
def test_a_first_size_of_one_is_one_of_many(name: str) -> None:
    compiled = _check((PROGRAMS | LEFT_ALONE)[name], True, (1, 4, 7, 1, 9), dynamic=True)
    told = str(compiled.explain())
    assert "forward: native code" in told, told
    assert "  no native code:" not in told, told


@pytest.mark.parametrize("program", [_nested, _partly, _without_gradient])
def test_regions(program: Callable[[Tensor], Any]) -> None:
    assert "forward: native code" in str(_check(program, False).explain())


def test_torchs_cache_has_a_cast_to_another_dtype() -> None:
    assert "autocast casts what" in str(_check(_in_half, True).explain())


def test_casts_inside_an_operator_are_torchs() -> None:
    cell = nn.LSTMCell(WIDTH, WIDTH)
    compiled = _check(lambda x: cell(x)[0], True)
    is_inside = DEVICE == "cpu"  # GPUs have it in their list of operators
    assert ("autocast casts inside" in str(compiled.explain())) == is_inside


def test_autocast_or_not_are_two_programs() -> None:
    compiled = anyshape.compile(lambda x: F.linear(x, W).sin())
    for around in (False, True, False, True):
        for size in (3, 5):
            x = torch.randn(size, WIDTH, generator=devices.generator(size))
            theirs = _outcome(lambda x: F.linear(x, W).sin(), x, around)
            _assert_close(_outcome(compiled, x, around), theirs)


def test_backward_in_the_region_and_again() -> None:
    program = PROGRAMS["a weight twice"]
    compiled = anyshape.compile(program)
    found: list[list[Any]] = []
    for call in (program, compiled, compiled):
        x = torch.ones(3, WIDTH, requires_grad=True)
        with torch.autocast(DEVICE, torch.bfloat16):
            result = call(x)
            assert torch.is_autocast_enabled(DEVICE)
        (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), W)
        found.append([result.detach(), first.detach(), second])
    _assert_close(found[1], found[0])
    _assert_close(found[2], found[0])


def test_hooks_run_the_program_as_it_is() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return F.linear(x, W, B), x @ W * 2

    compiled = anyshape.compile(program)
    seen: list[torch.dtype] = []
    handle = W.register_hook(lambda grad: seen.append(grad.dtype))
    try:
        for call in (program, compiled, compiled):
            with torch.autocast(DEVICE, torch.bfloat16):
                one, other = call(torch.ones(2, WIDTH))
                assert (one.dtype, other.dtype) == (torch.bfloat16, torch.bfloat16)
            (one.sum() + other.sum()).backward()
    finally:
        handle.remove()
    assert seen == [torch.float32] * 3


def test_scaled_steps() -> None:
    outcomes: list[list[Any]] = []
    x = torch.randn(6, WIDTH, generator=devices.generator(9))
    for compiles in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1))
        call: Any = anyshape.compile(model) if compiles else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler(DEVICE, init_scale=16.0, growth_interval=2)
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = call(x).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        outcomes.append([*(each.detach() for each in model.parameters()), scaler.get_scale()])
    assert outcomes[0].pop() == outcomes[1].pop()
    _assert_close(outcomes[1], outcomes[0])


# -- what autocast does to a call ------------------------------------------------------------------


def _meta(*shape: int, dtype: torch.dtype = torch.float32) -> Meta:
    return Meta(shape, dtype, contiguous(len(shape)), torch.device("cpu"))


HALF, SINGLE = torch.bfloat16, torch.float32
OFF = Autocast(False, HALF)

CALLS: list[tuple[Any, Any, list[torch.dtype | None] | None]] = [
    (F.linear, (_meta(4, 8), _meta(6, 8), _meta(6)), [HALF, HALF, HALF]),
    (F.linear, (_meta(4, 8, dtype=HALF), _meta(6, 8)), [None, HALF]),
    (torch.add, (_meta(4), _meta(4, dtype=HALF)), [None, None]),
    (F.mse_loss, (_meta(4, dtype=HALF), _meta(4)), [SINGLE, None]),
    (torch.Tensor.to, (_meta(4, dtype=HALF), SINGLE), [None]),
    (F.embedding, (_meta(4, dtype=torch.int64), _meta(9, 8)), [None, None]),
    (lambda x, w: x.mm(w) + x, (_meta(4, 4), _meta(4, 4)), None),
    (lambda x: x.nonzero(), (_meta(4),), None),
]
#: Devices have lists of their own.
ON_CPU: list[tuple[Any, Any, list[torch.dtype | None] | None]] = [
    (torch.cat, ([_meta(4), _meta(4, dtype=HALF)],), [None, SINGLE]),
    (torch.einsum, ("ij,jk->ik", _meta(4, 8), _meta(8, 4)), None),
]
ON_GPU: list[tuple[Any, Any, list[torch.dtype | None] | None]] = [
    (torch.cat, ([_meta(4), _meta(4, dtype=HALF)],), [None, None]),
    (torch.einsum, ("ij,jk->ik", _meta(4, 8), _meta(8, 4)), [HALF, HALF]),
    (torch.exp, (_meta(4, dtype=HALF),), [SINGLE]),
    (F.layer_norm, (_meta(4, 8, dtype=HALF), (8,)), [SINGLE]),
    (torch.sum, (_meta(4, dtype=HALF),), [SINGLE]),
    (torch.sum, (_meta(4, 8, dtype=torch.float16), -1), [SINGLE]),
    (torch.cumsum, (_meta(4, dtype=HALF), 0), [SINGLE]),
    (torch.sum, (_meta(4),), [None]),
    (torch.sum, (_meta(4, dtype=torch.int64),), [None]),
    (F.softmax, (_meta(4, 8, dtype=HALF), -1), [SINGLE]),
    (F.softmax, (_meta(4, 8, dtype=torch.float16), -1), [SINGLE]),
    (F.log_softmax, (_meta(4, 8, dtype=torch.float16), -1), [SINGLE]),
    (F.gelu, (_meta(4, dtype=HALF),), [None]),
]


def _casts(device: str, function: Any, args: Any) -> list[torch.dtype | None]:
    given = mapped_tree(args, lambda leaf: _on(leaf, device))
    state = {"cpu": OFF, "cuda": OFF, device: Autocast(True, HALF)}
    return autocast_casts(function, given, {}, state, lambda size: size)  # pyright: ignore[reportArgumentType]


def _on(leaf: Any, device: str) -> Any:
    return replace(leaf, device=torch.device(device, 0)) if isinstance(leaf, Meta) else leaf


@pytest.mark.parametrize(
    ("device", "function", "args", "expected"),
    [
        *(("cpu", *call) for call in (*CALLS, *ON_CPU)),
        *(("cuda", *call) for call in CALLS),
    ],
)
def test_casts(
    device: str, function: Any, args: Any, expected: list[torch.dtype | None] | None
) -> None:
    if expected is None:
        with pytest.raises(CastsInside):
            _casts(device, function, args)
    else:
        assert _casts(device, function, args) == expected
        with torch.autocast(DEVICE, torch.float16):
            assert _casts(device, function, args) == expected  # what is on around does not matter


@pytest.mark.parametrize(("function", "args", "expected"), ON_GPU)
def test_casts_of_gpus(function: Any, args: Any, expected: list[torch.dtype | None]) -> None:
    assert _casts("cuda", function, args) == expected


@pytest.mark.parametrize(
    ("args", "kwargs", "is_so"),
    [
        ((_meta(4, 8, dtype=HALF), _meta(4, dtype=torch.int64)), {}, True),
        ((_meta(8, dtype=HALF), _meta(dtype=torch.int64)), {}, True),
        ((_meta(4, 8, 5, dtype=HALF), _meta(4, 5, dtype=torch.int64)), {"reduction": "sum"}, True),
        ((_meta(4, 8, dtype=HALF), _meta(4, dtype=torch.int64), _meta(8)), {}, True),
        ((_meta(4, 8, dtype=HALF), _meta(4, 8, dtype=HALF)), {}, False),
        ((_meta(4, 8, dtype=HALF), _meta(4, dtype=torch.int64)), {"label_smoothing": 0.1}, False),
    ],
)
def test_casts_between_parts(args: Any, kwargs: dict[str, Any], is_so: bool) -> None:
    """On GPUs, logarithms of probabilities are cast before classes are looked up in them."""
    given = mapped_tree(args, lambda leaf: _on(leaf, "cuda"))
    state = {"cpu": OFF, "cuda": Autocast(True, HALF)}
    parts = CASTS_BETWEEN["cross_entropy"]
    with pytest.raises(CastsInside):
        _casts("cuda", partial(F.cross_entropy, **kwargs), args)
    with contextlib.nullcontext() if is_so else pytest.raises(CastsInside):
        require_parts(F.cross_entropy, parts, given, kwargs, state, lambda size: size)  # pyright: ignore[reportArgumentType]


def test_autocast_of_another_device_is_nothing() -> None:
    state = {"cpu": OFF, "cuda": Autocast(True, HALF)}
    args = _meta(4, 8), _meta(8, 4)
    assert autocast_casts(torch.mm, args, {}, state, lambda size: 4) == [None, None]


def test_nothing_of_it_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for device in ("cpu", "cuda"):
            _casts(device, torch.mm, (_meta(2, 2), _meta(2, 2)))
