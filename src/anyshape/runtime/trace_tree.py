"""The program of an entry whose way depends on data: a tree of graphs.

    graph ─► expectations hold? ─► the outcome of a question ─► the next graph by it ─► … ─► result

Nothing outside is changed before the result is made, except by the graphs themselves, to tensors,
and those are remembered. So a call that meets an outcome nobody has seen (`SideExit`) is as if it
had never been made: the caller makes it again, watched, and the tree grows by what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from anyshape.errors import InternalError
from anyshape.ops.modes import back_to, modes_now
from anyshape.runtime.program import GraphFailed
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.support.random_state import default_generators


class SideExit(Exception):
    """The call has been undone: it goes a way that the tree does not have."""


@dataclass(frozen=True, slots=True)
class RunValue:
    """A value of a run: an input of the call, or an output of the segment at that depth."""

    segment: int
    index: int

    @property
    def text(self) -> str:
        return f"I[{self.index}]" if self.segment == INPUT else f"S[{self.segment}][{self.index}]"


_set_versions: Any = getattr(torch._C, "_autograd")._unsafe_set_version_counter  # noqa: B009 no stub has it

INPUT: Final = -1

#: The inputs of a call, the outputs of the segments so far, how to undo them.
Step = Callable[[Sequence[Any], list[Sequence[Any]], "Rollback | None"], Any]
Finish = Callable[[Sequence[Any], list[Sequence[Any]]], Any]


class Rollback:
    """Tensors and generators as they were before a run changed them."""

    __slots__ = ("_generators", "_tensors", "incomplete")

    def __init__(self) -> None:
        #: whether something was changed that is not kept here
        self.incomplete = False
        self._tensors: list[tuple[torch.Tensor, torch.Tensor, int | None]] = []
        self._generators: list[tuple[torch.Generator, torch.Tensor]] = []

    def save(self, changed: torch.Tensor | torch.Generator) -> None:
        if isinstance(changed, torch.Generator):
            self._generators.append((changed, changed.get_state()))
        else:
            version = None if changed.is_inference() else changed._version
            with torch.no_grad():
                self._tensors.append((changed, changed.detach().clone(), version))

    def undo(self) -> None:
        with torch.no_grad():
            for tensor, before, version in reversed(self._tensors):
                tensor.copy_(before)
                if version is not None:
                    # What autograd has kept of it is as it was.
                    _set_versions((tensor,), (version,))
        self._tensors.clear()
        for generator, state in reversed(self._generators):
            generator.set_state(state)
        self._generators.clear()


@dataclass(slots=True, eq=False)
class TreeNode:
    """A segment, and where it leads."""

    #: equal for segments that do the same
    key: tuple[object, ...]
    step: Step
    #: whether a run may turn out to be none of its business
    may_fail: bool
    changes: bool
    #: whether what it changes may have to be undone
    keeps: bool = True
    #: how many inputs of the call it takes: a call that was dispatched before the tree grew may
    #: have fewer
    width: int = 0
    #: after the last segment: effects and result
    finish: Finish | None = None
    #: by outcome
    children: dict[Any, TreeNode] = field(default_factory=dict[Any, "TreeNode"])

    def is_open(self) -> bool:
        """Whether a run may go a way that is not there."""
        if self.may_fail:
            return True
        if self.finish is not None:
            return False
        known = {True, False} == set(self.children) and all(
            type(outcome) is bool for outcome in self.children
        )
        return not known or any(child.is_open() for child in self.children.values())

    def __iter__(self) -> Iterator[TreeNode]:
        yield self
        for child in self.children.values():
            yield from child


class Tree:
    """The trees of an entry: the second is tried where the first finds an expectation wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.roots: list[TreeNode] = []
        self.changes_state = False
        self.draws_random = False
        self._changes = False

    def __len__(self) -> int:
        return sum(1 for root in self.roots for _ in root)

    def grown(self) -> None:
        """To be called when nodes were added."""
        for root in self.roots:
            for node in root:
                node.keeps = node.is_open()
        self._changes = any(node.changes for root in self.roots for node in root)

    def run(self, *inputs: Any) -> Any:
        """Make the call. `SideExit` if that cannot be done, and then nothing has been done."""
        state = modes_now() if self.changes_state else None
        random = default_generators.get_state() if self.draws_random else None
        last = len(self.roots) - 1
        for number, root in enumerate(self.roots):
            undo = Rollback() if self._changes else None
            try:
                return _walk(root, inputs, undo)
            except Exception as error:
                if state is not None:
                    back_to(state)
                failed = isinstance(error, GraphFailed)
                if not failed and not isinstance(error, SideExit):
                    raise  # from an effect, after the graphs
                if undo is not None:
                    undo.undo()
                if failed and undo is not None and undo.incomplete:
                    error.repeatable = False
                    raise
                if random is not None:
                    default_generators.set_state(random)
                if failed and isinstance(error.error, InternalError):
                    raise  # of the compiler, and wanted as an error
                if number == last:
                    # A graph that fails may be for other data, too: the program itself will say.
                    raise SideExit from (error.error if failed else None)
        raise SideExit


def _walk(node: TreeNode, inputs: Sequence[Any], undo: Rollback | None) -> Any:
    outputs: list[Sequence[Any]] = []
    while True:
        if node.width > len(inputs):
            raise SideExit
        if undo is not None and node.changes and not node.keeps:
            undo.incomplete = True
        outcome = node.step(inputs, outputs, undo if node.keeps else None)
        if node.finish is not None:
            return node.finish(inputs, outputs)
        found = node.children.get(outcome)
        if found is None:
            raise SideExit
        node = found


def make_step(
    graph: Callable[..., Any],
    arguments: Sequence[RunValue],
    *,
    changed: Sequence[RunValue],
    values: Mapping[str, RunValue],
    expectation: str,
    outcome: str,
    name: str,
) -> Step:
    """A function that runs a segment. `expectation` and `outcome` are Python expressions over the
    names in `values`; they may be empty."""
    source = ["def step(I, S, undo):"]
    if changed:
        source.append("    if undo is not None:")
        source += [f"        undo.save({place.text})" for place in changed]
    source += [
        "    try:",
        f"        outputs = graph({', '.join(place.text for place in arguments)})",
        "    except Exception as error:",
        "        raise GraphFailed(error, True) from error",
        "    S.append(outputs)",
        *(f"    {variable} = {place.text}" for variable, place in values.items()),
    ]
    # A question may divide by a size that is 0 in this run: then it has no answer yet.
    if expectation:
        source += [
            "    try:",
            f"        if not ({expectation}): raise Unseen",
            "    except ZeroDivisionError: raise Unseen from None",
        ]
    if outcome:
        source += [
            "    try:",
            f"        return {outcome}",
            "    except ZeroDivisionError: raise Unseen from None",
        ]
    namespace = {"graph": graph, "GraphFailed": GraphFailed, "Unseen": SideExit}
    exec(compile("\n".join(source), f"<anyshape: {name}>", "exec"), namespace)
    return namespace["step"]


def make_finish(
    values: Mapping[str, RunValue],
    lines: Sequence[str],
    namespace: Mapping[str, Any],
    result: str,
    name: str,
) -> Finish:
    """What comes after the last segment: the changes to Python objects, and the result."""
    source = [
        "def finish(I, S):",
        *(f"    {variable} = {place.text}" for variable, place in values.items()),
        *(f"    {line}" for line in lines),
        f"    return {result}",
    ]
    held = dict(namespace)
    exec(compile("\n".join(source), f"<anyshape: {name}>", "exec"), held)
    return held["finish"]
