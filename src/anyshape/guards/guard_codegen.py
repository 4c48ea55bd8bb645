"""The lines of Python that check one guard: a row for each kind.

The cheapest form that is sound, by `benchmarks/bench_dispatch.py`: identities before equalities,
one attribute of a tensor before its shape, a method of C code only on objects whose type was
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import copysign
from typing import Final, cast

from anyshape.guards.guard import Guard, Kind, TensorSpec
from anyshape.guards.path import Path
from anyshape.guards.path_codegen import Walk
from anyshape.guards.values import (
    SIZED,
    contains,
    dictionary_reader,
    keys_match,
    lacks_instance_attribute,
    length_of,
    members_match,
    strictly_equal,
)
from anyshape.symbolic import Fact


def check(walk: Walk, guard: Guard) -> None:
    """Write the lines for a guard about one path."""
    CHECKS[guard.kind](walk, guard)


def _path(guard: Guard) -> Path:
    assert guard.path is not None, f"a guard of kind {guard.kind.name} looks at a path"
    return guard.path


def _object(walk: Walk, guard: Guard) -> str:
    return walk.variable(_path(guard))


def _type(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{walk.name(type)}({_object(walk, guard)}) is not {walk.name(guard.value)}")


def _identity(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{_object(walk, guard)} is not {walk.name(guard.value)}")


_SINGLETONS: Final = frozenset((type(None), bool, type(...), type(NotImplemented)))
#: `!=` of two of one such type is the whole comparison
_PLAIN: Final = frozenset((int, str, bytes))


def _equals(walk: Walk, guard: Guard) -> None:
    found, value = _object(walk, guard), guard.value
    kind = type(value)
    if kind in _SINGLETONS:
        walk.refuse_if(f"{found} is not {walk.literal(value)}")
    elif kind in _PLAIN:
        differs = f"{found} != {walk.literal(value)}"
        walk.refuse_if(f"{walk.name(type)}({found}) is not {walk.name(kind)} or {differs}")
    elif kind is float:
        differs = _float_differs(walk, found, cast("float", value))
        walk.refuse_if(f"{walk.name(type)}({found}) is not {walk.name(kind)} or {differs}")
    else:
        expected = walk.name(value)
        equal = f"{walk.name(strictly_equal)}({found}, {expected})"
        walk.refuse_if(f"{found} is not {expected} and not {equal}")


def _float_differs(walk: Walk, found: str, value: float) -> str:
    if value != value:
        return f"{found} == {found}"
    if value == 0:
        sign = f"{walk.name(copysign)}(1.0, {found}) != {copysign(1.0, value)}"
        return f"{found} != 0.0 or {sign}"
    return f"{found} != {walk.name(value)}"


def _length(walk: Walk, guard: Guard) -> None:
    found = _object(walk, guard)
    if walk.type_at(_path(guard)) not in SIZED:
        walk.refuse_if(f"{walk.name(length_of)}({found}) != {guard.value}")
    elif guard.value == 0:
        walk.refuse_if(found)
    else:
        walk.refuse_if(f"{walk.name(len)}({found}) != {guard.value}")


#: Up to so many keys are taken apart; more are compared by a loop in C, which costs more to start.
_FEW_KEYS: Final = 12


def _keys(walk: Walk, guard: Guard) -> None:
    """By the identities of the keys, which are the same strings nearly always; an `==` of tuples
    would ask foreign keys."""
    expected, found = cast("tuple[object, ...]", guard.value), _object(walk, guard)
    match = f"{walk.name(keys_match)}({found}, {walk.name(expected)})"
    if walk.type_at(_path(guard)) is not dict:
        walk.refuse_if(f"not {match}")
    elif not expected:
        walk.refuse_if(found)
    elif len(expected) <= _FEW_KEYS:
        walk.refuse_if(f"{walk.name(len)}({found}) != {len(expected)}")
        names = [walk.fresh() for _ in expected]
        walk.lines.append(f"{', '.join(names)}, = {found}")
        pairs = zip(names, expected, strict=True)
        same = " and ".join(f"{name} is {walk.name(key)}" for name, key in pairs)
        walk.refuse_if(f"not ({same}) and not {match}")
    else:
        same = f"{walk.name(tuple)}({walk.name(map)}({walk.name(id)}, {found}))"
        walk.refuse_if(f"{same} != {walk.name(tuple(map(id, expected)))} and not {match}")


def _members(walk: Walk, guard: Guard) -> None:
    match = f"{walk.name(members_match)}({_object(walk, guard)}, {walk.name(guard.value)})"
    walk.refuse_if(f"not {match}")


def _contains(walk: Walk, guard: Guard) -> None:
    key, present = cast("tuple[object, bool]", guard.value)
    found = _object(walk, guard)
    if walk.type_at(_path(guard)) is dict:
        walk.refuse_if(f"{walk.literal(key)} {'not in' if present else 'in'} {found}")
    else:
        there = f"{walk.name(contains)}({found}, {walk.literal(key)})"
        walk.refuse_if(f"{there} is not {present}")


def _no_instance_attribute(walk: Walk, guard: Guard) -> None:
    path, name = _path(guard), cast("str", guard.value)
    kind = walk.type_at(path)
    if kind is None:
        lacks = f"{walk.name(lacks_instance_attribute)}({_object(walk, guard)}, {name!r})"
        walk.refuse_if(f"not {lacks}")
    elif dictionary_reader(kind) is not None:
        walk.refuse_if(f"{name!r} in {walk.dictionary(path)}")


def _no_attribute(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{walk.name(hasattr)}({_object(walk, guard)}, {guard.value!r})")


def _truth(walk: Walk, guard: Guard) -> None:
    found = _object(walk, guard)
    if walk.type_at(_path(guard)) not in SIZED:
        found = f"{walk.name(length_of)}({found})"
    walk.refuse_if(f"not {found}" if guard.value else found)


def _predicate(walk: Walk, guard: Guard) -> None:
    found = "" if guard.path is None else _object(walk, guard)
    walk.refuse_if(f"not {walk.name(guard.value)}({found})")


# -- tensors ------------------------------------------------------------------------------------


def _tensor(walk: Walk, guard: Guard) -> None:
    spec, found = cast("TensorSpec", guard.value), _object(walk, guard)
    walk.refuse_if(f"{walk.name(type)}({found}) is not {walk.name(spec.type)}")
    walk.refuse_if(f"{found}.dtype is not {walk.name(spec.dtype)}")
    _sizes_of_tensor(walk, _path(guard), spec)
    if getattr(spec.device, "type", None) == "cpu":
        walk.refuse_if(f"not {found}.is_cpu")  # There is one; half the price of the comparison.
    else:
        walk.refuse_if(f"{found}.device != {walk.name(spec.device)}")
    walk.refuse_if(f"{'not ' if spec.requires_grad else ''}{found}.requires_grad")
    if spec.layout is not None:
        walk.refuse_if(f"{found}.layout is not {walk.name(spec.layout)}")
    if spec.strides is not None:
        _strides_of_tensor(walk, found, spec.strides)
    if spec.order is not None:
        _order_of_tensor(walk, _path(guard), spec.sizes, spec.order)


def _strides_of_tensor(walk: Walk, found: str, strides: tuple[int | None, ...]) -> None:
    if None not in strides:
        walk.refuse_if(f"{found}.stride() != {walk.name(strides)}")
        return
    for dim, stride in enumerate(strides):
        if stride is not None:
            walk.refuse_if(f"{found}.stride({dim}) != {stride}")


def _sizes_of_tensor(walk: Walk, path: Path, spec: TensorSpec) -> None:
    found, rank = walk.variable(path), len(spec.sizes)
    static = [(dim, size) for dim, size in enumerate(spec.sizes) if size is not None]
    if len(static) == rank:
        sizes = spec.sizes
        walk.refuse_if(f"{found}.shape != {walk.name(sizes)}" if rank else f"{found}.ndim")
        return
    shape = walk.shape(path)
    walk.refuse_if(f"{walk.name(len)}({shape}) != {rank}")
    for dim, size in static:
        walk.refuse_if(f"{shape}[{dim}] != {size}")


def _order_of_tensor(
    walk: Walk, path: Path, sizes: tuple[int | None, ...], order: tuple[int, ...]
) -> None:
    found = walk.variable(path)
    if order == tuple(range(len(order))):
        if order:
            walk.refuse_if(f"not {found}.is_contiguous()")
        return
    if 0 in sizes:
        return  # A tensor without elements always fits.
    strides = walk.assign(f"{found}.stride()")
    dense = dense_condition(_size_texts(walk, path, sizes), strides, order)
    if None in sizes:
        dense = f"{dense} or 0 in {walk.shape(path)}"
    walk.refuse_if(f"not ({dense})")


def _size_texts(walk: Walk, path: Path, sizes: tuple[int | None, ...]) -> list[str]:
    return [
        f"{walk.shape(path)}[{dim}]" if size is None else str(size)
        for dim, size in enumerate(sizes)
    ]


def dense_condition(sizes: Sequence[str], strides: str, order: tuple[int, ...]) -> str:
    """That the strides are those of a dense tensor whose dimensions lie in this order, as text: a
    dimension's stride is the product of the sizes inside it, and does not matter if its size is
    1."""
    conditions: list[str] = []
    inside: list[str] = []
    for dim in reversed(order):
        if sizes[dim] != "1":
            expected = "*".join(inside) or "1"
            free = "" if sizes[dim].isdigit() else f"{sizes[dim]} == 1 or "
            conditions.append(f"({free}{strides}[{dim}] == {expected})")
            inside.append(sizes[dim])
    return " and ".join(conditions) or "True"


# -- guards about several paths: written when all others are ------------------------------------


def _same_object(walk: Walk, guard: Guard) -> None:
    other = walk.at(cast("Path", guard.value))
    walk.refuse_if(f"{walk.at(_path(guard))} is not {other}")


_FEW: Final = 4


def _distinct(walk: Walk, guard: Guard) -> None:
    names = [walk.at(path) for path in dict.fromkeys(cast("tuple[Path, ...]", guard.value))]
    if len(names) <= _FEW:
        for one, other in combinations(names, 2):
            walk.refuse_if(f"{one} is {other}")
    else:
        identities = ", ".join(f"{walk.name(id)}({name})" for name in names)
        walk.refuse_if(f"{walk.name(len)}({{{identities}}}) != {len(names)}")


def _sizes(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"not ({walk.arithmetic(cast('Fact', guard.value))})")


def _state(walk: Walk, guard: Guard) -> None:
    walk.refuse_if(f"{walk.state} != {walk.name(guard.value)}")


CHECKS: Final[dict[Kind, Callable[[Walk, Guard], None]]] = {
    Kind.TYPE: _type,
    Kind.EQUALS: _equals,
    Kind.IDENTITY: _identity,
    Kind.LENGTH: _length,
    Kind.KEYS: _keys,
    Kind.MEMBERS: _members,
    Kind.CONTAINS: _contains,
    Kind.NO_INSTANCE_ATTRIBUTE: _no_instance_attribute,
    Kind.NO_ATTRIBUTE: _no_attribute,
    Kind.TRUTH: _truth,
    Kind.TENSOR: _tensor,
    Kind.SIZES: _sizes,
    Kind.SAME_OBJECT: _same_object,
    Kind.DISTINCT: _distinct,
    Kind.STATE: _state,
    Kind.PREDICATE: _predicate,
}
