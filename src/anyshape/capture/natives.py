"""Native functions: a model for each that programs use, and an allow-list of pure ones.

A model answers as the function does, through hooks, so that what it looks at is seen. A pure
function gets plain values: traced numbers are fixed by guards first, and it must not be given
objects whose own code it would run.
"""

from __future__ import annotations

import builtins
import copy
import functools
import inspect
import itertools
import logging
import math
import operator
import types
import typing
import warnings
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

import torch

from anyshape.capture import copies
from anyshape.capture.concolic import TracedFloat, TracedInt, maximum, minimum, plain
from anyshape.capture.journal import Change, Effect
from anyshape.capture.outside import SETS
from anyshape.capture.tracer import ATOMS, CODE, Leave
from anyshape.guards.guard import Kind

Hooks = Any
_TRACED: Final = (TracedInt, TracedFloat)
_MISSING: Final = object()
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, deque)


# -- objects and attributes ------------------------------------------------------------------------


def _isinstance(hooks: Hooks, value: Any, kinds: Any) -> bool:
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if isinstance(kind, tuple):
            if _isinstance(hooks, value, kind):
                return True
            continue
        check = getattr(type(kind), "__instancecheck__", None)
        if isinstance(check, types.FunctionType) and not _is_plain_check(type(kind)):
            if hooks.call(check, kind, value):
                return True
    return isinstance(value, kinds)


def _is_plain_check(metaclass: type) -> bool:
    return metaclass.__module__.partition(".")[0] in ("abc", "torch", "enum", "typing")


def _getattr(hooks: Hooks, obj: Any, name: str, default: Any = _MISSING) -> Any:
    if default is _MISSING:
        return hooks.attribute(obj, name)
    try:
        return hooks.attribute(obj, name)
    except AttributeError:
        return default


def _hasattr(hooks: Hooks, obj: Any, name: str) -> bool:
    try:
        hooks.attribute(obj, name)
    except AttributeError:
        return False
    return True


def _type(hooks: Hooks, *args: Any) -> Any:
    if len(args) != 1:
        raise Leave("a class is made inside the function")
    kind = type(args[0])
    return {TracedInt: int, TracedFloat: float}.get(kind, kind)


def _vars(hooks: Hooks, *args: Any) -> Any:
    if len(args) != 1:
        raise Leave("vars()")
    return hooks.attribute(args[0], "__dict__")


def _super(hooks: Hooks, *args: Any) -> Any:
    return super(*args)  # pyright: ignore[reportCallIssue] two arguments


# -- sequences -------------------------------------------------------------------------------------


def _len(hooks: Hooks, value: Any) -> Any:
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__len__, (value,), {})
    own = getattr(kind, "__len__", None)
    if isinstance(own, types.FunctionType):
        hooks.attributes.class_attribute(kind, "__len__")
        return hooks.call(own, value)
    path = hooks.tracer.path_of(value)
    if path is not None:
        if isinstance(value, (str, bytes)):
            return len(value)
        if isinstance(value, _CONTAINERS):
            return hooks.outside.length(value, path)
        raise Leave(f"the length of a {kind.__name__} from outside")
    return len(value)


def _listed(kind: Callable[..., Any]) -> Callable[..., Any]:
    """A container made of an iterable."""

    def model(hooks: Hooks, *args: Any) -> Any:
        if not args:
            return kind()
        items = hooks.iterate(*args)
        if kind in (set, frozenset):
            items = [hooks.key(item) for item in items]
        return kind(items)

    return model


def _deque(hooks: Hooks, iterable: Any = (), maxlen: Any = None) -> deque[Any]:
    return deque(hooks.iterate(iterable), hooks.fixed(maxlen, "a container is that long at most"))


def _dict(hooks: Hooks, *args: Any, **named: Any) -> dict[Any, Any]:
    if not args:
        return dict(**named)
    (given,) = args
    if isinstance(given, dict) or hasattr(given, "keys"):
        return dict(hooks.mapping(given), **named)
    pairs = [tuple(hooks.unpack(pair)) for pair in hooks.iterate(given)]
    return dict([(hooks.key(pair[0]), *pair[1:]) for pair in pairs], **named)  # pyright: ignore[reportCallIssue, reportArgumentType] as the program has it


def _ordered_dict(hooks: Hooks, *args: Any, **named: Any) -> OrderedDict[Any, Any]:
    return OrderedDict(_dict(hooks, *args, **named))


def _zip(hooks: Hooks, *args: Any, strict: bool = False) -> Any:
    return zip(*(hooks.iterate(arg) for arg in args), strict=strict)


def _enumerate(hooks: Hooks, iterable: Any, start: Any = 0) -> Any:
    if type(start) in _TRACED:
        start = hooks.fixed(start, "counting starts at it")
    return enumerate(hooks.iterate(iterable), start)


def _range(hooks: Hooks, *args: Any) -> range:
    for arg in args:
        _no_own_code(hooks, arg, "__index__")
    return range(*(hooks.fixed(arg, "the loop runs this often") for arg in args))


def _map(hooks: Hooks, function: Any, *iterables: Any) -> Any:
    return map(_through(hooks, function), *(hooks.iterate(x) for x in iterables))


def _filter(hooks: Hooks, function: Any, iterable: Any) -> Any:
    if function is None:
        return (item for item in hooks.iterate(iterable) if hooks.truth(item))
    chosen = _through(hooks, function)
    return filter(lambda item: hooks.truth(chosen(item)), hooks.iterate(iterable))


def _through(hooks: Hooks, function: Any) -> Callable[..., Any]:
    """A function as native code may call it: its calls are seen."""
    return lambda *args, **kwargs: hooks.call(function, *args, **kwargs)


def _reversed(hooks: Hooks, value: Any) -> Any:
    own = getattr(type(value), "__reversed__", None)
    if isinstance(own, types.FunctionType):
        return hooks.iterate_over(hooks.call(own, value))
    path = hooks.tracer.path_of(value)
    if path is not None:
        contents = hooks.outside.contents(value, path)
        return reversed(list(contents))
    if isinstance(value, (list, tuple, dict, range, str, deque)):
        return reversed(value)
    size = hooks.call(len, value)
    return (hooks.item(value, index) for index in range(size - 1, -1, -1))


def _iter(hooks: Hooks, *args: Any) -> Any:
    if len(args) != 1:
        return iter(_through(hooks, args[0]), *args[1:])
    own = getattr(type(args[0]), "__iter__", None)
    if isinstance(own, types.FunctionType):
        hooks.attributes.class_attribute(type(args[0]), "__iter__")
        return hooks.call(own, args[0])
    return iter(hooks.iterate(args[0]))


def _next(hooks: Hooks, iterator: Any, *default: Any) -> Any:
    own = getattr(type(iterator), "__next__", None)
    if isinstance(own, types.FunctionType):
        hooks.attributes.class_attribute(type(iterator), "__next__")
        try:
            return hooks.call(own, iterator)
        except StopIteration:
            if default:
                return default[0]
            raise
    if hooks.tracer.path_of(iterator) is not None:
        raise Leave("an iterator from outside is advanced")
    return next(iterator, *default)


def _sum(hooks: Hooks, iterable: Any, start: Any = 0) -> Any:
    result = start
    for item in hooks.iterate(iterable):
        result = hooks.binary("add", result, item)
    return result


def _any(hooks: Hooks, iterable: Any) -> bool:
    return any(hooks.truth(item) for item in hooks.iterate(iterable))


def _all(hooks: Hooks, iterable: Any) -> bool:
    return all(hooks.truth(item) for item in hooks.iterate(iterable))


def _extremum(name: str, better: str) -> Callable[..., Any]:
    native: Callable[..., Any] = getattr(builtins, name)
    traced = minimum if name == "min" else maximum

    def model(hooks: Hooks, *args: Any, key: Any = None, default: Any = _MISSING) -> Any:
        items = list(hooks.iterate(args[0])) if len(args) == 1 else list(args)
        if not items:
            if default is not _MISSING:
                return default
            return native(items)  # raises
        if key is None and all(type(item) is int or type(item) is TracedInt for item in items):
            return functools.reduce(traced, items)
        best, best_key = None, None
        for position, item in enumerate(items):
            value = item if key is None else hooks.call(key, item)
            if position == 0 or hooks.truth(hooks.compare(better, value, best_key)):
                best, best_key = item, value
        return best

    return model


def _sorted(hooks: Hooks, iterable: Any, *, key: Any = None, reverse: Any = False) -> list[Any]:
    items = list(hooks.iterate(iterable))
    keys = items if key is None else [hooks.call(key, item) for item in items]
    ordered = sorted(
        range(len(items)),
        key=functools.cmp_to_key(
            lambda a, b: (
                -1
                if hooks.truth(hooks.compare("lt", keys[a], keys[b]))
                else int(hooks.truth(hooks.compare("lt", keys[b], keys[a])))
            )
        ),
        reverse=hooks.truth(reverse),
    )
    return [items[index] for index in ordered]


def _reduce(hooks: Hooks, function: Any, iterable: Any, *start: Any) -> Any:
    return functools.reduce(_through(hooks, function), hooks.iterate(iterable), *start)


# -- numbers ---------------------------------------------------------------------------------------


def _int(hooks: Hooks, *args: Any) -> Any:
    if len(args) == 1:
        (value,) = args
        if type(value) is TracedInt:
            return value
        if isinstance(value, torch.Tensor):
            return hooks.recorder.run(torch.Tensor.__int__, (value,), {})
        _no_own_code(hooks, value, "__int__", "__index__", "__trunc__")
    return int(*(hooks.fixed(arg, "it becomes an integer") for arg in args))


def _float(hooks: Hooks, *args: Any) -> Any:
    if len(args) == 1:
        (value,) = args
        if type(value) is TracedFloat:
            return value
        if type(value) is TracedInt:
            return hooks.recorder.number(float, (value,))
        if isinstance(value, torch.Tensor):
            return hooks.recorder.run(torch.Tensor.__float__, (value,), {})
        _no_own_code(hooks, value, "__float__", "__index__")
    return float(*args)


def _bool(hooks: Hooks, *args: Any) -> bool:
    return hooks.truth(args[0]) if args else False


def _no_own_code(hooks: Hooks, value: Any, *names: str) -> None:
    for name in names:
        if isinstance(getattr(type(value), name, None), types.FunctionType):
            raise Leave(f"`{name}` of a {type(value).__name__}")


def _str(hooks: Hooks, *args: Any) -> str:
    if len(args) == 1:
        return hooks.format(args[0], "s", "")
    return str(*args)


def _repr(hooks: Hooks, value: Any) -> str:
    return hooks.format(value, "r", "")


def _abs(hooks: Hooks, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__abs__, (value,), {}, abs)
    _no_own_code(hooks, value, "__abs__")
    return abs(value)


def _round(hooks: Hooks, value: Any, *digits: Any) -> Any:
    if isinstance(value, torch.Tensor):
        raise Leave("round() of a tensor")
    _no_own_code(hooks, value, "__round__")
    return round(value, *digits)


def _divmod(hooks: Hooks, a: Any, b: Any) -> Any:
    _no_own_code(hooks, a, "__divmod__")
    _no_own_code(hooks, b, "__rdivmod__")
    return hooks.binary("floordiv", a, b), hooks.binary("mod", a, b)


def _pow(hooks: Hooks, a: Any, b: Any, *modulus: Any) -> Any:
    if modulus:
        return pow(*(hooks.fixed(x, "a power with a modulus") for x in (a, b, *modulus)))
    return hooks.binary("pow", a, b)


def _float_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers that gives a float: kept as a node of the graph."""

    def model(hooks: Hooks, *args: Any) -> Any:
        if any(type(arg) in _TRACED for arg in args):
            return hooks.recorder.number(function, args)
        return pure(hooks, function, args, {})

    return model


def _to_integer(function: Callable[..., Any]) -> Callable[..., Any]:
    def model(hooks: Hooks, value: Any) -> Any:
        if type(value) is TracedInt:
            return value
        return pure(hooks, function, (value,), {})

    return model


def _prod(hooks: Hooks, iterable: Any, *, start: Any = 1) -> Any:
    result = start
    for item in hooks.iterate(iterable):
        result = hooks.binary("mul", result, item)
    return result


def _index(hooks: Hooks, value: Any) -> Any:
    if type(value) is TracedInt:
        return value
    if isinstance(value, torch.Tensor):
        return hooks.recorder.run(torch.Tensor.__index__, (value,), {})
    _no_own_code(hooks, value, "__index__")
    return operator.index(value)


def _size(hooks: Hooks, *args: Any) -> torch.Size:
    return torch.Size(list(hooks.iterate(args[0]))) if args else torch.Size()


# -- effects ---------------------------------------------------------------------------------------


def _effect(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function called for what it does outside: done now, and again by every compiled run."""

    def model(hooks: Hooks, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if not _is_printable(hooks, value):
                raise Leave(f"`{function.__name__}` of a {type(value).__name__}")
        result = function(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
        hooks.journal.add(Effect(Change.CALL, None, function, (args, kwargs)))
        return result

    return model


def _plain(value: Any) -> Any:
    return plain(value) if type(value) in _TRACED else value


def _is_printable(hooks: Hooks, value: Any) -> bool:
    if type(value) in ATOMS or type(value) in _TRACED:
        return True
    return isinstance(value, type) or value is torch.Size()


# -- torch -----------------------------------------------------------------------------------------


def _true(hooks: Hooks, *args: Any) -> bool:
    return True


def _false(hooks: Hooks, *args: Any) -> bool:
    return False


def _as_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """A read of torch's state that the guard of the state covers, or a pure function."""
    return lambda hooks, *args, **kwargs: function(*args, **kwargs)


def _check(hooks: Hooks, condition: Any, message: Any = None) -> None:
    """`torch._check`: traced conditions have become guards by now."""
    if isinstance(condition, torch.Tensor):
        raise Leave("torch._check of a tensor")
    if not hooks.truth(condition):
        torch._check(False, message)


def _cast(hooks: Hooks, kind: Any, value: Any) -> Any:
    return value


def _partial(hooks: Hooks, *args: Any, **kwargs: Any) -> Any:
    return functools.partial(*args, **kwargs)


def _signature(hooks: Hooks, function: Any, **kwargs: Any) -> Any:
    if isinstance(function, (types.FunctionType, types.MethodType)):
        return inspect.signature(function, **kwargs)
    raise Leave("inspect.signature")


def _make_reference(hooks: Hooks, value: Any, *callback: Any) -> Any:
    raise Leave("a weak reference is made")


def _follow_reference(hooks: Hooks, reference: Any) -> Any:
    """What a weak reference from outside refers to: the same object in every run."""
    value = reference()
    path = hooks.tracer.path_of(reference)
    if path is None or (value is not None and hooks.tracer.path_of(value) is None):
        raise Leave("a weak reference to an object of unknown origin")
    hooks.tracer.guard(Kind.PREDICATE, path, _RefersTo(reference))
    return value


class _RefersTo:
    """Whether a reference has the same referent as this one."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def __call__(self, reference: Any) -> bool:
        return reference() is self._reference()


_STATE_READS: Final = (
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "get_default_dtype",
    "is_autocast_enabled",
    "is_autocast_cpu_enabled",
    "get_autocast_dtype",
    "get_autocast_cpu_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled",
    "are_deterministic_algorithms_enabled",
    "get_num_threads",
    "get_float32_matmul_precision",
    "is_storage",
    "finfo",
    "iinfo",
    "device",
    "promote_types",
    "can_cast",
)

MODELS: Final[dict[Any, Callable[..., Any]]] = {
    isinstance: _isinstance,
    getattr: _getattr,
    hasattr: _hasattr,
    setattr: lambda hooks, obj, name, value: hooks.set_attribute(obj, name, value),
    delattr: lambda hooks, obj, name: hooks.delete_attribute(obj, name),
    type: _type,
    vars: _vars,
    super: _super,
    callable: lambda hooks, value: callable(value),
    issubclass: lambda hooks, *args: issubclass(*args),
    object: lambda hooks: object(),
    len: _len,
    list: _listed(list),
    tuple: _listed(tuple),
    set: _listed(set),
    frozenset: _listed(frozenset),
    deque: _deque,
    dict: _dict,
    OrderedDict: _ordered_dict,
    zip: _zip,
    enumerate: _enumerate,
    range: _range,
    map: _map,
    filter: _filter,
    reversed: _reversed,
    iter: _iter,
    next: _next,
    sum: _sum,
    any: _any,
    all: _all,
    min: _extremum("min", "lt"),
    max: _extremum("max", "gt"),
    sorted: _sorted,
    functools.reduce: _reduce,
    functools.partial: _partial,
    int: _int,
    float: _float,
    bool: _bool,
    str: _str,
    repr: _repr,
    abs: _abs,
    round: _round,
    divmod: _divmod,
    pow: _pow,
    slice: lambda hooks, *args: slice(*args),
    dict.fromkeys: lambda hooks, keys, *value: dict.fromkeys(
        [hooks.key(key) for key in hooks.iterate(keys)], *value
    ),
    math.sqrt: _float_function(math.sqrt),
    math.log: _float_function(math.log),
    math.log2: _float_function(math.log2),
    math.log10: _float_function(math.log10),
    math.exp: _float_function(math.exp),
    math.pow: _float_function(math.pow),
    math.floor: _to_integer(math.floor),
    math.ceil: _to_integer(math.ceil),
    math.trunc: _to_integer(math.trunc),
    math.prod: _prod,
    operator.index: _index,
    operator.call: lambda hooks, function, /, *args, **kwargs: hooks.call(
        function, *args, **kwargs
    ),
    torch.Size: _size,
    print: _effect(print),
    warnings.warn: _effect(warnings.warn),
    logging.Logger.warning: _effect(logging.Logger.warning),
    typing.cast: _cast,
    copy.copy: copies.shallow,
    copy.deepcopy: copies.deep,
    inspect.signature: _signature,
    torch._check: _check,
    torch.compiler.is_compiling: _true,
    torch.compiler.is_dynamo_compiling: _true,
    torch.compiler.is_exporting: _false,
    torch._C._log_api_usage_once: lambda hooks, *args: None,
    weakref.ref: _make_reference,
    torch.jit.is_scripting: _false,
    torch.jit.is_tracing: _false,
    torch._C._get_tracing_state: lambda hooks: None,
    torch.is_tensor: lambda hooks, value: isinstance(value, torch.Tensor),
    torch.overrides.has_torch_function: _false,
    torch.overrides.has_torch_function_unary: _false,
    torch.overrides.has_torch_function_variadic: _false,
    **{
        getattr(torch, name): _as_is(getattr(torch, name))
        for name in _STATE_READS
        if hasattr(torch, name)
    },
}

#: Operators as functions: the hook of the operator.
for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "lshift",
    "rshift",
    "and_",
    "or_",
    "xor",
]:
    MODELS[getattr(operator, _name)] = lambda hooks, a, b, _name=_name.rstrip("_"): hooks.binary(
        _name, a, b
    )
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    MODELS[getattr(operator, _name)] = lambda hooks, a, b, _name=_name: hooks.compare(_name, a, b)
MODELS |= {
    operator.neg: lambda hooks, a: hooks.unary("neg", a),
    operator.getitem: lambda hooks, a, b: hooks.item(a, b),
    operator.setitem: lambda hooks, a, b, c: hooks.set_item(a, b, c),
    operator.contains: lambda hooks, a, b: hooks.contains(b, a),
    operator.not_: lambda hooks, a: not hooks.truth(a),
    operator.truth: lambda hooks, a: hooks.truth(a),
    operator.is_: lambda hooks, a, b: hooks.same(a, b),
    operator.is_not: lambda hooks, a, b: not hooks.same(a, b),
}


# -- pure functions --------------------------------------------------------------------------------

_PURE_MODULES: Final = frozenset(
    {"math", "itertools", "_bisect", "unicodedata", "zlib", "binascii"}
)
#: Modules of Python's library whose functions are pure: of objects that the program made.
_PLAIN_LIBRARY: Final = frozenset({"inspect", "typing", "re", "string", "textwrap", "keyword"})
_PURE: Final = frozenset({chr, ord, hex, oct, bin, ascii, complex, bytes, bytearray, format, hash})


def pure(hooks: Hooks, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a pure native function with plain values."""
    name = getattr(function, "__name__", "a native function")

    def ready(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            raise Leave(f"`{name}` of a tensor")
        checked = hooks.operand(value)
        if not _is_data(checked):
            raise Leave(f"`{name}` of a {type(value).__name__}")
        return hooks.fixed(checked, f"`{name}` takes it")

    return function(*map(ready, args), **{key: ready(value) for key, value in kwargs.items()})


def pure_python(hooks: Hooks, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function of Python's library that looks at nothing but its arguments."""
    name = function.__name__
    return function(
        *(hooks.fixed(arg, f"`{name}` takes it") for arg in args),
        **{key: hooks.fixed(arg, f"`{name}` takes it") for key, arg in kwargs.items()},
    )


def _is_data(value: Any) -> bool:
    kind = type(value)
    if kind in ATOMS or kind in _TRACED:
        return True
    if kind in (list, tuple, set, frozenset, torch.Size):
        return all(map(_is_data, value))
    return kind is dict and all(_is_data(key) and _is_data(x) for key, x in value.items())


def call(hooks: Hooks, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a native function that is not a torch operation."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return _method(hooks, function, owner, function.__name__, args, kwargs)
    home = getattr(function, "__objclass__", None)
    if home is not None and args:
        return _unbound(hooks, function, home, args, kwargs)
    if isinstance(function, weakref.ref) and not args and not kwargs:
        return _follow_reference(hooks, function)
    if isinstance(function, type) and function.__module__ == "itertools":
        return _itertool(hooks, function, args, kwargs)
    if isinstance(function, types.FunctionType) and function.__module__ in _PLAIN_LIBRARY:
        if any(hooks.outside.is_outside(arg) for arg in (*args, *kwargs.values())):
            raise Leave(f"`{_full_name(function)}` of an object from outside")
        return pure_python(hooks, function, args, kwargs)
    if function in _PURE or getattr(function, "__module__", None) in _PURE_MODULES:
        return pure(hooks, function, args, kwargs)
    if isinstance(function, type) and issubclass(function, BaseException):
        return function(*args, **kwargs)
    raise Leave(
        f"`{_full_name(function)}` is native code without a model",
        "call it outside the compiled function",
    )


def _full_name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or repr(type(function))
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) else name


def _itertool(hooks: Hooks, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kind in (itertools.chain, itertools.zip_longest, itertools.product):
        return kind(*(hooks.iterate(arg) for arg in args), **kwargs)
    if kind in (itertools.islice,):
        return kind(
            hooks.iterate(args[0]), *(hooks.fixed(x, "a bound of a slice") for x in args[1:])
        )
    if kind in (
        itertools.pairwise,
        itertools.permutations,
        itertools.combinations,
        itertools.cycle,
    ):
        return kind(hooks.iterate(args[0]), *args[1:])
    if kind in (itertools.repeat, itertools.count):
        return kind(args[0], *(hooks.fixed(x, "a count") for x in args[1:]), **kwargs)
    raise Leave(f"itertools.{kind.__name__}")


# -- methods of built-in types ---------------------------------------------------------------------

_CHANGES: Final[dict[type, frozenset[str]]] = {
    list: frozenset(
        [
            "append",
            "extend",
            "insert",
            "pop",
            "remove",
            "clear",
            "sort",
            "reverse",
            "__setitem__",
            "__delitem__",
            "__iadd__",
        ]
    ),
    dict: frozenset(
        [
            "update",
            "setdefault",
            "pop",
            "popitem",
            "clear",
            "move_to_end",
            "__setitem__",
            "__delitem__",
        ]
    ),
    set: frozenset(
        [
            "add",
            "update",
            "discard",
            "remove",
            "pop",
            "clear",
            "difference_update",
            "intersection_update",
            "symmetric_difference_update",
        ]
    ),
    deque: frozenset(
        [
            "append",
            "appendleft",
            "pop",
            "popleft",
            "extend",
            "extendleft",
            "clear",
            "rotate",
            "insert",
        ]
    ),
}

#: Methods of containers that compare or hash what is in them.
_COMPARING: Final = frozenset(
    [
        "index",
        "count",
        "remove",
        "sort",
        "add",
        "discard",
        "__contains__",
        "__eq__",
        "__lt__",
        "__ne__",
        "union",
        "intersection",
        "difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "symmetric_difference",
        "difference_update",
        "intersection_update",
        "symmetric_difference_update",
        "update",
        "setdefault",
        "get",
        "pop",
        "__getitem__",
        "__setitem__",
        "__delitem__",
        "fromkeys",
        "move_to_end",
    ]
)


def _unbound(
    hooks: Hooks, function: Any, home: type, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return _method(
        hooks,
        types.MethodType(function, args[0]),
        args[0],
        function.__name__,
        args[1:],
        kwargs,
        home,
    )


def _method(
    hooks: Hooks,
    bound: Any,
    owner: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    home: type | None = None,
) -> Any:
    if name in _OBJECT_METHODS:
        found = _OBJECT_METHODS[name](hooks, bound, owner, args, kwargs)
        if found is not _MISSING:
            return found
    if isinstance(owner, type):
        return _class_method(hooks, bound, owner, name, args, kwargs)
    if type(owner) in _TRACED:
        method = getattr(hooks.fixed(owner, f"`{name}` of it"), name)
        return pure(hooks, method, args, kwargs)
    if type(owner) in ATOMS:
        if type(owner) is str and name == "join":
            return owner.join([*hooks.iterate(args[0])])
        if type(owner) is str and name in ("format", "__mod__"):
            for value in (*args, *kwargs.values()):
                hooks.format(value, None, "")
            if not hooks.tracer.active:
                return bound(*args, **kwargs)
        return pure(hooks, bound, args, kwargs)
    if isinstance(owner, torch.Size):
        if name == "numel":
            return _prod(hooks, owner)
        return getattr(hooks.fixed(owner, f"`{name}` of a shape"), name)(
            *(hooks.fixed(arg, f"`{name}` of a shape") for arg in args)
        )
    for kind in (list, dict, set, deque, tuple, frozenset):
        if isinstance(owner, kind):
            return _container_method(hooks, kind, bound, owner, name, args, kwargs)
    if isinstance(owner, types.GeneratorType):
        if hooks.tracer.path_of(owner) is not None:
            raise Leave("a generator from outside is advanced")
        return bound(*args, **kwargs)
    raise Leave(f"`{name}` of a {type(owner).__name__} is native code without a model")


def _container_method(
    hooks: Hooks,
    kind: type,
    bound: Any,
    owner: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    path = hooks.tracer.path_of(owner)
    if name in ("__init__",):
        return bound(*(hooks.iterate(arg) for arg in args), **kwargs)
    if name in ("extend", "extendleft") or (kind in (set, frozenset) and name in _SET_ALGEBRA):
        args = tuple(
            arg
            if isinstance(arg, SETS) and hooks.tracer.path_of(arg) is None
            else list(hooks.iterate(arg))
            for arg in args
        )
    if name == "update" and kind is dict and args:
        args = (_dict(hooks, args[0]),)
    if name == "sort":
        if path is not None:
            raise Leave("a list from outside is sorted")
        owner[:] = _sorted(hooks, owner, **kwargs)
        return None
    if kind is dict and name in _BY_KEY and args:
        args = (hooks.key(args[0]), *args[1:])
    elif kind in (set, frozenset) and name in _BY_MEMBER:
        args = tuple(map(hooks.key, args))
    elif name in _COMPARING and name not in ("update",):
        for arg in args:
            hooks.operand(arg)
        args = tuple(hooks.fixed(arg, f"`{name}` compares it") for arg in args)
        if kind in (list, tuple, deque) and name in ("index", "count", "remove"):
            hooks.operand(list(owner))
            if path is None:
                hooks.fixed(list(owner), f"`{name}` compares it")
    if name in _BY_POSITION and args:
        _no_own_code(hooks, args[0], "__index__")
        args = (hooks.fixed(args[0], "a position in a container"), *args[1:])
    if path is None:
        return bound(*args, **kwargs)
    if name in _CHANGES.get(kind, ()):
        return _change(hooks, kind, owner, path, name, args, kwargs)
    return _read_outside(hooks, kind, owner, path, name, args, kwargs)


_BY_KEY: Final = frozenset(
    ["get", "pop", "setdefault", "__getitem__", "__setitem__", "__contains__"]
)
_BY_POSITION: Final = frozenset(
    "insert pop rotate __getitem__ __setitem__ __delitem__ __mul__".split()
)
_BY_MEMBER: Final = frozenset(["add", "discard", "remove", "__contains__"])
_SET_ALGEBRA: Final = frozenset(
    [
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "update",
        "difference_update",
        "intersection_update",
        "symmetric_difference_update",
    ]
)


def _change(
    hooks: Hooks,
    kind: type,
    owner: Any,
    path: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if kwargs:
        if kind is dict and name == "update":
            args = ({**(args[0] if args else {}), **kwargs},)
        else:
            raise Leave(f"`{name}` with keywords")
    if name == "__setitem__":
        return hooks.outside.set_item(owner, path, *args)
    if name == "__delitem__":
        return hooks.outside.delete_item(owner, path, *args)
    if kind is dict and name == "update":
        for key, value in args[0].items() if args else ():
            hooks.outside.set_item(owner, path, key, value)
        return None
    if kind is dict and name == "setdefault":
        if hooks.outside.has_key(owner, path, args[0]):
            return hooks.outside.item(owner, path, args[0])
        value = args[1] if len(args) > 1 else None
        hooks.outside.set_item(owner, path, args[0], value)
        return value
    base = OrderedDict if isinstance(owner, OrderedDict) else kind
    return hooks.outside.method(owner, path, getattr(base, name), args)


def _read_outside(
    hooks: Hooks,
    kind: type,
    owner: Any,
    path: Any,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    outside = hooks.outside
    if kind is dict and name == "get":
        if outside.has_key(owner, path, args[0]):
            return outside.item(owner, path, args[0])
        return args[1] if len(args) > 1 else None
    if name == "__getitem__":
        return outside.item(owner, path, *args)
    if name == "__contains__" and kind is dict:
        return outside.has_key(owner, path, *args)
    if name == "__len__":
        return outside.length(owner, path)
    contents = outside.contents(owner, path)
    if kind in (set, frozenset):
        return getattr(owner, name)(*args, **kwargs)
    made = contents if kind is dict else kind(contents)
    if isinstance(owner, OrderedDict):
        made = OrderedDict(made)
    if name == "__iter__":
        return iter(made)
    return getattr(made, name)(*args, **kwargs)


def _class_method(
    hooks: Hooks, bound: Any, owner: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if name == "__new__":
        if owner is object and len(args) == 1:
            return object.__new__(args[0])
        if owner in (tuple, dict, list, OrderedDict, set) and args:
            return bound(args[0], *(hooks.iterate(arg) for arg in args[1:]))
        raise Leave(f"{owner.__name__}.__new__")
    if owner is dict and name == "fromkeys":
        return dict.fromkeys([hooks.key(key) for key in hooks.iterate(args[0])], *args[1:])
    if owner in (itertools.chain,) and name == "from_iterable":
        return (item for part in hooks.iterate(args[0]) for item in hooks.iterate(part))
    if owner in ATOMS or owner in (bytes, str):
        return pure(hooks, bound, args, kwargs)
    if name in ("mro", "__subclasses__"):
        return bound(*args)
    raise Leave(f"`{owner.__name__}.{name}` is native code without a model")


def _get_attribute(hooks: Hooks, bound: Any, owner: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, (type, types.ModuleType)):
        return _MISSING
    return hooks.attributes.plain(owner, *args, fall_back=False)


def _set_attribute(hooks: Hooks, bound: Any, owner: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, (type, types.ModuleType)):
        return _MISSING
    return hooks.attributes.set_plain(owner, *args)


def _init(hooks: Hooks, bound: Any, owner: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, _CONTAINERS):
        return _MISSING
    return None if not args and not kwargs else bound(*args, **kwargs)


_OBJECT_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "__getattribute__": _get_attribute,
    "__setattr__": _set_attribute,
    "__init__": _init,
    "__init_subclass__": lambda hooks, bound, owner, args, kwargs: bound(*args, **kwargs),
}

__all__ = ["CODE", "MODELS", "Kind", "call", "pure"]
