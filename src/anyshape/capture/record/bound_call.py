"""The arguments of a torch operation in three forms: to run, to record, to infer the shape."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.capture.externals.native_values import as_torch_takes_it, is_numpy_scalar
from anyshape.capture.numbers.concolic import TracedFloat, TracedInt, compare, plain
from anyshape.capture.numbers.traced_text import TracedText
from anyshape.capture.value_kinds import ATOMS, is_plain_tensor
from anyshape.ops.effects import gives_nothing
from anyshape.ops.kernel_launch import KernelLaunch
from anyshape.ops.meta import Strided
from anyshape.ops.meta_tensors import leaves, mapped_tree
from anyshape.ops.op import OpKind
from anyshape.ops.packed_weights import Packed, class_of, is_packed, takes_packed
from anyshape.ops.table import lookup
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import symbols_of

#: What the value of a float argument cannot change the shape of, beyond pointwise operators.
_SHAPE_FREE_OF_FLOATS: Final = frozenset(
    {
        torch.nn.functional.scaled_dot_product_attention,
        torch.full,
        torch.full_like,
        torch.Tensor.new_full,
        torch.nn.functional.dropout,
        torch.nn.functional.layer_norm,
        torch.Tensor.__setitem__,
        torch.Tensor.fill_,
        torch.tensor,
        torch.scalar_tensor,
    }
)

#: Of these, what does something else where a float is 0: dropout gives back its argument.
_OTHERWISE_AT_ZERO: Final = frozenset(
    {torch.nn.functional.dropout, torch.nn.functional.scaled_dot_product_attention}
)

#: They take the dtype of their result from numbers: those of numpy have one of their own.
_TYPED_BY_DATA: Final = frozenset({torch.tensor, torch.as_tensor, torch.asarray})

_FLOAT: Final = (float, "float")

_POINTWISE_ENOUGH: Final = (OpKind.POINTWISE, OpKind.REDUCTION, OpKind.MATMUL)


#: Python's classes of numbers, where a dtype is expected.
_DTYPES: Final[dict[Any, torch.dtype]] = {
    bool: torch.bool,
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
}


class CallForms:
    """The arguments of a call in three forms: plain (to run), nodes (to record), metas (to
    infer)."""

    def __init__(
        self,
        recorder: Any,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        self._recorder = recorder
        self._function = function
        #: identities, in the order of the arguments
        self.tensors: dict[int, None] = {}
        self.symbolic = False
        #: whether the call changes an argument, which is its result
        self.in_place = False
        #: whether shape rules do not apply to one of the tensors
        self.opaque = False
        #: whether there is a packed weight among the arguments, which may decide sizes
        self.packed = False
        self._sizes: list[Size] = []
        self._floats: list[TracedFloat] = []
        if function is torch.Tensor.new and len(args) == 2 and type(args[1]) is torch.Size:
            args = (args[0], *self._sizes_of(args[1]))
        if any(type(value) is TracedInt for value in (*args, *kwargs.values())):
            taken = _taken_as_floats(function)
            args = tuple(self._fixed(value, place in taken) for place, value in enumerate(args))
            kwargs = {name: self._fixed(value, name in taken) for name, value in kwargs.items()}
        if function in _TYPED_BY_DATA and kwargs.get("dtype") is None:
            kwargs = _with_dtype(function, args, kwargs)
        converted = [self._convert(value) for value in args]
        self.plain_args = tuple(item[0] for item in converted)
        self.node_args = tuple(item[1] for item in converted)
        self.metas = tuple(item[2] for item in converted)
        self.plain_kwargs: dict[str, object] = {}
        self.node_kwargs: dict[str, object] = {}
        self.meta_kwargs: dict[str, object] = {}
        for name, value in kwargs.items():
            (
                self.plain_kwargs[name],
                self.node_kwargs[name],
                self.meta_kwargs[name],
            ) = self._convert(value)
        if self._floats and not _free_of_floats(function):
            for value in self._floats:
                recorder.tracer.specialize(value, f"{name_of(function)} may shape its result by it")
        elif function in _OTHERWISE_AT_ZERO:
            for value in self._floats:
                compare(operator.eq, value, 0.0)

    @property
    def has_floats(self) -> bool:
        """Whether a float among the arguments is one that the graph computes."""
        return bool(self._floats)

    def others(self) -> list[torch.Tensor]:
        """The tensors among the arguments, but for the first argument."""
        values = (*self.plain_args[1:], *self.plain_kwargs.values())
        return [value for value in values if isinstance(value, torch.Tensor)]

    def every_tensor(self) -> Iterator[torch.Tensor]:
        """The tensors among the arguments, also those in sequences."""
        todo = [*self.plain_args, *self.plain_kwargs.values()]
        while todo:
            value = todo.pop()
            if isinstance(value, torch.Tensor):
                yield value
            elif isinstance(value, tuple | list):
                todo += value

    def symbols(self) -> Iterable[Symbol]:
        return sorted(
            {symbol for size in self._sizes for symbol in symbols_of(size)}, key=lambda s: s.name
        )

    def _fixed(self, value: object, is_float: bool) -> object:
        """An integer in the place of a float is no size: functions check it, and divide by it."""
        if not is_float or type(value) is not TracedInt:
            return value
        why = f"{name_of(self._function)} takes it for a float"
        return self._recorder.tracer.specialize(value, why)

    def _convert(self, value: Any) -> tuple[object, object, object]:
        kind = type(value)
        if kind in ATOMS:
            return value, value, value
        if isinstance(value, torch.Tensor):
            if not is_plain_tensor(kind):
                raise AbortCapture(f"a tensor subclass: {kind.__name__}")
            known = self._recorder.known(value)
            self.tensors[id(value)] = None
            self.opaque |= known.opaque
            self._note(known.meta.shape)
            if isinstance(known.meta.layout, Strided):
                self._note(known.meta.layout.strides)
            return value, self._recorder.node_of(known), known.meta
        if kind is TracedInt:
            expr = value.expr
            self._note((expr,))
            return plain(value), self._recorder.sizes.of(expr), expr
        if kind is TracedFloat:
            self._floats.append(value)
            return plain(value), self._recorder.number_node(value.node), plain(value)
        if kind is TracedText:
            return (self._recorder.tracer.specialize(value, "an operation takes it"),) * 3
        if kind is tuple or kind is list or kind is torch.Size:
            return self._sequence(value, tuple if kind is torch.Size else kind)
        if kind is dict:
            items = {key: self._convert(item) for key, item in self._items(value)}
            return tuple({key: item[form] for key, item in items.items()} for form in range(3))  # pyright: ignore[reportReturnType] three forms
        if kind is slice:
            parts = [self._convert(part) for part in (value.start, value.stop, value.step)]
            return tuple(slice(*(part[form] for part in parts)) for form in range(3))  # pyright: ignore[reportReturnType] three forms
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return self._sequence(value, lambda items: kind(*items))
        if kind is torch.Generator:
            return value, self._recorder.object_node(value), value
        if is_packed(value) and takes_packed(self._function):
            self.packed = True
            return value, self._recorder.object_node(value), Packed(class_of(value))
        number = as_torch_takes_it(value)
        if number is not value:
            return value, number, number  # Python code of torch looks at the type of what is given
        if kind is type and value in _DTYPES:
            return value, _DTYPES[value], _DTYPES[value]
        raise AbortCapture(f"an operation takes a {kind.__name__}")

    def _sequence(self, value: object, make: Callable[..., Any]) -> tuple[object, object, object]:
        items = [self._convert(item) for item in self._read(value)]
        return tuple(make([item[form] for item in items]) for form in range(3))

    def _read(self, value: object) -> Any:
        path = self._recorder.tracer.path_of(value)
        if path is None:
            return value
        # As it is now: the program may have changed it.
        return self._recorder.contents_of(value, path)

    def _sizes_of(self, size: torch.Size) -> Any:
        """A shape where a tuple would be taken for data: its sizes, one by one."""
        if not size:
            raise AbortCapture("`new` takes a shape without sizes")
        return self._read(size)

    def _items(self, value: dict[Any, object]) -> Iterable[tuple[object, object]]:
        path = self._recorder.tracer.path_of(value)
        if path is not None:
            raise AbortCapture("an operation takes a dictionary from outside the function")
        return value.items()

    def _note(self, sizes: Iterable[Size]) -> None:
        for size in sizes:
            if type(size) is not int:
                self.symbolic = True
                self._sizes.append(size)


def _with_dtype(
    function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]
) -> dict[str, object]:
    """With the dtype that numbers of numpy ask for, which are recorded as numbers of Python."""
    if not any(is_numpy_scalar(type(each)) for each in leaves((args, kwargs))):
        return kwargs
    made = function(*mapped_tree(args, plain), **mapped_tree(kwargs, plain))
    return {**kwargs, "dtype": made.dtype}


def _free_of_floats(function: Callable[..., object]) -> bool:
    if function in _SHAPE_FREE_OF_FLOATS or isinstance(function, KernelLaunch):
        return True
    entry = lookup(function)
    if entry is None:
        return gives_nothing(function)
    return entry.op.lowering in _POINTWISE_ENOUGH


def _taken_as_floats(function: Callable[..., object]) -> frozenset[object]:
    """The places and names of parameters that a function in Python says are floats."""
    is_python = getattr(function, "__module__", None) == torch.nn.functional.__name__
    return _annotated_as_floats(function) if is_python else frozenset()


@cache
def _annotated_as_floats(function: Callable[..., object]) -> frozenset[object]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset()
    found = [(n, each.name) for n, each in enumerate(parameters) if each.annotation in _FLOAT]
    return frozenset(key for keys in found for key in keys)


def name_of(function: Callable[..., object]) -> str:
    name = getattr(function, "__name__", None) or str(function)
    owner: Any = getattr(function, "__self__", None)
    if name == "__get__" and hasattr(owner, "__name__"):
        return owner.__name__
    return name
