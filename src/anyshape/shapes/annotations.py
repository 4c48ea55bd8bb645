"""The contract that annotations of a function's parameters are: those of jaxtyping.

    def attend(x: Float[Tensor, "batch seq 64"], mask: Bool[Tensor, "#batch seq"] | None): ...

jaxtyping is not imported: its annotations are classes that say what they are. What they can say and
a contract cannot is an error that names it.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from anyshape.errors import BadShapeSpec
from anyshape.shapes.shape_string import Broadcast, Variadic, Word
from anyshape.shapes.spec import Each, Item, Items, Keyed, One, Shapes, SpecNode, Words

_UNIONS: Final = (Union, types.UnionType)


def shapes_of_annotations(function: Callable[..., object]) -> Shapes:
    """What the annotations of the parameters say of shapes and dtypes; an error if that is
    nothing."""
    annotated = _annotated(function)
    found: dict[str, SpecNode] = {}
    for parameter in _parameters(annotated):
        if parameter.annotation is Parameter.empty:
            continue
        place = f"the annotation of {parameter.name}"
        hint = _evaluated(parameter.annotation, annotated, place)
        if not _speaks(hint):
            continue
        node = _node(hint, place)
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            node = Each(place, node)
        found[parameter.name] = node
    if not found:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        raise BadShapeSpec(
            place='shapes="annotations"',
            found=f"{name} has no parameter with an annotation of shapes",
            expected='annotations of jaxtyping: `x: Float[Tensor, "batch seq 64"]`',
        )
    return Shapes(found)


def _parameters(function: Callable[..., object]) -> Sequence[Parameter]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function of C that does not say
        return ()


def _annotated(function: Any) -> Callable[..., object]:
    """The plain function whose annotations count."""
    if hasattr(function, "forward") and not inspect.isroutine(function):
        function = function.forward
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.unwrap(function)


def _evaluated(annotation: object, function: Any, place: str) -> object:
    """An annotation that may be text, as with `from __future__ import annotations`."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    plain = getattr(function, "__func__", function)
    names = getattr(plain, "__globals__", {})
    nearby = dict(inspect.getclosurevars(plain).nonlocals) if inspect.isfunction(plain) else {}
    try:
        return typing.get_type_hints(holder, names, nearby, include_extras=True)["it"]
    except Exception as error:
        raise BadShapeSpec(
            place=place,
            found=f"{annotation!r} cannot be evaluated ({type(error).__name__}: {error})",
            expected="names that the module of the function has when it is compiled",
        ) from None


# -- what a hint is --------------------------------------------------------------------------------


def _is_shape(hint: object) -> bool:
    """Whether it is a class of jaxtyping's, of tensors: arrays of others are not spoken of."""
    said = ("dim_str", "dtypes", "array_type")
    return (
        isinstance(hint, type) and all(hasattr(hint, each) for each in said) and _of_tensors(hint)
    )


def _of_tensors(hint: Any) -> bool:
    kinds = get_args(hint.array_type) or (hint.array_type,)
    bases = [base for kind in kinds for base in getattr(kind, "__mro__", ())]
    is_torch = [base.__module__.partition(".")[0] == "torch" for base in bases]
    return any(is_torch) or hint.array_type is Any


def _speaks(hint: object) -> bool:
    return _is_shape(hint) or any(map(_speaks, _parts(hint)))


def _parts(hint: object) -> Sequence[object]:
    """The hints that it is made of."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[:1]
    return get_args(hint) or tuple(_fields(hint).values())


def _fields(hint: Any) -> Mapping[str, object]:
    """Of a class that is a list of fields: a dataclass, a named tuple, a typed dictionary."""
    signs = ("__dataclass_fields__", "_fields", "__required_keys__")
    is_record = isinstance(hint, type) and any(hasattr(hint, each) for each in signs)
    return typing.get_type_hints(cast("Any", hint), include_extras=True) if is_record else {}


def _node(hint: object, place: str) -> SpecNode:
    """The spec that a hint is; it speaks of shapes."""
    if _is_shape(hint):
        return _words(hint, place)
    if get_origin(hint) is Annotated:
        return _node(get_args(hint)[0], place)
    if get_origin(hint) in _UNIONS:
        return _alternatives(hint, place)
    if fields := _fields(hint):
        return Keyed(place, dict(_of_fields(hint, fields, place)))
    return _container(hint, place)


def _alternatives(hint: object, place: str) -> SpecNode:
    others = [each for each in get_args(hint) if each is not type(None)]
    if len(others) > 1:
        raise _unsupported(place, str(hint), "one shape, or one and None")
    return _node(others[0], place)


def _of_fields(
    hint: object, fields: Mapping[str, object], place: str
) -> Iterator[tuple[str, SpecNode]]:
    needed = cast("Mapping[str, object]", getattr(hint, "__required_keys__", fields))
    for name, each in fields.items():
        if not _speaks(each):
            continue
        if name not in needed:
            raise _unsupported(f"{place}, {name}", "a key that may be missing", "required keys")
        yield name, _node(each, f"{place}, {name}")


def _container(hint: object, place: str) -> SpecNode:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple and ... not in parts:
        silent = One(place, None)
        return Items(
            place,
            tuple(
                _node(each, f"{place}, item {index}") if _speaks(each) else silent
                for index, each in enumerate(parts)
            ),
        )
    if isinstance(origin, type) and issubclass(origin, Sequence | Mapping):
        *keys, item = [each for each in parts if each is not ...]
        if not any(map(_speaks, keys)):
            return Each(place, _node(item, f"{place}, each item"))
    raise _unsupported(
        place, str(hint), "tuples, sequences, mappings, dataclasses and named tuples"
    )


def _unsupported(place: str, found: str, expected: str) -> BadShapeSpec:
    return BadShapeSpec(
        place=place, found=f"{found}, which a contract cannot say", expected=expected
    )


# -- what an annotation says -----------------------------------------------------------------------


def _words(hint: Any, place: str) -> Words:
    text = str(hint.dim_str)
    place = f"{place} ({hint.__name__})"
    dtypes: object = hint.dtypes
    items = tuple(_item(word, place) for word in text.split())
    if sum(each is ... or isinstance(each, Variadic) for each in items) > 1:
        raise _unsupported(place, "several words for any number of dimensions", "one of them")
    # What is no sequence stands for any.
    named = cast("Sequence[object]", dtypes) if isinstance(dtypes, tuple | list) else ()
    return Words(place, text, items, tuple(named))


def _item(word: str, place: str) -> Item:
    said = word
    # `rows=3`: the name is for people.
    if "=" in said and said.partition("=")[0].isidentifier():
        said = said.partition("=")[2]
    size = said.lstrip("#*")
    signs = said[: len(said) - len(size)]
    if size == "..." or size.startswith("_"):
        return ... if size == "..." or "*" in signs else None
    if size.startswith("?") or "{" in size:
        why = (
            "a name of a tree" if size.startswith("?") else "a value from outside of the annotation"
        )
        raise _unsupported(place, f"the word `{word}` ({why})", "names, numbers and sizes of names")
    if "*" in signs:
        if not size.isidentifier():
            raise _unsupported(place, f"the word `{word}`", "a name after `*`")
        return Variadic(size, "#" in signs)
    plain = int(size) if size.isdecimal() else Word(size, place)
    return Broadcast(plain) if "#" in signs else plain
