"""Rows that are short enough for the registers of the threads that share them.

Each thread takes the same few vectors of the row in every stage. What one stage has read or
computed, the next ones find where it is: memory is read once, nothing goes through shared memory
but what is folded. The number of vectors is fixed when the code is made; a thread may be without
some of them, but for those that threads have of every row that this code is for.

Stages are levels one in another (see `Emitter`), so that what an earlier one has is at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from anyshape.codegen.llvm.casts import cast
from anyshape.codegen.llvm.cooperative_reduce import StageFolds
from anyshape.codegen.llvm.emitter import Emitter, IrValue, Loop, StageScope, States
from anyshape.codegen.llvm.loop_nest import StageCode, check_vector, row_position
from anyshape.codegen.llvm.memory import store
from anyshape.codegen.llvm.sizes import narrow_size, wide_size
from anyshape.codegen.nvptx.block_reduce import BlockTeam
from anyshape.codegen.nvptx.choice import WARP, GpuChoice
from anyshape.loops.expr import WIDTH, Scalar
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.loops.stages import mapped, roots_of
from anyshape.loops.substitute import Rewriting
from anyshape.loops.vector_axis import accesses, scalars_of
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size
from anyshape.symbolic.expr import of_atom

# -- whether -------------------------------------------------------------------------------------


def elements_held(kernel: Kernel, choice: GpuChoice) -> int:
    """How many elements of a row a thread has room for; 0 if rows are not for registers."""
    if not _can_be_held(kernel):
        return 0
    return choice.for_stages // max(1, _across_stages(kernel))


def sure_elements(each: int, shorter: int) -> int:
    """How many elements each thread has at least of a row that is longer than `shorter`, whose
    threads have `each` at most: they are as few warps as that takes."""
    warps = shorter // (WARP * each) + 1
    # With these warps, and with one more, which have the least of all that are more.
    fewest = max(shorter // (WARP * warps), each * (warps - 1) // warps)
    return min(fewest, each * warps // (warps + 1))


def forwarded(kernel: Kernel) -> Kernel:
    """The kernel with what an earlier stage has stored in place of loads of it: a sum that is a
    result, and normalized beside."""
    counts = Counter(part.buffer for stage in kernel.stages for part in stage.stores)
    stored: dict[tuple[str, Size], Scalar] = {}
    stages: list[Stage] = []
    for stage in kernel.stages:
        made = mapped(stage, Rewriting(lambda s: _forwarded(s, stored)))
        stages.append(made)
        for part in made.stores:
            if counts[part.buffer] == 1 and part.mode == "set" and part.mask is None:
                stored[part.buffer, part.address] = part.value
    return replace(kernel, stages=tuple(stages))


def _forwarded(scalar: Scalar, stored: dict[tuple[str, Size], Scalar]) -> Scalar | None:
    return stored.get(scalar.data) if scalar.op == "load" and not scalar.args else None


def row_length(kernel: Kernel) -> Size:
    """Of a kernel whose rows may be held."""
    return next(stage.axes[0].extent for stage in kernel.stages if stage.axes)


def _can_be_held(kernel: Kernel) -> bool:
    axes = {axis.symbol: axis.extent for stage in kernel.stages for axis in stage.axes}
    written = {part.buffer for stage in kernel.stages for part in stage.stores}
    if kernel.ordered or len(axes) != 1 or any(len(stage.axes) > 1 for stage in kernel.stages):
        return False
    (symbol, extent), *_ = axes.items()
    whole = of_atom(symbol)
    filled: set[str] = set()
    for stage in kernel.stages:
        if stage.scans or (stage.folds and not stage.axes):
            return False
        if stage.axes and stage.axes[0].extent != extent:
            return False
        loads = [scalar for scalar in scalars_of(kernel, stage) if scalar.op == "load"]
        for scalar in loads:
            if scalar.data[0] in kernel.private:
                if scalar.data[0] not in filled or scalar.args:
                    return False
            elif scalar.data[0] in written:
                return False
        own = [part for part in stage.stores if part.buffer in kernel.private]
        # What two vectors have in common is stored twice.
        if any(part.mode != "set" for part in stage.stores) or any(part.mask for part in own):
            return False
        filled |= {part.buffer for part in own}
        private = [place for buffer, place in accesses(kernel, stage) if buffer in kernel.private]
        if any(place != whole for place in private):
            return False
    return True


def _across_stages(kernel: Kernel) -> int:
    """Registers for each element that stages hand on, where they are most."""
    axis = next(stage.axes[0].symbol for stage in kernel.stages if stage.axes)
    filled = {
        part.buffer: part.value
        for stage in kernel.stages
        for part in stage.stores
        if part.buffer in kernel.private
    }
    needed = [list(_needed(kernel, stage, filled)) for stage in kernel.stages]
    most = 0
    for number in range(1, len(needed)):
        before = {scalar for own in needed[:number] for scalar in own if axis in scalar.free}
        roots = [root for stage in kernel.stages[number:] for root in roots_of(stage)]
        held = _frontier(roots, before, filled)
        most = max(most, sum(max(1, WIDTH[scalar.dtype] // 4) for scalar in held))
    return most


def _needed(kernel: Kernel, stage: Stage, filled: dict[str, Scalar]) -> list[Scalar]:
    return [_source(scalar, filled) for scalar in scalars_of(kernel, stage)]


def _source(scalar: Scalar, filled: dict[str, Scalar]) -> Scalar:
    """What was stored, of a load from what only this row has."""
    while scalar.op == "load" and scalar.data[0] in filled:
        scalar = filled[scalar.data[0]]
    return scalar


def _frontier(roots: list[Scalar], before: set[Scalar], filled: dict[str, Scalar]) -> set[Scalar]:
    """What is needed of that which is there already."""
    found: set[Scalar] = set()
    seen: set[Scalar] = set()
    waiting = list(roots)
    while waiting:
        scalar = _source(waiting.pop(), filled)
        if scalar in seen:
            continue
        seen.add(scalar)
        if scalar in before and scalar.op not in ("constant", "index"):
            found.add(scalar)
        else:
            waiting += scalar.args
    return found


#: Elements of a row that a thread computes before it stores them: for others there are registers
#: of what the row itself has alone.
_READ_TOGETHER: Final = 8

# -- code ----------------------------------------------------------------------------------------


class HeldTeam(BlockTeam):
    """Each reduction has its own shared memory: threads wait for each other but once. Either a row
    has whole warps, or a warp has whole rows."""

    def __init__(self, has_part_warps: bool) -> None:
        self._has_part_warps = has_part_warps

    def reduce(self, e: Emitter, folds: StageFolds, states: States) -> States:
        if not states:
            return states
        types = folds.types()

        def across_block() -> States:
            e.run_if("%first.lane", lambda: self.put(e, types, merged, "%warp"))
            self.barrier(e)
            # Of eight warps or fewer, every eight lanes have all that there is.
            many = e.let("icmp ugt i32 %warps, 8")
            near = e.let("and i32 %lane, 7")
            slot = e.let(f"select i1 {many}, i32 %lane, i32 {near}")
            place = e.let(f"add i32 %first.warp, {slot}")
            is_warp = e.let(f"icmp ult i32 {slot}, %warps")
            start = folds.start()
            own = e.when(is_warp, start, types, lambda: self.get(e, types, place))
            own = e.when(many, own, types, lambda o=own: self.butterfly(e, folds, o, (16, 8)))
            return self.butterfly(e, folds, own, (4, 2, 1))

        if self._has_part_warps:
            return self._across_part(e, folds, states)
        merged = self.butterfly(e, folds, states)
        results = e.when("%has.warps", merged, types, across_block)
        self.first_state += len(types)
        return results

    def _across_part(self, e: Emitter, folds: StageFolds, own: States) -> States:
        """Of 8, 16 or 32 threads."""
        for distance in (16, 8):
            some = e.let(f"icmp ugt i32 %ntid, {distance}")
            own = e.when(
                some,
                own,
                folds.types(),
                lambda o=own, d=distance: self.butterfly(e, folds, o, (d,)),
            )
        return self.butterfly(e, folds, own, (4, 2, 1))


class Vectors(NamedTuple):
    """Those that a thread has of a row."""

    #: of each, whether there is one
    exist: list[str]
    #: there are so many of every row, if there is a row
    sure: int
    #: where each begins
    places: tuple[str, ...]


class HeldStage(StageCode):
    """A stage whose rounds are all in registers."""

    def __init__(self, e: Emitter, number: int, team: HeldTeam, vectors: Vectors) -> None:
        super().__init__(e, number, len(vectors.exist))
        self.team = team
        self.exist, self.sure = vectors.exist, vectors.sure
        self.ahead = {}
        self.foldings = [replace(folding, in_one=True) for folding in self.foldings]
        self.types = [t for f in self.foldings for t in f.types(self.lanes)]

    def write(self, is_last: bool) -> None:
        e, stage = self.e, self.stage
        if not stage.axes:
            super().write(is_last)
            return
        level = e.enter()
        e.stage = StageScope(level, level, frozenset(part.buffer for part in stage.stores))
        e.vector_axis = stage.axes[0].symbol
        states = self._folded()
        self._effects(is_last)
        e.vector_axis = None
        folds = StageFolds(self.foldings, 0, 1, is_last)
        self._finish(self.team.reduce(e, folds, self._across(states)))
        for fold in stage.folds:
            e.row_levels[fold.name] = level + 1
        # The results of control flow are not above it: they are at a level of their own.
        e.enter()

    def _folded(self) -> States:
        """Of the vectors that exist."""
        e = self.e
        given: list[list[tuple[str, str]]] = []
        for copy in range(self.copies):
            e.copy = copy
            given.append([self._given(number) for number in range(len(self.foldings))])
        e.copy = 0
        states = [text for folding in self.foldings for text in folding.start(self.lanes)]
        if not states:
            return states
        for copy, values in enumerate(given):
            if copy < self.sure:
                states = self._updated(values, states) if copy else self._first(values)
                continue
            states = e.when(
                self.exist[copy],
                states,
                self.types,
                lambda v=values, s=states: self._updated(v, s),
            )
        return states

    def _first(self, values: list[tuple[str, str]]) -> States:
        """Nothing is before it."""
        pairs = zip(self.foldings, values, strict=True)
        return [part for folding, own in pairs for part in own[: len(folding.dtypes)]]

    def _given(self, number: int) -> tuple[str, str]:
        """The value of a fold, and its position."""
        e, folding = self.e, self.foldings[number]
        value = e.value(self.stage.folds[number].value)
        text = cast(e, e.widen(value), value.dtype, folding.dtype, True)
        return text, wide_size(e, row_position(self.stage.axes)) if folding.has_position else ""

    def _updated(self, values: list[tuple[str, str]], states: States) -> States:
        results: States = []
        for folding, own, (text, position) in zip(
            self.foldings, self._by_fold(states), values, strict=True
        ):
            results += folding.update(self.e, own, text, position, self.lanes)
        return results

    def _effects(self, is_last: bool) -> None:
        """Checks and stores; what only this row needs stays where it is."""
        e, stage = self.e, self.stage
        first = sum(len(other.checks) for other in e.kernel.stages[: self.number])
        level = len(e.levels) - 1
        for copy in range(self.copies):
            e.copy = copy
            for number, check in enumerate(stage.checks):
                check_vector(e, first + number, e.value(check.condition))
            for part in self._parts(is_private=True):
                _, held = e.held.setdefault(part.buffer, (level, []))
                held.append(self._wide(e.value(part.value), level, (part.buffer, copy)))
        parts = self._parts(is_private=False)
        if parts:
            self._store_all(parts, is_last)
        e.copy = 0

    def _store_all(self, parts: list[Store], is_last: bool) -> None:
        e = self.e
        together = self.copies if not is_last else max(1, _READ_TOGETHER // max(1, self.lanes))
        known = dict(e.load_levels)
        for begin in range(0, self.copies, together):
            if is_last:
                # What is read for a store alone has no register before that.
                level = e.enter()
                e.stage = StageScope(level, level, e.stage.written)
                e.load_levels = dict(known)
            self._store(parts, range(begin, min(begin + together, self.copies)))

    def _parts(self, *, is_private: bool) -> list[Store]:
        private = self.e.kernel.private
        return [part for part in self.stage.stores if (part.buffer in private) is is_private]

    def _wide(self, value: IrValue, level: int, key: tuple[str, int]) -> IrValue:
        text = self.e.once(level, ("held", *key), lambda: self.e.widen(value))
        return IrValue(text, value.dtype, True)

    def _store(self, parts: list[Store], copies: Sequence[int]) -> None:
        e = self.e
        values: list[list[IrValue]] = []
        masks: list[list[IrValue | None]] = []
        for e.copy in copies:
            values.append([e.value(part.value) for part in parts])
            masks.append([None if p.mask is None else e.value(p.mask) for p in parts])
        for e.copy, own, mask in zip(copies, values, masks, strict=True):
            e.run_if(self.exist[e.copy], lambda v=own, m=mask: self._put(parts, v, m))

    def _put(self, parts: list[Store], values: list[IrValue], masks: list[IrValue | None]) -> None:
        for part, value, mask in zip(parts, values, masks, strict=True):
            store(self.e, part.buffer, part.address, value, part.mode, mask)


def _vectors(e: Emitter, length: str, count: int, sure: int) -> Vectors:
    end = e.let(f"trunc i64 {length} to i32")
    own_end = e.let(f"select i1 %active, i32 {end}, i32 0")
    last = e.let(f"sub i32 {end}, {e.lanes}")
    exist: list[str] = []
    places: list[str] = []
    at = "%begin.32"
    for number in range(count):
        if number:
            at = e.let(f"add nuw nsw i32 {at}, %stride.32")
        inside = at
        if number < sure:
            exist.append("%active")
        else:
            # Of what is not there the last vector is read, and nothing is done with it.
            exist.append(e.let(f"icmp ult i32 {at}, {own_end}"))
            inside = e.let(f"call i32 @llvm.umin.i32(i32 {at}, i32 {last})")
        places.append(e.let(f"zext i32 {inside} to i64"))
    return Vectors(exist, sure, tuple(places))


def write_held_rows(e: Emitter, vectors: int, sure: int, has_part_warps: bool) -> None:
    """The stages of one row. `%begin.32` is the first element of this thread, `%stride.32` how far
    it is to the next; the row is the last one where there is none for it, and not `%active`."""
    team = HeldTeam(has_part_warps)
    e.holds_rows = True
    level = e.enter()
    axis = next(stage.axes[0] for stage in e.kernel.stages if stage.axes)
    own = _vectors(e, narrow_size(e, axis.extent), vectors, sure)
    e.loops[axis.symbol] = Loop(level, own.places[0], axis.extent, own.places)
    count = len(e.kernel.stages)
    for position in range(count):
        HeldStage(e, position, team, own).write(position == count - 1)
    if sum(bool(stage.folds) for stage in e.kernel.stages) < 2:
        # Or the next row would be folded where this one is still read.
        team.barrier(e)
    while len(e.levels) > level:
        e.leave()
    e.row_levels.clear()
    e.held.clear()
