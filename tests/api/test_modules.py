"""A compiled module is still the module: its state, its modes, its training."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape
from tests.zoo.compare import difference, module_difference
from tests.zoo.nets import MLP, ResNet, Transformer


class Net(nn.Module):
    """Parameters, a buffer, dropout, batch norm, a plain number and a branch on the mode."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)
        self.norm, self.dropout = nn.BatchNorm1d(6), nn.Dropout(0.5)
        self.register_buffer("shift", torch.ones(2))
        self.scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(torch.relu(self.norm(self.first(x))))
        return self.second(y) * self.scale + self.shift * (3 if self.training else 1)


def twins(make: Callable[[], nn.Module] = Net) -> tuple[Any, Any, Any]:
    """An eager module, and its twin with the compiled one made of it."""
    torch.manual_seed(0)
    eager = make()
    twin = copy.deepcopy(eager)
    return eager, twin, anyshape.compile(twin)


def agree(eager: Any, twin: Any, compiled: Any, *sizes: int) -> None:
    """The same answers and the same state after calls at these sizes."""
    for seed, size in enumerate(sizes or (3, 5, 2)):
        torch.manual_seed(seed)
        x = torch.randn(size, 4)
        torch.manual_seed(seed)
        expected = eager(x)
        torch.manual_seed(seed)
        found = compiled(x.clone())
        problem = difference(found, expected) or module_difference(twin, eager)
        assert not problem, f"size {size}: {problem}"


# -- what it looks like --------------------------------------------------------------------------


def test_state_dict_keys() -> None:
    eager, twin, compiled = twins()
    assert list(compiled.state_dict()) == list(eager.state_dict())
    assert [name for name, _ in compiled.named_parameters()] == [
        name for name, _ in eager.named_parameters()
    ]
    assert [name for name, _ in compiled.named_modules()] == [n for n, _ in eager.named_modules()]
    assert all(a is b for a, b in zip(compiled.parameters(), twin.parameters(), strict=True))


def test_is_a_module() -> None:
    _, _, compiled = twins()
    assert isinstance(compiled, nn.Module)
    assert isinstance(compiled, Net)
    assert callable(compiled)
    assert "Linear" in repr(compiled)
    assert compiled.first.in_features == 4
    assert len(list(compiled.children())) == 4


def test_attributes_are_shared() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    for scale in (3.0, 0.5, 2):
        eager.scale = compiled.scale = scale
        assert twin.scale == scale
        agree(eager, twin, compiled)
    twin.scale = eager.scale = -1.0
    assert compiled.scale == -1.0
    agree(eager, twin, compiled)
    compiled.extra = eager.extra = 5
    assert twin.extra == 5
    del compiled.extra, eager.extra
    assert not hasattr(twin, "extra")
    with pytest.raises(AttributeError, match="extra"):
        compiled.extra  # noqa: B018


def test_methods_of_the_class() -> None:
    class WithMethods(Net):
        def loss(self, x: Tensor) -> Tensor:
            return self(x).square().sum()

        @property
        def width(self) -> int:
            return self.first.out_features

    _, twin, compiled = twins(WithMethods)
    twin.eval()
    x = torch.randn(3, 4)
    assert torch.equal(compiled.loss(x), twin.loss(x))
    assert compiled.width == 6


def test_only_one_dictionary_of_submodules() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    torch.manual_seed(5)
    replacement = nn.Linear(6, 2)
    compiled.second, eager.second = replacement, copy.deepcopy(replacement)
    assert twin.second is replacement
    agree(eager, twin, compiled)


# -- copies and files ----------------------------------------------------------------------------


def test_deepcopy_is_apart() -> None:
    eager, _, compiled = twins()
    compiled.eval()
    compiled(torch.randn(3, 4))
    other = copy.deepcopy(compiled)
    with torch.no_grad():
        other.first.weight.zero_()
    x = torch.randn(3, 4)
    eager.eval()
    assert torch.equal(compiled(x), eager(x))
    with torch.no_grad():
        eager.first.weight.zero_()
    assert torch.equal(other(x), eager(x))


def test_state_dict_through_a_file() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    torch.manual_seed(9)
    source = Net()
    file = io.BytesIO()
    torch.save(anyshape.compile(source).state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)
    for module in (eager, compiled):
        assert str(module.load_state_dict(loaded)) == "<All keys matched successfully>"
    agree(eager, twin, compiled)


def test_load_state_dict_with_assign() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    state = {name: value + 1 for name, value in eager.state_dict().items()}
    eager.load_state_dict(copy.deepcopy(state), assign=True)
    compiled.load_state_dict(copy.deepcopy(state), assign=True)
    agree(eager, twin, compiled)


def test_pickle() -> None:
    torch.manual_seed(0)
    net = MLP(4, 2).eval()
    compiled = anyshape.compile(net)
    x = torch.randn(3, 4)
    expected = compiled(x)
    again = pickle.loads(pickle.dumps(compiled))
    assert torch.equal(again(x), expected)
    assert isinstance(again, MLP)


# -- modes ---------------------------------------------------------------------------------------


def test_train_and_eval() -> None:
    eager, twin, compiled = twins()
    for training in (True, False, True, False):
        eager.train(training)
        compiled.train(training)
        assert twin.training is training
        assert twin.norm.training is training
        agree(eager, twin, compiled)


def test_mode_of_one_submodule() -> None:
    eager, twin, compiled = twins()
    agree(eager, twin, compiled)
    eager.dropout.eval()
    twin.dropout.eval()
    agree(eager, twin, compiled)
    eager.norm.eval()
    twin.norm.eval()
    agree(eager, twin, compiled)
    eager.norm.momentum = twin.norm.momentum = 0.5
    eager.norm.train()
    twin.norm.train()
    agree(eager, twin, compiled)


def test_dropout_probability() -> None:
    eager, twin, compiled = twins()
    for p in (0.5, 0.1, 0.9, 0.0, 1.0):
        eager.dropout.p = twin.dropout.p = p
        agree(eager, twin, compiled)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_to_dtype(dtype: torch.dtype) -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    assert compiled.to(dtype) is compiled
    eager.to(dtype)
    x = torch.randn(3, 4, dtype=dtype)
    assert not difference(compiled(x), eager(x))
    assert compiled(x).dtype is dtype
    eager.float()
    compiled.float()
    agree(eager, twin, compiled)


def test_parameters_replaced() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    for seed in (1, 2):
        torch.manual_seed(seed)
        weight = torch.randn(6, 4)
        eager.first.weight = nn.Parameter(weight.clone())
        twin.first.weight = nn.Parameter(weight.clone())
        agree(eager, twin, compiled)
    eager.first.bias = twin.first.bias = None
    agree(eager, twin, compiled)
    eager.first.weight.data = torch.ones(6, 4)
    twin.first.weight.data = torch.ones(6, 4)
    agree(eager, twin, compiled)


def test_parameter_of_another_shape() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    torch.manual_seed(3)
    first, second = nn.Linear(4, 6, bias=False), nn.Linear(6, 7)
    eager.first, eager.second = copy.deepcopy(first), copy.deepcopy(second)
    twin.first, twin.second = first, second
    eager.shift = twin.shift = torch.ones(7)
    agree(eager, twin, compiled)


def test_buffers_replaced_and_changed() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    for module in (eager, twin):
        module.shift.add_(2)
    agree(eager, twin, compiled)
    for module in (eager, twin):
        module.shift = torch.tensor([5.0, 6.0])
    agree(eager, twin, compiled)


def test_requires_grad_toggled() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    for flag in (False, True, False):
        for module in (eager, twin):
            module.requires_grad_(flag)
        agree(eager, twin, compiled)
        for module in (eager, twin):
            module.second.requires_grad_(True)
        agree(eager, twin, compiled)


def test_shared_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x))

    eager, twin, compiled = twins(Tied)
    agree(eager, twin, compiled)
    for module in (eager, twin):
        module.b.weight = nn.Parameter(torch.ones(4, 4))
    agree(eager, twin, compiled)
    x = torch.ones(2, 4)
    for module in (eager, compiled):
        module(x).sum().backward()
    assert not module_difference(twin, eager)


# -- hooks ---------------------------------------------------------------------------------------


def test_hooks_come_and_go() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    handles = [m.first.register_forward_hook(lambda m, a, r: r * 2) for m in (eager, twin)]
    agree(eager, twin, compiled)
    handles += [m.register_forward_pre_hook(lambda m, a: (a[0] + 1,)) for m in (eager, twin)]
    agree(eager, twin, compiled)
    for handle in handles:
        handle.remove()
    agree(eager, twin, compiled)


def test_hook_with_effects() -> None:
    seen: dict[str, list[Any]] = {"eager": [], "compiled": []}
    eager, _, compiled = twins()
    eager.eval()
    compiled.eval()
    eager.first.register_forward_hook(lambda m, a, r: seen["eager"].append(r.shape))
    compiled.first.register_forward_hook(lambda m, a, r: seen["compiled"].append(r.shape))
    for size in (3, 3, 5):
        eager(torch.ones(size, 4))
        compiled(torch.ones(size, 4))
    assert seen["compiled"] == seen["eager"]
    assert len(seen["eager"]) == 3
    assert difference(type(seen["compiled"][-1][0]).__name__, "int") is None


def test_backward_hooks() -> None:
    eager, twin, compiled = twins(lambda: MLP(4, 2))
    totals: list[float] = []
    for module in (eager, twin):
        module.head.register_full_backward_hook(
            lambda m, _, made: totals.append(float(made[0][0, 0]))
        )
        next(module.parameters()).register_hook(lambda gradient: gradient * 2)
    for module in (eager, compiled):
        module(torch.ones(3, 4)).square().sum().backward()
    assert len(totals) == 2
    assert totals[0] == pytest.approx(totals[1])
    assert not module_difference(twin, eager)


def test_keyword_hooks() -> None:
    eager, twin, compiled = twins()
    agree(eager.eval(), twin, compiled.eval())
    for module in (eager, twin):
        module.register_forward_hook(lambda m, a, k, r: r + len(k), with_kwargs=True)
    x = torch.ones(2, 4)
    assert torch.equal(compiled(x), eager(x))
    assert torch.equal(compiled(x=x), eager(x=x))


# -- as a part -----------------------------------------------------------------------------------


def test_as_a_submodule() -> None:
    torch.manual_seed(0)
    inner = MLP(4, 2)
    whole = nn.Sequential(nn.Linear(4, 4), anyshape.compile(inner), nn.ReLU())
    plain = nn.Sequential(copy.deepcopy(whole[0]), copy.deepcopy(inner), nn.ReLU())
    assert list(whole.state_dict()) == list(plain.state_dict())
    for size in (3, 1, 0, 5):
        x = torch.randn(size, 4)
        assert torch.equal(whole(x), plain(x))
    whole.eval()
    assert inner.training is False


def test_compiled_inside_compiled() -> None:
    torch.manual_seed(0)
    inner = MLP(4, 2)
    whole = nn.Sequential(nn.Linear(4, 4), anyshape.compile(inner))
    outer: Any = anyshape.compile(whole, dynamic=True)
    for size in (3, 1, 0, 5):
        x = torch.randn(size, 4)
        assert torch.allclose(outer(x), inner(whole[0](x)), atol=1e-6)
    assert outer.stats().graphs == 1


def test_two_compilations_of_one_module() -> None:
    eager, twin, compiled = twins(lambda: MLP(4, 2))
    other = anyshape.compile(twin, dynamic=True)
    again = anyshape.compile(compiled)
    for size in (3, 5):
        x = torch.randn(size, 4)
        for each in (compiled, other, again):
            assert torch.allclose(each(x), eager(x), atol=1e-6)


def test_one_function_for_many_instances() -> None:
    """Guards follow paths, so one entry serves several modules of a form."""
    torch.manual_seed(0)
    modules = [MLP(4, 2) for _ in range(3)]

    @anyshape.compile
    def run(module: nn.Module, x: Tensor) -> Tensor:
        return module(x) * 2

    x = torch.randn(3, 4)
    for module in modules:
        assert torch.allclose(run(module, x), module(x) * 2, atol=1e-6)
    assert run.stats().graphs == 1


def test_method_compiled_in_a_class() -> None:
    class Scaled(nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.linear, self.scale = nn.Linear(4, 4), scale

        @anyshape.compile(dynamic=True)
        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x) * self.scale

    one, two = Scaled(1.0), Scaled(3.0)
    for size in (3, 5):
        x = torch.randn(size, 4)
        assert torch.equal(one(x), one.linear(x) * 1.0)
        assert torch.equal(two(x), two.linear(x) * 3.0)


def test_forward_replaced_on_the_instance() -> None:
    eager, twin, compiled = twins(lambda: MLP(4, 2))
    x = torch.randn(2, 4)
    assert torch.equal(compiled(x), eager(x))
    twin.forward = lambda x: x + 1
    assert torch.equal(compiled(x), x + 1)


# -- training ------------------------------------------------------------------------------------


MODELS: list[Callable[[], nn.Module]] = [lambda: MLP(4, 3), Net]
OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    # The bias before a batch norm has a gradient of nothing but rounding.
    lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-2),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["SGD", "AdamW"])
@pytest.mark.parametrize("make", MODELS, ids=["MLP", "Net"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_training_loop(
    make: Callable[[], nn.Module],
    optimizer: Callable[[Any], torch.optim.Optimizer],
    dynamic: bool | None,
) -> None:
    torch.manual_seed(0)
    eager = make()
    twin = copy.deepcopy(eager)
    compiled = anyshape.compile(twin, dynamic=dynamic)
    losses: list[list[float]] = [[], []]
    for which, module in enumerate((eager, compiled)):
        steps = optimizer(module.parameters())
        for seed, size in enumerate((6, 6, 4, 7, 6)):
            torch.manual_seed(seed)
            x, y = torch.randn(size, 4), torch.randn(size, 1)
            steps.zero_grad()
            loss = (module(x) - y).square().mean()
            loss.backward()
            steps.step()
            losses[which].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6, abs=1e-7)
    assert not module_difference(twin, eager)


@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_of_inputs(dynamic: bool | None) -> None:
    torch.manual_seed(0)
    eager = Transformer(16, 2, 2)
    twin = copy.deepcopy(eager)
    compiled = anyshape.compile(twin, dynamic=dynamic)
    for batch, length in [(2, 3), (1, 5), (3, 1), (0, 2), (2, 0), (4, 4)]:
        x = torch.randn(batch, length, 16, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        eager(x).square().sum().backward()
        compiled(y).square().sum().backward()
        assert not difference(y.grad, x.grad, f"{batch, length}")
        assert not module_difference(twin, eager)


def test_second_derivative() -> None:
    compiled = anyshape.compile(lambda x: (x**3).sum(), dynamic=True)
    for size in (2, 3):
        x = torch.rand(size, requires_grad=True)
        (first,) = torch.autograd.grad(compiled(x), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert torch.allclose(second, 6 * x)


def test_batch_norm_statistics() -> None:
    torch.manual_seed(0)
    eager = ResNet(4, (1, 1))
    twin = copy.deepcopy(eager)
    compiled = anyshape.compile(twin, dynamic=True)
    for seed, (batch, side) in enumerate([(2, 8), (3, 9), (1, 6), (4, 8)]):
        torch.manual_seed(seed)
        x = torch.randn(batch, 3, side, side)
        assert not difference(compiled(x.clone()), eager(x))
        assert not module_difference(twin, eager)


# -- modes of torch ------------------------------------------------------------------------------


def _device() -> str:
    return torch.get_default_device().type


MODES: dict[str, Callable[[], Any]] = {
    "grad": lambda: torch.enable_grad(),
    "no_grad": lambda: torch.no_grad(),
    "inference_mode": lambda: torch.inference_mode(),
    "autocast bfloat16": lambda: torch.autocast(
        torch.get_default_device().type, dtype=torch.bfloat16
    ),
    "autocast float16": lambda: torch.autocast(
        torch.get_default_device().type, dtype=torch.float16
    ),
    "autocast off": lambda: torch.autocast(_device(), enabled=False),
}


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_mode_outside(first: str, second: str) -> None:
    """What is compiled in one mode is not taken for another."""
    eager, _, compiled = twins(lambda: MLP(4, 2))
    x = torch.randn(3, 4)
    for mode in (first, second, first):
        with MODES[mode]():
            expected, found = eager(x), compiled(x)
        assert not difference(found, expected), mode
        assert found.is_inference() == expected.is_inference()
        assert (found.grad_fn is None) == (expected.grad_fn is None)


@pytest.mark.parametrize("mode", MODES)
def test_mode_inside(mode: str) -> None:
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = MLP(4, 2)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            with MODES[mode]():
                y = self.net(x)
            return y, y.clone() * 2

    eager, twin, compiled = twins(Inside)
    agree(eager, twin, compiled, 3, 5, 1, 0)


def test_mode_as_decorator_of_forward() -> None:
    class Decorated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = MLP(4, 2)

        @torch.no_grad()
        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

    eager, twin, compiled = twins(Decorated)
    agree(eager, twin, compiled, 3, 5, 1)


def test_default_device_and_dtype_outside() -> None:
    compiled = anyshape.compile(lambda x: x + torch.ones(4))
    x = torch.randn(3, 4)
    assert compiled(x).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(x).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert compiled(x).dtype is torch.float32


def test_function_mode_outside() -> None:
    """A torch-function mode of the user sees and changes what eager would let it."""

    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            made = func(*args, **(kwargs or {}))
            return made * 2 if func is torch.relu else made

    compiled = anyshape.compile(lambda x: torch.relu(x) + 1)
    x = torch.ones(3)
    assert compiled(x).tolist() == [2.0] * 3
    with Doubling():
        assert compiled(x).tolist() == [3.0] * 3
    assert compiled(x).tolist() == [2.0] * 3


def test_deterministic_and_threads_do_not_matter() -> None:
    compiled = anyshape.compile(MLP(4, 2).eval())
    x = torch.randn(3, 4)
    expected = compiled(x)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(compiled(x), expected)
    finally:
        torch.use_deterministic_algorithms(False)


class HoldsAnother(torch.nn.Module):
    """A module that has an attribute by the name that code for compiled modules asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_orig_mod"] = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.__dict__["_orig_mod"](x) * self.scale


def test_an_attribute_of_that_name_stays() -> None:
    module = HoldsAnother()
    x = torch.ones(2, 4)
    compiled: Any = anyshape.compile(module)
    for _ in range(3):
        assert torch.equal(compiled(x), module(x))
        assert compiled._orig_mod is module
    assert [name for name, _ in compiled.named_parameters()] == ["scale"]


class HoldsItsCompiled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()


@pytest.mark.parametrize("is_called", [True, False])
def test_a_module_that_holds_what_was_compiled_of_it_is_freed(is_called: bool) -> None:
    module = HoldsItsCompiled()
    module.__dict__["fast"] = anyshape.compile(module, dynamic=True)
    if is_called:
        for rows in (2, 3):
            x = torch.ones(rows, 4)
            assert torch.equal(module.__dict__["fast"](x), module(x))
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None


class WithSlots(torch.nn.Module):
    """Instances have memory of their own beside the dictionary."""

    __slots__ = ("factor",)

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "factor", 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def test_a_module_with_slots() -> None:
    compiled = anyshape.compile(WithSlots(), dynamic=True)
    assert [compiled(torch.ones(n))[0].item() for n in (2, 3)] == [3, 3]
    assert isinstance(compiled, WithSlots)
