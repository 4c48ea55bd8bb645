"""A kernel: parallel axes around stages of inner loops.

For each point of `axes`, the stages run in order. A stage loops over its own axes; in each round it
stores elements and folds values. What a stage has folded is a `row` scalar to the stages after it:
one value for each point of the outer axes. A pointwise kernel is one stage without axes of its
own; softmax has three, each over the row.

    kernel (i0 < s0)
      stage (r0 < s1): %0 = max b0[i0*s1 + r0]
      stage (r0 < s1): %1 = sum exp(b0[i0*s1 + r0] - %0)
      stage (r0 < s1): b1[i0*s1 + r0] = exp(b0[i0*s1 + r0] - %0) / %1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from anyshape.loops.expr import Axis, Dtype, Scalar, constant
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, Symbol

Mode = Literal["set", "add", "mul", "maximum", "minimum"]


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[address] = value`, or `+=` and the like in the order of the loops: by an operation of
    what is there and the value."""

    buffer: str
    address: Size
    value: Scalar
    mode: Mode = "set"
    #: nothing is written where it is false
    mask: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Fold:
    """The fold of a value over all axes of its stage; `row(name)` afterwards."""

    name: str
    fold: str
    value: Scalar
    dtype: Dtype


@dataclass(frozen=True, slots=True)
class Scan:
    """The fold of a value over the rounds of the stage's last axis up to and with the one at hand,
    stored: a running sum. It begins anew where an outer axis moves."""

    fold: str
    value: Scalar
    dtype: Dtype
    buffer: str
    address: Size


@dataclass(frozen=True, slots=True)
class Check:
    """A condition (b1) on data that must hold in every round, or the kernel reports that it
    failed. Loads are safe all the same: lowering makes them so."""

    condition: Scalar
    message: str


@dataclass(frozen=True, slots=True)
class Stage:
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...] = ()
    folds: tuple[Fold, ...] = ()
    scans: tuple[Scan, ...] = ()
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    #: parallel: no round reads or writes what another writes
    axes: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    #: positions read from tensors, by the symbol in addresses that stands for them
    positions: Mapping[Symbol, Scalar]
    #: buffers that one point of the outer axes fills and reads, and nobody else: private to a
    #: thread, addressed by the inner axes alone. Elements, by name
    private: Mapping[str, tuple[Dtype, Size]]
    #: whether rounds may write the same element (`+=` to positions read from a tensor): they run
    #: one after the other. Those of the stage's axes if it has some, and then `axes` are parallel
    #: all the same; else those of `axes`
    ordered: bool = False
    #: whether the axis of vectors was too short for them when the program was seen first: code is
    #: made for that case as well, and which one runs is decided by its extent
    short: bool = False
    #: whether its one stage is attention (`loops/attention.py`)
    attends: bool = False

    @property
    def is_vacuous(self) -> bool:
        """Whether all that it stores is stored in loops without rounds, whatever the sizes."""
        stages = [each for each in self.stages if each.stores or each.scans or each.checks]
        return all(_is_empty(*self.axes, *each.axes) for each in stages)

    def without_reads(self) -> Kernel:
        """The same of a vacuous one. What it would fold for nothing may have no memory."""

        def nothing(to: Store | Scan) -> Store:
            return Store(to.buffer, 0, constant(0, to.value.dtype))

        stages = [
            Stage(each.axes, tuple(map(nothing, (*each.stores, *each.scans))))
            for each in self.stages
            if each.stores or each.scans
        ]
        return replace(self, stages=tuple(stages), positions={})


def _is_empty(*axes: Axis) -> bool:
    return any(type(axis.extent) is int and axis.extent == 0 for axis in axes)
