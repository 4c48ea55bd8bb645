"""Guards as people read them, in the words of torch's own logs.

L['x'].size()[0] < 10
tensor 'x': type=Tensor, dtype=torch.float32, device=cpu, requires_grad=False, size=[?, 4]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Final, cast

from anyshape.guards.guard import Guard, Kind, SymbolSource, TensorSpec
from anyshape.guards.path import Access, Path
from anyshape.symbolic import Expr, Fact, Symbol, to_text
from anyshape.symbolic.expr import polynomial
from anyshape.symbolic.logic import And, Nonnegative, Nonzero, Or, Zero

Names = Callable[[Symbol], str]


def names_of(symbols: Iterable[SymbolSource]) -> Names:
    """What to write for a symbol: where its value comes from, the first place if there are more."""
    texts: dict[Symbol, str] = {}
    for source in symbols:
        texts.setdefault(source.symbol, source.text)
    return lambda symbol: texts.get(symbol, symbol.name)


def with_text(guard: Guard, write: Callable[[Guard], str]) -> Guard:
    """The guard with a text, if it has none: one that is written when it is asked for."""
    if guard.text:
        return guard
    return Guard(guard.kind, guard.path, guard.value, guard.reason, guard.user_frame, write)


def writer(names: Names) -> Callable[[Guard], str]:
    return lambda guard: _TEXTS[guard.kind](guard, names)


def guard_text(guard: Guard, names: Names) -> str:
    """How the guard prints; a text of its own comes first."""
    return guard.text or _TEXTS[guard.kind](guard, names)


def fact_text(fact: Fact, names: Names) -> str:
    """The fact in terms of its sources: `L['x'].size()[0] < 10`."""
    match fact:
        case And() | Or():
            word = " and " if isinstance(fact, And) else " or "
            return word.join(_part(part, names) for part in fact.parts)
        case Nonnegative():
            return _strict(fact.size, names) or to_text(fact, names)
        case _:
            return to_text(fact, names)


def in_logs(fact: Fact) -> str:
    """The fact in symbols, as logs have it: `Eq(s0, 5)`, `s0 < 10`."""
    match fact:
        case And() | Or():
            word = " & " if isinstance(fact, And) else " | "
            return word.join(f"({in_logs(part)})" for part in fact.parts)
        case Zero() | Nonzero():
            word, sign = ("Eq", " == ") if isinstance(fact, Zero) else ("Ne", " != ")
            left, _, right = to_text(fact).partition(sign)
            return f"{word}({left}, {right})"
        case _:
            return fact_text(fact, lambda symbol: symbol.name)


def _part(fact: Fact, names: Names) -> str:
    text = fact_text(fact, names)
    return f"({text})" if isinstance(fact, And | Or) else text


def _strict(size: Expr, names: Names) -> str | None:
    """`size >= 0` as `a < b`, where that is how a program would say it: an upper bound by a number,
    or one size below another."""
    terms = dict(size.terms)
    constant = terms.pop((), 0)
    below = polynomial({m: -c for m, c in terms.items() if c < 0})
    above = polynomial({m: c for m, c in terms.items() if c > 0})
    if above == 0:
        return f"{to_text(below, names)} < {constant + 1}"
    if below != 0 and constant == -1:
        return f"{to_text(below, names)} < {to_text(above, names)}"
    return None


def declared_ranges(symbols: Iterable[SymbolSource]) -> Iterator[tuple[str, str]]:
    """The bounds that symbols have from the start, and that places share one: checked with them. A
    source, and `L['x'].size()[0] >= 2`. That a size is not negative goes without saying."""
    homes: dict[Symbol, SymbolSource] = {}
    for source in symbols:
        home = homes.setdefault(source.symbol, source)
        if home is not source:
            yield source.text, f"{source.text} == {home.text}"
            continue
        low, high = source.symbol.declared
        if low is not None and (low > 0 or source.dim is None):
            yield source.text, f"{source.text} >= {low}"
        if high is not None:
            yield source.text, f"{source.text} <= {high}"


def tensor_name(path: Path) -> str:
    """`'x'` for an argument, the whole path for what lies deeper."""
    if path.access is Access.LOCAL:
        return repr(path.key)
    return f'"{path.text}"' if "'" in path.text else f"'{path.text}'"


def tensor_text(spec: TensorSpec) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in spec.sizes)
    parts = [
        f"type={spec.type.__name__}",
        f"dtype={spec.dtype}",
        f"device={spec.device}",
        f"requires_grad={spec.requires_grad}",
        f"size=[{sizes}]",
    ]
    if spec.strides is not None:
        strides = ", ".join("?" if stride is None else str(stride) for stride in spec.strides)
        parts.append(f"stride=[{strides}]")
    if spec.order is not None:
        parts.append(order_text(spec.order))
    if spec.layout is not None:
        parts.append(f"layout={spec.layout}")
    return ", ".join(parts)


#: Orders of dimensions that have a name; torch has these two for images and volumes.
_ORDER_NAMES: Final[dict[tuple[int, ...], str]] = {
    (0, 2, 3, 1): "channels_last",
    (0, 2, 3, 4, 1): "channels_last_3d",
}


def order_text(order: tuple[int, ...]) -> str:
    if order == tuple(range(len(order))):
        return "contiguous"
    return _ORDER_NAMES.get(order, f"dense in the order {list(order)}")


def _at(guard: Guard) -> str:
    return guard.path.text if guard.path is not None else "?"


def _type_text(guard: Guard, names: Names) -> str:
    return f"type({_at(guard)}) is {cast('type', guard.value).__name__}"


def _equals_text(guard: Guard, names: Names) -> str:
    return f"{_at(guard)} == {guard.value!r}"


def _identity_text(guard: Guard, names: Names) -> str:
    return f"{_at(guard)} is {object_name(guard.value)}"


def object_name(value: object) -> str:
    """A class or a function by its name, anything else by its type: its `repr` is user code."""
    if value is None or value is True or value is False or value is ...:
        return str(value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if issubclass(type(value), _NAMED):
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        return f"{name}"
    return f"<{type(value).__name__} object>"


_NAMED: Final = (type, FunctionType, BuiltinFunctionType, ModuleType)


def _length_text(guard: Guard, names: Names) -> str:
    return f"len({_at(guard)}) == {guard.value}"


def _keys_text(guard: Guard, names: Names) -> str:
    return f"list({_at(guard)}) == {list(cast('tuple[object, ...]', guard.value))!r}"


def _members_text(guard: Guard, names: Names) -> str:
    members = sorted(map(repr, cast("frozenset[object]", guard.value)))
    return f"{_at(guard)} == {{{', '.join(members)}}}" if members else f"{_at(guard)} == set()"


def _contains_text(guard: Guard, names: Names) -> str:
    key, present = cast("tuple[object, bool]", guard.value)
    return f"{key!r} {'in' if present else 'not in'} {_at(guard)}"


def _no_instance_attribute_text(guard: Guard, names: Names) -> str:
    return f"{guard.value!r} not in {_at(guard)}.__dict__"


def _no_attribute_text(guard: Guard, names: Names) -> str:
    return f"not hasattr({_at(guard)}, {guard.value!r})"


def _truth_text(guard: Guard, names: Names) -> str:
    return f"bool({_at(guard)}) is {guard.value}"


def _tensor_text(guard: Guard, names: Names) -> str:
    assert guard.path is not None, "a tensor guard looks at a path"
    return f"tensor {tensor_name(guard.path)}: {tensor_text(cast('TensorSpec', guard.value))}"


def _sizes_text(guard: Guard, names: Names) -> str:
    return fact_text(cast("Fact", guard.value), names)


def _same_object_text(guard: Guard, names: Names) -> str:
    return f"{_at(guard)} is {cast('Path', guard.value).text}"


def _distinct_text(guard: Guard, names: Names) -> str:
    paths = cast("tuple[Path, ...]", guard.value)
    return f"all different objects: {', '.join(path.text for path in paths)}"


def _state_text(guard: Guard, names: Names) -> str:
    return f"global state == {guard.value!r}"


def _predicate_text(guard: Guard, names: Names) -> str:
    return f"{object_name(guard.value)}({_at(guard) if guard.path is not None else ''})"


_TEXTS: Final[dict[Kind, Callable[[Guard, Names], str]]] = {
    Kind.TYPE: _type_text,
    Kind.EQUALS: _equals_text,
    Kind.IDENTITY: _identity_text,
    Kind.LENGTH: _length_text,
    Kind.KEYS: _keys_text,
    Kind.MEMBERS: _members_text,
    Kind.CONTAINS: _contains_text,
    Kind.NO_INSTANCE_ATTRIBUTE: _no_instance_attribute_text,
    Kind.NO_ATTRIBUTE: _no_attribute_text,
    Kind.TRUTH: _truth_text,
    Kind.TENSOR: _tensor_text,
    Kind.SIZES: _sizes_text,
    Kind.SAME_OBJECT: _same_object_text,
    Kind.DISTINCT: _distinct_text,
    Kind.STATE: _state_text,
    Kind.PREDICATE: _predicate_text,
}
