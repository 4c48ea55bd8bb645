"""Kernels that run through the same rows become one: what one stores, the next has at hand.

Two kernels are one if their outer axes have equal extents and each point of them touches only what
the same point of the other has written. A value that is stored and read back in the same round is
handed on; a buffer that nobody else reads becomes private to a row, or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from anyshape.loops import expr
from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.kernels import Kernel, Stage, Store
from anyshape.loops.linear import ProvablyEqual, coefficient
from anyshape.loops.stages import (
    finished,
    joined,
    mapped,
    mapped_kernel,
    over,
    roots_of,
    with_buffers,
)
from anyshape.loops.substitute import Renaming, Rewriting
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size, Symbol
from anyshape.symbolic.expr import of_atom

#: Beyond these a kernel gains nothing by growing, and takes longer to compile.
MOST_STAGES: Final = 16
MOST_BUFFERS: Final = 24
MOST_SCALARS: Final = 600


def fused(first: Kernel, second: Kernel, same: ProvablyEqual) -> Kernel | None:
    """One kernel that does what the two do one after the other; None if they cannot be one, or
    had better not be."""
    if first.ordered or second.ordered or first.attends or second.attends:
        return None
    shapes = _alike(first, second, same)
    if shapes is None:
        return None
    first, second = shapes
    second = _with_own_names(first, second)
    if not _is_local(first, second, same):
        return None
    stages = _joined_stages([*first.stages, *second.stages], same)
    made = finished(first.axes, stages, private={**first.private, **second.private})
    too_large = len(stages) > MOST_STAGES or len(_buffers(made)) > MOST_BUFFERS
    return None if too_large or _count(made) > MOST_SCALARS else made


def without_buffers(kernel: Kernel, unneeded: Iterable[str]) -> Kernel:
    """A kernel whose stores into these buffers nobody outside of it reads."""
    for name in unneeded:
        kernel = _without(kernel, name)
    return kernel


# -- the same outer axes --------------------------------------------------------------------------


def _alike(first: Kernel, second: Kernel, same: ProvablyEqual) -> tuple[Kernel, Kernel] | None:
    """The two with as many outer axes of the same extents: a pointwise one can run its last axes
    inside."""
    count = min(len(first.axes), len(second.axes))
    first, second = _with_outer(first, count), _with_outer(second, count)
    if len(first.axes) != count or len(second.axes) != count:
        return None
    for one, other in zip(first.axes, second.axes, strict=True):
        if not same(one.extent, other.extent):
            return None
    if count == 0 and (len(first.stages) > 1 or len(second.stages) > 1):
        return None
    names: dict[Symbol, Size] = {
        other.symbol: of_atom(one.symbol)
        for one, other in zip(first.axes, second.axes, strict=True)
        if other.symbol is not one.symbol
    }
    renaming = Renaming(names)
    return first, replace(mapped_kernel(second, renaming, renaming, renaming.axis), axes=first.axes)


def _with_outer(kernel: Kernel, count: int) -> Kernel:
    if len(kernel.axes) <= count or len(kernel.stages) != 1 or kernel.stages[0].axes:
        return kernel
    (stage,) = kernel.stages
    inner = kernel.axes[count:]
    return replace(kernel, axes=kernel.axes[:count], stages=(replace(stage, axes=inner),))


def _with_own_names(first: Kernel, second: Kernel) -> Kernel:
    """Rows and private buffers of the second that the first has no names for."""
    taken = {fold.name for stage in first.stages for fold in stage.folds}
    start = len(taken)
    rows = {
        fold.name: f"%{start + number}"
        for number, fold in enumerate(f for stage in second.stages for f in stage.folds)
    }
    private = {name: f"row{len(first.private) + n}" for n, name in enumerate(second.private)}

    def change(scalar: Scalar) -> Scalar | None:
        if scalar.op == "row":
            return expr.row(rows[scalar.data], scalar.dtype, scalar.free)
        if scalar.op == "load" and scalar.data[0] in private:
            buffer, address = scalar.data
            return expr.load(private[buffer], address, scalar.dtype)
        return None

    rewrite = Rewriting(change)
    stages: list[Stage] = []
    for stage in second.stages:
        stage = with_buffers(mapped(stage, rewrite), lambda name: private.get(name, name))
        folds = tuple(replace(fold, name=rows[fold.name]) for fold in stage.folds)
        stages.append(replace(stage, folds=folds))
    kept = {private[name]: size for name, size in second.private.items()}
    return replace(second, stages=tuple(stages), private=kept)


# -- whether points stay apart --------------------------------------------------------------------

#: of an access: the coefficients of the outer axes, and what the inner axes reach
AccessPattern = tuple[tuple[Size, ...], tuple[tuple[Size, Size], ...], Size]


def _is_local(first: Kernel, second: Kernel, same: ProvablyEqual) -> bool:
    """Whether a point of the outer axes only touches what the same point of the other kernel
    touches, of all that one of them writes. They must have something in common, too."""
    reads_a, writes_a = _accesses(first)
    reads_b, writes_b = _accesses(second)
    shared = (writes_a.keys() & (reads_b.keys() | writes_b.keys())) | (
        reads_a.keys() & writes_b.keys()
    )
    if not shared and not reads_a.keys() & reads_b.keys():
        return False
    # A position is read before the round stores anything: it cannot wait for the other kernel.
    looked_up = _loads([*first.positions.values(), *second.positions.values()])
    if any(scalar.data[0] in shared for scalar in looked_up):
        return False
    for buffer in shared:
        places: set[AccessPattern | None] = set()
        for found in (reads_a, writes_a, reads_b, writes_b):
            places |= found.get(buffer, set())
        if len(places) != 1 or None in places:
            return False
    return True


def _accesses(
    kernel: Kernel,
) -> tuple[dict[str, set[AccessPattern | None]], dict[str, set[AccessPattern | None]]]:
    reads: dict[str, set[AccessPattern | None]] = {}
    writes: dict[str, set[AccessPattern | None]] = {}
    for stage in kernel.stages:
        for part in (*stage.stores, *stage.scans):
            if part.buffer not in kernel.private:
                place = _place(kernel.axes, stage.axes, part.address)
                writes.setdefault(part.buffer, set()).add(place)
        for scalar in _loads([*roots_of(stage), *kernel.positions.values()]):
            buffer, address = scalar.data
            if buffer not in kernel.private:
                reads.setdefault(buffer, set()).add(_place(kernel.axes, stage.axes, address))
    return reads, writes


def _place(outer: Sequence[Axis], inner: Sequence[Axis], address: Size) -> AccessPattern | None:
    steps: list[Size] = []
    for axis in outer:
        found = coefficient(address, axis.symbol)
        if found is None:
            return None
        step, address = found
        steps.append(step)
    reached: list[tuple[Size, Size]] = []
    for axis in inner:
        found = coefficient(address, axis.symbol)
        if found is None:
            return None
        step, address = found
        if step != 0:
            reached.append((step, axis.extent))
    bound = {axis.symbol for axis in (*outer, *inner)}
    for part in (*steps, *(step for step, _ in reached), address):
        if isinstance(part, Expr) and any(
            symbol in bound or expr.position_scalar(symbol) is not None for symbol in part.symbols
        ):
            return None
    return tuple(steps), tuple(sorted(reached, key=str)), address


def _loads(roots: Iterable[Scalar]) -> list[Scalar]:
    return [scalar for scalar in expr.reached(roots) if scalar.op == "load"]


# -- stages ---------------------------------------------------------------------------------------


def _joined_stages(stages: Sequence[Stage], same: ProvablyEqual) -> list[Stage]:
    """Neighbours over the same axes become one stage where the later needs nothing that the earlier
    has only at its end."""
    result: list[Stage] = []
    for stage in stages:
        for known in result:
            stage = _over(stage, known.axes, same)
        if result and result[-1].axes == stage.axes:
            both = _one_stage(result[-1], stage)
            if both is not None:
                result[-1] = both
                continue
        result.append(stage)
    return result


def _over(stage: Stage, axes: tuple[Axis, ...], same: ProvablyEqual) -> Stage:
    """The stage over these axes, if they run as far."""
    if stage.axes == axes or len(stage.axes) != len(axes):
        return stage
    if not all(same(a.extent, b.extent) for a, b in zip(stage.axes, axes, strict=True)):
        return stage
    return over(stage, axes)


def _one_stage(earlier: Stage, later: Stage) -> Stage | None:
    if earlier.scans:
        return None
    stored = {(store.buffer, store.address): store for store in earlier.stores}
    written = {store.buffer for store in earlier.stores}
    folded = {fold.name for fold in earlier.folds}
    forwarded: dict[Scalar, Scalar] = {}
    for scalar in expr.reached(roots_of(later)):
        if scalar.op == "row" and scalar.data in folded:
            return None
        if scalar.op == "load" and scalar.data[0] in written:
            store = stored.get(scalar.data)
            if store is None or store.mode != "set" or store.mask is not None or scalar.args:
                return None
            forwarded[scalar] = store.value
    if forwarded:
        later = mapped(later, Rewriting(forwarded.get))
    again = {part.buffer: part.address for part in (*later.stores, *later.scans)}
    overwritten = again.keys() & written
    if not all(_is_overwritten(name, earlier, later) for name in overwritten):
        return None
    for scalar in _loads(roots_of(earlier)):
        buffer, address = scalar.data
        if again.get(buffer, address) != address:
            return None
    if overwritten:
        kept = tuple(store for store in earlier.stores if store.buffer not in overwritten)
        earlier = replace(earlier, stores=kept)
    return joined(earlier, later)


def _is_overwritten(buffer: str, earlier: Stage, later: Stage) -> bool:
    """Whether each round of the later stage writes the very element that the earlier one wrote."""
    if any(scan.buffer == buffer for scan in later.scans):
        return False
    own, *further = [
        store for stage in (earlier, later) for store in stage.stores if store.buffer == buffer
    ]
    return len(further) == 1 and all(
        store.address == own.address and store.mode == "set" and store.mask is None
        for store in (own, *further)
    )


# -- buffers that nobody else reads ---------------------------------------------------------------


def _without(kernel: Kernel, name: str) -> Kernel:
    loads = [
        (stage, scalar)
        for stage in kernel.stages
        for scalar in _loads([*roots_of(stage), *kernel.positions.values()])
        if scalar.data[0] == name
    ]
    if not loads:
        stages = [
            replace(stage, stores=tuple(s for s in stage.stores if s.buffer != name))
            for stage in kernel.stages
        ]
        return replace(kernel, stages=tuple(stages))
    return _as_private(kernel, name) or kernel


def _as_private(kernel: Kernel, name: str) -> Kernel | None:
    """The buffer as a row of its own in each point: written and read by one inner axis."""
    (steps, reached, _), *others = _accesses(kernel)[1].get(name, set()) or [None]  # pyright: ignore[reportGeneralTypeIssues] a place
    if others or len(reached) != 1 or not kernel.axes or any(step == 0 for step in steps):
        return None
    ((step, extent),) = reached
    if step != 1 or any(stage.scans for stage in kernel.stages):
        return None
    fresh = f"row{len(kernel.private)}"
    dtype = next(
        store.value.dtype
        for stage in kernel.stages
        for store in stage.stores
        if store.buffer == name
    )
    stages: list[Stage] = []
    for stage in kernel.stages:
        if len(stage.axes) != 1:
            if any(store.buffer == name for store in stage.stores):
                return None
            if any(s.data[0] == name for s in _loads(roots_of(stage))):
                return None
            stages.append(stage)
            continue
        place = of_atom(stage.axes[0].symbol)

        def change(scalar: Scalar, place: Expr = place) -> Scalar | None:
            if scalar.op == "load" and scalar.data[0] == name:
                return expr.load(fresh, place, scalar.dtype)
            return None

        stage = mapped(stage, Rewriting(change))
        stores = tuple(
            Store(fresh, place, store.value) if store.buffer == name else store
            for store in stage.stores
        )
        stages.append(replace(stage, stores=stores))
    if any(s.data[0] == name for s in _loads(kernel.positions.values())):
        return None
    private = {**kernel.private, fresh: (dtype, extent)}
    return replace(kernel, stages=tuple(stages), private=private)


def _buffers(kernel: Kernel) -> set[str]:
    reads, writes = _accesses(kernel)
    return reads.keys() | writes.keys()


def _count(kernel: Kernel) -> int:
    roots = [root for stage in kernel.stages for root in roots_of(stage)]
    return sum(1 for _ in expr.reached(roots))
