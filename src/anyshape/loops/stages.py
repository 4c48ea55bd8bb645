"""From stores of expressions with reductions in them to a kernel of stages.

A reduction becomes a stage of its own before the stage that uses it, if it is the same for every
round of that stage: it depends on outer axes only. One that is not has to be a buffer first; the
caller is told which (`MustBeStored`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from anyshape.loops import expr
from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.kernels import Check, Fold, Kernel, Scan, Stage, Store
from anyshape.loops.operations import FUNCTIONS
from anyshape.loops.substitute import Renaming, Rewriting
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size, Symbol
from anyshape.symbolic.expr import FloorDiv, Mod, atom_at, of_atom, symbols_of, terms_of

#: Worth keeping rather than computing again in a later stage.
HEAVY: Final = FUNCTIONS - {"rsqrt"}


Private = dict[str, tuple[expr.Dtype, Size]]


class MustBeStored(Exception):
    """These reductions cannot be part of the kernel."""

    def __init__(self, reductions: Sequence[Scalar]) -> None:
        super().__init__("reductions that need buffers")
        self.reductions = reductions


def kernel_of(
    axes: Sequence[Axis],
    stores: Sequence[Store],
    *,
    scans: Sequence[Scan] = (),
    checks: Sequence[Check] = (),
    ordered: bool = False,
) -> Kernel:
    """A kernel that makes these stores for every point of `axes`, outermost first."""
    roots = [part.value for part in (*stores, *scans)]
    roots += [store.mask for store in stores if store.mask is not None]
    roots += [check.condition for check in checks]
    for part in (*stores, *scans):
        _stored_positions(part.address)
    found = _reductions(roots)
    outer = _outer_axes(axes, found)
    if scans:
        # The last axis is run through in order.
        outer = [axis for axis in outer if axis is not axes[-1]]
    named, stages = _fold_stages(found, {axis.symbol for axis in outer}, axes, roots)
    rewrite = Rewriting(named.get)
    inner = tuple(axis for axis in axes if axis not in outer)
    last = Stage(inner, tuple(stores), (), tuple(scans), tuple(checks))
    stages.append(mapped(last, rewrite))
    return finished(tuple(outer), _one_axis(stages), ordered)


def finished(
    outer: tuple[Axis, ...],
    stages: Sequence[Stage],
    ordered: bool = False,
    private: Private | None = None,
) -> Kernel:
    """The kernel of these stages, with what it reads positions from."""
    kept, private = _keeping(stages, private or {})
    positions: dict[Symbol, Scalar] = {}
    for number, stage in enumerate(kept):
        here: dict[Symbol, Scalar] = {}
        for root in roots_of(stage):
            _find_positions(root, here)
        for part in (*stage.stores, *stage.scans):
            _positions_in(part.address, here)
        checks = dict.fromkeys(stage.checks)
        for symbol in here:
            check = expr.position_check(symbol)
            if check is not None:
                checks[Check(*check)] = None
        kept[number] = replace(stage, checks=tuple(checks))
        positions |= here
    return Kernel(outer, tuple(kept), positions, private, ordered)


def roots_of(stage: Stage) -> Iterable[Scalar]:
    """All that a stage computes."""
    for check in stage.checks:
        yield check.condition
    for part in (*stage.folds, *stage.scans, *stage.stores):
        yield part.value
    for store in stage.stores:
        if store.mask is not None:
            yield store.mask


def all_roots(kernel: Kernel) -> Iterable[Scalar]:
    """All that a kernel computes, its positions among it."""
    for stage in kernel.stages:
        yield from roots_of(stage)
    yield from kernel.positions.values()


class _Sizes(Protocol):
    """What changes sizes."""

    def size(self, size: Size) -> Size: ...


def mapped(stage: Stage, change: Renaming | Rewriting, renaming: _Sizes | None = None) -> Stage:
    """A stage of changed scalars; addresses change by `renaming`."""

    def size(address: Size) -> Size:
        return address if renaming is None else renaming.size(address)

    return Stage(
        stage.axes,
        tuple(
            replace(
                store,
                address=size(store.address),
                value=change(store.value),
                mask=None if store.mask is None else change(store.mask),
            )
            for store in stage.stores
        ),
        tuple(replace(fold, value=change(fold.value)) for fold in stage.folds),
        tuple(
            replace(scan, address=size(scan.address), value=change(scan.value))
            for scan in stage.scans
        ),
        tuple(replace(check, condition=change(check.condition)) for check in stage.checks),
    )


def mapped_kernel(
    kernel: Kernel,
    change: Renaming | Rewriting,
    renaming: _Sizes,
    axis: Callable[[Axis], Axis],
) -> Kernel:
    """A kernel of changed scalars, sizes and axes."""
    axes = tuple(map(axis, kernel.axes))
    stages = tuple(
        replace(mapped(stage, change, renaming), axes=tuple(map(axis, stage.axes)))
        for stage in kernel.stages
    )
    return replace(kernel, axes=axes, stages=stages)


def with_buffers(stage: Stage, name_of: Callable[[str], str]) -> Stage:
    """The stage with other names for the buffers that it writes to."""
    return replace(
        stage,
        stores=tuple(replace(store, buffer=name_of(store.buffer)) for store in stage.stores),
        scans=tuple(replace(scan, buffer=name_of(scan.buffer)) for scan in stage.scans),
    )


def over(stage: Stage, axes: tuple[Axis, ...]) -> Stage:
    """The stage over other axes, one for each of its own."""
    symbols = zip(stage.axes, axes, strict=True)
    renaming = Renaming({old.symbol: of_atom(new.symbol) for old, new in symbols})
    return replace(mapped(stage, renaming, renaming), axes=axes)


def _reductions(roots: Iterable[Scalar]) -> list[Scalar]:
    """The reductions in these, inner ones first."""
    found: list[Scalar] = []
    seen: set[Scalar] = set()

    def visit(scalar: Scalar) -> None:
        if scalar in seen:
            return
        seen.add(scalar)
        for arg in scalar.args:
            visit(arg)
        for size in expr.sizes_in(scalar):
            _stored_positions(size)
        if scalar.op == "reduce":
            found.append(scalar)

    for root in roots:
        visit(root)
    return found


def _stored_positions(size: Size) -> None:
    """Positions that are computed from reductions need buffers of these."""
    for symbol in symbols_of(size):
        position = expr.position_scalar(symbol)
        inside = [] if position is None else _reductions([position])
        if inside:
            raise MustBeStored(inside)


def _outer_axes(axes: Sequence[Axis], reductions: Sequence[Scalar]) -> list[Axis]:
    """Those that a reduction depends on; all if there is none."""
    if not reductions:
        return list(axes)
    needed = frozenset[Symbol]().union(*(each.free for each in reductions))
    return [axis for axis in axes if axis.symbol in needed]


def _fold_stages(
    reductions: Sequence[Scalar], outer: set[Symbol], axes: Sequence[Axis], roots: Sequence[Scalar]
) -> tuple[dict[Scalar, Scalar], list[Stage]]:
    """A stage for each reduction, and the row that stands for it. What is stored is stored as often
    as it is repeated; it is no use to ask for a buffer of it first."""
    everywhere = {axis.symbol for axis in axes}
    bound = {axis.symbol for each in reductions for axis in each.data[1]}
    wrong = [
        each
        for each in reductions
        # One that depends on fewer axes would be computed anew for each point of the others, and
        # so would one that is the same for several points of an axis.
        if (each.free & bound)
        or (each.free & everywhere) != outer
        or (each not in roots and is_repeated(each, outer))
    ]
    if wrong:
        raise MustBeStored(wrong)
    named: dict[Scalar, Scalar] = {}
    rewrite = Rewriting(named.get)
    stages: list[Stage] = []
    for position, each in enumerate(reductions):
        fold, fold_axes = each.data
        body = rewrite(each.args[0])
        name = f"%{position}"
        named[each] = expr.row(name, each.dtype, each.free)
        stages.append(Stage(tuple(fold_axes), folds=(Fold(name, fold, body, each.dtype),)))
    return named, stages


def is_repeated(reduction: Scalar, axes: Iterable[Symbol]) -> bool:
    """Whether a reduction is the same for several points of an axis, which only counts divided, or
    only by what remains of it.

    The statistics of a group of channels depend on `i1 // 8` of a channel and on nothing else of
    it: a kernel over channels would compute them eight times.
    """
    sizes = [size for scalar in expr.reached([reduction]) for size in expr.sizes_in(scalar)]
    atoms = {atom_at(i) for size in sizes for monomial, _ in terms_of(size) for i in monomial}
    for axis in axes:
        kinds = {type(atom) for atom in atoms if axis in of_atom(atom).symbols}
        if kinds in ({FloorDiv}, {Mod}):
            return True
    return False


def _one_axis(stages: Sequence[Stage]) -> list[Stage]:
    """Stages over equal extents share their axes; neighbours that need nothing of each other
    become one."""
    result: list[Stage] = []
    by_extents: dict[tuple[object, ...], tuple[Axis, ...]] = {}
    for stage in stages:
        key = tuple(axis.extent for axis in stage.axes)
        shared = by_extents.setdefault(key, stage.axes)
        if shared is not stage.axes:
            stage = over(stage, shared)
        last = result[-1] if result else None
        if last is not None and last.axes == stage.axes and not _needs(stage, last):
            result[-1] = joined(last, stage)
        else:
            result.append(stage)
    return result


def joined(first: Stage, second: Stage) -> Stage:
    return Stage(
        first.axes,
        first.stores + second.stores,
        first.folds + second.folds,
        first.scans + second.scans,
        first.checks + second.checks,
    )


def _needs(stage: Stage, earlier: Stage) -> bool:
    """Whether a stage uses what an earlier one has folded, or touches what it has stored."""
    names = {fold.name for fold in earlier.folds}
    written = {part.buffer for part in (*earlier.stores, *earlier.scans)}
    seen: set[Scalar] = set()
    stack = list(roots_of(stage))
    while stack:
        scalar = stack.pop()
        if scalar in seen:
            continue
        seen.add(scalar)
        if scalar.op == "row" and scalar.data in names:
            return True
        if scalar.op == "load" and scalar.data[0] in written:
            return True
        stack += scalar.args
        symbols = (symbol for size in expr.sizes_in(scalar) for symbol in symbols_of(size))
        positions = map(expr.position_scalar, symbols)
        stack += [position for position in positions if position is not None]
    return False


def _keeping(stages: Sequence[Stage], private: Private) -> tuple[list[Stage], Private]:
    """What is heavy and computed in one stage and again in a later one over the same axis is kept
    in a private row."""
    private = dict(private)
    result = list(stages)
    for position, stage in enumerate(result):
        if len(stage.axes) != 1:
            continue
        later = [
            each for each in range(position + 1, len(result)) if result[each].axes == stage.axes
        ]
        mine = _heavy(roots_of(stage))
        found = {each: frozenset(_heavy(roots_of(result[each]))) for each in later}
        # What a stage on the way stores to is another value afterwards, though read alike.
        changed = {each: _written(result[position:each]) for each in later}
        users = {
            scalar: [
                each
                for each in later
                if scalar in found[each] and not changed[each] & _buffers_read(scalar)
            ]
            for scalar in mine
        }
        again = [scalar for scalar in mine if users[scalar]]
        # The outermost of nested ones is enough.
        inside = {part for scalar in again for part in expr.reached([scalar]) if part is not scalar}
        for scalar in again:
            if scalar in inside:
                continue
            (axis,) = stage.axes
            name = f"row{len(private)}"
            place = of_atom(axis.symbol)
            private[name] = (scalar.dtype, axis.extent)
            kept = {scalar: expr.load(name, place, scalar.dtype)}
            stage = result[position] = replace(
                stage, stores=(*stage.stores, Store(name, place, scalar))
            )
            rewrite = Rewriting(kept.get)
            for each in users[scalar]:
                result[each] = mapped(result[each], rewrite)
    return result, private


def _written(stages: Iterable[Stage]) -> frozenset[str]:
    return frozenset(part.buffer for stage in stages for part in (*stage.stores, *stage.scans))


def _buffers_read(scalar: Scalar) -> set[str]:
    """Also to find positions."""
    found: dict[Symbol, Scalar] = {}
    _find_positions(scalar, found)
    parts = expr.reached([scalar, *found.values()])
    return {part.data[0] for part in parts if part.op == "load"}


def _heavy(roots: Iterable[Scalar]) -> list[Scalar]:
    """Operations that are heavy or made of heavy ones, outermost first."""
    weights: dict[Scalar, bool] = {}

    def visit(scalar: Scalar) -> bool:
        found = weights.get(scalar)
        if found is None:
            below = [visit(arg) for arg in scalar.args]
            found = weights[scalar] = scalar.op in HEAVY or (any(below) and scalar.op != "load")
        return found

    for root in roots:
        visit(root)
    return [scalar for scalar, heavy in reversed(weights.items()) if heavy]


def positions_of(scalar: Scalar) -> dict[Symbol, Scalar]:
    """The positions that it reads by, and those that they read by."""
    found: dict[Symbol, Scalar] = {}
    _find_positions(scalar, found)
    return found


def _find_positions(scalar: Scalar, found: dict[Symbol, Scalar]) -> None:
    """In an order that is the same in every process: code is found on disk by its text."""
    for part in expr.reached([scalar]):
        for size in expr.sizes_in(part):
            _positions_in(size, found)


def _positions_in(size: Size, found: dict[Symbol, Scalar]) -> None:
    for symbol in sorted(symbols_of(size), key=lambda each: each.key):
        if symbol not in found:
            position = expr.position_scalar(symbol)
            if position is not None:
                # Those it depends on come first.
                _find_positions(position, found)
                found[symbol] = position
