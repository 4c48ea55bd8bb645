"""A tensor for each meta, and back: how arguments go to torch's own functions and results return.

Twins share no storage, also where the tensors they stand for do: shapes do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._dispatch.python import no_python_dispatcher

from anyshape.ops.actual_strides import actual_strides, layout_of
from anyshape.ops.meta import Meta
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size

META = torch.device("meta")

#: make(meta, number): a tensor for a meta.
Make = Callable[[Meta, Callable[[Size], Any]], torch.Tensor]


class NoTwin(Exception):
    """Something that a meta cannot say: a sparse tensor, a float made of sizes."""


class Twins:
    """The arguments of one call as torch sees them, on the `meta` device unless `make` differs."""

    def __init__(
        self, number: Callable[[Size], Any], make: Make | None = None, *, grads: bool = False
    ) -> None:
        #: a size as torch gets it: a number, or a `torch.SymInt`
        self._number = number
        self._make = make or tensor_of
        self._on_meta = make is None
        #: whether twins require grad as their tensors do
        self._grads = grads
        self._metas: dict[int, tuple[torch.Tensor, Meta]] = {}

    def arguments(self, value: Any) -> Any:
        """The same nest with a twin for each meta and a number for each expression."""
        if isinstance(value, Meta):
            made = self._make(value, self._number)
            if self._grads and value.requires_grad:
                # Not a leaf, since those reject writes.
                made = made.requires_grad_().clone()
            self._metas[id(made)] = made, value
            return made
        if isinstance(value, Expr):
            return self._number(value)
        if isinstance(value, torch.device) and self._on_meta:
            return META
        if isinstance(value, slice):
            return slice(*map(self.arguments, (value.start, value.stop, value.step)))
        return rebuilt(value, self.arguments)

    def results(self, value: Any, device: torch.device) -> Any:
        """The same nest with a meta for each tensor, which is on that device."""
        if isinstance(value, torch.Tensor):
            _, given = self._metas.get(id(value), (None, None))
            found = meta_of(value, device)
            if given is None:
                return found
            # An argument that was written to. In-place forms of views change its sizes too.
            grad = given.requires_grad or found.requires_grad
            if found.rank != given.rank or found.shape != tuple(
                map(size_of, map(self._number, given.shape))
            ):
                return replace(found, device=given.device, requires_grad=grad)
            return given if grad == given.requires_grad else replace(given, requires_grad=grad)
        if isinstance(value, torch.SymInt):
            return value.node.size
        if isinstance(value, torch.SymFloat | torch.SymBool):
            raise NoTwin(f"a {type(value).__name__} as a result")
        return rebuilt(value, lambda item: self.results(item, device))


def tensor_of(meta: Meta, number: Callable[[Size], Any]) -> torch.Tensor:
    """A tensor on the `meta` device."""
    shape = tuple(map(number, meta.shape))
    strides = tuple(map(number, actual_strides(meta)))
    with no_python_dispatcher():
        made = torch.empty_strided(shape, strides, dtype=meta.dtype, device=META)
        if meta.offset != 0:
            made = made.as_strided(shape, strides, number(meta.offset))
    return made


def meta_of(tensor: torch.Tensor, device: torch.device) -> Meta:
    """The meta of a tensor that stands for one on that device."""
    if tensor.layout is not torch.strided:
        raise NoTwin(f"a tensor of layout {tensor.layout}")
    shape = tuple(map(size_of, tensor.size()))
    layout = layout_of(shape, tuple(map(size_of, tensor.stride())))
    offset = size_of(tensor.storage_offset())
    return Meta(shape, tensor.dtype, layout, device, offset, tensor.requires_grad)


def size_of(number: Any) -> Size:
    return number.node.size if isinstance(number, torch.SymInt) else number


def rebuilt(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The container with its items converted; anything else as it is."""
    if isinstance(value, tuple | list):
        items = [convert(item) for item in value]
        if type(value) is torch.Size:
            return tuple(items)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: convert(item) for key, item in value.items()}
    return value


def mapped_tree(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Nested tuples, lists, dictionaries and slices with their leaves changed."""
    if isinstance(tree, dict):
        return {key: mapped_tree(item, change) for key, item in tree.items()}
    if isinstance(tree, slice):
        return slice(*(mapped_tree(each, change) for each in (tree.start, tree.stop, tree.step)))
    if isinstance(tree, tuple | list) and not hasattr(tree, "_fields"):
        kind = tuple if isinstance(tree, tuple) else list
        return kind(mapped_tree(item, change) for item in tree)
    return change(tree)


def leaves(value: Any) -> Iterator[Any]:
    """Everything in nested tuples, lists and dictionaries, in order."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, slice):
        yield from (value.start, value.stop, value.step)
    else:
        yield value


def device_of(args: Any, named: Mapping[str, Any]) -> torch.device:
    """Where the result of an operator is: where it is told to be, else where its tensors are.

    A tensor without dimensions may be on the CPU whatever the others are on; the others decide.
    """
    told = named.get("device")
    if told is not None:
        return torch.device(told)
    metas = [leaf for leaf in leaves((args, named)) if isinstance(leaf, Meta)]
    if not metas:
        return torch.get_default_device()
    return next((meta.device for meta in metas if meta.shape), metas[0].device)
