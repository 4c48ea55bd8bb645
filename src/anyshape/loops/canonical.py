"""One form for equal kernels: neighbouring axes that run as one are one, and names go by order.

Layers that differ in their buffers and symbols only have the same kernel then, which is compiled
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from anyshape.loops import expr
from anyshape.loops.collapsed_axes import SHORT, vectors_extent
from anyshape.loops.expr import Axis, Dtype, Scalar
from anyshape.loops.generalized import generalized, with_names
from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.linear import Hint, ProvablyEqual, run_as_one
from anyshape.loops.program import Buffer, Launch, Segment, Step, with_buffers
from anyshape.loops.stages import mapped, mapped_kernel, roots_of
from anyshape.loops.stages import with_buffers as stage_with_buffers
from anyshape.loops.substitute import Renaming, Rewriting
from anyshape.loops.tiled import tiled
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Expr, Size, Symbol, as_symbol, symbol
from anyshape.symbolic.expr import of_atom, symbols_of


def canonical(
    kernel: Kernel, same: ProvablyEqual | None = None, seen: Hint | None = None
) -> Launch:
    """A kernel over its own names, and what they stand for. `same`: whether two sizes are equal
    whenever the kernel runs. `seen`: what a size was when the program was captured, if that is
    known."""
    if same is not None and seen is not None:
        kernel = _with_one_name(kernel, same, seen)
    kernel = _fewer_axes(kernel)
    if same is not None and seen is not None:
        extent = vectors_extent(kernel)
        width = None if extent is None else seen(extent)
        points = max((seen(axis.extent) or 0 for axis in kernel.axes), default=0)
        if width is not None and width < SHORT <= points:
            kernel = replace(kernel, short=True)
        kernel = tiled(kernel, seen)
    kernel, meanings = with_names(kernel, _sizes(kernel.stages, kernel.positions))
    kernel, meanings = generalized(*_own_symbols(kernel, meanings))
    kernel, meanings = _own_symbols(kernel, meanings)
    return _own_names(kernel, tuple(meanings.values()))


# -- axes -----------------------------------------------------------------------------------------


def _fewer_axes(kernel: Kernel) -> Kernel:
    kernel = _without_single(kernel)
    while pair := _joinable(kernel.axes, kernel.stages, kernel.positions):
        axes = _joined(kernel.axes, *pair)
        kernel = replace(_renamed(kernel, {pair[0].symbol: 0}), axes=axes)
    if kernel.attends:
        return kernel  # each axis of its stage has a meaning
    stages = tuple(_fewer_in_stage(stage, kernel.positions) for stage in kernel.stages)
    return replace(kernel, stages=stages)


def _joinable(
    axes: Sequence[Axis], stages: Iterable[Stage], positions: Mapping[Symbol, Scalar]
) -> tuple[Axis, Axis] | None:
    """Neighbouring axes that run as one."""
    if len(axes) < 2:
        return None
    sizes = _sizes(stages, positions)
    for first, second in pairwise(axes):
        if run_as_one(sizes, first.symbol, second.symbol, second.extent):
            return first, second
    return None


def _joined(axes: Sequence[Axis], first: Axis, second: Axis) -> tuple[Axis, ...]:
    both = Axis(second.symbol, first.extent * second.extent)
    return tuple(both if axis is second else axis for axis in axes if axis is not first)


def _without_single(kernel: Kernel) -> Kernel:
    """Axes that run once do not run."""
    single = [axis for axis in kernel.axes if axis.extent == 1]
    if not single:
        return kernel
    kernel = _renamed(kernel, {axis.symbol: 0 for axis in single})
    return replace(kernel, axes=tuple(axis for axis in kernel.axes if axis.extent != 1))


def _fewer_in_stage(stage: Stage, positions: Mapping[Symbol, Scalar]) -> Stage:
    """A position may depend on the axes of several stages: they stay as they are then."""
    bound = {axis.symbol for axis in stage.axes}
    if any(scalar.free & bound for scalar in positions.values()):
        return stage
    while not stage.scans and (pair := _joinable(stage.axes, [stage], {})):
        renaming = Renaming({pair[0].symbol: 0})
        stage = replace(mapped(stage, renaming, renaming), axes=_joined(stage.axes, *pair))
    return stage


def _sizes(stages: Iterable[Stage], positions: Mapping[Symbol, Scalar]) -> list[Size]:
    """All sizes that are computed in a kernel."""
    found: list[Size] = []
    roots = list(positions.values())
    for stage in stages:
        roots += roots_of(stage)
        found += [part.address for part in (*stage.stores, *stage.scans)]
    for scalar in expr.reached(roots):
        found += expr.sizes_in(scalar)
    return found


# -- names ----------------------------------------------------------------------------------------


def _renamed(kernel: Kernel, sizes: Mapping[Symbol, Size]) -> Kernel:
    renaming = Renaming(sizes)

    def renamed(axis: Axis) -> Axis:
        found = sizes.get(axis.symbol)
        name = as_symbol(found) if isinstance(found, Expr) else axis.symbol
        return Axis(name, renaming.size(axis.extent))

    made = mapped_kernel(kernel, renaming, renaming, renamed)
    positions: dict[Symbol, Scalar] = {}
    for name, scalar in kernel.positions.items():
        new = as_symbol(renaming.size(of_atom(name)))
        positions[new] = renaming(scalar)
        expr.name_position(new, positions[new])
    private: dict[str, tuple[Dtype, Size]] = {
        name: (dtype, renaming.size(size)) for name, (dtype, size) in kernel.private.items()
    }
    return replace(made, positions=positions, private=private)


def _with_one_name(kernel: Kernel, same: ProvablyEqual, seen: Hint) -> Kernel:
    """Symbols that are always equal are one: there is less to compute for each row, and it shows
    where rows follow each other."""
    axes = [*kernel.axes, *(axis for stage in kernel.stages for axis in stage.axes)]
    bound = {axis.symbol for axis in axes} | kernel.positions.keys()
    names: dict[Symbol, Size] = {}
    kept: dict[int, list[Symbol]] = {}
    done = set(bound)
    for size in (*(axis.extent for axis in axes), *_sizes(kernel.stages, kernel.positions)):
        for each in sorted(symbols_of(size) - done, key=lambda s: s.key):
            done.add(each)
            value = seen(of_atom(each))
            if value is None:
                continue
            # Only what was equal once can be equal always, which takes longer to find out.
            others = kept.setdefault(value, [])
            equal = next((s for s in others if same(of_atom(s), of_atom(each))), None)
            if equal is None:
                others.append(each)
            else:
                names[each] = of_atom(equal)
    return _renamed(kernel, names) if names else kernel


def _own_symbols(
    kernel: Kernel, meanings: Mapping[Symbol, Size]
) -> tuple[Kernel, dict[Symbol, Size]]:
    """Axes are i0, i1 ... and symbols of the program n0, n1 ..., in the order of their use. Some
    stand for what is computed of others: `meanings`, and those of the new ones."""
    names: dict[Symbol, Size] = {}
    own: dict[Symbol, Size] = {}
    bound: list[Axis] = list(kernel.axes)
    for stage in kernel.stages:
        bound += [axis for axis in stage.axes if axis not in bound]
    for axis in bound:
        names.setdefault(axis.symbol, symbol(f"i{len(names)}"))
    for size in (*(axis.extent for axis in bound), *_sizes(kernel.stages, kernel.positions)):
        for each in sorted(symbols_of(size), key=lambda s: s.key):
            if each not in names and each not in kernel.positions:
                names[each] = new = symbol(f"n{len(own)}", each.declared)
                own[as_symbol(new)] = meanings.get(each, of_atom(each))
    for number, each in enumerate(kernel.positions):
        names[each] = symbol(f"p{number}")
    return _renamed(kernel, names), own


def _own_names(kernel: Kernel, sizes: tuple[Size, ...]) -> Launch:
    """Buffers are k0, k1 ... and numbers f0, f1 ..., in the order of their use."""
    buffers: dict[str, str] = {}
    numbers: dict[str, str] = {}

    def buffer(name: str) -> str:
        if name in kernel.private:
            return name
        return buffers.setdefault(name, f"k{len(buffers)}")

    def change(scalar: Scalar) -> Scalar | None:
        if scalar.op == "load":
            name, address = scalar.data
            args = tuple(map(rewrite, scalar.args))
            return expr.load(buffer(name), address, scalar.dtype, *args)
        if scalar.op == "number":
            return expr.number(numbers.setdefault(scalar.data, f"f{len(numbers)}"))
        return None

    rewrite = Rewriting(change)
    positions = {name: rewrite(scalar) for name, scalar in kernel.positions.items()}
    stages = tuple(stage_with_buffers(mapped(s, rewrite), buffer) for s in kernel.stages)
    named = replace(kernel, stages=stages, positions=positions)
    return Launch(named, tuple(buffers), sizes, tuple(numbers))


def own_names(segment: Segment) -> Segment:
    """The segment with names of its own for buffers and numbers, in their order."""
    buffers: dict[str, str] = {}
    numbers = {name: f"f{place}" for place, name in enumerate(segment.numbers)}
    for buffer in (*segment.inputs, *segment.temporaries, *segment.outputs):
        buffers[buffer.name] = f"x{len(buffers)}"

    def named(group: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return tuple(replace(buffer, name=buffers[buffer.name]) for buffer in group)

    steps: list[Step] = []
    for step in segment.steps:
        step = with_buffers(step, buffers.__getitem__)
        if isinstance(step, Launch):
            step = replace(step, numbers=tuple(numbers[name] for name in step.numbers))
        steps.append(step)
    return replace(
        segment,
        inputs=named(segment.inputs),
        numbers=tuple(numbers.values()),
        temporaries=named(segment.temporaries),
        outputs=named(segment.outputs),
        steps=tuple(steps),
    )
