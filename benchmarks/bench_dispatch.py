"""Nanoseconds to find the entry for a call: per kind of guard, for a function of two tensors, and
for a stack of linear layers.

A figure for a kind is what one more guard of it adds to a dispatcher that has many of them. The
least of several repeats is taken, since the machine is shared.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import torch

from anyshape.guards import emit
from anyshape.guards.emit import EntryPlan, build_dispatcher
from anyshape.guards.fast_path.tensor_impl_layout import TensorMemory, tensor_memory
from anyshape.guards.guard import Guard, Kind, SymbolSource, TensorSpec
from anyshape.guards.path import Path, local
from anyshape.symbolic import as_symbol, eq, lt, symbol

_REPEATS = 15
_LAYERS = (6, 24, 96)
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_COPIES = 50

X, Y = local("x"), local("y")


def two(x: object, y: object) -> None: ...


def nanoseconds(
    function: Callable[..., object], *arguments: object, repeats: int = _REPEATS
) -> float:
    """Of one call, the least of several repeats of about a millisecond."""
    calls = 1
    while True:
        taken = _time(function, arguments, calls)
        if taken > 1e-3:
            break
        calls *= 2
    best = min(_time(function, arguments, calls) for _ in range(repeats))
    return best / calls * 1e9


def _time(function: Callable[..., object], arguments: tuple[object, ...], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        function(*arguments)
    return time.perf_counter() - start


def dispatcher(
    guards: Sequence[Guard], symbols: Sequence[SymbolSource] = (), inputs: Sequence[Any] = ()
) -> Callable[..., object]:
    entry = EntryPlan(guards, symbols, inputs, lambda *values: None)
    return build_dispatcher(inspect.signature(two), [entry], _missed, lambda: 1)


def _missed(arguments: dict[str, object]) -> object:
    raise AssertionError("a benchmark measures hits")


def guard(kind: Kind, path: Path | None, value: object) -> Guard:
    return Guard(kind, path, value, "a benchmark", text="-")


def tensor_spec(tensor: torch.Tensor, *dynamic: int, exact: bool = False) -> TensorSpec:
    sizes = tuple(None if d in dynamic else size for d, size in enumerate(tensor.shape))
    return TensorSpec(
        type(tensor),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        sizes,
        strides=tensor.stride() if exact else None,
        order=None if exact else tuple(range(tensor.dim())),
        layout=tensor.layout,
    )


# -- kinds --------------------------------------------------------------------------------------


class Holder:
    def __init__(self) -> None:
        self.name = 1


def kinds() -> Iterator[tuple[str, list[Guard], object]]:
    """A label, guards on `x.item(0)`, and the object there."""
    at = X.item(0)
    weight = torch.nn.Parameter(torch.zeros(4, 4))
    holder = Holder()
    yield "TYPE", [guard(Kind.TYPE, at, list)], []
    yield "EQUALS int", [guard(Kind.EQUALS, at, 3)], 3
    yield "EQUALS bool", [guard(Kind.EQUALS, at, True)], True
    yield "EQUALS str", [guard(Kind.EQUALS, at, "mean")], "mean"
    yield "EQUALS float", [guard(Kind.EQUALS, at, 0.5)], 0.5
    yield "EQUALS tuple", [guard(Kind.EQUALS, at, (1, 2))], (1, 2)
    yield "IDENTITY", [guard(Kind.IDENTITY, at, math.sin)], math.sin
    yield "LENGTH 0 of dict", [guard(Kind.TYPE, at, dict), guard(Kind.LENGTH, at, 0)], {}
    yield "LENGTH 2 of list", [guard(Kind.TYPE, at, list), guard(Kind.LENGTH, at, 2)], [1, 2]
    yield (
        "KEYS 3",
        [guard(Kind.TYPE, at, dict), guard(Kind.KEYS, at, ("a", "b", "c"))],
        {
            "a": 1,
            "b": 2,
            "c": 3,
        },
    )
    yield "MEMBERS 2", [guard(Kind.MEMBERS, at, frozenset((1, 2)))], {1, 2}
    yield "CONTAINS", [guard(Kind.TYPE, at, dict), guard(Kind.CONTAINS, at, ("a", False))], {}
    hidden = guard(Kind.NO_INSTANCE_ATTRIBUTE, at, "forward")
    yield "NO_INSTANCE_ATTRIBUTE", [guard(Kind.TYPE, at, Holder), hidden], holder
    yield "NO_ATTRIBUTE", [guard(Kind.NO_ATTRIBUTE, at, "forward")], holder
    yield "TRUTH", [guard(Kind.TYPE, at, list), guard(Kind.TRUTH, at, False)], []
    yield "PREDICATE", [guard(Kind.PREDICATE, at, callable)], len
    yield "SAME_OBJECT", [guard(Kind.SAME_OBJECT, at, X.item(1))], Ellipsis
    yield "TENSOR static, contiguous", [guard(Kind.TENSOR, at, tensor_spec(weight))], weight
    yield "TENSOR dynamic, contiguous", [guard(Kind.TENSOR, at, tensor_spec(weight, 0))], weight
    exact = guard(Kind.TENSOR, at, tensor_spec(weight, exact=True))
    yield "TENSOR static, strides", [exact], weight
    image = torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last)
    last = TensorSpec(
        torch.Tensor, image.dtype, image.device, False, (None, 3, None, None), order=(0, 2, 3, 1)
    )
    yield "TENSOR dynamic, channels last", [guard(Kind.TENSOR, at, last)], image


def per_kind() -> dict[str, float]:
    """What each kind adds, without the step to the object."""
    return {label: _added(guards, value) for label, guards, value in kinds()} | {
        "SIZES": _added_by_facts()
    }


def _added(guards: Sequence[Guard], value: object) -> float:
    """By many copies of the guards on many paths to one object, against the paths alone. These are
    walked for the sake of a guard that costs next to nothing."""
    objects = [value] * (_COPIES + 1)
    steps, moved = [guard(Kind.TYPE, X, list)], list[Guard]()
    for index in range(_COPIES):
        path, other = X.item(index), X.item(index + 1)
        steps.append(guard(Kind.IDENTITY, path, value))
        for each in guards:
            if len(guards) > 1 and each.kind is Kind.TYPE:
                steps.append(guard(each.kind, path, each.value))  # not what is measured
            else:
                compared = other if each.kind is Kind.SAME_OBJECT else each.value
                moved.append(guard(each.kind, path, compared))
    without = nanoseconds(dispatcher(steps), objects, None)
    return round((nanoseconds(dispatcher([*steps, *moved]), objects, None) - without) / _COPIES, 1)


def _added_by_facts() -> float:
    tensor = torch.zeros((1,) * _COPIES)
    symbols = [symbol(f"s{dim}") for dim in range(_COPIES)]
    sources = [SymbolSource(as_symbol(s), X, dim) for dim, s in enumerate(symbols)]
    checked = guard(Kind.TENSOR, X, tensor_spec(tensor, *range(_COPIES)))
    facts = [guard(Kind.SIZES, None, lt(s, 10)) for s in symbols]
    with_facts = nanoseconds(dispatcher([checked, *facts], sources), tensor, None)
    return round((with_facts - nanoseconds(dispatcher([checked]), tensor, None)) / _COPIES, 1)


# -- programs -----------------------------------------------------------------------------------


def two_tensors() -> float:
    """x + y with one dynamic size, equal in both."""
    x = torch.zeros(8, 4)
    s0, s1 = symbol("s0"), symbol("s1")
    guards = [
        guard(Kind.TENSOR, X, tensor_spec(x, 0)),
        guard(Kind.TENSOR, Y, tensor_spec(x, 0)),
        guard(Kind.SIZES, None, eq(s0, s1)),
    ]
    sources = [SymbolSource(as_symbol(s0), X, 0), SymbolSource(as_symbol(s1), Y, 0)]
    return nanoseconds(dispatcher(guards, sources, [X, Y, s0]), x, x.clone())


def module_guards(path: Path, module: torch.nn.Module) -> Iterator[Guard]:
    """What a run of the module reads, all the way down."""
    yield guard(Kind.TYPE, path, type(module))
    yield guard(Kind.NO_INSTANCE_ATTRIBUTE, path, "forward")
    yield guard(Kind.EQUALS, path.instance("training"), module.training)
    for name in _HOOKS:
        hooks = path.instance(name)
        yield guard(Kind.TYPE, hooks, type(getattr(module, name)))
        yield guard(Kind.LENGTH, hooks, 0)
    for kind, held in (("_parameters", module._parameters), ("_modules", module._modules)):
        if held:
            yield guard(Kind.TYPE, path.instance(kind), dict)
            yield guard(Kind.KEYS, path.instance(kind), tuple(held))
    for name, parameter in module.named_parameters(recurse=False):
        yield guard(Kind.TENSOR, path.instance("_parameters").item(name), tensor_spec(parameter))
    for name, child in module.named_children():
        yield from module_guards(path.instance("_modules").item(name), child)


def stack(layers: int) -> tuple[torch.nn.Module, EntryPlan]:
    """Linear layers one after the other, and what guards them."""
    module = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(layers)))
    x, s0 = torch.zeros(4, 8), symbol("s0")
    guards = [guard(Kind.TENSOR, Y, tensor_spec(x, 0)), *module_guards(X, module)]
    parameters = [
        g.path for g in guards if g.kind is Kind.TENSOR and g.path is not None and g.path is not Y
    ]
    sources = [SymbolSource(as_symbol(s0), Y, 0)]
    return module, EntryPlan(guards, sources, [Y, s0, *parameters], lambda *values: None)


def linear_layers(layers: int) -> dict[str, float]:
    """By a stamp on dictionaries and tensors, by one on dictionaries alone, and by the full
    check."""
    module, entry = stack(layers)
    x = torch.zeros(4, 8)
    start = time.perf_counter()
    watched = build(entry, tensor_memory(torch.zeros, torch.nn.Parameter))
    building = time.perf_counter() - start
    found = {
        "guards": len(entry.guards),
        "build ms": building * 1e3,
        "us, stamped": nanoseconds(watched, module, x) / 1e3,
        "us, tensors looked at": nanoseconds(build(entry, None), module, x) / 1e3,
    }
    with mock.patch.object(emit, "SUPPORTED", False):
        unstamped = build(replace(entry, built={}), None)
    found["us, full check"] = nanoseconds(unstamped, module, x) / 1e3
    return found


def build(entry: EntryPlan, memory: TensorMemory | None) -> Callable[..., object]:
    return build_dispatcher(inspect.signature(two), [entry], _missed, memory=memory)


def run() -> dict[str, Any]:
    return {
        "ns per guard": per_kind(),
        "two tensors ns": two_tensors(),
        "linear layers": {str(layers): linear_layers(layers) for layers in _LAYERS},
    }
