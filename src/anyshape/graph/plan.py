"""The steps of a lowered graph, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
import torch.fx

from anyshape.loops.expr import Dtype, reached
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Extern
from anyshape.loops.stages import all_roots
from anyshape.ops.node_meta import RecordedCall
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Fact, Size, Symbol


@dataclass(frozen=True, slots=True)
class BufferDecl:
    """Memory of a plan: one tensor. `given`: a tensor that Python has, an input or the result of a
    call-out; else it is the plan's to make."""

    name: str
    dtype: Dtype
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    given: bool


class Unlowerable(Exception):
    """The graph as a whole has to run as it is, and why."""


@dataclass(frozen=True, slots=True)
class Compute:
    """A kernel over buffers of the plan: those that it reads and writes, and the numbers it
    takes."""

    kernel: Kernel
    reads: frozenset[str]
    writes: frozenset[str]
    numbers: tuple[str, ...]


def computing(kernel: Kernel) -> Compute:
    reads: set[str] = set()
    numbers: dict[str, None] = {}
    for scalar in reached(all_roots(kernel)):
        if scalar.op == "load":
            reads.add(scalar.data[0])
        elif scalar.op == "number":
            numbers[scalar.data] = None
    stored = [part for stage in kernel.stages for part in (*stage.stores, *stage.scans)]
    writes = {part.buffer for part in stored} - kernel.private.keys()
    reads |= {part.buffer for part in stored if getattr(part, "mode", "set") != "set"}
    reads -= kernel.private.keys()
    return Compute(kernel, frozenset(reads), frozenset(writes), tuple(sorted(numbers)))


@dataclass(frozen=True, slots=True)
class Native:
    """A function of the tensor library that native code can call."""

    extern: Extern
    reads: frozenset[str]
    writes: frozenset[str]


class View(NamedTuple):
    """How the program made a view: a call with what is shown as its first argument."""

    kind: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: which of several results it is
    place: int | None = None


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A tensor as Python code gets it: a buffer, or a view of one, made as the program made it or
    by its strides."""

    buffer: str
    views: tuple[View, ...] = ()
    #: None for the whole buffer
    sizes: tuple[Size, ...] | None = None
    strides: tuple[Size, ...] = ()
    offset: Size = 0


@dataclass(frozen=True, slots=True)
class PythonCall:
    """Call Python: an operator of torch without native code, a number, a change of state. Results
    are names; a tree of them where the call gives several. Arguments hold `TensorRef`, `NumberRef`
    and sizes."""

    kind: str
    target: object
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: str | None
    #: of tensors in the result: (name of the buffer, path of indices to it)
    tensors: tuple[tuple[str, tuple[int, ...]], ...] = ()
    #: a symbol that the result is the value of
    symbol: Symbol | None = None
    #: whether it is about numbers only
    is_number: bool = False
    why: str = ""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(ref.buffer for ref in tensors_in((self.args, self.kwargs)))


Step = Compute | Native | PythonCall

#: How far back to look for a kernel that a step can be part of.
FAR: Final = 6


@dataclass(slots=True)
class ElidedRepeats:
    """Equal parts of a graph that a plan is without. They come behind the steps `steps` of the
    plan, which are those of one part too."""

    #: from the first on, up to this one
    steps: tuple[int, int]
    #: how many parts are left out
    count: int
    #: the buffers that these steps make
    made: tuple[str, ...]
    #: inputs of the graph that only one part uses: of this part, of each that is left out, of the
    #: one behind them
    inputs: list[tuple[str, ...]]
    #: what the part has of the one before, and what stands for it at its end: one that it makes
    #: itself, or one of its inputs
    moved: dict[str, str]
    #: of the part behind: the end of its steps, and the buffers that it makes
    end: int = 0
    made_behind: tuple[str, ...] = ()


@dataclass(slots=True)
class Plan:
    """`inputs`: the names of the graph's inputs in order: a buffer, a symbol, or anything else that
    calls use. `outputs`: as the graph gives them."""

    inputs: list[str | Symbol]
    held: dict[str, BufferDecl]
    steps: list[Step]
    outputs: list[Any]
    #: what it is for: a call of other sizes runs the graph as it is
    assumed: list[Fact] = field(default_factory=list["Fact"])
    #: inputs that begin at a multiple of 16 bytes: likewise
    aligned: set[str] = field(default_factory=set[str])
    #: inputs that are written to
    changed: list[str] = field(default_factory=list[str])
    #: by how much native code moves the version of a tensor on
    bumps: dict[str, int] = field(default_factory=dict[str, int])
    #: by operator: how often native, how often called out, and why
    native: dict[str, int] = field(default_factory=dict[str, int])
    called: dict[str, str] = field(default_factory=dict[str, str])
    #: what is one kernel though the program spells it out, and why it is not
    fused: set[str] = field(default_factory=set[str])
    unfused: dict[str, str] = field(default_factory=dict[str, str])
    elided_repeats: ElidedRepeats | None = None
    #: where its buffers are
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


def paired_tree(nodes: Any, metas: Any, change: Callable[[torch.fx.Node, Any], Any]) -> Any:
    """The arguments of a node with something else for each node among them, given what is known of
    it. A graph has lists of its own kind; in a subscript they are not tuples."""
    if isinstance(nodes, torch.fx.Node):
        return change(nodes, metas)
    if isinstance(nodes, dict):
        return {key: paired_tree(item, metas[key], change) for key, item in nodes.items()}
    if isinstance(nodes, tuple | list):
        items = [paired_tree(a, b, change) for a, b in zip(nodes, metas, strict=False)]
        return items if isinstance(nodes, list) else tuple(items)
    if isinstance(nodes, slice):
        ends = ("start", "stop", "step")
        return slice(*(paired_tree(getattr(nodes, e), getattr(metas, e), change) for e in ends))
    return nodes


def known_arguments(node: torch.fx.Node, call: RecordedCall) -> tuple[Any, Any]:
    """The arguments of a call, as they are in every run. A number that the graph is given or
    computes is its node: the record has what it was in one run."""

    def known(each: torch.fx.Node, meta: Any) -> Any:
        return each if isinstance(meta, bool | int | float | complex) else meta

    return paired_tree((node.args, node.kwargs), (call.args, call.kwargs), known)


def leaves(tree: object) -> list[object]:
    """What is in a tree of arguments, in order."""
    found: list[Any] = []
    stack: list[Any] = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += reversed(item.values())
        elif isinstance(item, tuple | list):
            stack += reversed(item)
        elif isinstance(item, slice):
            stack += (item.step, item.stop, item.start)
        else:
            found.append(item)
    return found


def tensors_in(tree: object) -> list[TensorRef]:
    """All tensors among arguments."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, TensorRef)]
