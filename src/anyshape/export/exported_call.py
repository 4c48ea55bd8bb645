"""Running an exported program: its graph is compiled at the first call, as any program is.

The checks of its inputs have been made. What cannot be compiled runs operator by operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from anyshape.backends import BACKENDS, run_native
from anyshape.compiler.driver import FunctionCompiler
from anyshape.dispatch.callable_target import module_target
from anyshape.dispatch.compiled_function import FALLBACK_ERRORS
from anyshape.dispatch.entry import Entry, Options
from anyshape.errors import BadOption
from anyshape.export import results
from anyshape.export.program import share_weights, with_weights_of
from anyshape.ops.modes import back_to, modes_now
from anyshape.runtime.loader.code_bundle import CodeBundle, opened
from anyshape.support.lazy_dataclass import replace
from anyshape.support.spelling import did_you_mean


def plain_module(graph_module: torch.fx.GraphModule, name: str) -> torch.nn.Module:
    """A module that runs the graph, and shares its weights."""
    # A GraphModule has a way of its own to be called, in native code.
    kind = type(name.replace(".", "_"), (torch.nn.Module,), {})
    setattr(kind, "forward", type(graph_module).forward)  # noqa: B010 the stub has no setter
    made = kind()
    share_weights(graph_module, made)
    return made.train(graph_module.training)


def in_two(
    graph_module: torch.fx.GraphModule,
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule | None]:
    """What computes, and what puts the result together of what that gives (None if nothing is left
    to do): objects are not made by compiled code."""
    nodes = list(graph_module.graph.nodes)
    output = nodes.pop()
    last = {node: None for node in nodes if node.target in results.PUT_TOGETHER}
    if not last:
        return graph_module, None
    given = dict.fromkeys(
        each for node in (*last, output) for each in node.all_input_nodes if each not in last
    )
    first, copies = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
    for node in nodes:
        if node not in last:
            copies[node] = first.node_copy(node, copies.__getitem__)
    first.output(tuple(copies[node] for node in given))
    second = torch.fx.Graph()
    made = {node: second.placeholder(f"given_{index}") for index, node in enumerate(given)}
    for node in last:
        made[node] = second.node_copy(node, made.__getitem__)
    second.output(torch.fx.map_arg(output.args[0], made.__getitem__))
    return with_weights_of(graph_module, first), torch.fx.GraphModule(torch.nn.Module(), second)


class Runs:
    """A graph that is called. `shelf` has native code that may be used, and collects what is;
    `file` is the package that it is from."""

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        name: str,
        backend: str,
        shelf: CodeBundle,
        file: str = "",
    ) -> None:
        check_backend(backend)
        core, self._finish = in_two(graph_module)
        self._graph_module = core
        self._module = plain_module(core, name)
        self._shelf = shelf
        self._function: FunctionCompiler | None = None
        if backend == "native":
            # Sizes are remembered for programs, not for what was made of them.
            target = replace(module_target(self._module, name), identity=lambda: None)
            self._function = FunctionCompiler(target, Options(True, False, self._native))
            # In metrics: where the graph's own code stands tells nobody which program it is.
            self._function.counts.where = file

    @property
    def entries(self) -> list[Entry]:
        return [] if self._function is None else list(self._function.entries)

    def __call__(self, *args: object, **kwargs: object) -> object:
        state = modes_now()
        try:
            found = self._call(args, kwargs)
            return found if self._finish is None else self._finish.forward(*found)
        finally:
            back_to(state)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, object]) -> Any:
        function = self._function
        if function is None:
            return self._graph_module.forward(*args, **kwargs)
        given = (self._module, *args)
        try:
            return function.dispatch(*given, **kwargs)
        except FALLBACK_ERRORS as error:
            if not function.needs_fallback(error):
                raise
            reason = error
        return function.fallback(reason, given, kwargs)

    def _native(self, graph: torch.fx.GraphModule, examples: list[object]) -> Callable[..., object]:
        with opened(self._shelf):
            return run_native(graph, examples)


def check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        accepted = f'it takes "native" or "eager"{did_you_mean(backend, BACKENDS)}'
        raise BadOption(option="backend", value=repr(backend), accepted=accepted)
