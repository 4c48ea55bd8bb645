"""Guards checked one by one, without generated code: slower to run, and there at once.

To generate and compile the code for a thousand guards takes as long as to look at them a dozen
times, and most entries are looked at in full once or twice: then a stamp stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from anyshape.guards.guard import Guard, Kind, TensorSpec
from anyshape.guards.path import Access, Path
from anyshape.guards.values import (
    contains,
    instance_dictionary,
    is_dense,
    item_of,
    keys_match,
    keys_of,
    lacks_instance_attribute,
    length_of,
    strictly_equal,
)


class Interpreter:
    """A function of the root: the objects that are wanted, or None if a guard fails."""

    def __init__(self, guards: Sequence[Guard], wanted: Sequence[Path], root: Path | None) -> None:
        self._guards: Final = guards
        self._wanted: Final = wanted
        self._root: Final = root

    def __call__(self, root: object) -> object:
        found: dict[Path, object] = {} if self._root is None else {self._root: root}
        try:
            for guard in self._guards:
                path = guard.path
                assert path is not None, "only guards on paths are interpreted"
                thing = found[path] if path in found else _at(path, found)
                if not HOLDS[guard.kind](thing, guard.value):
                    return None
            return tuple(_at(path, found) for path in self._wanted)
        except Exception:
            return None  # What was to be looked at is not there.


def _at(path: Path, found: dict[Path, object]) -> object:
    if path not in found:
        parent = None if path.parent is None else _at(path.parent, found)
        found[path] = STEPS[path.access](parent, path.key)
    return found[path]


# -- steps of paths -----------------------------------------------------------------------------


def _argument(parent: object, key: object) -> object:
    return cast("Mapping[object, object]", parent)[key]


def _held(parent: object, key: object) -> object:
    return key


def _attribute(parent: object, key: object) -> object:
    return getattr(parent, cast("str", key))


def _instance(parent: object, key: object) -> object:
    return cast("Mapping[object, object]", instance_dictionary(parent))[key]


def _cell(parent: object, key: object) -> object:
    return getattr(parent, "cell_contents")  # noqa: B009


def _key(parent: object, key: object) -> object:
    return keys_of(parent)[cast("int", key)]


def _stride(parent: object, key: object) -> object:
    return getattr(parent, "stride")()[key]  # noqa: B009


#: From the parent of a path, which of an argument is the arguments by name, to the object.
STEPS: Final[dict[Access, Callable[[object, object], object]]] = {
    Access.LOCAL: _argument,
    Access.CONSTANT: _held,
    Access.ATTRIBUTE: _attribute,
    Access.INSTANCE: _instance,
    Access.ITEM: item_of,
    Access.CELL: _cell,
    Access.KEY: _key,
    Access.STRIDE: _stride,
}


# -- guards about one object --------------------------------------------------------------------


def _type(thing: object, value: object) -> bool:
    return value is cast("object", type(thing))


def _identity(thing: object, value: object) -> bool:
    return thing is value


def _length(thing: object, value: object) -> bool:
    return length_of(thing) == value


def _truth(thing: object, value: object) -> bool:
    return (length_of(thing) != 0) is bool(value)


def _keys(thing: object, value: object) -> bool:
    return keys_match(thing, cast("tuple[object, ...]", value))


def _contains(thing: object, value: object) -> bool:
    key, present = cast("tuple[object, bool]", value)
    return contains(thing, key) is present


def _no_instance_attribute(thing: object, value: object) -> bool:
    return lacks_instance_attribute(thing, cast("str", value))


def _tensor(thing: object, value: object) -> bool:
    spec = cast("TensorSpec", value)
    # A subclass may answer for its attributes as it likes.
    return type(thing) is spec.type and _is_like(spec, thing)


def _is_like(spec: TensorSpec, tensor: object) -> bool:
    found = {name: getattr(tensor, name) for name in ("dtype", "device", "requires_grad", "layout")}
    sizes = cast("tuple[int, ...]", getattr(tensor, "shape"))  # noqa: B009
    if (
        found["dtype"] != spec.dtype
        or found["device"] != spec.device
        or found["requires_grad"] is not spec.requires_grad
        or (spec.layout is not None and found["layout"] is not spec.layout)
        or len(sizes) != len(spec.sizes)
        or any(map(_is_other_size, spec.sizes, sizes))
    ):
        return False
    if spec.strides is None and spec.order is None:
        return True
    strides = cast("tuple[int, ...]", getattr(tensor, "stride")())  # noqa: B009
    return (spec.strides is None or not any(map(_is_other_size, spec.strides, strides))) and (
        spec.order is None or is_dense(sizes, strides, spec.order)
    )


def _is_other_size(wanted: int | None, size: int) -> bool:
    return wanted is not None and wanted != size


#: Those kinds that a stamp can stand for.
HOLDS: Final[dict[Kind, Callable[[object, object], bool]]] = {
    Kind.TYPE: _type,
    Kind.EQUALS: strictly_equal,
    Kind.IDENTITY: _identity,
    Kind.LENGTH: _length,
    Kind.TRUTH: _truth,
    Kind.KEYS: _keys,
    Kind.CONTAINS: _contains,
    Kind.NO_INSTANCE_ATTRIBUTE: _no_instance_attribute,
    Kind.TENSOR: _tensor,
}
