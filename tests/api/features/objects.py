"""Classes, attributes, operators of users' own, types."""

# The functions below are what users write, not what we would.
# ruff: noqa: RUF015
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportUnboundVariable=false
# pyright: reportFunctionMemberAccess=false, reportUnusedExpression=false

from __future__ import annotations

import abc
import dataclasses
import itertools
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from tests.api.features.registry import Fixed, Mode, Named, Point, feature
from tests.api.twins import World


@feature
def properties_and_getattr() -> World:
    class Reader:
        def __init__(self) -> None:
            self._v = 3

        @property
        def v(self) -> int:
            return self._v * 2

        @v.setter
        def v(self, value: int) -> None:
            self._v = value

        def __getattr__(self, name: str) -> int:
            if name.startswith("dyn_"):
                return len(name) + self._v
            raise AttributeError(name)

    reader = Reader()

    def f(x: Tensor) -> Any:
        reader.v = reader.v + 1
        return x * reader.v + reader.dyn_abc, hasattr(reader, "z"), getattr(reader, "z", 9)

    return World(f, watch=lambda: reader._v)


@feature
def dataclasses_made_and_replaced() -> World:
    def f(x: Tensor, point: Point) -> Any:
        named = Named(x * point.weight, 2)
        other = dataclasses.replace(point, weight=7)
        return (
            named,
            other,
            Point(named.first, *[other.after]),
            named._replace(second=3),
            Fixed(2.5),
        )

    return World(f, lambda x: (x, Point(x)))


@feature
def classes_made_inside() -> World:
    def f(x: Tensor) -> Tensor:
        class Wrapped:
            z = 3

            def __init__(self, value: Tensor) -> None:
                self.value = value

            def __add__(self, other: Any) -> Any:
                return Wrapped(self.value + other.value * self.z)

        return (Wrapped(x) + Wrapped(x)).value

    return World(f)


@feature
def inheritance_and_super() -> World:
    class A(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(4))
            self.__private = 5

        def forward(self, x: Tensor) -> Tensor:
            return x * self.w + self.__private

    class B(A):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y + [super(B, self).forward(x) for _ in range(1)][0]

    return World(B())


@feature
def abstract_and_multiple_inheritance() -> World:
    class Left:
        def scale(self) -> int:
            return 2

    class Base(abc.ABC):
        @abc.abstractmethod
        def apply(self, x: Tensor) -> Tensor: ...

        def scale(self) -> int:
            return 3

    class Both(Left, Base):
        def apply(self, x: Tensor) -> Tensor:
            return x * self.scale() * super().scale()

    return World(lambda x: (Both().apply(x), isinstance(Both(), Base), issubclass(Both, Left)))


@feature
def own_operators() -> World:
    class Vector:
        def __init__(self, t: Tensor, k: int) -> None:
            self.t, self.k = t, k

        def __add__(self, other: Vector) -> Vector:
            return Vector(self.t + other.t * self.k, self.k)

        def __iadd__(self, other: Vector) -> Vector:
            self.t = self.t + other.t
            return self

        def __len__(self) -> int:
            return self.k

        def __contains__(self, z: int) -> bool:
            return z == self.k

        def __iter__(self) -> Iterator[Any]:
            yield self.t
            yield self.k

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Vector) and self.k == other.k

        def __hash__(self) -> int:
            return 3

        def __bool__(self) -> bool:
            return self.k > 1

        def __getitem__(self, i: int) -> Tensor:
            return self.t[i]

    def f(v: Vector) -> Any:
        w = v + v
        a, b = v
        v += w
        return w.t * len(v) + b if v else a, 2 in v, v == w, {v: 1}[w], v[:1]

    numbers = itertools.cycle((2, 3, 1))
    return World(f, lambda x: (Vector(x, next(numbers)),))


@feature
def slots_and_descriptors() -> World:
    class Twice:
        def __get__(self, instance: Any, owner: Any) -> Any:
            return instance.z * 2 if instance else self

        def __set__(self, instance: Any, value: int) -> None:
            instance.z = value // 2

    class Slotted:
        __slots__ = ("z",)
        twice = Twice()

        def __init__(self) -> None:
            self.z = 4

    slotted = Slotted()

    def f(x: Tensor) -> Tensor:
        slotted.twice = slotted.twice + 2
        return x * slotted.z + slotted.twice

    return World(f, watch=lambda: slotted.z)


@feature
def own_setattr() -> World:
    class Logged:
        def __init__(self) -> None:
            object.__setattr__(self, "log", [])

        def __setattr__(self, name: str, value: Any) -> None:
            self.log.append(name)
            object.__setattr__(self, name, value)

        def __delattr__(self, name: str) -> None:
            self.log.append(f"-{name}")
            object.__delattr__(self, name)

    logged = Logged()

    def f(x: Tensor) -> Tensor:
        logged.a = x.shape[0]
        logged.b = 2
        del logged.b
        return x * logged.a + len(logged.log)

    return World(f, watch=lambda: logged.log)


@feature
def class_attribute_changed() -> World:
    class Scale:
        value = 2

    def f(x: Tensor) -> Tensor:
        Scale.value += 1
        return x * Scale.value + Scale().value

    return World(f, watch=lambda: Scale.value)


@feature
def instance_hides_class_attribute() -> World:
    class Scale:
        value = 2

    scale = Scale()

    def before(step: int) -> None:
        if step % 2:
            scale.value = 5
        else:
            vars(scale).pop("value", None)

    return World(lambda x: x * scale.value, before=before)


@feature
def type_of_object_changes() -> World:
    class One:
        def value(self) -> int:
            return 1

    class Two(One):
        def value(self) -> int:
            return 2

    holder = types.SimpleNamespace(it=One())

    def before(step: int) -> None:
        holder.it = (One, Two)[step % 2]()

    return World(lambda x: x * holder.it.value(), before=before)


@feature
def method_replaced_on_class() -> World:
    class Scale:
        def value(self) -> int:
            return 1

    scale = Scale()

    def before(step: int) -> None:
        if step == 2:
            Scale.value = lambda self: 7
        if step == 4:
            scale.value = lambda: 9

    return World(lambda x: x * scale.value(), before=before)


@feature
def enums() -> World:
    def f(x: Tensor, mode: Mode) -> Any:
        table = {Mode.SUM: torch.sum, Mode.MEAN: torch.mean}
        return table[mode](x), mode is Mode.SUM, mode.value, Mode("sum").name

    modes = itertools.cycle(Mode)
    return World(f, lambda x: (x, next(modes)))


@feature
def type_checks() -> World:
    def f(x: Tensor, n: int) -> Any:
        right = isinstance(x, Tensor) and type(x) is Tensor and type(n) is int
        right = right and isinstance(x.shape, torch.Size) and type(x.shape[0]) is int
        right = right and x.dtype.is_floating_point and isinstance(n, int | str)
        return x + (1 if right else 2), {int: 1}[type(n)], x.shape == (3, 4), callable(f)

    return World(f, lambda x: (x, len(x)))


@feature
def singleton_and_identity() -> World:
    marker = object()
    state = {"value": marker}

    def f(x: Tensor) -> Any:
        value = state["value"]
        return x * (1 if value is marker else 2 if value is None else 3), x is x

    def before(step: int) -> None:
        state["value"] = (marker, None, object())[step % 3]

    return World(f, before=before)
