"""What a compiled call left behind, compared with what eager left behind of the copies.

Integers, bools, structure, types, dtypes, layouts and what tensors are to autograd are compared
exactly; floats with the tolerances of `torch.testing` by dtype, where NaN equals NaN. What is one
object, or one memory, on one side must be one on the other.
"""

from __future__ import annotations

import math
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import torch

from anyshape.dispatch.verification.tensor_values import values_difference

#: So many differences are listed.
_MOST: Final = 8
#: `torch.testing.assert_close` for float32, where most Python floats of a program come from.
_RELATIVE, _ABSOLUTE = 1.3e-6, 1e-5

#: By name: what a program can ask a tensor, beside its values.
_TRAITS: Final[dict[str, Callable[[torch.Tensor], Any]]] = {
    "dtype": lambda t: t.dtype,
    "shape": lambda t: tuple(t.shape),
    "device": lambda t: t.device,
    "layout": lambda t: t.layout,
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
    "is_inference()": lambda t: t.is_inference(),
    "has a grad_fn": lambda t: t.grad_fn is not None,
    "is_conj()": lambda t: t.is_conj(),
    "is_neg()": lambda t: t.is_neg(),
    "names": lambda t: getattr(t, "names", None),  # not in every torch
    "stride()": lambda t: _strides(t),
    "retains_grad": lambda t: t.retains_grad,
}


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Those that mean something: of sizes above 1, if there is an element at all."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return ()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride for size, stride in sizes if size > 1)


class Comparison:
    """Collects differences. `ours` is always of the compiled call, `theirs` of eager."""

    def __init__(self, opaque: Collection[int] = ()) -> None:
        #: identities of objects that are not looked into
        self._opaque = opaque
        self.found: list[str] = []
        self._ours: dict[int, Any] = {}
        self._theirs: dict[int, Any] = {}
        #: by the identity of a memory, that of the other side
        self._memory: dict[int, int] = {}
        self._their_memory: dict[int, int] = {}
        self._kept: list[Any] = []

    @property
    def is_full(self) -> bool:
        return len(self.found) >= _MOST

    def differ(self, at: str, text: str) -> None:
        if not self.is_full:
            self.found.append(f"{at}: {text}")

    def compare(self, ours: Any, theirs: Any, at: str) -> None:
        """Note how two values differ, and all that is in them."""
        # A list instead of recursion: caches of programs may be deep.
        waiting = [(ours, theirs, at)]
        while waiting and not self.is_full:
            waiting.extend(reversed(list(self._step(*waiting.pop()))))

    def _step(self, ours: Any, theirs: Any, at: str) -> Iterator[tuple[Any, Any, str]]:
        if type(ours) is not type(theirs):
            self.differ(at, f"a {_kind(ours)}, where eager has a {_kind(theirs)}")
            return
        if type(ours) in _VALUES:
            if not _VALUES[type(ours)](ours, theirs):
                self.differ(at, f"{_short(ours)}, where eager has {_short(theirs)}")
            return
        if isinstance(ours, _WITHOUT_STATE):
            return
        if isinstance(ours, types.FunctionType):
            if ours is not theirs:
                yield from self._functions(ours, theirs, at)
            return
        if not isinstance(ours, tuple):
            if self._is_known(ours, theirs, at):
                return
            self._pair(ours, theirs)
        if isinstance(ours, torch.Tensor):
            yield from self._tensors(ours, theirs, at)
        elif ours is not theirs and id(ours) not in self._opaque:
            yield from self._parts(ours, theirs, at)

    # -- which object, and which memory, stands for which ------------------------------------------

    def _is_known(self, ours: Any, theirs: Any, at: str) -> bool:
        """Whether one of the two was met before; they are a difference if not both with each
        other."""
        known = id(ours) in self._ours or id(theirs) in self._theirs
        if not known:
            return False
        if self._ours.get(id(ours)) is not theirs:
            other = "is an object that was there before" if id(theirs) in self._theirs else "is new"
            self.differ(at, f"not the same object as with eager, where it {other}")
        return True

    def _pair(self, ours: Any, theirs: Any) -> None:
        self._ours[id(ours)] = theirs
        self._theirs[id(theirs)] = ours
        self._kept.append((ours, theirs))

    def _share_memory(self, ours: torch.Tensor, theirs: torch.Tensor, at: str) -> None:
        if ours.layout is not torch.strided or not ours.numel():
            return
        mine, other = (t.untyped_storage()._cdata for t in (ours, theirs))
        known = self._memory.setdefault(mine, other), self._their_memory.setdefault(other, mine)
        if known != (other, mine):
            whose = "shares" if known[1] != mine else "does not share"
            self.differ(
                at,
                f"its memory is not shared as with eager, where it {whose} that of"
                " another tensor of the call",
            )
        elif self._is_outside(mine) and ours.storage_offset() != theirs.storage_offset():
            text = f"storage_offset() is {ours.storage_offset()}"
            self.differ(at, f"{text}, where eager has {theirs.storage_offset()}")

    def _is_outside(self, memory: int) -> bool:
        return memory in self._outside

    _outside: frozenset[int] = frozenset()

    def begin_results(self) -> None:
        """What was compared so far was there before the call: offsets into it are seen."""
        self._outside = frozenset(self._memory)

    # -- kinds of values ---------------------------------------------------------------------------

    def _tensors(
        self, ours: torch.Tensor, theirs: torch.Tensor, at: str
    ) -> Iterator[tuple[Any, Any, str]]:
        self._share_memory(ours, theirs, at)
        if ours is theirs:
            return
        for name, trait in _TRAITS.items():
            mine, other = trait(ours), trait(theirs)
            if mine != other:
                self.differ(at, f"{name} is {mine}, where eager has {other}")
                if name in ("dtype", "shape", "device", "layout"):
                    return
        text = values_difference(ours, theirs)
        if text:
            self.differ(at, text)
        if ours.__dict__ or theirs.__dict__:
            yield ours.__dict__, theirs.__dict__, f"{at}.__dict__"
        if ours.is_leaf and theirs.is_leaf:
            yield ours.grad, theirs.grad, f"{at}.grad"

    def _functions(self, ours: Any, theirs: Any, at: str) -> Iterator[tuple[Any, Any, str]]:
        if ours.__qualname__ != theirs.__qualname__:
            self.differ(at, f"{ours.__qualname__}, where eager has {theirs.__qualname__}")
            return
        yield ours.__defaults__, theirs.__defaults__, f"{at}.__defaults__"
        cells = zip(ours.__closure__ or (), theirs.__closure__ or (), strict=False)
        names = ours.__code__.co_freevars
        for name, (mine, other) in zip(names, cells, strict=False):
            if mine is not other and _is_filled(mine) and _is_filled(other):
                yield mine.cell_contents, other.cell_contents, f"{at}.{name}"

    def _parts(self, ours: Any, theirs: Any, at: str) -> Iterator[tuple[Any, Any, str]]:
        mine, other = list(_parts(ours)), list(_parts(theirs))
        if not mine and not other:
            if not _equal(ours, theirs):
                self.differ(at, f"{_short(ours)}, where eager has {_short(theirs)}")
            return
        names, other_names = ([name for name, _ in parts] for parts in (mine, other))
        if names != other_names:
            self.differ(at, f"has {_short(names)}, where eager has {_short(other_names)}")
            return
        for (name, part), (_, its) in zip(mine, other, strict=True):
            yield part, its, f"{at}{name}"


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What is in a container, and the attributes of an object, by name."""
    if isinstance(value, dict):
        base: Any = OrderedDict if isinstance(value, OrderedDict) else dict
        for key, item in base.items(value):
            yield f"[{_key(key)}]", item
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield ".members", sorted(map(_key, value))
    elif isinstance(value, types.MethodType):
        yield ".__func__", value.__func__
        yield ".__self__", value.__self__
    elif isinstance(value, BaseException):
        yield " message", str(value)
    elif isinstance(value, torch.Generator):
        yield " state", value.get_state()
    elif isinstance(value, weakref.ref):
        return
    for name, part in getattr(value, "__dict__", {}).items():
        yield f".{name}", part
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _key(key: Any) -> str:
    """A key as both sides write it: objects by their class, since one side has a copy."""
    plain = isinstance(key, str | int | float | bool | bytes | types.NoneType | tuple | frozenset)
    return repr(key) if plain else f"<{_kind(key)}>"


def _equal(ours: Any, theirs: Any) -> bool:
    """Two values without parts that anybody can see. Those that do not say are taken as equal."""
    numbers = getattr(ours, "dtype", None), getattr(theirs, "dtype", None)
    if hasattr(ours, "tobytes") and numbers[0] is not None:
        if numbers[0] != numbers[1] or ours.shape != theirs.shape:
            return False
        if ours.tobytes() == theirs.tobytes() or numbers[0].kind not in "fc":
            return ours.tobytes() == theirs.tobytes()
        return values_difference(torch.as_tensor(ours), torch.as_tensor(theirs)) is None
    if type(ours).__eq__ is object.__eq__:
        return True
    try:
        return bool(ours == theirs)
    except Exception:
        return True


def _same_float(ours: float, theirs: float) -> bool:
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    return math.isclose(ours, theirs, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _same_complex(ours: complex, theirs: complex) -> bool:
    return _same_float(ours.real, theirs.real) and _same_float(ours.imag, theirs.imag)


def _same(ours: Any, theirs: Any) -> bool:
    return ours == theirs


_VALUES: Final[dict[type, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys((types.NoneType, bool, int, str, bytes, range, slice, torch.Size), _same),
    **dict.fromkeys((torch.dtype, torch.device, torch.layout, torch.memory_format), _same),
    float: _same_float,
    complex: _same_complex,
}
#: One in a process, or compared by nobody.
_WITHOUT_STATE: Final = (type, types.ModuleType, types.BuiltinFunctionType, weakref.ref)


def _kind(value: Any) -> str:
    return type(value).__qualname__


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {_kind(value)}"
    return text if len(text) < 100 else text[:99] + "…"
