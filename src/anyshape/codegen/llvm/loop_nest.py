"""A stage: its loops, the rounds of the innermost one, and what becomes of its folds."""

from __future__ import annotations

from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.cooperative_reduce import StageFolds, ThreadTeam, foldings_of
from anyshape.codegen.llvm.emitter import Emitter, IrValue, Loop, StageScope, States
from anyshape.codegen.llvm.interleave import compute_together
from anyshape.codegen.llvm.memory import store
from anyshape.codegen.llvm.plan import LONG, can_be_shared
from anyshape.codegen.llvm.prefetch import emit_prefetch, prefetchable_loads
from anyshape.codegen.llvm.reductions import FLUSH, Scanning
from anyshape.codegen.llvm.sizes import narrow_size, wide_size
from anyshape.loops.expr import Axis
from anyshape.loops.kernels import Stage
from anyshape.loops.vector_axis import scalars_of
from anyshape.symbolic import Size
from anyshape.symbolic.bounds import DECLARED
from anyshape.symbolic.expr import of_atom, terms_of


class StageCode:
    """The code of one stage in the making. States that leave the innermost loop are in a flat list:
    for each copy (one, with vectors along the stage's own axis) those of each fold."""

    #: who shares the rounds of the stage
    team = ThreadTeam()

    def __init__(self, e: Emitter, number: int, copies: int) -> None:
        self.e = e
        self.number = number
        self.stage: Stage = e.kernel.stages[number]
        self.in_columns = e.plan.column is not None
        #: vectors of a round
        self.copies = copies
        #: sets of states that leave the loops
        self.kept = copies if self.in_columns else 1
        self.foldings = foldings_of(self.stage)
        self.ahead = prefetchable_loads(e, number)
        #: of states: a stage without vectors has single numbers
        self.lanes = e.lanes if self.in_columns or self.stage.axes else 0
        carry_lanes = e.lanes if self.in_columns else 0
        self.scannings = [Scanning(scan, carry_lanes) for scan in self.stage.scans]
        self.types = [t for f in self.foldings for t in f.types(self.lanes)] * self.kept
        self.carry_types = [s.type for s in self.scannings] * self.kept

    # -- the whole stage -----------------------------------------------------------------------

    def write(self, is_last: bool) -> None:
        e, stage = self.e, self.stage
        written = frozenset(part.buffer for part in (*stage.stores, *stage.scans))
        states = [s for f in self.foldings for s in f.start(self.lanes)] * self.kept
        if stage.axes:
            begin, end = self.team.thread_slice(e, self.number, stage.axes[0], can_be_shared(stage))
            conditions = [e.let(f"icmp slt i64 {begin}, {end}")]
            for axis in stage.axes[1:]:
                extent = narrow_size(e, axis.extent)
                conditions.append(e.let(f"icmp sgt i64 {extent}, 0"))
            some = conditions[0]
            for condition in conditions[1:]:
                some = e.let(f"and i1 {some}, {condition}")
            states = e.when(
                some, states, self.types, lambda: self._loops((begin, end), states, written)
            )
        else:
            states = self._once(states, written)
        if not self.in_columns and stage.axes:
            states = self._across(states)
        result_lanes = e.lanes if self.in_columns else 0
        folds = StageFolds(self.foldings, result_lanes, self.kept, is_last)
        self._finish(self.team.reduce(e, folds, states))

    def _loops(self, bounds: tuple[str, str], states: States, written: frozenset[str]) -> States:
        level = len(self.e.levels) - 1
        self.e.stage = StageScope(level, level, written)
        return self._nest(list(self.stage.axes), bounds, states)

    def _once(self, states: States, written: frozenset[str]) -> States:
        """A stage without axes of its own: one round."""
        e = self.e
        level = e.enter()
        e.stage = StageScope(level, e.loads_from, written)
        firsts = [s for f in self.foldings for s in f.first_start(self.lanes)] * self.kept
        carries = [s.start for s in self.scannings] * self.kept
        firsts = self._fold_round(firsts)
        states = self._flush(states, firsts)
        e.leave()
        if self.foldings and self._has_effects():
            self.team.barrier(e)
        if self._has_effects():
            self.team.leader_only(e, lambda: self._effects_once(carries, written))
        return states

    def _side_by_side(self) -> None:
        """Long bodies of several vectors, step by step."""
        e = self.e
        if self.copies == 1 or e.plan.costs[self.number] < LONG:
            return
        needed = sorted(scalars_of(e.kernel, self.stage), key=lambda scalar: scalar.order)
        if any(scalar.op == "load" and scalar.data[0] in e.stage.written for scalar in needed):
            return
        compute_together(e, needed, self.copies)

    def _has_effects(self) -> bool:
        return bool(self.stage.stores or self.stage.scans or self.stage.checks)

    def _effects_once(self, carries: States, written: frozenset[str]) -> None:
        e = self.e
        e.stage = StageScope(len(e.levels) - 1, e.loads_from, written)
        self._side_by_side()
        for copy in range(self.copies):
            e.copy = copy
            self._act(carries[: len(self.scannings)])
        e.copy = 0

    def _across(self, states: States) -> States:
        results: States = []
        for folding, own in zip(self.foldings, self._by_fold(states), strict=True):
            results += folding.across(self.e, own)
        return results

    def _finish(self, states: States) -> None:
        e = self.e
        count = len(states) // self.kept
        for copy in range(self.kept):
            own = states[copy * count : (copy + 1) * count]
            for fold, folding, parts in zip(
                self.stage.folds, self.foldings, self._by_fold(own), strict=True
            ):
                key = copy if self.in_columns else -1
                e.rows[fold.name, key] = folding.finish(e, parts, self.in_columns)

    def _by_fold(self, states: States) -> list[States]:
        """The states of one copy, fold by fold."""
        result: list[States] = []
        for folding in self.foldings:
            count = len(folding.dtypes)
            result.append(states[:count])
            states = states[count:]
        return result

    # -- loops ---------------------------------------------------------------------------------

    def _nest(self, axes: list[Axis], bounds: tuple[str, str], states: States) -> States:
        e, axis = self.e, axes[0]
        if len(axes) == 1:
            return (
                self._columns(axis, bounds, states)
                if self.in_columns
                else self._rows(axis, bounds, states)
            )

        def body(variable: str, inside: States) -> States:
            self._open(axis, variable)
            inner = ("0", narrow_size(e, axes[1].extent))
            return self._nest(axes[1:], inner, inside)

        return e.loop((*bounds, "1"), states, self.types, body)

    def _open(self, axis: Axis, variable: str) -> None:
        self.e.loops[axis.symbol] = Loop(len(self.e.levels) - 1, variable, axis.extent)
        self.e.stage.traits.clear()

    def _columns(self, axis: Axis, bounds: tuple[str, str], states: States) -> States:
        carries = [s.start for s in self.scannings] * self.kept
        return self._span(axis, bounds, 1, states + carries)[: len(self.types)]

    def _rows(self, axis: Axis, bounds: tuple[str, str], states: States) -> States:
        """Vectors along the axis: full ones, then those of which lanes are missing."""
        e, (begin, end) = self.e, bounds
        e.vector_axis = axis.symbol
        step = e.lanes * self.copies
        is_whole = divides(step, axis.extent)
        both = states + [s.start for s in self.scannings]
        if is_whole or (self.copies == 1 and has_one_loop(e, self.number)):
            both = self._span(axis, bounds, step, both, not is_whole)
        else:
            both = self._rows_with_rest(axis, begin, end, step, both)
        e.vector_axis = None
        return both[: len(self.types)]

    def _rows_with_rest(self, axis: Axis, begin: str, end: str, step: int, both: States) -> States:
        e = self.e
        length = end if begin == "0" else e.let(f"sub i64 {end}, {begin}")
        whole = e.let(f"and i64 {length}, {-step}")
        full = whole if begin == "0" else e.let(f"add i64 {begin}, {whole}")
        types = self.types + self.carry_types
        some = e.let(f"icmp ne i64 {whole}, 0")
        main = e.when(some, both, types, lambda: self._span(axis, (begin, full), step, both))

        def tail() -> States:
            copies, self.copies = self.copies, 1
            masked = not divides(e.lanes, axis.extent)
            result = self._inner(axis, (full, end), e.lanes, main, masked)
            self.copies = copies
            return result

        rest = e.let(f"icmp slt i64 {full}, {end}")
        return e.when(rest, main, types, tail)

    def _span(
        self, axis: Axis, bounds: tuple[str, str], step: int, both: States, masked: bool = False
    ) -> States:
        """The innermost loop over a range of its axis; in pieces where a fold is to be flushed.
        `both`: the states of folds, then the carries of scans."""
        most = DECLARED.of(axis.extent).upper
        is_short = most is not None and most <= FLUSH * step
        if is_short or not any(f.cascades for f in self.foldings):
            return self._inner(axis, bounds, step, both, masked)
        e, (begin, end) = self.e, bounds

        def piece(variable: str, inside: States) -> States:
            far = e.let(f"add nuw nsw i64 {variable}, {FLUSH * step}")
            near = e.let(f"icmp slt i64 {far}, {end}")
            stop = e.let(f"select i1 {near}, i64 {far}, i64 {end}")
            return self._inner(axis, (variable, stop), step, inside, masked)

        types = self.types + self.carry_types
        return e.loop((begin, end, str(FLUSH * step)), both, types, piece)

    def _inner(
        self, axis: Axis, bounds: tuple[str, str], step: int | str, both: States, masked: bool
    ) -> States:
        e = self.e
        states, carries = both[: len(self.types)], both[len(self.types) :]
        firsts = [s for f in self.foldings for s in f.first_start(self.lanes)] * self.copies
        first_types = [t for f in self.foldings for t in f.first_types(self.lanes)] * self.copies
        count = len(firsts)

        def body(variable: str, inside: States) -> States:
            self._open(axis, variable)
            if masked:
                set_masks(e, variable, bounds[1], self.copies)
            results = self._round(inside[:count], inside[count:])
            if masked:
                e.masks = ()
            else:
                emit_prefetch(e, self.number, self.ahead, self.copies)
            return results

        types = first_types + self.carry_types
        made = e.loop((*bounds, str(step)), firsts + carries, types, body)
        return self._flush(states, made[:count]) + made[count:]

    def _flush(self, states: States, firsts: States) -> States:
        """The first accumulators into those that outlive the loop."""
        e = self.e
        parts = [len(f.first_dtypes) for f in self.foldings]
        results: States = []
        for copy in range(self.kept):
            mine = self._by_fold(states[copy * len(states) // self.kept :])
            for number, (folding, own) in enumerate(zip(self.foldings, mine, strict=True)):
                sets: list[States] = []
                for other in range(self.copies):
                    at = other * sum(parts) + sum(parts[:number])
                    sets.append(firsts[at : at + parts[number]])
                if self.kept > 1:
                    sets = [sets[copy]]
                while len(sets) > 1:
                    sets = [
                        folding.merge_first(e, a, b, self.lanes)
                        for a, b in zip(sets[::2], sets[1::2], strict=True)
                    ]
                results += folding.flush(e, own, sets[0], self.lanes)
        return results

    # -- one round -----------------------------------------------------------------------------

    def _round(self, firsts: States, carries: States) -> States:
        firsts = self._fold_round(firsts)
        after: States = []
        width = len(self.scannings)
        for copy in range(self.copies):
            self.e.copy = copy
            after += self._act(carries[copy * width : (copy + 1) * width])
        self.e.copy = 0
        return firsts + after

    def _fold_round(self, firsts: States) -> States:
        e = self.e
        results: States = []
        for copy in range(self.copies):
            e.copy = copy
            for fold, folding in zip(self.stage.folds, self.foldings, strict=True):
                count = len(folding.first_dtypes)
                own, firsts = firsts[:count], firsts[count:]
                value = e.value(fold.value)
                text = e.widen(value) if self.lanes else value.text
                text = cast(e, text, value.dtype, folding.dtype, bool(self.lanes))
                position = ""
                if folding.has_position:
                    size = row_position(self.stage.axes)
                    position = wide_size(e, size) if self.lanes else narrow_size(e, size)
                results += folding.update(e, own, text, position, self.lanes)
        e.copy = 0
        return results

    def _act(self, carries: States) -> States:
        """Checks, scans and stores of one vector; all that is read is read before."""
        e, stage = self.e, self.stage
        conditions = [e.value(check.condition) for check in stage.checks]
        values = [e.value(part.value) for part in stage.stores]
        masks = [None if part.mask is None else e.value(part.mask) for part in stage.stores]
        inputs = [e.value(scan.value) for scan in stage.scans]
        first = sum(len(other.checks) for other in e.kernel.stages[: self.number])
        for number, condition in enumerate(conditions):
            check_vector(e, first + number, condition)
        after = self._scan(carries, inputs)
        for part, value, mask in zip(stage.stores, values, masks, strict=True):
            store(e, part.buffer, part.address, value, part.mode, mask)
        return after

    def _scan(self, carries: States, inputs: list[IrValue]) -> States:
        """The running folds of one vector, stored; the carries behind it."""
        after: States = []
        for scanning, carry, value in zip(self.scannings, carries, inputs, strict=True):
            carry, result = scanning.step(self.e, carry, value)
            after.append(carry)
            store(self.e, scanning.scan.buffer, scanning.scan.address, result, "set", None)
        return after


def has_one_loop(e: Emitter, *stages: int) -> bool:
    """Whether all vectors are masked: where that costs nothing beside the rest, and the rest is
    not to be compiled twice."""
    return e.machine.masks_freely and sum(e.plan.costs[number] for number in stages) >= LONG


def divides(unit: int, extent: Size) -> bool:
    """Then threads, too, have whole units."""
    return all(number % unit == 0 for _, number in terms_of(extent))


def set_masks(e: Emitter, variable: str, end: str, copies: int) -> None:
    """The lanes before the end exist."""
    rest = e.let(f"sub i64 {end}, {variable}")
    numbers = ", ".join(f"i32 {lane}" for lane in range(e.lanes))
    masks: list[str] = []
    counts: list[str] = []
    for copy in range(copies):
        if copy:
            rest = e.let(f"call i64 @llvm.usub.sat.i64(i64 {rest}, i64 {e.lanes})")
        count = e.let(f"call i64 @llvm.umin.i64(i64 {rest}, i64 {e.lanes})")
        few = e.splat("i32", e.let(f"trunc i64 {count} to i32"))
        masks.append(e.let(f"icmp ult <{e.lanes} x i32> <{numbers}>, {few}"))
        counts.append(count)
    e.masks, e.counts = tuple(masks), tuple(counts)


def check_vector(e: Emitter, number: int, condition: IrValue) -> None:
    """Remember that a condition failed in some lane that exists."""
    if condition.wide:
        truth = f"<{e.lanes} x i1>"
        bad = e.let(f"xor {truth} {condition.text}, splat (i1 true)")
        if e.mask is not None:
            bad = e.let(f"and {truth} {bad}, {e.mask}")
        bad = e.let(f"call i1 @llvm.vector.reduce.or.v{e.lanes}i1({truth} {bad})")
    else:
        bad = e.let(f"xor i1 {condition.text}, true")
    slot = check_slot(e, number)
    before = e.let(f"load i8, ptr {slot}, align 1")
    after = e.let(f"or i8 {before}, {e.let(f'zext i1 {bad} to i8')}")
    e.do(f"store i8 {after}, ptr {slot}, align 1")


def check_slot(e: Emitter, number: int) -> str:
    """A byte that is 1 if the check failed."""

    def make() -> str:
        slot = e.slot("i8")
        e.at_start(f"store i8 0, ptr {slot}, align 1")
        return slot

    return e.once(0, ("check", number), make)


def row_position(axes: tuple[Axis, ...]) -> Size:
    """Counted over all axes."""
    total: Size = 0
    for axis in axes:
        total = total * axis.extent + of_atom(axis.symbol)
    return total
