"""What users write, and the types that their checkers must see: read by pyright and mypy.

`assert_type` fails where a type is another one. Lines that a checker must refuse are marked, and a
mark that is not needed is an error of its own. Nothing here runs.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TypeVar, assert_type

import torch
from torch import Tensor, nn

import anyshape
from anyshape import Compiled, CompiledModule, Dim, DynamicInt, Exported, Shapes, Stats

T = TypeVar("T")
x = torch.ones(3)


def scaled(x: Tensor, by: float = 2.0) -> Tensor:
    return x * by


def both(x: Tensor, n: int) -> tuple[Tensor, int]:
    return x, n


class Net(nn.Module):
    width: int = 4

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    @anyshape.compile
    def encode(self, x: Tensor) -> Tensor:
        return self.linear(x)

    @anyshape.compile(dynamic=True)
    def decode(self, x: Tensor, steps: int = 1) -> tuple[Tensor, int]:
        return self.linear(x), steps

    @staticmethod
    @anyshape.compile
    def norm(x: Tensor) -> float:
        return float(x.norm())

    @anyshape.disable
    def log(self, x: Tensor) -> str:
        return str(x)

    @classmethod
    @anyshape.compile
    def built(cls, x: Tensor, n: int = 1) -> int:
        return int(x.sum()) + n


class Scaling(nn.Module):
    """A `forward` that is compiled is a method like torch's, for type checkers."""

    @anyshape.compile
    def forward(self, x: Tensor, by: float = 2.0) -> Tensor:
        return x * by


class Shifting(Scaling):
    @anyshape.compile(dynamic=True)
    def forward(self, x: Tensor, by: float = 2.0) -> Tensor:
        return x + by


class Plain:
    @anyshape.compile
    def encode(self, x: Tensor) -> Tensor:
        return x * 2


# 1-5: functions keep their signatures
compiled = anyshape.compile(scaled)
assert_type(compiled(x), Tensor)
assert_type(compiled(x, by=3.0), Tensor)
assert_type(anyshape.compile(both)(x, 2), tuple[Tensor, int])
assert_type(anyshape.compile(both, dynamic=True, fullgraph=True)(x, 2), tuple[Tensor, int])
as_callable: Callable[[Tensor, int], tuple[Tensor, int]] = anyshape.compile(both)

# 6-8: and refuse what the original would
compiled("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] as it must
compiled(x, 2.0, 3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] as it must
compiled(x, size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] as it must


# 9-11: decorators, bare and with arguments
@anyshape.compile
def bare(x: Tensor) -> Tensor:
    return x


@anyshape.compile(backend="eager", mode="reduce-overhead", name="named")
def with_arguments(x: Tensor, *, flag: bool) -> int:
    return int(flag)


@anyshape.compile(shapes={"x": "batch 4"})
def generic(x: T) -> T:
    return x


assert_type(bare(x), Tensor)
assert_type(with_arguments(x, flag=True), int)
assert_type(generic(3), int)

# 12-14: what a compiled function says of itself
assert_type(compiled.stats(), Stats)
assert_type(compiled.stats().graphs, int)
assert_type(compiled.entries[0].id, str)

# 15-18: modules keep their class, and whoever asks sees what compiling added
net = anyshape.compile(Net())
assert_type(net, Net)
assert_type(net.width, int)
model: nn.Module = anyshape.compile(net, dynamic=True)
assert_type(anyshape.compile(dynamic=True)(Net()), Net)
assert isinstance(net, CompiledModule)
assert_type(net.stats(), Stats)
assert_type(net.width, int)

# 19-22: methods bind; those of modules stay functions, and whoever asks sees what compiling added
other = Net()
plain = Plain()
assert_type(other.encode(x), Tensor)
assert_type(other.decode(x, steps=2), tuple[Tensor, int])
assert_type(plain.encode(x), Tensor)
assert_type(plain.encode.stats(), Stats)
assert isinstance(Net.encode, Compiled)
assert_type(Net.encode.stats(), Stats)
assert_type(Net.norm(x), float)
assert_type(anyshape.compile(other.forward)(x), Tensor)
other.encode(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] as it must
assert_type(Scaling().forward(x, by=3.0), Tensor)
assert_type(Shifting().forward(x), Tensor)
Scaling().forward(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] as it must
assert_type(Net.built(x), int)
assert_type(Net().built(x, n=2), int)
Net.built(x, m=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] as it must


def with_stats(function: Callable[..., Tensor]) -> Stats:
    """What takes any arguments is no method."""
    return anyshape.compile(function, dynamic=True).stats()


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


assert_type(anyshape.compile(loss).stats(), Stats)


# 23: coroutines
@anyshape.compile
async def later(x: Tensor) -> Tensor:
    return x


awaitable: Awaitable[Tensor] = later(x)

# 24-25: other callables
assert_type(anyshape.compile(functools.partial(scaled, by=2.0))(x), Tensor)
assert_type(anyshape.compile(lambda: 3)(), int)


# 26-27: `disable=` may leave a function as it is
def chosen(debug: bool) -> Callable[[Tensor, int], tuple[Tensor, int]]:
    return anyshape.compile(both, disable=debug)


maybe = anyshape.compile(both, disable=True)
maybe.stats()  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess] as it must

# 28-30: arguments of compile
anyshape.compile(scaled, dynamci=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue] as it must
anyshape.compile(scaled, mode="fast")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType] as it must
anyshape.compile(3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType] as it must

# 31-32: boundaries
assert_type(other.log(x), str)


@anyshape.disable(reason="it writes a file")
def save(x: Tensor, path: str) -> int:
    return len(path)


assert_type(save(x, "p"), int)


# 33-35: settings
@anyshape.config.patch(recompile_limit=8)
def limited(x: Tensor) -> Tensor:
    return x


assert_type(limited(x), Tensor)
assert_type(anyshape.config.recompile_limit, int)
anyshape.config.recompile_limit = "8"  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue] as it must
anyshape.config.recompile_limt = 8  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue] as it must

# 36-40: the rest
batch = Dim("batch", max=64)
exported = anyshape.export(other, (x,), dynamic_shapes={"x": (batch, 4)})
assert_type(exported, Exported)
assert_type(exported.graph_signature.user_inputs, tuple[str, ...])
assert_type(exported.state_dict["linear.weight"], Tensor)
assert_type(anyshape.load("model.zip"), Exported)
assert_type(anyshape.stats(), Stats)
anyshape.mark_dynamic(x, 0, min=2)
anyshape.mark_dynamic(x, "batch")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] as it must
contract = Shapes({"x": (batch, 4)}, batch % 8 == 0)
number: int = DynamicInt(3)


def takes_compiled(function: Compiled[[Tensor], Tensor]) -> Tensor:
    return function(x)


assert_type(takes_compiled(bare), Tensor)
