"""Where a kernel's values stand: at which level of the loops, in all lanes or one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from anyshape.codegen.ir_builder import REGISTER, FunctionBody, vector
from anyshape.codegen.llvm.plan import KernelPlan
from anyshape.codegen.target import Machine
from anyshape.loops.expr import Dtype, Scalar
from anyshape.loops.linear import coefficient
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import Atom, of_atom, symbols_of

#: (level, whether the lanes differ)
Traits = tuple[int, bool]


States = list[str]

#: What the function of a part of a kernel is given.
PARAMETERS: Final = (
    "ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch, i64 %lo, i64 %hi, i64 %thread, i64 %team"
)


@dataclass(frozen=True, slots=True)
class IrValue:
    """A register or a literal. `wide`: one for each lane; else the same for all of them."""

    text: str
    dtype: Dtype
    wide: bool


@dataclass(slots=True)
class Level:
    """The straight code at the beginning of a loop's body, and what it has computed."""

    lines: list[Any] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Loop:
    """An axis whose loop is open: its level, its variable and where that ends."""

    level: int
    variable: str
    extent: Size
    #: of each vector of a round, where they are not one behind the other
    places: tuple[str, ...] = ()


@dataclass(slots=True)
class StageScope:
    """What holds while one stage is written."""

    level: int
    #: where loads may stand: not above the test that the stage runs at all
    loads_from: int
    #: buffers that this stage writes: they are read where they are used
    written: frozenset[str]
    traits: dict[Scalar, Traits] = field(default_factory=dict)


class Emitter(FunctionBody):
    """The code of one kernel in the making, with places further up where invariant code goes.

    Loops nest in levels. Code that does not depend on a loop's variable is written to the level
    around it, which is emitted before the loop: what LLVM need not hoist it need not analyse.
    """

    separator = ""

    def __init__(
        self, plan: KernelPlan, machine: Machine, compute: Callable[[Emitter, Scalar], IrValue]
    ) -> None:
        super().__init__()
        self._compute = compute
        self.lanes = plan.lanes
        self.levels: list[Level] = []
        #: the label of the block that is being written
        self.here = "%entry"
        self.plan = plan
        self.kernel = plan.kernel
        self.machine = machine
        self.positions: Mapping[Symbol, Scalar] = plan.kernel.positions
        self.loops: dict[Symbol, Loop] = {}
        #: the axis that vectors run along in the code being written; None: there are no vectors
        self.vector_axis: Symbol | None = None
        #: which of several vectors of a round is being written
        self.copy = 0
        #: whether they are of several rounds of a loop, and not side by side
        self.takes_rounds = False
        #: for each vector of a round where some lanes may be missing: those that exist
        self.masks: tuple[str, ...] = ()
        #: how many they are
        self.counts: tuple[str, ...] = ()
        #: atoms of sizes that are at hand for each lane, by their number and the vector
        self.lane_atoms: dict[tuple[int, int], str] = {}
        #: scalars that are in registers already, by the vector
        self.at_hand: dict[tuple[Scalar, int], IrValue] = {}
        self.rows: dict[tuple[str, int], IrValue] = {}
        #: where the results of stages are at hand, if not at the level of the stage
        self.row_levels: dict[str, int] = {}
        #: private buffers that are in registers: at which level, and each vector of a round
        self.held: dict[str, tuple[int, list[IrValue]]] = {}
        #: whether stages find what earlier ones have read
        self.holds_rows = False
        #: where stages have read what later ones need as well
        self.load_levels: dict[Scalar, int] = {}
        self.stage = StageScope(0, 0, frozenset())
        #: where loads of stages without axes of their own may stand
        self.loads_from = 0
        #: (function, dtype, lanes) of vector_math
        self.functions: set[tuple[str, str, int]] = set()
        #: functions that are called for several vectors at once: (name, dtype, arity, vectors)
        self.together: set[tuple[str, str, int, int]] = set()
        #: of the kernel
        self.name = ""
        #: whether vectors in memory begin at multiples of their size
        self.is_aligned = False
        #: the same of private memory, where the others do
        self.aligns_private = True
        #: whether the memory itself adds what several rounds add to one element
        self.is_atomic = False
        #: of sizes
        self.index_bits = 64
        #: comparisons that come out alike for all lanes of a vector
        self.uniform: frozenset[Scalar] = frozenset()

    @property
    def mask(self) -> str | None:
        """The lanes that exist; None: all."""
        return self.masks[self.copy] if self.masks else None

    def alignment(self, width: int) -> int:
        """Of a whole vector of elements of so many bytes."""
        return width * self.lanes if self.is_aligned else width

    # -- types ---------------------------------------------------------------------------------

    def type_of(self, dtype: str, wide: bool) -> str:
        return vector(REGISTER[dtype], self.lanes if wide else 0)

    def lanes_if(self, wide: bool) -> int:
        return self.lanes if wide else 0

    def copy_if(self, wide: bool) -> int:
        return self.copy if wide or self.takes_rounds else -1

    def widen(self, value: IrValue) -> str:
        """The text of the value in all lanes."""
        return value.text if value.wide else self.splat(REGISTER[value.dtype], value.text)

    def first_lane(self, value: IrValue) -> str:
        """The text of the value in the first lane."""
        if not value.wide:
            return value.text
        return self.let(f"extractelement {self.type_of(value.dtype, True)} {value.text}, i64 0")

    def splat(self, element: str, text: str) -> str:
        """The value in all lanes."""
        if not text.startswith("%"):
            return f"splat ({element} {text})"
        wide = vector(element, self.lanes)
        first = self.let(f"insertelement {wide} poison, {element} {text}, i64 0")
        return self.let(
            f"shufflevector {wide} {first}, {wide} poison, <{self.lanes} x i32> zeroinitializer"
        )

    def select(self, truth: str, condition: str, type_: str, yes: str, no: str) -> str:
        """`truth`: the type of the condition, one or a vector."""
        if type_ != "<4 x i8>" or self.machine.selects_bytes:
            return self.let(f"select {truth} {condition}, {type_} {yes}, {type_} {no}")
        wider = "<4 x i16>"
        yes, no = (self.let(f"zext {type_} {each} to {wider}") for each in (yes, no))
        chosen = self.let(f"select {truth} {condition}, {wider} {yes}, {wider} {no}")
        return self.let(f"trunc {wider} {chosen} to {type_}")

    def slot(self, type_: str, count: int = 1) -> str:
        """Memory on the stack, for the whole call."""
        return self.let_at_start(f"alloca {type_}, i64 {count}, align 64")

    # -- where things stand --------------------------------------------------------------------

    def traits_of_size(self, size: Size) -> Traits:
        return _join(map(self.traits_of_symbol, symbols_of(size)))

    def traits_of_atom(self, atom: Atom) -> Traits:
        if isinstance(atom, Symbol):
            return self.traits_of_symbol(atom)
        return _join(map(self.traits_of_symbol, of_atom(atom).symbols))

    def traits_of_symbol(self, symbol: Symbol) -> Traits:
        loop = self.loops.get(symbol)
        if loop is not None:
            return loop.level, symbol is self.vector_axis
        position = self.positions.get(symbol)
        return (0, False) if position is None else self.traits(position)

    def traits(self, scalar: Scalar) -> Traits:
        known = self.stage.traits
        # Not by recursion: chains are long, and the stack of Python is the program's.
        waiting = [scalar]
        while scalar not in known:
            last = waiting[-1]
            missing = next((arg for arg in last.args if arg not in known), None)
            if missing is None:
                known[last] = self._traits(waiting.pop())
            else:
                waiting.append(missing)
        return known[scalar]

    def _traits(self, scalar: Scalar) -> Traits:
        level, wide = _join(map(self.traits, scalar.args))
        match scalar.op:
            case "index":
                return self.traits_of_size(scalar.data)
            case "row":
                level = self.row_levels.get(scalar.data, self.stage.level)
                return level, self.plan.column is not None
            case "load":
                buffer, address = scalar.data
                if buffer in self.held:
                    return self.held[buffer][0], True
                own, differs = self.traits_of_size(address)
                own = max(own, self.stage.loads_from)
                if self.vector_axis is not None and self.holds_rows:
                    own = self.load_levels.setdefault(scalar, own)
                if buffer in self.stage.written:
                    own = len(self.levels) - 1
                elif buffer in self.plan.written:
                    own = max(own, self.stage.level)
                private = buffer in self.kernel.private and self.plan.column is not None
                return max(level, own), wide or differs or private
            case _:
                return level, wide and scalar not in self.uniform

    def steady_parts(self, size: Size) -> tuple[Size, Size] | None:
        """(step, rest) of a size that grows by the same step from lane to lane, else None."""
        if self.vector_axis is None:
            return None
        parts = coefficient(size, self.vector_axis)
        if parts is None or any(self.traits_of_size(part)[1] for part in parts):
            return None
        return parts

    # -- symbols -------------------------------------------------------------------------------

    def symbol(self, symbol: Symbol) -> str:
        """Its value in the first lane."""
        loop = self.loops.get(symbol)
        if loop is not None:
            if loop.places:
                return loop.places[self.copy]
            if symbol is not self.vector_axis or self.copy == 0:
                return loop.variable
            key = ("copy", symbol, self.copy)
            offset = self.copy * self.lanes
            return self.once(
                loop.level, key, lambda: self.let(f"add nuw nsw i64 {loop.variable}, {offset}")
            )
        if symbol in self.positions:
            return self.position(symbol)
        return self.once(0, symbol, lambda: self._size(symbol))

    def position(self, symbol: Symbol) -> str:
        value = self.value(self.positions[symbol])
        if not value.wide:
            return value.text
        level, _ = self.traits(self.positions[symbol])
        type_ = self.type_of("i64", True)
        return self.once(
            level,
            ("first", symbol, self.copy),
            lambda: self.let(f"extractelement {type_} {value.text}, i64 0"),
        )

    def _size(self, symbol: Symbol) -> str:
        number = int(symbol.name.removeprefix("n"))
        place = self.let(f"getelementptr i64, ptr %sizes, i64 {number}")
        if self.index_bits == 64:
            return self.let(f"load i64, ptr {place}, align 8, !invariant.load !0")
        low = self.let(f"load i32, ptr {place}, align 8, !invariant.load !0")
        return self.let(f"zext i32 {low} to i64")

    # -- values --------------------------------------------------------------------------------

    def value(self, scalar: Scalar) -> IrValue:
        """The scalar in registers, computed at the level that it belongs to."""
        # Not by recursion, as in `traits`. A load has its say about what it needs.
        waiting = [scalar]
        while True:
            last = waiting[-1]
            args = () if last.op == "load" or self._at_hand(last) else last.args
            missing = next((arg for arg in args if not self._at_hand(arg)), None)
            if missing is not None:
                waiting.append(missing)
                continue
            found = self._value(waiting.pop())
            if not waiting:
                return found

    def _at_hand(self, scalar: Scalar) -> IrValue | None:
        found = self.at_hand.get((scalar, self.copy))
        if found is not None:
            return found
        level, wide = self.traits(scalar)
        if scalar.op == "row":
            # All rounds of a column have the same.
            own = 0 if self.takes_rounds else self.copy
            return self.rows[scalar.data, own if wide else -1]
        return self.levels[level].known.get((scalar, self.copy_if(wide)))

    def _value(self, scalar: Scalar) -> IrValue:
        found = self._at_hand(scalar)
        if found is not None:
            return found
        level, wide = self.traits(scalar)
        return self.once(level, (scalar, self.copy_if(wide)), lambda: self._compute(self, scalar))

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
        self.blocks.append(f"{label[1:]}:")
        self.here = label

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
        before, header, after = self.here, self.new("L"), self.new("L")
        self.branch(f"br label {header}")
        self.block(header)
        heads: list[str] = []
        self.blocks.append(heads)
        variable, inside = self.new(), [self.new() for _ in states]
        self.enter()
        results = body(variable, inside)
        self._lines = self.blocks
        following = self.let(f"add nuw nsw i64 {variable}, {step}")
        again = self.let(f"icmp slt i64 {following}, {end}")
        self.branch(f"br i1 {again}, label {header}, label {after}")
        heads.append(f"  {variable} = phi i64 [ {begin}, {before} ], [ {following}, {self.here} ]")
        for name, type_, first, result in zip(inside, types, states, results, strict=True):
            heads.append(f"  {name} = phi {type_} [ {first}, {before} ], [ {result}, {self.here} ]")
        self.leave()
        self.block(after)
        return results

    def repeat(
        self, states: States, types: list[str], body: Callable[[States], tuple[States, str]]
    ) -> States:
        """`do { } while`: the body gives the states of the next round, and whether there is one.
        Its code is a level. Gives the states after the last one."""
        before, header, after = self.here, self.new("L"), self.new("L")
        self.branch(f"br label {header}")
        self.block(header)
        heads: list[str] = []
        self.blocks.append(heads)
        inside = [self.new() for _ in states]
        self.enter()
        results, again = body(inside)
        self.branch(f"br i1 {again}, label {header}, label {after}")
        for name, type_, first, result in zip(inside, types, states, results, strict=True):
            heads.append(f"  {name} = phi {type_} [ {first}, {before} ], [ {result}, {self.here} ]")
        self.leave()
        self.block(after)
        return results

    def when(
        self, condition: str, states: States, types: list[str], body: Callable[[], States]
    ) -> States:
        """The states that the body gives where the condition holds, else those before. The body's
        code is a level."""
        before, inside, after = self.here, self.new("L"), self.new("L")
        self.branch(f"br i1 {condition}, label {inside}, label {after}")
        self.block(inside)
        self.enter()
        results = body()
        end = self.here
        self.branch(f"br label {after}")
        self.leave()
        self.block(after)
        heads: list[str] = []
        self.blocks.append(heads)
        joined = [self.new() for _ in states]
        for name, type_, first, result in zip(joined, types, states, results, strict=True):
            heads.append(f"  {name} = phi {type_} [ {first}, {before} ], [ {result}, {end} ]")
        return joined

    def run_if(self, condition: str, body: Callable[[], object]) -> None:
        """Code, a level of its own, for where the condition holds."""

        def inside() -> States:
            body()
            return []

        self.when(condition, [], [], inside)

    def part(self, name: str, linkage: str) -> str:
        """The function of a part of the kernel, whose body this is."""
        head = f"define {linkage} i32 @{name}.part({PARAMETERS}) nounwind {{"
        return "\n".join([head, "entry:", self.text(), "}"])


def _join(traits: Iterable[Traits]) -> Traits:
    level, wide = 0, False
    for own, differs in traits:
        level = max(level, own)
        wide = wide or differs
    return level, wide
