"""Sums of exponentials in the rounds that find what is largest.

The stages of a softmax read a row once for its maximum, and once more for the sum. A running sum
that is scaled whenever a larger element comes along needs one reading:

    stage (i < n): %0 = max x[i]                  stage (i < n): %0 = max x[i]
    stage (i < n): %1 = sum exp(x[i] - %0)   ->                  %1 = expsum x[i]

What the second stage kept for later ones is computed again there. That is for rows which are read
from memory by each stage: for others a second reading costs less than the scaling.
"""

from __future__ import annotations

import math
from typing import Final

from anyshape.loops.expr import Scalar, reached
from anyshape.loops.kernels import Fold, Kernel, Stage
from anyshape.loops.stages import mapped
from anyshape.loops.substitute import Rewriting
from anyshape.loops.vector_axis import scalars_of
from anyshape.support.lazy_dataclass import replace
from anyshape.symbolic import Size

#: By what stands for the maximum in the exponents: itself, or 0 where it is infinite.
EXPSUM: Final = "expsum"
EXPSUM_FINITE: Final = "expsum_finite"
ONLINE_SUMS: Final = frozenset({EXPSUM, EXPSUM_FINITE})


def with_online_sums(kernel: Kernel) -> Kernel:
    """The kernel with one stage for the two of a sum of exponentials below a maximum; itself if
    there are none such."""
    for number, (first, second) in enumerate(zip(kernel.stages, kernel.stages[1:], strict=False)):
        fold = _online(kernel, first, second)
        if fold is None:
            continue
        kept = {(part.buffer, part.address): part.value for part in second.stores}
        again = Rewriting(lambda scalar, kept=kept: _kept(scalar, kept))
        stages = (
            *kernel.stages[:number],
            replace(first, folds=(*first.folds, fold)),
            *(mapped(stage, again) for stage in kernel.stages[number + 2 :]),
        )
        gone = {part.buffer for part in second.stores}
        private = {name: of for name, of in kernel.private.items() if name not in gone}
        made = replace(kernel, stages=stages, private=private)
        if not any(_buffers_read(made, stage) & gone for stage in made.stages):
            return made
    return kernel


def _kept(scalar: Scalar, kept: dict[tuple[str, Size], Scalar]) -> Scalar | None:
    return kept.get(scalar.data) if scalar.op == "load" and not scalar.args else None


def _online(kernel: Kernel, first: Stage, second: Stage) -> Fold | None:
    """The sum that the second stage folds, as one of the first."""
    if first.axes != second.axes or len(first.axes) != 1 or len(second.folds) != 1:
        return None
    if first.stores or first.scans or first.checks or second.scans or second.checks:
        return None
    (total,) = second.folds
    maxima = {fold.name: fold for fold in first.folds if fold.fold == "max"}
    value = _through(total.value, second)
    found = _exponent(value)
    if found is None or total.fold != "sum" or total.dtype not in ("f32", "f64"):
        return None
    name, kind, exponent = found
    largest = maxima.get(name)
    if largest is None or largest.value is not exponent or largest.dtype != total.dtype:
        return None
    read = {scalar.data[0] for scalar in scalars_of(kernel, second) if scalar.op == "load"}
    for part in second.stores:
        # What is computed again has to be what it was.
        if part.buffer not in kernel.private or part.mode != "set" or part.mask is not None:
            return None
    for stage in kernel.stages if second.stores else ():
        if stage is not second and read & {part.buffer for part in stage.stores}:
            return None
    return Fold(total.name, kind, exponent, total.dtype)


def _through(value: Scalar, stage: Stage) -> Scalar:
    """What was just stored, of a load of it."""
    return next((p.value for p in stage.stores if (p.buffer, p.address) == value.data), value)


def _exponent(value: Scalar) -> tuple[str, str, Scalar] | None:
    """Of `exp(x - largest)`: which row the largest is, which fold that is, and `x`."""
    if value.op != "exp" or value.args[0].op != "sub":
        return None
    exponent, below = value.args[0].args
    if below.op == "row":
        return below.data, EXPSUM, exponent
    if below.op != "where" or below.args[2].op != "row":
        return None
    is_infinite, zero, largest = below.args
    size, bound = is_infinite.args if is_infinite.op == "eq" else (value, value)
    if size.op != "abs" or size.args != (largest,) or zero.data != 0.0 or bound.data != math.inf:
        return None
    return largest.data, EXPSUM_FINITE, exponent


def _buffers_read(kernel: Kernel, stage: Stage) -> set[str]:
    found = reached(scalars_of(kernel, stage))
    return {scalar.data[0] for scalar in found if scalar.op == "load"}
