"""Equal parts of a graph are lowered a few times, not each of them.

The walk stops at the end of each part. The tensors of the part that others need are stored there:
they are few, and kernels are joined across the border later. What lowering knows then (`LiveState`)
is the same as it was a part before as soon as parts are lowered in the same way, and from there on
all parts to come give the same steps, in other names. One more part is lowered, then parts are left
out; the walk goes on with the last ones, as if they came next, so that what follows the run is
lowered behind them. `expand_repeats.py` repeats the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import torch.fx

from anyshape.graph.aliasing import handles_in
from anyshape.graph.find_repeats import Run, repeated_run
from anyshape.graph.lowering_fingerprint import LiveState
from anyshape.graph.materialize import Materialize
from anyshape.graph.plan import FAR, ElidedRepeats, PythonCall

#: Whether kernels are joined depends on some steps before: parts that are shorter are taken
#: together.
_LEAST_STEPS: Final = 2 * FAR

#: So many have to stand before: that kernels are joined as in the part before is seen on them.
_LEAST_BEFORE: Final = 3 * FAR

#: So many are lowered behind those that are left out: what follows the run may reach into the last.
_BEHIND: Final = 2


class _Mark(NamedTuple):
    """The lowering at the end of a part."""

    position: int
    steps: int
    held: int
    state: LiveState
    native: dict[str, int]


class Skipping:
    """`whole`: parts end as they always do, but none is left out."""

    def __init__(
        self,
        lowering: Materialize,
        nodes: Sequence[torch.fx.Node],
        env: dict[torch.fx.Node, Any],
        uses: dict[torch.fx.Node, int],
        matters: Callable[[torch.fx.Node], bool],
        *,
        whole: bool,
    ) -> None:
        self._lowering = lowering
        self._nodes = nodes
        self._env = env
        self._uses = uses
        self._run: Run | None = repeated_run(nodes, matters, lowering.settled)
        self._number: dict[torch.fx.Node, int] = {}
        if self._run is not None:
            self._number = {node: number for number, node in enumerate(nodes)}
        self._marks: list[_Mark] = []
        self._is_settled = whole
        self._next = -1
        self._held = 0
        self.elided_repeats: ElidedRepeats | None = None

    def go_on(self, position: int) -> int:
        """The node to go on with at this one."""
        run = self._run
        if run is None or position < run.start or (position - run.start) % run.length:
            return position
        if position > run.start + run.length * run.parts:
            self._run = None
            return position
        live = self._stored(run, position)
        if position == self._next:
            self._found_next()
        self._marks.append(self._mark(position, live))
        if len(self._marks) == 2:
            self._run = self._together(run)
        # From the first state that came again on, all come again: the parts before and behind it
        # are the same.
        forms = [mark.state.form for mark in self._marks[-3:]]
        if self._is_settled or len(forms) < 3 or not forms[0] == forms[1] == forms[2]:
            return position
        if self._marks[-2].steps < _LEAST_BEFORE:
            return position
        return self._skip(run, position)

    def _stored(self, run: Run, position: int) -> list[tuple[object, object]]:
        """What is needed from here on. Tensors of the part that ends here are stored."""
        live: list[tuple[object, object]] = []
        for node, held in self._env.items():
            if node.op == "placeholder" or not self._uses[node]:
                continue
            number = self._number[node]
            # What is older than a part is the same tensor for all of them.
            if position - number > run.length:
                live.append((("far", number), held))
                continue
            for handle in handles_in(held):
                value = handle.root.value
                # What the parts find of such elements, a mask of attention, say, memory hides.
                if number >= run.start or self._lowering.outcomes(value) is None:
                    self._lowering.materialize(value, handle.root.meta)
            live.append((("near", number - position, self._uses[node]), held))
        return live

    def _mark(self, position: int, live: Sequence[tuple[object, object]]) -> _Mark:
        lowering = self._lowering
        steps, held, native = len(lowering.steps), len(lowering.held), dict(lowering.native)
        return _Mark(position, steps, held, LiveState(lowering, live), native)

    def _together(self, run: Run) -> Run:
        """Parts of enough steps, as the first of them shows."""
        first, last = self._marks
        count = -(-_LEAST_STEPS // max(last.steps - first.steps, 1))
        if count > 1:
            self._marks.clear()  # the first of those to come has a border within
        return Run(run.start, run.length * count, run.parts // count)

    def _skip(self, run: Run, position: int) -> int:
        """Leave out what can be left out; the last part stands for it."""
        self._is_settled = True
        lowering, length = self._lowering, run.length
        first, last = self._marks[-2:]
        count = run.parts - (position - run.start) // length - _BEHIND
        steps = [
            step
            for step in lowering.steps[first.steps : last.steps]
            if not isinstance(step, PythonCall)
        ]
        if count < 1 or len(steps) != last.steps - first.steps:
            return position
        inputs = self._inputs(first.position, length, count)
        if inputs is None:
            return position
        made = tuple(islice(lowering.held, first.held, last.held))
        moved = {
            old: new
            for old, new in zip(first.state.buffers, last.state.buffers, strict=True)
            if old != new
        }
        own = {*made, *inputs[0]}
        # What all parts have in common is not written to by any of them.
        if not own.issuperset(moved.values()) or not all(own >= step.writes for step in steps):
            return position
        self._write(inputs[0], inputs[1:-1])
        self.elided_repeats = ElidedRepeats((first.steps, last.steps), count, made, inputs, moved)
        self._next = position + length * (count + 1)
        self._held = last.held
        self._count_native(first, last, count)
        self._let_go(position, length * count, length)
        return position + length * count

    def _inputs(self, start: int, length: int, count: int) -> list[tuple[str, ...]] | None:
        """Of each part from `start` on, the inputs of the graph that are its own, in order. None if
        they are not used in the same way by all."""
        parts = [
            [  # and one before: what is live may be of its inputs
                node
                for user in self._nodes[start + length * part : start + length * (part + 1)]
                for node in user.all_input_nodes
                if node.op == "placeholder"
            ]
            for part in range(-1, count + 2)
        ]
        first = parts[0]
        places = [place for place, node in enumerate(first) if parts[1][place] is not node]
        shared = [place for place, node in enumerate(first) if parts[1][place] is node]
        kinds = len(set(first))
        found: list[tuple[str, ...]] = []
        seen: set[torch.fx.Node] = set()
        for number, part in enumerate(parts, -1):
            if len(part) != len(first) or len(set(part)) != kinds:
                return None
            if len(set(zip(first, part, strict=True))) != kinds:
                return None
            if any(part[place] is not first[place] for place in shared):
                return None
            own = dict.fromkeys(part[place] for place in places)
            begin = start + length * number
            if not seen.isdisjoint(own) or not all(
                begin <= self._number[user] < begin + length for node in own for user in node.users
            ):
                return None
            seen |= own.keys()
            found.append(tuple(self._lowering.input_names[node] for node in own))
        return found[1:]

    def _write(self, inputs: Sequence[str], left_out: Sequence[Sequence[str]]) -> None:
        """Parts that are left out write to their inputs as this one does."""
        changed, bumps = self._lowering.changed, self._lowering.bumps
        for place, name in enumerate(inputs):
            others = [part[place] for part in left_out]
            if name in changed:
                changed.update(others)
            if name in bumps:
                bumps.update(dict.fromkeys(others, bumps[name]))

    def _count_native(self, first: _Mark, last: _Mark, count: int) -> None:
        native = self._lowering.native
        for name, number in last.native.items():
            native[name] += count * (number - first.native.get(name, 0))

    def _let_go(self, position: int, length: int, near: int) -> None:
        """Nodes that are left out have used what they use; the last of them are what the nodes
        before them are."""
        env, uses = self._env, self._uses
        nodes = self._nodes
        moved = [node for node in env if position - self._number[node] <= near]
        moved = [node for node in moved if node.op != "placeholder"]
        for node in moved:
            later = nodes[self._number[node] + length]
            env[later], uses[later] = env.pop(node), uses[node]
        for node in nodes[position : position + length]:
            for each in node.all_input_nodes:
                if each.op == "placeholder" or self._number[each] < position - near:
                    uses[each] -= 1
                    if not uses[each]:
                        env.pop(each, None)

    def _found_next(self) -> None:
        """The part behind those that were left out has been lowered."""
        assert self.elided_repeats is not None
        lowering, elided_repeats = self._lowering, self.elided_repeats
        elided_repeats.end = len(lowering.steps)
        elided_repeats.made_behind = tuple(islice(lowering.held, self._held, None))
