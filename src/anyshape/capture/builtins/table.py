"""All models, and the rule for a native function that has none."""

from __future__ import annotations

import itertools
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any, Final

from anyshape.boundary_markers import why_disabled
from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins import (
    autograd_functions,
    control_flow,
    effects,
    flex_attention,
    foreach,
    gradient_checkpoints,
    iteration,
    numbers,
    numpy_numbers,
    objects,
    optimizers,
    other_compilers,
    process_queries,
    random_state,
    signatures,
    tensor_construction,
    torch_state,
    triton_kernels,
    vmap,
    warning_filters,
)
from anyshape.capture.builtins.methods import method, unbound
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.builtins.objects import follow_reference
from anyshape.capture.builtins.pure import (
    PLAIN_LIBRARY,
    PURE,
    PURE_MODULES,
    is_constant,
    pure,
    pure_python,
)
from anyshape.capture.hooks import contexts
from anyshape.ops.higher_order_ops import region_of
from anyshape.ops.origins import is_original


def _binary(name: str) -> Callable[..., object]:
    return lambda hooks, a, b: hooks.binary(name, a, b)


def _unary(name: str) -> Callable[..., object]:
    return lambda hooks, a: hooks.unary(name, a)


def _compare(name: str) -> Callable[..., object]:
    return lambda hooks, a, b: hooks.compare(name, a, b)


#: Operators as functions: the hook of the operator.
_OPERATORS: Final[Models] = {
    **{
        getattr(operator, name): _binary(name)
        for name in (
            *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
            *("lshift", "rshift", "xor"),
        )
    },
    operator.and_: _binary("and"),
    operator.or_: _binary("or"),
    **{getattr(operator, name): _compare(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{getattr(operator, name): _unary(name) for name in ("neg", "pos", "invert")},
    operator.getitem: lambda hooks, a, b: hooks.item(a, b),
    operator.setitem: lambda hooks, a, b, c: hooks.set_item(a, b, c),
    operator.contains: lambda hooks, a, b: hooks.contains(b, a),
    operator.not_: lambda hooks, a: not hooks.truth(a),
    operator.truth: lambda hooks, a: hooks.truth(a),
    operator.is_: lambda hooks, a, b: hooks.same(a, b),
    operator.is_not: lambda hooks, a, b: not hooks.same(a, b),
    operator.call: lambda hooks, function, /, *args, **kwargs: hooks.call(
        function, *args, **kwargs
    ),
}


_MODULES: Final = (
    *(objects, iteration, numbers, effects, torch_state, process_queries, warning_filters),
    *(random_state, tensor_construction, autograd_functions, control_flow, foreach, signatures),
    *(flex_attention, triton_kernels, gradient_checkpoints, other_compilers, optimizers),
    *(vmap, contexts),
)


#: A model answers as the function does, through hooks, so that what it looks at is seen. Not of
#: what a library has put in a function's place.
MODELS: Final[Models] = {
    function: model
    for models in (
        *(each.MODELS for each in _MODULES),
        _OPERATORS,
    )
    for function, model in models.items()
    if is_original(function)
}


#: Functions that call what they are given, through hooks, and do nothing else with it.
CALLERS: Final = frozenset(
    function
    for models in (control_flow, flex_attention, gradient_checkpoints, other_compilers, vmap)
    for function in models.MODELS
)

#: Most calls are of methods of containers and texts.
_BOUND: Final = types.BuiltinMethodType
OWNERS: Final = frozenset({list, dict, set, tuple, str})


def call(hooks: Hooks, function: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a native function that is not a torch operation."""
    if hooks.tracer.by_code:
        hooks.tracer.pin((*args, *kwargs.values()))
    if type(function) is _BOUND and type(function.__self__) in OWNERS:
        return method(hooks, function, function.__self__, function.__name__, args, kwargs)
    if not _has_hash(function) or not callable(function):
        raise AbortCapture(f"cannot trace into `{_full_name(function)}`")
    disabled = why_disabled(function)
    if disabled is not None:
        raise AbortCapture(f"`{_full_name(function)}` is not to be traced: {disabled}")
    held = region_of(function)
    if held is not None:
        return control_flow.AGAIN[held[0]](hooks, held[1], *args)
    owner = getattr(function, "__self__", None)
    if type(owner).__name__.startswith("pybind11_"):
        owner = None  # It holds how to call the function, and is no object of the program.
    if owner is not None and not isinstance(owner, types.ModuleType):
        return method(hooks, function, owner, function.__name__, args, kwargs)
    if getattr(function, "__objclass__", None) is not None and args:
        return unbound(hooks, function, args, kwargs)
    if isinstance(function, weakref.ref) and not args and not kwargs:
        return follow_reference(hooks, function)
    handler = handler_of(function)
    if handler is not None:
        return handler(hooks, function, args, kwargs)
    raise AbortCapture(
        f"cannot trace into `{_full_name(function)}`", "call it outside the compiled function"
    )


#: Calls a native function: hooks, function, arguments.
Handler = Callable[[Hooks, Any, tuple[Any, ...], dict[str, Any]], Any]


def handler_of(function: object) -> Handler | None:
    """How a native function is called that is known by itself, whatever it is given; None of one
    without a model."""
    module = getattr(function, "__module__", None)
    if isinstance(function, type) and module == "itertools":
        return _itertool
    if isinstance(function, types.FunctionType) and module in PLAIN_LIBRARY:
        return _of_the_library
    if module == _ASKING:
        return _asked
    if function in PURE or module in PURE_MODULES:
        return pure
    if module == "torch.torch_version":
        return lambda hooks, function, args, kwargs: function(
            *(hooks.specialized(arg, "a version is compared") for arg in args), **kwargs
        )
    if other_compilers.is_break(function):
        return lambda hooks, function, args, kwargs: other_compilers.break_graph(hooks)
    if other_compilers.is_mark(function):
        return lambda hooks, function, args, kwargs: None
    if process_queries.is_question(function):
        return process_queries.ask
    if numpy_numbers.computes_a_number(function):
        return numpy_numbers.compute
    wrapped = getattr(function, "__wrapped__", None)
    if _is_of_torch(function) and _has_hash(wrapped) and wrapped in MODELS:
        return lambda hooks, function, args, kwargs: MODELS[wrapped](hooks, *args, **kwargs)
    original = vars(function).get("__original_fn") if hasattr(function, "__dict__") else None
    if original is not None and vars(function).get("__script_if_tracing_wrapper"):
        return lambda hooks, function, args, kwargs: hooks.call(original, *args, **kwargs)
    if isinstance(function, type) and issubclass(function, BaseException):
        return lambda hooks, function, args, kwargs: function(*args, **kwargs)
    return None


def _of_the_library(
    hooks: Hooks, function: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    for arg in (*args, *kwargs.values()):
        _know_type(hooks, function, arg)
    return pure_python(hooks, function, args, kwargs)


def _asked(
    hooks: Hooks, function: object, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    if len(args) != 1:
        raise AbortCapture(f"cannot trace into `{_full_name(function)}`")
    # The question has been asked, and the answer is at hand.
    hooks.tracer.checking = False
    return hooks.truth(args[0])


def is_opaque(function: object) -> bool:
    """Whether no capture can follow a call of a native function, whatever it is given."""
    if not _has_hash(function) or why_disabled(function) is not None:
        return True
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return False  # That is for the owner to say.
    return function not in MODELS and region_of(function) is None and handler_of(function) is None


#: Functions of torch that ask about sizes, known by name because we do not import their module.
_ASKING: Final = "torch.fx.experimental.symbolic_shapes"


def _has_hash(function: object) -> bool:
    """Functions of ctypes have none, nor have views of memory that changes."""
    try:
        hash(function)
    except (TypeError, ValueError):
        return False
    return True


def is_check(function: object) -> bool:
    if not _has_hash(function):
        return False
    module = getattr(function, "__module__", None)
    return function in torch_state.CHECKS or module in (_ASKING, "anyshape.api")


def _is_of_torch(function: object) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "torch"


def _know_type(hooks: Hooks, function: object, value: object) -> None:
    """Leave if a value that Python's library looks into is from outside, and no type."""
    if type(value) is tuple and not hooks.outside.is_external(value):
        for item in value:
            _know_type(hooks, function, item)
        return
    if hooks.outside.is_external(value) and not is_constant(hooks, value):
        raise AbortCapture(f"`{_full_name(function)}` of an object from outside the function")


def _full_name(function: object) -> str:
    name = getattr(function, "__qualname__", None) or repr(type(function))
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if isinstance(module, str) else name


def _itertool(
    hooks: Hooks, kind: Any, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    walked = _WALKED.get(kind)
    if walked is None:
        raise AbortCapture(f"itertools.{kind.__name__}")

    def number(value: object) -> Any:
        return hooks.specialized(value, f"itertools.{kind.__name__} counts by it", "index")

    count = len(args) if walked == _ALL else walked
    given = [hooks.iterate(arg) for arg in args[:count]]
    if kind is itertools.repeat:
        if "object" in kwargs:
            raise AbortCapture("itertools.repeat with its object by name")
        given, count = list(args[:1]), 1
    if kind in (itertools.zip_longest, itertools.product):
        return kind(*given, **kwargs)
    return kind(
        *given, *map(number, args[count:]), **{name: number(x) for name, x in kwargs.items()}
    )


#: How many of the first arguments are walked; the rest are numbers.
_ALL: Final = -1
_WALKED: Final[dict[Any, int]] = {
    itertools.chain: _ALL,
    itertools.zip_longest: _ALL,
    itertools.product: _ALL,
    itertools.islice: 1,
    itertools.pairwise: 1,
    itertools.permutations: 1,
    itertools.combinations: 1,
    itertools.cycle: 1,
    itertools.repeat: 0,
    itertools.count: 0,
}
