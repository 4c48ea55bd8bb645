"""What tensors are to autograd, compared between eager and compiled calls.

Values may be right while a result has lost its gradient, so these are properties of their own:
whether it requires grad, by which node it came about (and those before it), whether it is a leaf,
an inference tensor, a view, how often it was written to, and its class. Native code has one node
for many operators: then it is whether there is a node, and which leaves are behind it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves

import anyshape
from tests.native.opdb import arguments_at, calling, samples_of
from tests.ops.samples import Template, by_value, template

Make = Callable[[], Sequence[Any]]

#: So many nodes back the graph of autograd is compared.
_DEPTH = 3


def state_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Everything that autograd knows of a tensor."""
    return (
        type(tensor).__name__,
        ("requires_grad", tensor.requires_grad),
        ("grad_fn", _nodes(tensor.grad_fn, _DEPTH)),
        ("is_leaf", tensor.is_leaf),
        ("is_inference", tensor.is_inference()),
        ("_version", None if tensor.is_inference() else tensor._version),
        ("names", getattr(tensor, "names", None)),
    )


def _nodes(node: Any, depth: int) -> Any:
    if node is None or not depth:
        return None
    return type(node).__name__, tuple(_nodes(each, depth - 1) for each, _ in node.next_functions)


#: The node of a graph in native code.
_COMPILED = "CompiledBackward"


def _behind(node: Any, given: Sequence[torch.Tensor]) -> tuple[str, tuple[int, ...]] | None:
    """Whose gradients come from a node: numbers of leaves that are given."""
    if node is None:
        return None
    found: set[int] = set()
    seen: set[Any] = set()
    stack = [node]
    while stack:
        each = stack.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        leaf = getattr(each, "variable", None)
        found |= {number for number, own in enumerate(given) if own is leaf}
        stack += [before for before, _ in each.next_functions]
    return "leaves", tuple(sorted(found))


def _as_compiled(states: list[Any], tensors: list[torch.Tensor], given: list[torch.Tensor]) -> Any:
    """States with leaves in place of nodes. What is new may have been written to less often: writes
    are values."""
    found: list[dict[str, Any]] = []
    for (name, *rest), tensor in zip(states, tensors, strict=True):
        state = {"class": name, **dict(rest), "grad_fn": _behind(tensor.grad_fn, given)}
        if not any(tensor is each for each in given):
            del state["_version"]
        found.append(state)
    return found


def _tensors(tree: Any) -> list[torch.Tensor]:
    tensors = [each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]
    return [each for each in tensors if each.layout is torch.strided]


def states_in(tree: Any) -> list[tuple[Any, ...]]:
    return [state_of(each) for each in _tensors(tree)]


def _bases(tree: Any) -> list[int]:
    """Of each tensor the first one that it is, or that it is a view of."""
    tensors = [each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]
    places: dict[int, int] = {}
    memories: dict[int, int] = {}
    for place, each in enumerate(tensors):
        places.setdefault(id(each), place)
        if each.layout is torch.strided:
            memories.setdefault(each.untyped_storage()._cdata, place)

    def base(each: torch.Tensor) -> int:
        own = places[id(each)]
        if each._base is None or id(each._base) in places:
            return places.get(id(each._base), own)
        # Some operators return views of tensors that nobody else has: who shows the same memory.
        return memories.get(each.untyped_storage()._cdata, own)

    return [base(each) for each in tensors]


def differences(
    eager: Callable[..., Any], compiled: Callable[..., Any], make: Make, *, calls: int = 3
) -> list[str]:
    """How results and inputs differ after the capture and after hits."""
    found: list[str] = []
    for call in range(calls):
        seen: list[Any] = []
        tensors: list[Any] = []
        for function in (eager, compiled):
            given = make()
            try:
                result = function(*given)
            except Exception as error:
                seen.append(type(error).__name__)
            else:
                seen.append((states_in(result), states_in(given), _bases((given, result))))
                tensors.append((_tensors(result), _tensors(given)))
        if _COMPILED in str(seen[1]) and len(tensors) == 2:
            for number, (results, own) in enumerate(tensors):
                states, before, bases = seen[number]
                states = _as_compiled(states, results, own)
                seen[number] = states, _as_compiled(before, own, own), bases
        if seen[0] != seen[1]:
            found.append(f"call {call}: {seen[1]} instead of {seen[0]}")
    return found


def check(function: Callable[..., Any], make: Make, *, calls: int = 3) -> None:
    """Compile, and compare the capture and hits with eager."""
    compiled = anyshape.compile(function, dynamic=True)
    with anyshape.config.patch(on_compile_error="raise"):
        found = differences(function, compiled, make, calls=calls)
        assert found == [], found


# -- torch's table of operators --------------------------------------------------------------------


def try_gradients(info: OpInfo, *, most: int) -> list[str]:
    """Samples of an operator with inputs that require grad, whole and in parts."""
    found: list[str] = []
    with warnings.catch_warnings(), anyshape.config.patch(on_compile_error="raise"):
        warnings.simplefilter("ignore")
        for sample in samples_of(info, torch.float32, most):
            try:
                made = template(sample, by_value)
            except Exception:  # not strided, or nothing that can be made again
                continue
            function = calling(info.op, made)
            for program in (function, _in_parts(function)):
                compiled = anyshape.compile(program, dynamic=True)
                for leaf in (True, False):
                    wrong = differences(program, compiled, _making(made, leaf))
                    found += [f"{info.full_name}({sample}), leaf={leaf}: {each}" for each in wrong]
    return found


def _making(made: Template, leaf: bool) -> Make:
    def make() -> list[Any]:
        return [[_requiring(each, leaf) for each in arguments_at(made, made.values, zeroed=False)]]

    return make


def _requiring(value: Any, leaf: bool) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    value = value.detach().requires_grad_()
    return value if leaf else value.view_as(value) * 1


def _in_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Views and a copy before it, and a decision on data behind it."""

    def program(given: list[Any]) -> Any:
        result = function(given)
        first = result[0] if isinstance(result, tuple | list) else result
        if not isinstance(first, torch.Tensor) or not first.dim():
            return result
        turned = first.transpose(0, -1)
        if turned.detach().isnan().all():
            return result, turned
        return result, turned.reshape(-1), turned

    return program
