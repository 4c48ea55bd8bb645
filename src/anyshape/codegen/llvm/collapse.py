"""Fewer and longer loops: neighbouring axes become one where nothing tells them apart.

    (i0 < a, i1 < b): k1[i0*b + i1] = k0[i0*b + i1]     ->     (i1 < a*b): k1[i1] = k0[i1]

Vectors along a short last dimension would be mostly empty; along both they are full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anyshape.loops.kernels import Kernel, Stage
from anyshape.loops.scalars import Axis, Scalar
from anyshape.symbolic import Size, Symbol, substitute
from anyshape.symbolic.expr import of_atom, symbols_of

Change = Callable[[Size], Size]


def collapse(kernel: Kernel) -> Kernel:
    """The same kernel with as few axes as possible. The order of rounds stays."""
    kernel = replace(kernel, stages=tuple(_collapse_stage(kernel, s) for s in kernel.stages))
    number = 0
    while number < len(kernel.axes):
        joined = _join_outer(kernel, number)
        if joined is None:
            number += 1
        else:
            kernel = joined
    return kernel


def _join_outer(kernel: Kernel, number: int) -> Kernel | None:
    """Without the axis at that place: it has one round, or the next one takes it over."""
    found = _change(kernel.axes, number, _sizes_of_kernel(kernel))
    if found is None:
        return None
    axes, change = found
    rewrite = _Rewrite(change)
    return replace(
        kernel,
        axes=axes,
        stages=tuple(rewrite.stage(stage, stage.axes) for stage in kernel.stages),
        positions={name: rewrite.scalar(value) for name, value in kernel.positions.items()},
    )


def _collapse_stage(kernel: Kernel, stage: Stage) -> Stage:
    inside = [size for scalar in kernel.positions.values() for size in _sizes_in(scalar)]
    number = 0
    # What runs along the last axis begins anew where the others move.
    while number < len(stage.axes) - (2 if stage.scans else 0):
        positions = set[Symbol]().union(*(symbols_of(size) for size in inside))
        two = {axis.symbol for axis in stage.axes[number : number + 2]}
        found = _change(stage.axes, number, _sizes_of_stage(stage))
        if found is None or positions & two:
            number += 1
        else:
            axes, change = found
            stage = _Rewrite(change).stage(stage, axes)
    return stage


def _change(
    axes: tuple[Axis, ...], number: int, sizes: set[Size]
) -> tuple[tuple[Axis, ...], Change] | None:
    """The axes without the one at that place, and what becomes of sizes; None if it must stay."""
    axis = axes[number]
    name = axis.symbol

    def without(size: Size) -> Size:
        return substitute(size, {name: 0}) if name in symbols_of(size) else size

    if axis.extent == 1:
        return (*axes[:number], *axes[number + 1 :]), without
    if number + 1 == len(axes):
        return None
    following = axes[number + 1]
    if name in symbols_of(following.extent):
        return None
    both = of_atom(name) * following.extent + of_atom(following.symbol)
    for size in sizes:
        # Only the count over both axes may matter.
        if symbols_of(size) & {name, following.symbol} and (
            substitute(without(size), {following.symbol: both}) != size
        ):
            return None
    joined = Axis(following.symbol, axis.extent * following.extent)
    return (*axes[:number], joined, *axes[number + 2 :]), without


# -- what a kernel is written with -----------------------------------------------------------------


def _sizes_of_kernel(kernel: Kernel) -> set[Size]:
    sizes = {axis.extent for stage in kernel.stages for axis in stage.axes}
    sizes |= {axis.extent for axis in kernel.axes}
    for stage in kernel.stages:
        sizes |= _sizes_of_stage(stage)
    for scalar in kernel.positions.values():
        sizes |= _sizes_in(scalar)
    return sizes


def _sizes_of_stage(stage: Stage) -> set[Size]:
    sizes: set[Size] = {part.address for part in (*stage.stores, *stage.scans)}
    for part in (*stage.stores, *stage.scans, *stage.folds):
        sizes |= _sizes_in(part.value)
    for store in stage.stores:
        if store.mask is not None:
            sizes |= _sizes_in(store.mask)
    for check in stage.checks:
        sizes |= _sizes_in(check.condition)
    return sizes


def _sizes_in(root: Scalar) -> set[Size]:
    sizes: set[Size] = set()
    seen: set[Scalar] = set()
    stack = [root]
    while stack:
        scalar = stack.pop()
        if scalar in seen:
            continue
        seen.add(scalar)
        stack += scalar.args
        if scalar.op == "load":
            sizes.add(scalar.data[1])
        elif scalar.op == "index":
            sizes.add(scalar.data)
    return sizes


class _Rewrite:
    """The same parts with other sizes; what is shared stays shared."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._known: dict[Scalar, Scalar] = {}

    def scalar(self, scalar: Scalar) -> Scalar:
        found = self._known.get(scalar)
        if found is None:
            found = self._known[scalar] = self._rewritten(scalar)
        return found

    def _rewritten(self, scalar: Scalar) -> Scalar:
        args = tuple(map(self.scalar, scalar.args))
        data = scalar.data
        if scalar.op == "load":
            data = (data[0], self._change(data[1]))
        elif scalar.op == "index":
            data = self._change(data)
        if args == scalar.args and data == scalar.data:
            return scalar
        return Scalar(scalar.op, args, scalar.dtype, data, scalar.free, scalar.order)

    def stage(self, stage: Stage, axes: tuple[Axis, ...]) -> Stage:
        return Stage(
            axes=tuple(Axis(axis.symbol, self._change(axis.extent)) for axis in axes),
            stores=tuple(
                replace(
                    part,
                    address=self._change(part.address),
                    value=self.scalar(part.value),
                    mask=None if part.mask is None else self.scalar(part.mask),
                )
                for part in stage.stores
            ),
            folds=tuple(replace(part, value=self.scalar(part.value)) for part in stage.folds),
            scans=tuple(
                replace(part, address=self._change(part.address), value=self.scalar(part.value))
                for part in stage.scans
            ),
            checks=tuple(
                replace(part, condition=self.scalar(part.condition)) for part in stage.checks
            ),
        )
