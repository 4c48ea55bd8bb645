"""Checks of positions as kernels of their own, where the program writes to what it is given.

Where an operator of eager code finds a bad index, nothing behind it has been written yet, and
everything before it has. A kernel that reads by positions checks them while it stores, and may be
made long after its operator stood in the program; so the positions are looked at where the operator
stands, and no write to given memory goes past such a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from anyshape.graph.plan import Compute, Native, Step
from anyshape.loops import expr
from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.kernels import Check, Kernel
from anyshape.loops.stages import kernel_of, positions_of
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Symbol
from anyshape.symbolic.extrema import minimum


def position_checks(scalar: Scalar) -> list[Check]:
    """What must hold where this is computed."""
    found = (expr.position_check(symbol) for symbol in positions_of(scalar))
    return [Check(*each) for each in found if each is not None]


def check_kernel(axes: Sequence[Axis], checks: Sequence[Check]) -> Kernel:
    """A kernel that checks and does nothing else: for axes that do not matter once, if at all."""
    needed = _free(check.condition for check in checks)
    outer = [
        axis if axis.symbol in needed else replace(axis, extent=minimum(axis.extent, 1))
        for axis in axes
    ]
    return kernel_of([axis for axis in outer if axis.extent != 1], [], checks=checks)


def checks_of_step(step: Step) -> Iterator[Kernel]:
    """The checks of a kernel that stores."""
    if not isinstance(step, Compute) or not step.writes:
        return
    for stage in step.kernel.stages:
        parts = expr.reached(check.condition for check in stage.checks)
        inner = [part for part in parts if part.op == "row" or _is_private(part, step.kernel)]
        if stage.checks and not inner:
            yield check_kernel([*step.kernel.axes, *stage.axes], stage.checks)


def is_check(step: Step) -> bool:
    """Whether a step checks positions, and does nothing else. Numbers that a dtype cannot have end
    a program as well, but hardly ever: updates of optimizers have such checks between them."""
    return (
        isinstance(step, Compute)
        and not step.writes
        and any(
            check.message in expr.BAD_POSITIONS
            for stage in step.kernel.stages
            for check in stage.checks
        )
    )


def may_fail(step: Step) -> bool:
    """Whether a program may end here, for what is in its tensors."""
    return step.extern.function in _FAILING if isinstance(step, Native) else is_check(step)


#: Functions of the tensor library that are given positions.
_FAILING: Final = frozenset(
    {"scatter_src_out", "scatter_reduce_two_out", "_embedding_bag_forward_only"}
)


def _is_private(part: Scalar, kernel: Kernel) -> bool:
    return part.op == "load" and part.data[0] in kernel.private


def _free(conditions: Iterable[Scalar]) -> frozenset[Symbol]:
    """What these depend on, also by the positions that they read."""
    free: set[Symbol] = set()
    for condition in conditions:
        free |= condition.free
        for position in positions_of(condition).values():
            free |= position.free
    return frozenset(free)
