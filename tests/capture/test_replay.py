"""Replays of equal layers: whatever the layers are like, the capture is the one without replay.

A row is a stack of layers with something about them that a replay must notice, or must keep.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import anyshape
from anyshape.capture.replay.layers import switch
from tests.capture.replays import Trial, equal

WIDTH = 8
COUNT = 5


class Block(nn.Module):
    """A layer with parameters, constants, a shared object, and parts."""

    def __init__(self, index: int, shared: Any = None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 12)
        self.down = nn.Linear(12, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.index = index
        self.scale = 0.5
        self.shared = shared
        self.names = ["a", "b"]
        self.others = ["c"]
        self.flags = {"gelu": True}

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(self.norm(x))
        h = F.gelu(h) if self.flags["gelu"] and len(self.names) > len(self.others) else F.relu(h)
        return x + self.scale * self.drop(self.down(h)).reshape(x.shape[0], -1, WIDTH)


class Stack(nn.Module):
    """Layers one after the other."""

    def __init__(self, kind: Callable[..., nn.Module] = Block, count: int = COUNT) -> None:
        super().__init__()
        self.shared: dict[str, Any] = {"gain": 2.0}
        self.stem = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH))
        self.layers: Any = nn.ModuleList(kind(index, self.shared) for index in range(count))

    def forward(self, x: Tensor) -> Any:
        # What all layers ask and share is met here, so that the first one is recorded already.
        x = self.stem(x) * self.shared["gain"]
        for layer in self.layers:
            x = layer(x)
        return x


def given() -> tuple[Any, ...]:
    return (torch.randn(2, 3, WIDTH),)


def trial(build: Callable[[], nn.Module], grad: bool = False) -> int:
    return Trial(build, given).run(grad)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_equal_layers_are_replayed(grad: bool, training: bool) -> None:
    assert trial(lambda: Stack().train(training), grad) >= COUNT - 3


# -- how layers are held -----------------------------------------------------------------------


def _sequential() -> nn.Module:
    return nn.Sequential(*(Block(index) for index in range(COUNT)))


class _ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({f"block {index}": Block(index) for index in range(COUNT)})
        self.plain = [Block(index).eval() for index in range(COUNT)]

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks.values():
            x = block(x)
        for block in self.plain:
            x = block(x)
        return x


class _Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.ModuleList(Stack(count=3) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for stack in self.outer:
            x = stack(x) + 1
        return x


class _OnLinesOfTheirOwn(Stack):
    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        x = self.layers[1](x)
        x = self.layers[2](self.layers[3](x))
        return self.layers[4](x)


class _Twice(Stack):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            for layer in self.layers:
                x = layer(x)
        return x


def _same_object_twice() -> Stack:
    made = Stack()
    made.layers[3] = made.layers[1]
    return made


class _FlagsReadBefore(Stack):
    """Attributes of layers are read before they are called."""

    def forward(self, x: Tensor) -> Tensor:
        if self.layers[0].scale and self.layers[4].index == 4:
            x = x + 1
        for layer in self.layers:
            x = layer(x) * layer.scale
        return x


HELD: dict[str, Callable[[], nn.Module]] = {
    "sequential": _sequential,
    "by name": _ByName,
    "nested": _Nested,
    "on lines of their own": _OnLinesOfTheirOwn,
    "twice": _Twice,
    "the same object twice": _same_object_twice,
    "read before": _FlagsReadBefore,
}


@pytest.mark.parametrize("name", HELD)
def test_layers_however_held(name: str) -> None:
    trial(lambda: HELD[name]().eval())


# -- one layer is different --------------------------------------------------------------------


def _tie(one: Any, other: Any) -> None:
    one.up.weight = other.up.weight


def _narrow(layer: Any) -> None:
    layer.up, layer.down = nn.Linear(WIDTH, 6), nn.Linear(6, WIDTH)


def _transposed(layer: Any) -> None:
    layer.up.weight = nn.Parameter(torch.randn(WIDTH, 12).t())


def _in_place_of(layer: Any, kind: type) -> Any:
    layer.__class__ = kind


class _Louder(Block):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 3


def _forward_of_its_own(layer: Any) -> None:
    layer.forward = lambda x: x * 7


def _offset(layer: Any) -> None:
    layer.up.bias = nn.Parameter(torch.randn(24)[12:])


def _view(layer: Any) -> None:
    layer.up.bias = nn.Parameter(torch.randn(24).as_strided((12,), (2,)))


#: What may be changed of one layer, given the stack and the layer.
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "constant": lambda stack, layer: setattr(layer, "scale", 0.75),
    "kind of constant": lambda stack, layer: setattr(layer, "scale", 1),
    "epsilon": lambda stack, layer: setattr(layer.norm, "eps", 0.1),
    "dropout": lambda stack, layer: setattr(layer.drop, "p", 0.7),
    "training": lambda stack, layer: layer.train(),
    "training of a part": lambda stack, layer: layer.drop.train(),
    "list": lambda stack, layer: layer.names.append("c"),
    "list of another": lambda stack, layer: setattr(layer, "names", stack.layers[1].names),
    "list twice": lambda stack, layer: setattr(layer, "others", layer.names),
    "dictionary": lambda stack, layer: layer.flags.update(gelu=False),
    "more keys": lambda stack, layer: layer.flags.update(more=1),
    "parameter": lambda stack, layer: setattr(
        layer.up, "weight", nn.Parameter(torch.randn(12, WIDTH))
    ),
    "no bias": lambda stack, layer: setattr(layer.up, "bias", None),
    "no grad": lambda stack, layer: layer.up.weight.requires_grad_(False),
    "tied": lambda stack, layer: _tie(layer, stack.layers[0]),
    "tied with the next": lambda stack, layer: _tie(stack.layers[4], layer),
    "part of another": lambda stack, layer: setattr(layer, "norm", stack.layers[1].norm),
    "shape": lambda stack, layer: _narrow(layer),
    "strides": lambda stack, layer: _transposed(layer),
    "offset": lambda stack, layer: _offset(layer),
    "view": lambda stack, layer: _view(layer),
    "dtype": lambda stack, layer: layer.norm.register_buffer("_unused", torch.ones(1).double()),
    "class": lambda stack, layer: _in_place_of(layer, _Louder),
    "class of a part": lambda stack, layer: setattr(layer, "drop", nn.Identity()),
    "forward": lambda stack, layer: _forward_of_its_own(layer),
    "hook": lambda stack, layer: layer.register_forward_hook(lambda m, a, out: out * 2),
    "hook before": lambda stack, layer: layer.up.register_forward_pre_hook(
        lambda m, a: (a[0] * 2,)
    ),
    "more attributes": lambda stack, layer: setattr(layer, "more", 1),
    "hidden method": lambda stack, layer: setattr(layer, "extra_repr", lambda: ""),
    "replaced": lambda stack, layer: stack.layers.__setitem__(3, Block(3).eval()),
    "shared": lambda stack, layer: setattr(layer, "shared", {"gain": 3.0}),
    "marked": lambda stack, layer: anyshape.mark_dynamic(layer.up.bias, 0),
}


def _changed(name: str) -> Stack:
    made = Stack().eval()
    CHANGES[name](made, made.layers[3])
    return made


@pytest.mark.parametrize("name", CHANGES)
def test_a_layer_that_is_different(name: str) -> None:
    trial(lambda: _changed(name), grad=name == "no grad")


@pytest.mark.parametrize("name", CHANGES)
def test_a_layer_that_is_changed_afterwards(name: str) -> None:
    torch.manual_seed(0)
    made, (x,) = Stack().eval(), given()
    with torch.no_grad():
        compiled = anyshape.compile(made, dynamic=True, backend="eager")
        before = switch.replayed
        compiled(x)
        assert switch.replayed > before
        CHANGES[name](made, made.layers[3])
        for size in (2, 5):
            more = torch.randn(size, 3, WIDTH)
            torch.manual_seed(7)
            got = compiled(more)
            torch.manual_seed(7)
            assert equal(got, made(more)), name


# -- layers that do more than to compute -------------------------------------------------------


class _Layer(nn.Module):
    """A layer of a stack, which can reach it."""

    def __init__(self, index: int, shared: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.index = index
        self.calls = 0
        self.seen: list[Any] = []
        self.shared = shared
        self.gain = 1.0 + index

    def plain(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x)).sin() + x


class _UsesIndex(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * self.index


class _ReadsShared(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * self.shared["gain"]


class _Counts(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.plain(x)


class _CountsTogether(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        self.shared["gain"] = self.shared["gain"] + 1
        return self.plain(x) * self.shared["gain"]


class _Collects(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.shape[0])
        return self.plain(x)


class _InPlace(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        made = self.plain(x)
        made += 1
        return made.relu_()


class _ChangesItsArgument(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        return self.plain(x)


class _ReadsData(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * x.sum().item()


class _DecidesByData(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) if x.sum() > 0 else self.plain(-x)


class _Drops(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.plain(x), 0.5, True) + torch.rand(x.shape[0], 1, 1)


class _WithoutGrad(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.plain(x)


class _Autocast(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.plain(x).float()


class _DependsOnSizes(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        made = self.plain(x.reshape(-1, WIDTH)).view(x.shape)
        return made[:, : x.shape[1] // 2 + 1] if x.shape[1] > 40 else made / x.shape[0]


class _FirstOfItsModel(_Layer):
    """Is the first layer of its stack, if it is: told by identity."""

    stack: Any = None

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * (2 if self.shared["stack"][0].layers[0] is self else 3)


class _ReadsTheFirst(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * self.shared["stack"][0].layers[0].gain


class _ReadsTheFirstWeight(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) + self.shared["stack"][0].layers[0].linear.weight[0]


class _ReadsTheLast(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        last = self.shared["stack"][0].layers[4]
        return self.plain(x) * last.gain + last.linear.weight[0]


class _Cached(_Layer):
    @functools.cached_property
    def factor(self) -> float:
        return self.gain * 2

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * self.factor


@functools.lru_cache
def _doubled(value: float) -> float:
    return value * 2


class _CachedFunction(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * _doubled(1.5)


class _Weak(_Layer):
    def __init__(self, index: int, shared: Any) -> None:
        super().__init__(index, shared)
        self.me: Any = weakref.ref(self)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * self.me().gain


class _Recursive(_Layer):
    def __init__(self, index: int, shared: Any) -> None:
        super().__init__(index, shared)
        self.__dict__["me"] = self
        self.__dict__["also"] = self.norm

    def forward(self, x: Tensor) -> Tensor:
        me: Any = self.__dict__["me"]
        return me.plain(x) + me.also(x) if me.also is self.norm else x


class _Catches(_Layer):
    """Only one layer's operation fails, by its data, and the layer goes on."""

    def __init__(self, index: int, shared: Any) -> None:
        super().__init__(index, shared)
        self.place = nn.Buffer(torch.tensor([0 if index < 3 else 99]))

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.rand(x.shape[0], 1, 1)
        try:
            x = x + F.embedding(self.place, self.linear.weight)
        except IndexError:
            x = x * 5
        return self.plain(x) + noise


class _LooksAtItself(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        many = len(list(self.parameters())) + len(vars(self)) + sum(1 for _ in self.modules())
        return self.plain(x) * many


class _LooksAtStrides(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * self.linear.weight.stride(0)


class _LooksAtLeaves(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        leaf = 2 if self.linear.weight.is_leaf else 3
        return self.plain(x) * (leaf if self.linear.weight.grad is None else 5)


class _Splits(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        one, two = self.plain(x).chunk(2, -1)
        values, _ = x.max(-1, keepdim=True)
        return torch.cat([two, one], -1) + values


class _Slots:
    __slots__ = ("bias", "weight")

    def __init__(self, index: int) -> None:
        self.weight, self.bias = 2.5, index // 4


class _HasSlots(_Layer):
    def __init__(self, index: int, shared: Any) -> None:
        super().__init__(index, shared)
        self.slots = _Slots(index)
        self.act = functools.partial(F.leaky_relu, negative_slope=0.1 + (index == 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.plain(x)) * self.slots.weight + self.slots.bias


_HELD: dict[str, Any] = {}


class _Global(_Layer):
    def __init__(self, index: int, shared: Any) -> None:
        super().__init__(index, shared)
        _HELD.setdefault("last", self)
        _HELD["last"] = self

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * (2 if _HELD["last"] is self else 3)


class _Checked(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        torch._check(x.shape[0] < 1000)
        assert x.dim() == 3, "three dimensions"
        return self.plain(x)


class _OwnGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 3


class _HasOwnGradient(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return _OwnGradient.apply(self.plain(x))


class _Normed(_Layer):
    def __init__(self, index: int, shared: Any) -> None:
        super().__init__(index, shared)
        self.batch = nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.batch(self.plain(x))


LAYERS: tuple[type[_Layer], ...] = (
    _UsesIndex,
    _ReadsShared,
    _Counts,
    _CountsTogether,
    _Collects,
    _InPlace,
    _ChangesItsArgument,
    _ReadsData,
    _DecidesByData,
    _Drops,
    _WithoutGrad,
    _Autocast,
    _DependsOnSizes,
    _FirstOfItsModel,
    _ReadsTheFirst,
    _ReadsTheFirstWeight,
    _ReadsTheLast,
    _Cached,
    _CachedFunction,
    _Weak,
    _Recursive,
    _Catches,
    _LooksAtItself,
    _LooksAtStrides,
    _LooksAtLeaves,
    _Splits,
    _HasSlots,
    _Global,
    _Checked,
    _HasOwnGradient,
    _Normed,
)


def _stack_of(kind: type[_Layer]) -> Stack:
    made = Stack(kind)
    made.shared["stack"] = [made]
    return made


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_layers_that_do_more(kind: type[_Layer]) -> None:
    trial(lambda: _stack_of(kind), grad=kind in (_WithoutGrad, _HasOwnGradient, _LooksAtLeaves))


# -- arguments and results ---------------------------------------------------------------------


class _Carries(_Layer):
    """Takes and returns several things."""

    def forward(
        self, x: Tensor, sizes: tuple[int, ...], mask: Tensor | None = None, *, how: str = "a"
    ) -> Any:
        made = self.plain(x)
        made = made if mask is None else made * mask
        return made * len(how), (sizes[0] + 1, *sizes[1:]), [made, made.shape[0]]


class _Carrying(Stack):
    def __init__(self) -> None:
        super().__init__(_Carries, 8)

    def forward(self, x: Tensor) -> Any:
        sizes, mask, outs = (x.shape[0], 3), x.mean(-1, keepdim=True), []
        for number, layer in enumerate(self.layers):
            how = "a" if number < 6 else "bc"
            x, _, out = layer(x, sizes, mask if number % 2 else None, how=how)
            out.append(number)
            outs.append(out)
        return x, outs


class _Appending(_Layer):
    def forward(self, x: Tensor, outs: list[Tensor]) -> Tensor:
        outs.append(x)
        return self.plain(x)


class _Gathering(Stack):
    def __init__(self) -> None:
        super().__init__(_Appending)

    def forward(self, x: Tensor) -> Any:
        outs: list[Tensor] = []
        for layer in self.layers:
            x = layer(x, outs)
        return x, outs


class _ChangesBetween(Stack):
    def __init__(self) -> None:
        super().__init__(_ReadsShared)

    def forward(self, x: Tensor) -> Any:
        for number, layer in enumerate(self.layers):
            self.shared["gain"] = float(number)
            x = layer(x)
        return x


class _ChangesLater(Stack):
    """What the first layers have read is changed before the last ones."""

    def __init__(self) -> None:
        super().__init__(_ReadsShared)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        for number, layer in enumerate(self.layers):
            if number == 3:
                self.shared["gain"] = 7.0
            x = layer(x)
        return x


class _UsesFactor(_Layer):
    factor: float

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) * self.factor


class _WritesToLayers(Stack):
    """What layers read is written by the program."""

    def __init__(self) -> None:
        super().__init__(_UsesFactor)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        for number, layer in enumerate(self.layers):
            layer.factor = float(number)
        for layer in self.layers:
            x = layer(x)
        return x


class _UsesSizes(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        made = self.plain(x).reshape(x.shape[0], x.shape[1], WIDTH)
        return made + torch.arange(x.shape[1]).unsqueeze(-1)


class _FactsBetween(Stack):
    """More is known of the sizes before the last layers."""

    def __init__(self) -> None:
        super().__init__(_UsesSizes)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        for number, layer in enumerate(self.layers):
            if number == 3 and x.shape[1] == 3:
                x = x + 1
            x = layer(x)
        return x


class _ModesBetween(Stack):
    def forward(self, x: Tensor) -> Any:
        for number, layer in enumerate(self.layers):
            with torch.set_grad_enabled(number < 3):
                x = layer(x)
        return x


class _ShapesBetween(Stack):
    def forward(self, x: Tensor) -> Any:
        for number, layer in enumerate(self.layers):
            x = layer(x if number < 3 else x.transpose(0, 1))
        return x


class _SelfAsArgument(Stack):
    def __init__(self) -> None:
        super().__init__(_TakesModules)

    def forward(self, x: Tensor) -> Any:
        for number, layer in enumerate(self.layers):
            x = layer(x, layer.norm, self.layers[max(number - 1, 0)].linear.weight)
        return x


class _TakesModules(_Layer):
    def forward(self, x: Tensor, norm: Any, weight: Tensor) -> Tensor:
        return norm(self.plain(x)) @ weight


class _Decides(Stack):
    """A graph ends between the layers."""

    def forward(self, x: Tensor) -> Any:
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number == 2 and x.sum() > 0:
                x = x + 1
        return x


CARRIERS: tuple[type[Stack], ...] = (
    _Carrying,
    _Gathering,
    _ChangesBetween,
    _ChangesLater,
    _WritesToLayers,
    _FactsBetween,
    _ModesBetween,
    _ShapesBetween,
    _SelfAsArgument,
    _Decides,
)


@pytest.mark.parametrize("kind", CARRIERS, ids=lambda kind: kind.__name__)
def test_what_layers_are_given(kind: type[Stack]) -> None:
    trial(kind, grad=kind is _ModesBetween)


def test_one_operation_that_raises_leaves_the_layer_to_the_program() -> None:
    """A replay in which an operation fails is given up, with the random numbers it has drawn."""
    torch.manual_seed(0)
    made, (x,) = _stack_of(_Catches), given()
    before = switch.replayed
    with torch.no_grad():
        torch.manual_seed(1)
        got = anyshape.compile(made, dynamic=True, backend="eager")(x)
        torch.manual_seed(1)
        assert equal(got, made(x))
    assert switch.replayed > before


def test_gradients() -> None:
    torch.manual_seed(0)
    made, twin = Stack(), Stack()
    twin.load_state_dict(made.state_dict())
    compiled = anyshape.compile(made, dynamic=True, backend="eager")
    for size in (2, 4):
        x = torch.randn(size, 3, WIDTH)
        for each in (compiled, twin):
            each.zero_grad()
            torch.manual_seed(5)
            each(x).sum().backward()
        for one, other in zip(made.parameters(), twin.parameters(), strict=True):
            assert equal(one.grad, other.grad)


class _Fails(_Layer):
    def __init__(self, index: int, shared: Any) -> None:
        super().__init__(index, shared)
        self.place = nn.Buffer(torch.tensor([0 if index < 3 else 99]))

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x + F.embedding(self.place, self.linear.weight))


def test_errors_have_no_context_of_ours() -> None:
    made, (x,) = _stack_of(_Fails), given()
    before = switch.replayed
    with torch.no_grad(), pytest.raises(IndexError) as error:
        anyshape.compile(made, dynamic=True, backend="eager")(x)
    assert switch.replayed > before
    assert error.value.__context__ is None
