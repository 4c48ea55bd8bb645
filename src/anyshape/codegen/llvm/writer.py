"""Text of one function, with places further up where invariant code goes.

Loops nest in levels. Code that does not depend on a loop's variable is written to the level around
it, which is emitted before the loop: what LLVM need not hoist it need not analyse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyshape.codegen.llvm.types import vector
from anyshape.support.lazy_dataclass import dataclass, field

States = list[str]


@dataclass(slots=True)
class Level:
    """The straight code at the beginning of a loop's body, and what it has computed."""

    lines: list[Any] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict)


class Writer:
    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.blocks: list[Any] = []
        self.levels: list[Level] = []
        self._lines: list[Any] = self.blocks
        self._count = 0
        #: of the block that is being written
        self.label = "entry"

    # -- lines ---------------------------------------------------------------------------------

    def fresh(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def define(self, expression: str) -> str:
        name = self.fresh()
        self._lines.append(f"  {name} = {expression}")
        return name

    def do(self, line: str) -> None:
        self._lines.append(f"  {line}")

    def text(self) -> str:
        lines: list[str] = []
        _flatten(self.blocks, lines)
        return "\n".join(lines)

    # -- levels --------------------------------------------------------------------------------

    def enter(self) -> int:
        """A level inside the last one; its number."""
        level = Level()
        self.levels.append(level)
        self.blocks.append(level.lines)
        self._lines = level.lines
        return len(self.levels) - 1

    def leave(self) -> None:
        """What follows is written behind the level, not into the one that precedes it."""
        self.levels.pop()
        self._lines = self.blocks

    def once(self, level: int, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, written at that level the first time that it is asked for."""
        known = self.levels[level].known
        if key not in known:
            kept, self._lines = self._lines, self.levels[level].lines
            known[key] = make()
            self._lines = kept
        return known[key]

    # -- control flow: it stands in `blocks`, never in a level ------------------------------------

    def block(self, label: str) -> None:
        self.blocks.append(f"{label}:")
        self.label = label

    def new_label(self) -> str:
        self._count += 1
        return f"L{self._count}"

    def branch(self, line: str) -> None:
        self.blocks.append(f"  {line}")

    def loop(
        self,
        bounds: tuple[str, str, str],
        states: States,
        types: list[str],
        body: Callable[[str, States], States],
    ) -> States:
        """`do { } while`: for a variable from `begin` by `step` while it is below `end`; the first
        round runs in any case. The body's code is a level. Gives the states after the last one."""
        begin, end, step = bounds
        before, header, after = self.label, self.new_label(), self.new_label()
        self.branch(f"br label %{header}")
        self.block(header)
        heads: list[str] = []
        self.blocks.append(heads)
        variable, inside = self.fresh(), [self.fresh() for _ in states]
        self.enter()
        results = body(variable, inside)
        self._lines = self.blocks
        following = self.define(f"add nuw nsw i64 {variable}, {step}")
        again = self.define(f"icmp slt i64 {following}, {end}")
        self.branch(f"br i1 {again}, label %{header}, label %{after}")
        heads.append(
            f"  {variable} = phi i64 [ {begin}, %{before} ], [ {following}, %{self.label} ]"
        )
        for name, type_, first, result in zip(inside, types, states, results, strict=True):
            heads.append(
                f"  {name} = phi {type_} [ {first}, %{before} ], [ {result}, %{self.label} ]"
            )
        self.leave()
        self.block(after)
        return results

    def when(
        self, condition: str, states: States, types: list[str], body: Callable[[], States]
    ) -> States:
        """The states that the body gives where the condition holds, else those before. The body's
        code is a level."""
        before, inside, after = self.label, self.new_label(), self.new_label()
        self.branch(f"br i1 {condition}, label %{inside}, label %{after}")
        self.block(inside)
        self.enter()
        results = body()
        end = self.label
        self.branch(f"br label %{after}")
        self.leave()
        self.block(after)
        heads: list[str] = []
        self.blocks.append(heads)
        joined = [self.fresh() for _ in states]
        for name, type_, first, result in zip(joined, types, states, results, strict=True):
            heads.append(f"  {name} = phi {type_} [ {first}, %{before} ], [ {result}, %{end} ]")
        return joined

    # -- values of all lanes -------------------------------------------------------------------

    def splat(self, element: str, text: str) -> str:
        """The value in all lanes."""
        if not text.startswith("%"):
            return f"splat ({element} {text})"
        wide = vector(element, self.lanes)
        first = self.define(f"insertelement {wide} poison, {element} {text}, i64 0")
        return self.define(
            f"shufflevector {wide} {first}, {wide} poison, <{self.lanes} x i32> zeroinitializer"
        )


def _flatten(blocks: list[Any], lines: list[str]) -> None:
    for item in blocks:
        if isinstance(item, str):
            lines.append(item)
        else:
            _flatten(item, lines)
