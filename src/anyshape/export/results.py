"""What a graph returns beside tensors and numbers: containers and objects, made again.

Functions here are operators of exported graphs, under the name `anyshape.<function>`. A package
names classes and never makes Python import one: what the process has not given (`classes=`) is a
`Record`, with the same items and attributes.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import torch

from anyshape.errors import ExportCheckFailed
from anyshape.ops.runtime_checks import check_sizes


class Record(OrderedDict[Any, Any]):
    """An object of a class that this process does not have: its items, and its attributes."""

    def __init__(
        self, kind: str = "Record", pairs: Iterable[Any] = (), **attributes: object
    ) -> None:
        super().__init__(pairs)
        self.__dict__["_kind"] = kind
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> object:
        # Called for what the object's own dictionary does not have.
        if name in self:
            return OrderedDict.__getitem__(self, name)
        raise AttributeError(f"{self.__dict__.get('_kind')} has no attribute {name!r}")

    def __getitem__(self, key: Any) -> Any:
        if type(key) in (int, slice) and key not in tuple(self):
            return tuple(self.values())[key]
        return OrderedDict.__getitem__(self, key)

    def __repr__(self) -> str:
        shown = dict(self) | {k: v for k, v in self.__dict__.items() if k != "_kind"}
        return f"{self._kind}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


#: Classes that results are made of, by name: those that were exported or given in this process.
_classes: dict[str, type] = {}


def name_of_class(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def know_class(kind: type) -> str:
    name = name_of_class(kind)
    _classes[name] = kind
    return name


# -- operators ------------------------------------------------------------------------------------


def expect(holds: object, condition: str, reason: str) -> None:
    """Raise unless something holds that the rest of the graph relies on."""
    if not holds:
        raise ExportCheckFailed(condition=condition, reason=reason)


def as_list(*items: object) -> list[object]:
    return list(items)


def as_tuple(*items: object) -> tuple[object, ...]:
    return items


def as_dict(*pairs: Any) -> dict[object, object]:
    return {key: value for key, value in pairs}  # noqa: C416 pairs may be lists of a graph


def size(*items: int) -> torch.Size:
    return torch.Size(items)


def return_type(name: str, *items: object) -> object:
    """A named tuple of torch's own: `torch.return_types.max`."""
    return getattr(torch.return_types, name)(items)


def container(name: str, *items: object) -> Any:
    return _CONTAINERS[name](items)


_CONTAINERS: Final[dict[str, Callable[[Any], Any]]] = {
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "OrderedDict": OrderedDict,
    "Counter": lambda pairs: Counter(dict(pairs)),
    "defaultdict": lambda pairs: defaultdict(None, pairs),
    "slice": lambda parts: slice(*parts),
}


def named_tuple(name: str, fields: Iterable[str], *items: object) -> object:
    kind = _classes.get(name)
    if kind is None:
        kind = _named_tuple(name.rpartition(".")[2], tuple(fields))
    return tuple.__new__(kind, items)


@lru_cache(maxsize=256)
def _named_tuple(name: str, fields: tuple[str, ...]) -> type:
    return namedtuple(name, fields)


def record(name: str, pairs: Iterable[Any], attributes: dict[str, object]) -> object:
    """An object with these attributes; with items too, if its class is a dictionary."""
    kind = _classes.get(name)
    if kind is None:
        return Record(name.rpartition(".")[2], pairs, **attributes)
    if issubclass(kind, OrderedDict):
        made = OrderedDict.__new__(kind)
        OrderedDict.__init__(made)
        for key, value in pairs:
            OrderedDict.__setitem__(made, key, value)
    else:
        made = object.__new__(kind)
    for key, value in attributes.items():
        if hasattr(made, "__dict__"):
            made.__dict__[key] = value
        else:
            object.__setattr__(made, key, value)
    return made


def set_attribute(target: object, name: str, value: object) -> None:
    """A change to an object that the caller gave."""
    object.__setattr__(target, name, value)


def set_item(target: Any, key: object, value: object) -> None:
    target[key] = value


def add_grad(tensor: torch.Tensor, grad: torch.Tensor) -> None:
    """Add a gradient to `.grad`, as autograd does at a leaf."""
    if tensor.grad is None:
        tensor.grad = grad
    else:
        with torch.no_grad():
            tensor.grad.add_(grad)


def expect_no_grad(tensor: torch.Tensor, name: str) -> None:
    """Raise unless `.grad` is None: the program adds to it, and computes with the sum."""
    if tensor.grad is not None:
        raise ExportCheckFailed(
            condition=f"{name}.grad is None",
            reason="the program adds to it and reads the sum: set it to None before the call, or"
            " call zero_grad() at the beginning of the program",
        )


def expect_requires_grad(tensor: torch.Tensor, expected: bool, name: str) -> None:
    """Raise unless gradients end at a tensor, or do not come to it, as in the export."""
    if tensor.requires_grad is not expected:
        raise ExportCheckFailed(
            condition=f"{name}.requires_grad is {expected}",
            reason="the program calls backward(), for the tensors that required grad in the export",
        )
    if expected and not tensor.is_leaf:
        raise ExportCheckFailed(
            condition=f"{name}.is_leaf",
            reason="the program calls backward(), which ends at the tensors that it is given",
        )


OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    f"anyshape.{function.__name__}": function
    for function in (
        check_sizes,
        expect,
        as_list,
        as_tuple,
        as_dict,
        size,
        return_type,
        container,
        named_tuple,
        record,
        set_attribute,
        set_item,
        add_grad,
        expect_no_grad,
        expect_requires_grad,
    )
}

#: All but those that check: they put the result together, after everything has been computed.
CHECKS: Final = frozenset({check_sizes, expect, expect_no_grad, expect_requires_grad})
PUT_TOGETHER: Final = frozenset(OPERATORS.values()) - CHECKS
