"""What is decided of a kernel before code is made: which threads take what, and how many lanes each
of them has.

- *columns*: a thread takes a vector of a parallel axis through all stages; neighbours take
  neighbouring elements;
- *strips*: the threads of a block share neighbouring columns, and the rounds of their stages;
- *rows*: the threads of a block share one point of the parallel axes, whose stages run along
  consecutive elements;
- *points*: a thread takes one point, element by element: stores that may meet;
- *attention*: a block takes a tile of queries (`attention_plan.py`).

Strips and rows may be shared by several blocks. All but points come twice: the wide code moves 16
bytes at a time and is for tensors whose rows begin at such addresses; the narrow one takes single
elements and is for all the others. Columns and points of several axes come twice again: coordinates
have 32 bits where all sizes and the number of elements do, since a GPU divides those faster.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, Literal

from anyshape.codegen.llvm.plan import KernelPlan, element_costs, unordered
from anyshape.codegen.nvptx.attention_plan import AttentionShape, attention_forms
from anyshape.codegen.nvptx.block_scan import can_scan_rows
from anyshape.codegen.nvptx.choice import USUAL, WARP, GpuChoice
from anyshape.codegen.nvptx.held_rows import elements_held, forwarded, sure_elements
from anyshape.codegen.nvptx.strips import for_strips, states_bytes
from anyshape.codegen.nvptx.tiles import cut_extent, is_tiled, padded
from anyshape.loops.collapsed_axes import Flattened, flattened
from anyshape.loops.expr import WIDTH, Axis, Scalar, reached
from anyshape.loops.kernels import Kernel
from anyshape.loops.online_sums import with_online_sums
from anyshape.loops.stages import all_roots
from anyshape.loops.vector_axis import accesses, best_column, scalars_of, stride_along
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, floordiv
from anyshape.symbolic.expr import Symbol, atom_at, of_atom, polynomial, symbols_of, terms_of

Form = Literal["columns", "strips", "rows", "points", "attention"]

#: Vectors of a row that is no multiple of them: with fewer, too many lanes would be idle.
_FEWEST_VECTORS: Final = 8
#: Instructions for each byte with which a GPU is as busy as its memory is.
_BUSY: Final = 4
#: Of a thread that shares a tile: it waits for memory twice, and more blocks wait at a time.
_TILE_REGISTERS: Final = 40
#: As many threads as a GPU has room for.
_MANY_POINTS: Final = 1 << 18
#: Dtypes that memory itself can add to.
_ATOMIC: Final = frozenset({"f32", "f64", "i32", "i64"})


@dataclass(frozen=True, slots=True)
class GpuPlan:
    form: Form
    plan: KernelPlan
    #: stores that may meet are made by the memory itself
    atomic: bool = False
    #: points run one after the other, in one thread
    serial: bool = False
    #: what has to be a multiple of the lanes, for the wide code
    multiples: tuple[Size, ...] = ()
    #: what has to be as much as the lanes, or one less
    at_least: tuple[Size, ...] = ()
    #: buffers that have to begin at a multiple of so many bytes
    aligned: tuple[tuple[str, int], ...] = ()
    #: threads that it takes to be worth it
    fewest_points: int = 0
    #: comparisons that come out alike for all lanes of a vector
    uniform: frozenset[Scalar] = frozenset()
    #: points are tiles whose rows and columns the threads of a block share
    tiled: bool = False
    #: vectors of a row that each thread has in registers; 0: it loops over the row
    each: int = 0
    #: threads that share such a row, at most
    row_threads: int = 0
    #: as many of these vectors each thread has of every such row
    sure: int = 0
    #: of sizes and coordinates in the code; 32 is for launches whose sizes have fewer
    index_bits: int = 64
    #: of a kernel that is attention
    attention: AttentionShape | None = None
    #: what it was made with
    choice: GpuChoice = USUAL

    @property
    def part_bytes(self) -> int:
        """Of what a block tells others of a row or of a column's vector; 0: blocks share none."""
        if self.form not in ("strips", "rows") or self.tiled or self.each:
            return 0
        return max(8, states_bytes(self.plan.kernel, self.lanes if self.form == "strips" else 0))

    @property
    def registers(self) -> int:
        """Of a thread, at most; 0: whatever the assembler takes."""
        if self.tiled:
            return _TILE_REGISTERS
        return self.choice.registers if self.each and not self.has_part_warps else 0

    @property
    def fewest(self) -> int:
        """Threads that share a row, at least: a part of a warp where none of them fold all of a
        warp."""
        stages = self.plan.kernel.stages
        is_scan = any(stage.scans for stage in stages) and not any(stage.folds for stage in stages)
        return 8 if is_scan or self.has_part_warps else 32

    @property
    def has_part_warps(self) -> bool:
        """Whether rows are so short that a warp may have several."""
        return 0 < self.row_threads <= WARP

    @property
    def lanes(self) -> int:
        return self.plan.lanes

    @property
    def divides(self) -> bool:
        """Whether threads find their coordinates by division."""
        if self.form not in ("columns", "points") or self.serial:
            return False
        return len(self.plan.kernel.axes) > 1 or self.plan.flat is not None

    @property
    def is_aligned(self) -> bool:
        """Whether vectors begin at multiples of their size."""
        return self.lanes > 1 and bool(self.aligned)


def gpu_plans(kernel: Kernel, choice: GpuChoice = USUAL) -> tuple[GpuPlan, ...]:
    """The wide ones if there are some, and those for all sizes; of rows, first for short ones."""
    return tuple(replace(plan, choice=choice) for plan in _plans(kernel, choice))


def _plans(kernel: Kernel, choice: GpuChoice) -> tuple[GpuPlan, ...]:
    if kernel.attends:
        return _attention_plans(kernel)
    access = choice.access
    # Rounds that may meet stay in one thread, unless the memory itself adds.
    in_order = kernel.ordered
    if not (kernel.ordered and _can_be_atomic(kernel)):
        kernel = unordered(kernel)
    if is_tiled(kernel):
        kernel = padded(kernel)
        narrow = GpuPlan("rows", _kernel_plan(kernel, None, 1), tiled=True)
        # The sides of tiles are whole vectors of what is usual.
        wide = _wide(kernel, "rows", None, USUAL.access)
        return (narrow,) if wide is None else (replace(wide, tiled=True), narrow)
    form, column = _form(kernel)
    if in_order and form == "rows":
        form = "points"
    if form == "columns" and not in_order:
        strips = for_strips(kernel)
        if strips is not None:
            form, kernel = "strips", strips
    if column is not None:
        others = tuple(axis for axis in kernel.axes if axis is not column)
        kernel = replace(kernel, axes=(*others, column))
    narrow = GpuPlan(form, _kernel_plan(kernel, column, 1))
    if form == "points":
        atomic = kernel.ordered and _can_be_atomic(kernel)
        return (replace(narrow, atomic=atomic, serial=kernel.ordered and not atomic),)
    if form == "columns" and _has_scans(kernel):
        # As many threads as there are columns: each has a long way to go.
        return (narrow,)
    wide = _wide(kernel, form, column, access)
    plans = (narrow,) if wide is None else (wide, narrow)
    if form == "rows" and _has_scans(kernel) and access == USUAL.access:
        # A tile of a row waits for the one before: with more lanes they are fewer.
        wider = _wide(kernel, form, column, 2 * access)
        return plans if wider is None else (wider, *plans)
    if form == "strips":
        return plans
    if form == "columns":
        flat = _flat(kernel, access) if wide is None or wide.multiples else None
        more = _unaligned(kernel, column, access) if flat is None else flat
        plans = plans if more is None else (*plans[:-1], more, narrow)
        return (*_busy(kernel, column, choice), *plans)
    widths = [width for buffer, width in _widths(kernel).items() if buffer not in kernel.private]
    lanes = access // max(widths, default=access) if wide is None else wide.lanes
    held = tuple(_held(kernel, lanes, wide, choice))
    # What is not in registers is read by each stage.
    online = with_online_sums(kernel)
    if online is not kernel:
        wide = _wide(online, form, column, access)
        narrow = GpuPlan(form, _kernel_plan(online, column, 1))
        plans = (narrow,) if wide is None else (wide, narrow)
    return (*held, *plans)


def _held(kernel: Kernel, lanes: int, wide: GpuPlan | None, choice: GpuChoice) -> Iterator[GpuPlan]:
    """Rows in registers, the shortest first. Of those that begin anywhere, neighbouring threads
    have neighbouring elements."""
    is_light = _is_light(kernel)
    kernel = forwarded(kernel)
    most = elements_held(kernel, choice)
    for own in (() if wide is None else (lanes,)) + (1,):
        shorter = 0
        # Of single elements, each has an address and a test of its own.
        for elements, threads, rows in choice.ways_to_hold(own == 1 or is_light):
            each = min(elements, most) // lanes * lanes
            if not each:
                break
            sure = sure_elements(each, shorter) // own
            plan = GpuPlan("rows", _kernel_plan(kernel, None, own))
            if wide is not None and own > 1:
                plan = replace(wide, plan=plan.plan)
            plan = replace(plan, each=each // own, row_threads=threads, fewest_points=rows)
            yield replace(plan, sure=sure)
            shorter = shorter if rows else each * threads


def _busy(kernel: Kernel, column: Axis | None, choice: GpuChoice) -> tuple[GpuPlan, ...]:
    """Of what takes long for each byte, a thread does twice as much at a time: there is one address
    for more elements, and they do not wait for each other. It needs as many threads as there are
    elsewhere, and elements side by side."""
    reads = [scalar for scalar in reached(all_roots(kernel)) if scalar.op == "load"]
    if choice.access != USUAL.access or _is_light(kernel) or any(each.args for each in reads):
        return ()
    wide = _wide(kernel, "columns", column, 2 * choice.access)
    return () if wide is None else (replace(wide, fewest_points=_MANY_POINTS),)


def _is_light(kernel: Kernel) -> bool:
    """Whether threads wait for memory rather than compute."""
    widths, rows = _widths(kernel), {axis.symbol for axis in kernel.axes}
    along = {axis.symbol for stage in kernel.stages for axis in stage.axes} or rows
    moved = {
        (buffer, address)
        for stage in kernel.stages
        for buffer, address in accesses(kernel, stage)
        if buffer not in kernel.private
        and symbols_of(address) & along
        # What all rows have in common is in a cache.
        and rows <= symbols_of(address)
    }
    return sum(element_costs(kernel, None)) < _BUSY * sum(widths[buffer] for buffer, _ in moved)


def _attention_plans(kernel: Kernel) -> tuple[GpuPlan, ...]:
    return tuple(
        GpuPlan(
            "attention",
            form.plan,
            multiples=form.multiples,
            aligned=form.aligned,
            index_bits=64 if form.shape.halves is None else 32,
            attention=form.shape,
        )
        for form in attention_forms(kernel)
    )


def _form(kernel: Kernel) -> tuple[Form, Axis | None]:
    if kernel.ordered or not _has_axes(kernel):
        return "points", None
    column = best_column(kernel)
    if column is None and _has_scans(kernel) and not can_scan_rows(kernel):
        return "points", None
    return ("rows", None) if column is None else ("columns", column)


def _has_scans(kernel: Kernel) -> bool:
    return any(stage.scans for stage in kernel.stages)


def _has_axes(kernel: Kernel) -> bool:
    return bool(kernel.axes) or any(stage.axes for stage in kernel.stages)


def _kernel_plan(
    kernel: Kernel, column: Axis | None, lanes: int, flat: Flattened | None = None
) -> KernelPlan:
    written = frozenset(
        part.buffer for stage in kernel.stages for part in (*stage.stores, *stage.scans)
    )
    return KernelPlan(
        kernel=kernel,
        column=column,
        lanes=lanes,
        costs=element_costs(kernel, column),
        unroll=tuple(1 for _ in kernel.stages),
        written=written,
        together=frozenset(),
        flat=flat,
        splits=False,
    )


def _can_be_atomic(kernel: Kernel) -> bool:
    """Whether rounds may run in any order: what they store is added by the memory, or is all that
    is left of several."""
    written = {store.buffer for stage in kernel.stages for store in stage.stores}
    for scalar in reached(all_roots(kernel)):
        if scalar.op == "load" and scalar.data[0] in written:
            return False
    return all(
        store.mode == "set" or (store.mode == "add" and store.value.dtype in _ATOMIC)
        for stage in kernel.stages
        for store in stage.stores
    )


# -- the wide code ---------------------------------------------------------------------------------


def _wide(kernel: Kernel, form: Form, column: Axis | None, access: int) -> GpuPlan | None:
    found: dict[tuple[str, Size], int] = {}
    multiples: dict[Size, None] = {}
    widths = _widths(kernel)
    for stage in kernel.stages:
        axis = column or (stage.axes[-1] if stage.axes else None)
        if axis is None:
            continue
        if form != "columns" or len(kernel.axes) > 1:
            # Else a thread at the end has fewer elements.
            extent = axis.extent
            if symbols_of(extent) & {each.symbol for each in kernel.axes}:
                extent = cut_extent(extent, kernel)
            if extent is None:
                return None
            multiples[extent] = None
        for buffer, address in accesses(kernel, stage):
            if buffer in kernel.private:
                continue
            if stride_along(kernel, address, axis.symbol) == 1:
                found[buffer, address - of_atom(axis.symbol)] = widths[buffer]
    lanes = access // max(found.values(), default=access)
    if lanes == 1:
        return None
    for _, rest in found:
        parts = _steps(kernel, rest)
        if parts is None:
            return None
        multiples |= dict.fromkeys(parts)
    known = [size for size in multiples if isinstance(size, int)]
    if any(size % lanes for size in known):
        return None
    return GpuPlan(
        form,
        _kernel_plan(kernel, column, lanes),
        uniform=frozenset() if column is None else _uniform(kernel, column, lanes, multiples),
        multiples=tuple(size for size in multiples if not isinstance(size, int)),
        aligned=tuple(sorted({(buffer, width * lanes) for (buffer, _), width in found.items()})),
    )


def _uniform(
    kernel: Kernel, column: Axis, lanes: int, multiples: Container[Size]
) -> frozenset[Scalar]:
    """Comparisons of positions along the column that have their bounds where vectors have."""
    found: set[Scalar] = set()
    for scalar in reached(all_roots(kernel)):
        if scalar.op not in ("lt", "ge") or any(arg.op != "index" for arg in scalar.args):
            continue
        a, b = (arg.data for arg in scalar.args)
        if stride_along(kernel, a - b, column.symbol) != 1:
            continue
        steps = _steps(kernel, a - b - of_atom(column.symbol))
        if steps is not None and all(
            each % lanes == 0 if isinstance(each, int) else each in multiples or -each in multiples
            for each in steps
        ):
            found.add(scalar)
    return frozenset(found)


def _flat(kernel: Kernel, access: int) -> GpuPlan | None:
    """Vectors along the last two axes at once: rows of any length are one after the other where
    results are stored, and what is not so is touched lane by lane. That is faster than an element
    for each thread, which would wait for a single load."""
    flat = flattened(kernel)
    if flat is None:
        return None
    wide = _wide(flat.kernel, "columns", flat.axis, access)
    stores = [store for stage in flat.kernel.stages for store in stage.stores]
    dense = [stride_along(flat.kernel, s.address, flat.axis.symbol) == 1 for s in stores]
    if wide is None or sum(dense) * 2 < len(dense):
        return None
    plan = _kernel_plan(flat.kernel, flat.axis, wide.lanes, flat)
    return replace(wide, plan=plan, at_least=(flat.width,))


def _unaligned(kernel: Kernel, column: Axis | None, access: int) -> GpuPlan | None:
    """Vectors that begin anywhere in rows of several elements each: each is moved alone, but a
    thread has more than one of them under way."""
    if column is None or len(kernel.axes) < 2 or any(stage.axes for stage in kernel.stages):
        return None
    lanes = access // max(_widths(kernel).values(), default=access)
    if lanes == 1:
        return None
    return GpuPlan(
        "columns",
        _kernel_plan(kernel, column, lanes),
        at_least=(floordiv(column.extent, _FEWEST_VECTORS),),
    )


def _widths(kernel: Kernel) -> dict[str, int]:
    """Bytes of an element of each buffer."""
    found: dict[str, int] = {}
    for each in kernel.stages:
        for scalar in scalars_of(kernel, each):
            if scalar.op == "load":
                found[scalar.data[0]] = WIDTH[scalar.dtype]
        for store in each.stores:
            found[store.buffer] = WIDTH[store.value.dtype]
        for scan in each.scans:
            found[scan.buffer] = WIDTH[scan.dtype]
    return found


def _steps(kernel: Kernel, rest: Size) -> list[Size] | None:
    """By how much an address moves with the other axes and with positions that are read, and where
    it begins; None if that is not plain."""
    axes = {axis.symbol for axis in kernel.axes} | kernel.positions.keys()
    axes |= {axis.symbol for stage in kernel.stages for axis in stage.axes}
    steps: list[Size] = []
    for monomial, number in terms_of(rest):
        atoms = [atom_at(i) for i in monomial]
        moved = [atom for atom in atoms if of_atom(atom).symbols & axes]
        if not all(isinstance(atom, Symbol) for atom in moved):
            return None
        others = tuple(i for i in monomial if atom_at(i) not in moved)
        steps.append(polynomial({others: number}) if others else number)
    return steps
