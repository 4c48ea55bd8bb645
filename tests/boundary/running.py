"""One program for a value, a protocol and a place: compiled, and compared with eager Python.

The program is compiled for the first value, called again with it (a hit), then with the second one,
twice, then with the first one again. What it returns or raises has to be what eager Python does.
"""

from __future__ import annotations

import collections
import functools
import importlib
import io
import linecache
import random
import re
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import anyshape
from tests.boundary.places import ARGUMENT, Place
from tests.boundary.protocols import MODULES, Protocol
from tests.boundary.values import Row

X = torch.arange(8.0)


@dataclass(frozen=True)
class Case:
    """A combination. `in_place`: the second value is the first one, changed."""

    row: Row
    protocol: Protocol
    place: Place = ARGUMENT
    in_place: bool = False

    def __str__(self) -> str:
        turned = ", changed in place" if self.in_place else ""
        function = getattr(self.protocol.function, "__name__", "F")
        text = self.protocol.text.replace("F(", f"{function}(")
        return f"{self.row.name} | {text} | {self.place.name}{turned}"


# -- programs --------------------------------------------------------------------------------------

_NAMES: dict[str, Any] = {"np": np, "__name__": "boundary_program"}
for _name in MODULES:
    importlib.import_module(_name)
    _NAMES[_name.partition(".")[0]] = importlib.import_module(_name.partition(".")[0])


@functools.cache
def _code(source: str) -> types.CodeType:
    filename = f"<boundary {len(linecache.cache)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    return compile(source, filename, "exec")


def program(case: Case) -> dict[str, Any]:
    """The globals of a fresh program, whose function is `f`."""
    names = dict(_NAMES, K=case.row.first(), F=case.protocol.function)
    exec(_code(case.place.source(case.protocol.body)), names)
    return names


def _no_graph(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """Runs a graph; one without operations, as most have here, at no cost."""
    if any(node.op not in ("placeholder", "output") for node in graph.graph.nodes):
        return graph
    return torch.fx.Interpreter(graph).run


# -- outcomes --------------------------------------------------------------------------------------


def face(value: Any, depth: int = 0) -> Any:
    """What can be seen of a result, to be compared."""
    kind: Any = type(value)
    if depth > 3:
        return kind
    if isinstance(value, torch.Tensor):
        return kind, value.dtype, tuple(value.shape), _text(value.detach().clone())
    if isinstance(value, np.ndarray):
        return kind, value.dtype, value.shape, _text(value.tolist())
    if isinstance(value, (list, tuple)):
        return kind, [face(item, depth + 1) for item in tuple.__iter__(value)] if isinstance(
            value, tuple
        ) else [face(item, depth + 1) for item in list.__iter__(value)]
    if isinstance(value, dict):
        return kind, [(face(k, depth + 1), face(x, depth + 1)) for k, x in dict.items(value)]
    if isinstance(value, (set, frozenset)):
        return kind, sorted(map(_text, value))
    if isinstance(value, _ITERATORS):
        # Which of Python's iterators walks a container is its own affair.
        return "walks", [face(item, depth + 1) for item, _ in zip(value, range(4), strict=False)]
    if isinstance(value, (io.IOBase, type, types.ModuleType)):
        return kind, getattr(value, "__name__", "")
    return kind, _text(value)


_ITERATORS = (
    *(type(iter([])), type(iter(())), type(iter("")), type(iter(range(0))), type(iter({}))),
    *(type(reversed([])), map, zip, filter, enumerate, types.GeneratorType, type(iter(set()))),
    *(type(iter({}.items())), type(iter({}.values())), type(iter(collections.deque()))),
)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\bid=\d+|object at [^>]*|<boundary \d+>|line \d+")


def _text(value: Any) -> str:
    try:
        return _ADDRESS.sub("…", repr(value))
    except Exception as error:
        return f"repr raises {type(error).__name__}"


def outcome(call: Callable[..., Any], names: dict[str, Any], place: Place, value: Any) -> Any:
    """What a call returns or raises."""
    args, kwargs = place.put(names, value)
    x = X.clone()
    try:
        result = call(x, *args, **kwargs)
        if isinstance(result, types.GeneratorType):
            result = list(result)
        return "returns", face(result), face(x) if not torch.equal(x, X) else None
    except Exception as error:
        return "raises", type(error)
    finally:
        if not torch.is_grad_enabled():
            torch.set_grad_enabled(True)


# -- running ---------------------------------------------------------------------------------------


def difference(case: Case) -> str | None:
    """What a compiled program does otherwise than eager Python; None if nothing."""
    eager, compiled = program(case), program(case)
    compiled["K"] = eager["K"]
    call = anyshape.compile(compiled["f"], backend=_no_graph)
    for step, (theirs, ours) in enumerate(_values(case)):
        _seed(case)
        expected = outcome(eager["f"], eager, case.place, theirs)
        _seed(case)
        found = outcome(call, compiled, case.place, ours)
        if case.protocol.function is not None and found[0] == expected[0] == "raises":
            continue  # It is not for such values, and says so in one way or another.
        if found != expected:
            return f"{case} | call {step}: {found} instead of {expected}"
        if ours is not theirs and face(ours) != face(theirs):
            return f"{case} | call {step}: {face(ours)} is left, not {face(theirs)}"
    return None


def _seed(case: Case) -> None:
    if any(word in case.protocol.text for word in ("rand", "dropout", "seed")):
        random.seed(0)
        torch.default_generator.manual_seed(0)


def _values(case: Case) -> Iterator[tuple[Any, Any]]:
    row = case.row
    if case.in_place:
        assert row.turn is not None
        theirs, ours = row.first(), row.first()
        yield theirs, ours
        yield theirs, ours
        row.turn(theirs)
        row.turn(ours)
        yield theirs, ours
        yield theirs, ours
        return
    fresh = (row.once or case.protocol.changes) and not case.protocol.by_object
    for make in (row.first, row.first, row.second, row.second):
        theirs = make()
        yield theirs, make() if fresh else theirs


def run(cases: Iterator[Case]) -> tuple[int, list[str]]:
    """How many cases there were, and what was wrong."""
    count, wrong = 0, []
    with anyshape.config.patch(profile=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            count += 1
            found = difference(case)
            if found is not None:
                wrong.append(found)
            if count % 500 == 0:
                anyshape.reset()
    anyshape.reset()
    return count, wrong
