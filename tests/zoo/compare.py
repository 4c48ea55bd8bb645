"""Deep comparison of what a compiled call and its eager twin left behind.

The same kernels run on the same data, so values agree to a few units in the last place; everything
else (types, structure, shapes, dtypes, strides where they mean something, `requires_grad`) agrees
exactly. Classes and functions are compared by name, since twins may be built by running their
factory twice. `difference` says where two values part; `same` only whether they do.
"""

from __future__ import annotations

import copy
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

#: As torch.testing has them for float32: sums of gradients come in the order of the graph.
RELATIVE, ABSOLUTE = 1.3e-6, 1e-5
_DEEPEST = 40
#: Made by autograd or by the machinery of a process, not by the program.
_NOT_STATE = frozenset({"__weakref__", "__dict__", "_forward_hooks_always_called"})


def same(left: Any, right: Any) -> bool:
    return difference(left, right) is None


def difference(left: Any, right: Any, at: str = "it") -> str | None:
    """The first place where the two differ, in words; None if they are the same."""
    return _compare(left, right, at, set(), 0)


def module_difference(left: nn.Module, right: nn.Module) -> str | None:
    """Parameters, buffers, their gradients, flags and plain attributes of two modules."""
    for (name, ours), (other, theirs) in zip(
        left.named_parameters(), right.named_parameters(), strict=True
    ):
        found = difference(name, other) or _grad_difference(ours, theirs, f"{name}.grad")
        if found:
            return found
    return difference(left, right, "module")


def _grad_difference(left: Tensor, right: Tensor, at: str) -> str | None:
    """An element is a sum of large ones that cancel: it is as near as the largest is."""
    grads = left.grad, right.grad
    if any(grad is None or not grad.isfinite().all() for grad in grads):
        return difference(*grads, at)
    ours, theirs = cast("tuple[Tensor, Tensor]", grads)
    largest = theirs.abs().max().item() if theirs.numel() else 0.0
    return _compare_tensors(ours, theirs, at, max(1.0, largest))


def aliasing(*values: Any) -> list[int]:
    """Which of the tensors in `values` share memory: equal numbers for the same storage."""
    numbers: dict[int, int] = {}
    found: list[int] = []
    for tensor in tensors(values):
        key = tensor.untyped_storage()._cdata
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def tensors(value: Any, seen: set[int] | None = None) -> Iterator[Tensor]:
    """All tensors inside, in a fixed order; an object that occurs twice is entered once."""
    seen = set() if seen is None else seen
    if isinstance(value, Tensor):
        yield value
        return
    children = _children(value)
    if children is None or id(value) in seen:
        return
    seen.add(id(value))
    for _, child in children:
        yield from tensors(child, seen)


def _compare(left: Any, right: Any, at: str, seen: set[tuple[int, int]], depth: int) -> str | None:
    if left is right:
        return None
    if type(left).__qualname__ != type(right).__qualname__:
        return f"{at}: {_short(left)} is a {type(left).__qualname__}, not {_short(right)}"
    if depth > _DEEPEST:
        return f"{at}: deeper than this comparison goes"
    if (id(left), id(right)) in seen:
        return None
    for kind, compare in _LEAVES:
        if isinstance(left, kind):
            return compare(left, right, at)
    seen.add((id(left), id(right)))
    ours, theirs = _children(left), _children(right)
    if ours is None or theirs is None:
        return None if left == right else f"{at}: {_short(left)} != {_short(right)}"
    return _compare_children(ours, theirs, at, seen, depth)


def _compare_children(
    ours: list[tuple[Any, Any]],
    theirs: list[tuple[Any, Any]],
    at: str,
    seen: set[tuple[int, int]],
    depth: int,
) -> str | None:
    keys, other_keys = [_key(key) for key, _ in ours], [_key(key) for key, _ in theirs]
    if keys != other_keys:
        return f"{at}: has {_short(keys)}, not {_short(other_keys)}"
    for (key, mine), (_, other) in zip(ours, theirs, strict=True):
        found = _compare(mine, other, f"{at}.{_key(key)}", seen, depth + 1)
        if found:
            return found
    return None


def _key(key: Any) -> Any:
    """A key that can be compared between twins: objects by type, plain values as they are."""
    plain = isinstance(key, str | int | float | bool | bytes | tuple | type(None))
    return key if plain else f"<{type(key).__qualname__}>"


def _compare_tensors(left: Tensor, right: Tensor, at: str, largest: float = 1.0) -> str | None:
    for name in ("dtype", "shape", "device", "requires_grad", "is_leaf", "layout"):
        if getattr(left, name) != getattr(right, name):
            return f"{at}.{name}: {getattr(left, name)}, not {getattr(right, name)}"
    if _strides(left) != _strides(right):
        return f"{at}.stride(): {left.stride()}, not {right.stride()} of {tuple(left.shape)}"
    # Twins of a subclass are of different classes; as plain tensors they can be compared.
    ours, theirs = left.detach().as_subclass(Tensor), right.detach().as_subclass(Tensor)
    if torch.equal(ours, theirs):
        return None
    if left.dtype.is_floating_point or left.dtype.is_complex:
        if torch.allclose(ours, theirs, rtol=RELATIVE, atol=ABSOLUTE * largest, equal_nan=True):
            return None
        worst = (ours - theirs).abs().max().item()
        return f"{at}: values differ by up to {worst:.3g} in shape {tuple(left.shape)}"
    return f"{at}: values differ in shape {tuple(left.shape)}, dtype {left.dtype}"


def _strides(tensor: Tensor) -> list[int]:
    """Strides that mean something: of sizes above 1, if there is any element at all."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return []
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in pairs if size > 1]


def _compare_floats(left: float, right: float, at: str) -> str | None:
    if left == right or (left != left and right != right):
        return None
    if abs(left - right) <= ABSOLUTE + RELATIVE * abs(right):
        return None
    return f"{at}: {left!r} != {right!r}"


def _compare_functions(left: Any, right: Any, at: str) -> str | None:
    """By name, defaults and what they close over; the code may be an instrumented twin."""
    if left.__qualname__ != right.__qualname__:
        return f"{at}: function {left.__qualname__}, not {right.__qualname__}"
    ours, theirs = _cells(left), _cells(right)
    for name in set(ours) & set(theirs):
        if not isinstance(ours[name], types.FunctionType):
            found = difference(ours[name], theirs[name], f"{at}.<{name}>")
            if found:
                return found
    return difference(left.__defaults__, right.__defaults__, f"{at}.__defaults__")


def _cells(function: types.FunctionType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # Not filled yet: a function that refers to a later name.
    return found


def _compare_by_name(left: Any, right: Any, at: str) -> str | None:
    ours, theirs = getattr(left, "__qualname__", left), getattr(right, "__qualname__", right)
    return None if ours == theirs else f"{at}: {ours} != {theirs}"


def _compare_arrays(left: Any, right: Any, at: str) -> str | None:
    equal = left.dtype == right.dtype and left.shape == right.shape
    if equal and np.allclose(left, right, RELATIVE, ABSOLUTE, equal_nan=True):
        return None
    return f"{at}: arrays differ"


def _compare_exceptions(left: BaseException, right: BaseException, at: str) -> str | None:
    return None if str(left) == str(right) else f"{at}: {left!r} != {right!r}"


def _compare_sets(left: Any, right: Any, at: str) -> str | None:
    ours, theirs = sorted(map(repr, left)), sorted(map(repr, right))
    return None if ours == theirs else f"{at}: {left} != {right}"


def _compare_iterators(left: Any, right: Any, at: str) -> str | None:
    """By what is left in them; a copy is used up, not the iterator itself."""
    return difference(list(copy.copy(left)), list(copy.copy(right)), at)


def _compare_opaque(left: Any, right: Any, at: str) -> str | None:
    return None


_LEAVES: tuple[tuple[Any, Callable[[Any, Any, str], str | None]], ...] = (
    (Tensor, _compare_tensors),
    (float, _compare_floats),
    (np.ndarray, _compare_arrays),
    (types.FunctionType, _compare_functions),
    (types.MethodType, lambda a, b, at: _compare_functions(a.__func__, b.__func__, at)),
    ((type, types.BuiltinFunctionType), _compare_by_name),
    (BaseException, _compare_exceptions),
    (weakref.ref, lambda a, b, at: difference(a(), b(), f"{at}()")),
    ((set, frozenset), _compare_sets),
    ((type(iter([])), type(iter(range(0)))), _compare_iterators),
    # One per process, or without state that a program can compare.
    ((types.ModuleType, types.GeneratorType, torch.Generator, types.CellType), _compare_opaque),
)


def _children(value: Any) -> list[tuple[Any, Any]] | None:
    """Named parts of a container or object, or None for something without parts."""
    if isinstance(value, str | int | float | bytes | type | types.FunctionType | type(None)):
        return None
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        parts += list(value.items())
    elif isinstance(value, list | tuple | deque):
        parts += list(enumerate(value))
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and not isinstance(value, types.ModuleType):
        # A ModelOutput keeps its fields twice, as items and as attributes.
        known = {key for key, _ in parts} if isinstance(value, OrderedDict) else set()
        parts += sorted(
            (
                (name, _plain(name, part))
                for name, part in attributes.items()
                if name not in known | _NOT_STATE
            ),
            key=lambda item: str(item[0]),
        )
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in _NOT_STATE and hasattr(value, name):
                parts.append((name, getattr(value, name)))
    if parts or isinstance(value, Mapping | list | tuple | deque) or attributes is not None:
        return parts
    return None


def _plain(name: str, part: Any) -> Any:
    """Hooks without their handles' numbers, which count up in a process."""
    return list(part.values()) if "_hooks" in name and isinstance(part, dict) else part


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 120 else text[:119] + "…"
