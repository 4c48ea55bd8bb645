"""To torch's own exported programs: the only file that knows `torch.export`, and only when asked.

torch captures our graph again, in its own way, with dims of its own made of ours.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx

from anyshape.errors import CannotExport
from anyshape.export import results
from anyshape.export.conditions import ConditionPath
from anyshape.export.examples import example_call
from anyshape.export.functions_of_math import OF_TENSORS
from anyshape.export.program import Program

if TYPE_CHECKING:
    import torch.export as theirs  # noqa: TID251 a type alone

    ExportedProgram = theirs.ExportedProgram


def to_torch(program: Program) -> ExportedProgram:
    """A `torch.export.ExportedProgram`, where torch accepts the graph."""
    if program.sets_gradients:
        raise CannotExport(
            function=program.name,
            reason="it calls `backward()`, and torch's programs do not set `.grad`",
            hints=["return the gradients: `torch.autograd.grad(loss, parameters)`"],
        )
    peer = import_module("torch.export")
    args, kwargs = example_call(program)
    module = _as_torch_takes_it(program.with_changes(), program.name)
    try:
        return _exported(peer, program, module, args, kwargs, named=not program.inputs.facts)
    except Exception:
        # Ranges and relations that torch says otherwise: it finds them itself.
        pass
    try:
        return _exported(peer, program, module, args, kwargs, named=False)
    except Exception as error:
        raise CannotExport(
            function=program.name,
            reason=f"torch does not take its graph: {type(error).__name__}: {error}",
            hints=["use the package itself: `ep.save(path)`"],
        ) from error


def _exported(
    peer: Any, program: Program, module: object, args: Any, kwargs: Any, named: bool
) -> ExportedProgram:
    dims = {
        name: peer.Dim(name, min=max(allowed.lower or 0, 0), max=allowed.upper)
        if named
        else peer.Dim.AUTO
        for name, allowed in program.inputs.ranges.items()
    }
    said: dict[ConditionPath, dict[int, Any]] = {}
    for source in program.inputs.sources:
        if source.dim is not None:
            said.setdefault(source.way, {})[source.dim] = dims[source.symbol]
    integers = {each.way: dims[each.symbol] for each in program.inputs.sources if each.dim is None}
    bound = program.signature.bind(*args, **kwargs)
    spec = {
        name: _spec(value, (name,), {**said, **integers}) for name, value in bound.arguments.items()
    }
    return peer.export(module, args, kwargs, dynamic_shapes=spec, strict=False)


def _spec(value: object, way: ConditionPath, said: dict[ConditionPath, object]) -> object:
    """The spec of a value, in its own structure."""
    if isinstance(value, dict):
        return {key: _spec(item, (*way, ("item", key)), said) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_spec(item, (*way, ("item", key)), said) for key, item in enumerate(value)]
        return type(value)(items)
    return said.get(way)


def _as_torch_takes_it(module: torch.fx.GraphModule, name: str) -> torch.fx.GraphModule:
    """The graph with torch's own checks in the place of ours, which look at numbers at once, and
    with functions of tensors in the place of Python's, which would fix the sizes they are given."""
    made = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    for node in list(made.graph.nodes):
        if node.target is results.expect:
            with made.graph.inserting_before(node):
                made.graph.call_function(torch._check, (node.args[0],))
            made.graph.erase_node(node)
        elif node.target in _OF_TENSORS:
            node.target = _of_numbers(_OF_TENSORS[node.target])
        elif getattr(node.target, "__module__", None) == "math" and node.all_input_nodes:
            raise CannotExport(
                function=name,
                reason=f"torch has no counterpart of `math.{node.target.__name__}`",
                hints=["use the package itself: `ep.save(path)`"],
            )
    made.recompile()
    return made


def _of_numbers(function: Callable[..., torch.Tensor]) -> Callable[..., object]:
    def computed(*args: Any) -> object:
        return function(*(torch.scalar_tensor(arg, dtype=torch.float64) for arg in args)).item()

    return computed


_OF_TENSORS: Final[dict[Any, Callable[..., torch.Tensor]]] = {
    **OF_TENSORS,
    math.log: lambda x, *base: torch.log(x) / torch.log(base[0]) if base else torch.log(x),
}
