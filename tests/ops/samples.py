"""Sample arguments of an operator with symbols for their sizes, and the same at other sizes.

A sample is what torch's tests call an operator with: tensors and plain values, nested. `Template`
gives each tensor dimension of size 2 or more a symbol, `build(values)` makes real tensors for any
values of the symbols: the sample's own elements, repeated or cut along each dimension, in the
sample's own layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from anyshape.ops.meta import Meta, Strided, of_tensor, strided
from anyshape.symbolic import Expr, Facts, Size, Symbol, as_symbol, evaluate, symbol

Values = Mapping[Symbol, int]

#: The name of the symbol for a dimension: the number of the tensor, the dimension, and its size in
#: the sample.
Naming = Callable[[int, int, int], str]


def by_value(tensor: int, dim: int, size: int) -> str:
    """Equal sizes share a symbol, whatever they mean: sizes that must be equal stay equal at other
    sizes.
    """
    return f"d{size}"


def by_place(tensor: int, dim: int, size: int) -> str:
    """A symbol a dimension: only what the rules require ties sizes together."""
    return f"{chr(ord('a') + tensor)}{dim}" if tensor < 26 else f"t{tensor}_{dim}"


@dataclass(frozen=True)
class Sample:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __str__(self) -> str:
        named = [f"{name}={_shown(value)}" for name, value in self.kwargs.items()]
        return ", ".join([*map(_shown, self.args), *named])


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        text = ", ".join(map(_shown, value))
        return f"({text})" if isinstance(value, tuple) else f"[{text}]"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plain(value: Any) -> Any:
    """The same arguments with a plain tuple for each `torch.Size`."""
    if isinstance(value, torch.Size):
        return tuple(value)
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


@dataclass(frozen=True)
class TensorTemplate:
    """A tensor of the sample with symbols for its sizes."""

    original: torch.Tensor
    meta: Meta

    def shape_at(self, values: Values) -> tuple[int, ...]:
        return tuple(evaluate(size, values) for size in self.meta.shape)

    def strides_at(self, values: Values) -> tuple[int, ...]:
        # As torch does: a size of 0 counts as 1.
        meta = replace(self.meta, shape=tuple(size if size != 0 else 1 for size in self.meta.shape))
        above = {symbol: max(1, size) for symbol, size in values.items()}
        return tuple(evaluate(stride, above) for stride in meta.strides)

    def build(self, values: Values, zeroed: bool) -> torch.Tensor:
        data = self.original
        for dim, size in enumerate(self.shape_at(values)):
            if size != data.shape[dim]:
                data = data.index_select(dim, torch.arange(size) % max(data.shape[dim], 1))
        if zeroed:
            data = torch.zeros_like(data)
        return self._laid_out(data, self.strides_at(values))

    def _laid_out(self, data: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
        """A copy with these strides, at the same place of a storage with as much room behind it; a
        stride of 0 repeats the first element.
        """
        offset = self.original.storage_offset()
        room = (
            _storage_size(self.original)
            - offset
            - _extent(self.original.shape, self.original.stride())
        )
        storage = torch.zeros(offset + _extent(data.shape, strides) + room, dtype=data.dtype)
        once = data
        for dim, stride in enumerate(strides):
            if stride == 0 and data.shape[dim]:
                once = once.narrow(dim, 0, 1)
        storage.as_strided(once.shape, strides, offset).copy_(once)
        return storage.as_strided(data.shape, strides, offset)

    def on_meta(self, values: Values) -> torch.Tensor:
        shape, strides = self.shape_at(values), self.strides_at(values)
        offset = self.original.storage_offset()
        size = offset + _extent(shape, strides)
        storage = torch.empty(size, dtype=self.original.dtype, device="meta")
        return storage.as_strided(shape, strides, offset)


def _storage_size(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The number of elements from the first to the last one, with those between."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


@dataclass(frozen=True)
class Template:
    """A sample whose tensors have symbols for sizes."""

    leaves: tuple[Any, ...]
    spec: TreeSpec
    facts: Facts

    @property
    def tensors(self) -> list[TensorTemplate]:
        return [leaf for leaf in self.leaves if isinstance(leaf, TensorTemplate)]

    @property
    def symbols(self) -> list[Expr]:
        return list(self.facts.symbols.values())

    @property
    def values(self) -> dict[Symbol, int]:
        """The sizes of the sample itself."""
        return dict(self.facts.hints)

    def build(
        self,
        values: Values,
        zeroed: bool = False,
        integer: Callable[[Size, int], int] = lambda _, value: value,
    ) -> tuple[Any, Any]:
        """Fresh arguments at these sizes.

        On request with zeros in all integer tensors, which are valid as indices; `integer` may wrap
        the integers that have symbols.
        """

        def tensor(leaf: TensorTemplate) -> torch.Tensor:
            return leaf.build(values, zeroed and _is_integral(leaf.original))

        return self._filled(tensor, lambda size: integer(size, evaluate(size, values)))

    def on_meta(self, values: Values) -> tuple[Any, Any]:
        """Arguments of these sizes without data."""
        return self._filled(lambda leaf: leaf.on_meta(values), lambda size: evaluate(size, values))

    def _filled(
        self, tensor: Callable[[TensorTemplate], torch.Tensor], integer: Callable[[Expr], int]
    ) -> tuple[Any, Any]:
        made: dict[int, torch.Tensor] = {}
        leaves: list[Any] = []
        for leaf in self.leaves:
            if isinstance(leaf, TensorTemplate):
                # A tensor that is given twice is given twice again.
                key = id(leaf.original)
                made[key] = found = made[key] if key in made else tensor(leaf)
                leaves.append(found)
            else:
                leaves.append(integer(leaf) if isinstance(leaf, Expr) else leaf)
        return tree_unflatten(leaves, self.spec)

    @property
    def has_integers(self) -> bool:
        return any(_is_integral(tensor.original) for tensor in self.tensors)

    def elements_at(self, values: Values) -> int:
        """The number of elements of the largest tensor."""
        return max((evaluate(tensor.meta.numel, values) for tensor in self.tensors), default=0)


def _is_integral(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool)


class NotStrided(Exception):
    """The sample has a tensor that is not a strided one (sparse, nested): it has no strides to
    speak of.
    """


def template(sample: Sample, naming: Naming) -> Template:
    """The sample with a symbol for each size of 2 or more; 0 and 1 stay what they are.

    Integer arguments stay what they are too, unless there are no tensors: what makes a tensor out
    of nothing takes its sizes as integers.
    """
    flat, spec = tree_flatten((sample.args, dict(sample.kwargs)))
    tensors = [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
    facts = Facts()
    leaves: list[Any] = []
    numbers: dict[int, int] = {}

    def named(number: int, dim: int, size: int) -> Size:
        nonlocal facts
        if size < 2:
            return size
        made = symbol(naming(number, dim, size))
        facts = facts if as_symbol(made) in facts.hints else facts.declare(made, size)
        return made

    for position, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout is not torch.strided or leaf.is_nested:
                raise NotStrided(f"a tensor of {leaf.layout}")
            number = numbers.setdefault(id(leaf), len(numbers))
            shape = tuple(named(number, dim, size) for dim, size in enumerate(leaf.shape))
            leaves.append(TensorTemplate(leaf, _meta(leaf, shape)))
        else:
            is_size = type(leaf) is int and not tensors
            leaves.append(named(position, 0, leaf) if is_size else leaf)
    return Template(tuple(leaves), spec, facts)


def _meta(tensor: torch.Tensor, shape: tuple[Size, ...]) -> Meta:
    layout = of_tensor(tensor).layout
    if isinstance(layout, Strided):
        layout = strided(shape, _strides(tensor, shape))
    return Meta(shape, tensor.dtype, layout, tensor.device, int(tensor.storage_offset()), False)


def _strides(tensor: torch.Tensor, shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """The strides in symbols: each steps over the dimensions inside it, and over a gap that does
    not depend on the sizes.
    """
    strides: list[Size] = list(tensor.stride())
    expected: Size = 1
    expected_now = 1
    for dim in sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), -d)):
        stride, size = tensor.stride(dim), tensor.shape[dim]
        if size == 1 or stride == 0:
            continue
        if stride < expected_now:
            raise NotStrided("a tensor whose elements overlap")
        strides[dim] = expected + (stride - expected_now)
        expected, expected_now = strides[dim] * shape[dim], stride * size
    return tuple(strides)
