"""A graph that changes no tensor, of one that does.

    h.add_(1); v = h[0]; v.mul_(2); return h

    add = h.add(1); v = add[0]; mul = v.mul(2); whole = with_view(add, mul); return whole

A tensor that is written to is another node from then on, and views of it are made again where they
are used. What the caller sees, arguments and weights, is not written to either: the graph returns
pairs of a tensor and what it becomes, and whoever runs the graph copies them (`Program.changes`).

Which tensors share memory is seen in a run on the example. Where that may differ for other sizes,
or where gradients would flow otherwise, the graph stays as it is: `NotFunctional`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import torch
import torch.fx

from anyshape.export import results
from anyshape.export.copy_on_write import method_on_copies, on_copies
from anyshape.export.layout_dependence import has_unknown_calls, writes_by_layout
from anyshape.export.mutation_schema import Unknown, Write, write_of
from anyshape.export.observe_aliases import Observed, is_external, observe
from anyshape.export.operators import UnknownName, name_of
from anyshape.export.program import place_of, place_text
from anyshape.export.ssa_versions import NotFunctional, Versions
from anyshape.ops.higher_order_ops import region
from anyshape.ops.meta import Meta
from anyshape.ops.modes import enter_mode, leave_mode
from anyshape.ops.node_meta import CALL, RESULT
from anyshape.ops.table import lookup
from anyshape.symbolic import Facts

Node = torch.fx.Node


def make_functional(
    module: torch.fx.GraphModule,
    example: Callable[[], Mapping[str, object]],
    facts: Facts,
) -> tuple[list[str], bool]:
    """Rewrite the graph of a module. Returns what a call changes, by name; if there is anything,
    the output is a pair: the result, and the pairs of what changes with its new value. And whether
    it is so for inputs of this layout only."""
    try:
        writes = {node: write for node in module.graph.nodes if (write := write_of(node))}
        if not writes:
            return [], has_unknown_calls(module.graph)
        observed = observe(module, example(), writes)
    except Unknown as error:
        raise NotFunctional(str(error)) from None
    except Exception as error:
        raise NotFunctional(f"its example cannot be run again: {error}") from error
    by_layout = has_unknown_calls(module.graph) or writes_by_layout(module.graph, writes, observed)
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    # On a copy, so that a graph which has to stay as it is does.
    graph.output(graph.graph_copy(module.graph, copies))
    for node, copied in copies.items():
        copied.meta = dict(node.meta)
    changes = _Rewriting(graph, observed.for_copies(copies), facts).run()
    graph.lint()
    module.graph = graph
    return changes, by_layout


class _Rewriting(Versions):
    """Writes become nodes like any other."""

    def run(self) -> list[str]:
        self._recorded = _memory_read_with_gradients(self._graph, self._observed, self._modes)
        for node in list(self._graph.nodes):
            if node.op == "output":
                return self._finish(node)
            self._modes = _modes_after(node, self._modes)
            if node.target in results.PUT_TOGETHER:
                self._with_arguments(node, self._in_the_end)
                continue
            write = write_of(node)
            if write is None:
                self._keep(node)
            else:
                with self._graph.inserting_before(node):
                    self._write(node, write)
        raise AssertionError("a graph has an output")

    # -- writes ------------------------------------------------------------------------------------

    def _write(self, node: Node, write: Write) -> None:
        targets = [self._resolved(each) for each in write.targets]
        for target in targets:
            self._check(target, node)
        if node in self._observed.casts:
            values = [self._instead(node, write)]
        else:
            result, values = self._on_copies(node, write)
            if not write.gives_target:
                node.replace_all_uses_with(result)
                self._moved(node, result)
        for target, value in zip(targets, values, strict=True):
            self._set(target, value)
        if write.gives_target:
            self._same[node] = targets[0]
        self._spare.append(node)

    def _moved(self, node: Node, result: Node) -> None:
        """A node stands in the place of another."""
        result.meta = dict(node.meta)
        memory = self._observed.memory.pop(node, frozenset())
        if any(each in self._roots for each in memory):
            raise NotFunctional(f"`{node.name}` gives a tensor that it was given")
        self._observed.memory[result] = memory
        if node in self._observed.several:
            self._observed.several.add(result)
        else:
            self._own(result, memory)

    def _check(self, target: Node, node: Node) -> None:
        root = self._root.get(target)
        if root is None:
            raise NotFunctional(f"`{target.name}`, which is written to, is no plain tensor")
        if root in self._tied:
            raise NotFunctional(
                f"`{target.name}` is written to, and shares memory with another tensor for some"
                " sizes only"
            )
        meta = root.meta.get(RESULT)
        floats = not isinstance(meta, Meta) or meta.dtype.is_floating_point
        fixed = root.op == "get_attr" and isinstance(meta, Meta) and not meta.requires_grad
        if floats and not fixed and self._born[root] != self._modes:
            if root.op == "get_attr" and self._is_last(root, node):
                return
            raise NotFunctional(
                f"`{target.name}` is written to in another mode (`no_grad`, …) than it was made in"
            )

    def _is_last(self, root: Node, node: Node) -> bool:
        """Whether nothing that autograd would record reads a tensor after it was written to where
        autograd does not record."""
        return not self._modes[0] and not self._recorded[node] & self._observed.memory[root]

    def _instead(self, node: Node, write: Write) -> Node:
        instead = write.instead
        assert instead is not None, "what was compared"
        args = torch.fx.map_arg(instead.args, self._now)
        kwargs = torch.fx.map_arg(instead.kwargs, self._now)
        made = self._graph.create_node(instead.op, instead.target, args, kwargs)
        made.meta = {key: value for key, value in node.meta.items() if key != CALL}
        cast = self._observed.casts[node]
        if cast is None:
            return made
        made.meta.pop(RESULT, None)
        found = self._graph.call_method("to", (made, cast))
        found.meta = {key: value for key, value in node.meta.items() if key != CALL}
        return found

    def _on_copies(self, node: Node, write: Write) -> tuple[Node, list[Node]]:
        if not write.places:
            raise NotFunctional(f"`{node.name}` writes its result into a given tensor")
        if node.op == "call_method":
            function = method_on_copies(str(node.target))
        else:
            try:
                function = on_copies(name_of(node.target), cast("Any", node.target))
            except UnknownName as error:
                raise NotFunctional(f"`{error}` is code of the program") from None
        args = torch.fx.map_arg(node.args, self._now)
        kwargs = torch.fx.map_arg(dict(node.kwargs), self._now)
        made = self._graph.call_function(function, (write.places, *args), kwargs)
        if "stack_trace" in node.meta:
            made.meta["stack_trace"] = node.meta["stack_trace"]
        items = [self._item(made, index) for index in range(len(write.places) + 1)]
        for item, target in zip(items[1:], write.targets, strict=True):
            _describe(item, self._resolved(target))
        return items[0], items[1:]

    def _item(self, made: Node, index: int) -> Node:
        found = self._graph.call_function(operator.getitem, (made, index))
        self._spare.append(found)
        return found

    def _set(self, target: Node, value: Node) -> None:
        root = self._root[target]
        if target is not root:
            value = self._whole(root, target, value)
        self._latest[root] = value
        self._version[root] += 1

    def _whole(self, root: Node, target: Node, value: Node) -> Node:
        """The tensor with a view of it changed."""
        graph = torch.fx.Graph()
        copies: dict[Node, Node] = {root: graph.placeholder("whole")}
        more: list[Node] = []
        chain = [target]
        while (parent := self._resolved(self._parent[chain[-1]])) is not root:
            chain.append(parent)
        for node in reversed(chain):
            if _may_overlap(node):
                raise NotFunctional(
                    f"`{node.name}`, which is written to, has elements that overlap"
                )
            for each in map(self._resolved, _nodes_in(self._made_with[node])):
                if each not in copies and each not in chain:
                    copies[each] = graph.placeholder(f"input_{len(more)}")
                    more.append(self._now(each))
        for node in reversed(chain):
            args, kwargs = self._made_with_others(node, lambda each: copies[self._resolved(each)])
            copies[node] = graph.create_node(node.op, node.target, args, kwargs)
        graph.output((copies[target],))
        made = self._graph.call_function(
            region("with_view", (torch.fx.GraphModule(torch.nn.Module(), graph),)),
            (self._now(root), value, tuple(more)),
        )
        _describe(made, root)
        return made

    # -- the end -----------------------------------------------------------------------------------

    def _finish(self, output: Node) -> list[str]:
        with self._graph.inserting_before(output):
            self._with_arguments(output, self._in_the_end)
        changed = [root for root, times in self._version.items() if times and is_external(root)]
        if changed:
            pairs = tuple((root, self._latest[root]) for root in changed)
            output.args = ((output.args[0], pairs),)
        for node in reversed(self._spare):
            if not node.users:
                self._graph.erase_node(node)
        return [place_text(place_of(root)) for root in changed]


def _modes_after(node: Node, modes: tuple[object, ...]) -> tuple[object, ...]:
    """The modes behind a node: whether gradients are recorded, and what has been entered."""
    if node.target is torch._C._set_grad_enabled:
        return (node.args[0], *modes[1:])
    if node.target is enter_mode:
        return (*modes, node.args)
    return modes[:-1] if node.target is leave_mode else modes


def _memory_read_with_gradients(
    graph: torch.fx.Graph, observed: Observed, modes: tuple[object, ...]
) -> dict[Node, frozenset[int]]:
    """Of each node: the memory that is read behind it where autograd records."""
    recorded: dict[Node, bool] = {}
    for node in graph.nodes:
        modes = _modes_after(node, modes)
        puts_together = node.op == "output" or node.target in results.PUT_TOGETHER
        recorded[node] = bool(modes[0]) and not puts_together
    found: dict[Node, frozenset[int]] = {}
    read = frozenset[int]()
    for node in reversed(list(graph.nodes)):
        found[node] = read
        if recorded[node]:
            for each in node.all_input_nodes:
                read |= observed.memory.get(each, frozenset())
    return found


#: Views that may show an element in several places, or go by strides that a copy does not have.
_BY_STRIDES: Final = frozenset({"as_strided", "unfold", "expand", "expand_as", "broadcast_to"})


def _may_overlap(node: Node) -> bool:
    call, meta = node.meta.get(CALL), node.meta.get(RESULT)
    entry = None if call is None else lookup(call.function)
    if entry is not None and entry.op.name in _BY_STRIDES:
        return True
    return isinstance(meta, Meta) and any(
        stride == 0 and size != 1 for size, stride in zip(meta.shape, meta.strides, strict=True)
    )


def _nodes_in(value: Any) -> list[Node]:
    found: list[Node] = []
    torch.fx.map_arg(value, lambda node: found.append(node) or node)
    return found


def _describe(node: Node, like: Node) -> None:
    if RESULT in like.meta:
        node.meta[RESULT] = like.meta[RESULT]
