"""A graph run once, node by node, on its example: which tensors share memory, which operators do
what an in-place one does."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
import torch.fx

from anyshape.export.mutation_schema import Instead, Unknown, Write
from anyshape.export.program import is_of_gradient
from anyshape.ops.modes import back_to, modes_now
from anyshape.ops.node_meta import CALL
from anyshape.support.lazy_dataclass import dataclass, field

Node = torch.fx.Node

#: How a graph gets at what is inside of its arguments.
PATHS: Final = (operator.getitem, getattr)


@dataclass(slots=True, eq=False)
class Observed:
    """Of each node: the memory of the tensors that it gives, and whether it gives several.

    Of each write: the dtype that its substitute has to be cast to (None for no cast); writes
    without a substitute are missing.
    """

    memory: dict[Node, frozenset[int]] = field(default_factory=dict[Node, frozenset[int]])
    several: set[Node] = field(default_factory=set[Node])
    casts: dict[Node, torch.dtype | None] = field(default_factory=dict[Node, "torch.dtype | None"])

    def for_copies(self, copies: Mapping[Node, Node]) -> Observed:
        """The same of the nodes of a copied graph."""
        return Observed(
            {copies[node]: found for node, found in self.memory.items()},
            {copies[node] for node in self.several},
            {copies[node]: cast for node, cast in self.casts.items()},
        )


def observe(
    module: torch.fx.GraphModule,
    bound: Mapping[str, object],
    writes: Mapping[Node, Write],
) -> Observed:
    """`bound` has the arguments by name; they are changed as the program does it."""
    state = modes_now()
    try:
        return _Run(module, bound, writes).run()
    finally:
        back_to(state)


class _Run:
    def __init__(
        self,
        module: torch.fx.GraphModule,
        bound: Mapping[str, object],
        writes: Mapping[Node, Write],
    ) -> None:
        self._module = module
        self._bound = bound
        self._writes = writes
        # All of them stay alive, so that no memory is used twice.
        self._values: dict[Node, Any] = {}
        self._copied = _starts(writes)
        self._found = Observed()

    def run(self) -> Observed:
        for node in self._module.graph.nodes:
            if node.op == "output":
                break
            if is_of_gradient(node):
                continue  # That is the caller's to have or not.
            if node.op not in ("placeholder", "get_attr"):
                self._check(node)
            else:
                self._values[node] = self._given(node)
            self._note(node, self._values[node])
        return self._found

    def _note(self, node: Node, value: object) -> None:
        several = isinstance(value, tuple | list)
        if several and _is_given(node):
            return  # of the caller's containers, only what is taken out counts
        self._found.memory[node] = frozenset(map(_memory, _tensors(value)))
        if several:
            self._found.several.add(node)

    def _given(self, node: Node) -> object:
        name = str(node.target)
        if node.op == "placeholder":
            return self._bound[name.lstrip("*")]
        value: torch.Tensor = operator.attrgetter(name)(self._module)
        if node in self._copied or not isinstance(value, torch.nn.Parameter):
            return value.detach().clone().requires_grad_(value.requires_grad)
        return value

    def _check(self, node: Node) -> None:
        write = self._writes.get(node)
        given = [self._values[each] for each in node.all_input_nodes]
        before = [(each, each._version) for each in _tensors(given) if not each.is_inference()]
        expected = self._try(write.instead) if write and write.instead else None
        self._values[node] = self._call(node.op, node.target, node.args, dict(node.kwargs))
        if write is None:
            if any(each._version != version for each, version in before):
                raise Unknown(f"`{node.target}` changes a tensor")
        elif expected is not None:
            self._compare(node, expected, self._values[write.targets[0]])

    def _try(self, instead: Instead) -> object:
        try:
            return self._call(instead.op, instead.target, instead.args, instead.kwargs)
        except Exception:
            return None

    def _call(self, op: str, target: Any, args: Any, kwargs: Any) -> object:
        args = torch.fx.map_arg(args, self._values.__getitem__)
        kwargs = torch.fx.map_arg(kwargs, self._values.__getitem__)
        if op == "call_method":
            first, *rest = args
            return getattr(first, target)(*rest, **kwargs)
        return target(*args, **kwargs)

    def _compare(self, node: Node, expected: object, target: torch.Tensor) -> None:
        if not isinstance(expected, torch.Tensor) or expected.shape != target.shape:
            return
        # Of a part, the elements are copied. What takes the place of a whole tensor has to lie in
        # memory as that does, and not every operator keeps the order of dimensions.
        is_whole = target.untyped_storage().nbytes() == target.nbytes
        strides = zip(target.shape, target.stride(), expected.stride(), strict=True)
        differs = any(size > 1 and own != other for size, own, other in strides)
        unclear = not target.is_contiguous() and min(target.shape) < 2
        if is_whole and (differs or unclear):
            return
        cast = None if expected.dtype is target.dtype else target.dtype
        with torch.no_grad():
            found = expected if cast is None else expected.to(cast)
            if torch.allclose(found, target, rtol=0, atol=0, equal_nan=True):
                self._found.casts[node] = cast


def _is_given(node: Node) -> bool:
    return is_external(node) and node.op != "get_attr"


def is_external(node: Node) -> bool:
    """Whether a tensor is found among the arguments, or is a weight."""
    while CALL not in node.meta and node.target in PATHS and isinstance(node.args[0], Node):
        node = node.args[0]
    return node.op in ("placeholder", "get_attr")


def _starts(writes: Mapping[Node, Write]) -> set[Node]:
    """Where the tensors come from that are written to, as far as first arguments tell."""
    found: set[Node] = set()
    for write in writes.values():
        todo = list(write.targets)
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += node.all_input_nodes
    return found


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)


def _memory(tensor: torch.Tensor) -> int:
    if tensor.layout is not torch.strided:
        raise Unknown(f"a {tensor.layout} tensor, whose memory is not looked at")
    return tensor.untyped_storage()._cdata
