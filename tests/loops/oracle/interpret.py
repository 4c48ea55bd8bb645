"""Run a kernel in Python, element by element: what a kernel means, and what code is tested against.

Buffers are lists of Python numbers. Sums of floats are exact before they are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableSequence

from anyshape.loops.expr import FLOATS, Axis, Dtype, Scalar
from anyshape.loops.kernels import Fold, Kernel, Scan, Stage
from anyshape.support.lazy_dataclass import dataclass, field
from anyshape.symbolic import Size, Symbol, evaluate
from tests.loops.oracle.arithmetic import Number, apply, cast, wrap
from tests.loops.oracle.rounding import round_to

Buffers = dict[str, MutableSequence[Number]]


def run_kernel(
    kernel: Kernel,
    buffers: Mapping[str, MutableSequence[Number]],
    sizes: Mapping[Symbol, int],
    numbers: Mapping[str, float] | None = None,
) -> str | None:
    """Fill the buffers; the message of the first check that failed, or None."""
    failed: set[int] = set()
    for point in _points(kernel.axes, dict(sizes)):
        own: Buffers = dict(buffers)
        for name, (_, size) in kernel.private.items():
            own[name] = [math.nan] * evaluate(size, point)
        state = _Point(kernel, own, dict(numbers or {}), point)
        first = 0
        for stage in kernel.stages:
            state.run(stage, first, failed)
            first += len(stage.checks)
    checks = [check for stage in kernel.stages for check in stage.checks]
    return checks[min(failed)].message if failed else None


def _points(axes: tuple[Axis, ...], values: dict[Symbol, int]) -> Iterator[dict[Symbol, int]]:
    if not axes:
        yield values
        return
    for value in range(evaluate(axes[0].extent, values)):
        yield from _points(axes[1:], {**values, axes[0].symbol: value})


@dataclass
class _Point:
    """One point of the parallel axes."""

    kernel: Kernel
    buffers: Buffers
    numbers: dict[str, float]
    values: dict[Symbol, int]
    rows: dict[str, Number] = field(default_factory=dict)

    def run(self, stage: Stage, first: int, failed: set[int]) -> None:
        folded: dict[str, list[Number]] = {fold.name: [] for fold in stage.folds}
        scanned: dict[int, list[Number]] = {}
        before: tuple[int, ...] | None = None
        for values in _points(stage.axes, self.values):
            around = tuple(values[axis.symbol] for axis in stage.axes[:-1])
            if around != before:
                before, scanned = around, {number: [] for number in range(len(stage.scans))}
            round_ = _Round(self, values)
            for number, check in enumerate(stage.checks):
                if not round_.of(check.condition):
                    failed.add(first + number)
            for fold in stage.folds:
                folded[fold.name].append(round_.of(fold.value))
            writes: list[tuple[str, int, Number]] = []
            for number, scan in enumerate(stage.scans):
                scanned[number].append(round_.of(scan.value))
                address = round_.size(scan.address)
                writes.append((scan.buffer, address, _fold(scan, scanned[number])))
            for store in stage.stores:
                if store.mask is not None and not round_.of(store.mask):
                    continue
                address, value = round_.size(store.address), round_.of(store.value)
                if store.mode != "set":
                    old = self.buffers[store.buffer][address]
                    dtype = store.value.dtype
                    name = "or" if dtype == "b1" and store.mode == "add" else store.mode
                    value = apply(name, (old, value), dtype, dtype)
                writes.append((store.buffer, address, value))
            for buffer, address, value in writes:
                self.buffers[buffer][address] = value
        for fold in stage.folds:
            self.rows[fold.name] = _fold(fold, folded[fold.name])


class _Round:
    """One round of a stage: its values, each computed once."""

    def __init__(self, point: _Point, values: dict[Symbol, int]) -> None:
        self._point = point
        self._values = values
        self._known: dict[Scalar, Number] = {}

    def of(self, scalar: Scalar) -> Number:
        if scalar not in self._known:
            self._known[scalar] = self._compute(scalar)
        return self._known[scalar]

    def size(self, size: Size) -> int:
        if isinstance(size, int):
            return size
        values = dict(self._values)
        for symbol in size.symbols:
            position = self._point.kernel.positions.get(symbol)
            if position is not None:
                values[symbol] = int(self.of(position))
        return evaluate(size, values)

    def _compute(self, scalar: Scalar) -> Number:
        match scalar.op:
            case "constant":
                data = scalar.data
                return round_to(data, scalar.dtype) if scalar.dtype in FLOATS else data
            case "index":
                return self.size(scalar.data)
            case "number":
                return self._point.numbers[scalar.data]
            case "row":
                return self._point.rows[scalar.data]
            case "load":
                buffer, address = scalar.data
                if scalar.args and not self.of(scalar.args[0]):
                    return self.of(scalar.args[1])
                place = self.size(address)
                assert place >= 0, f"{buffer}[{place}] is before the buffer"
                return self._point.buffers[buffer][place]
            case "where":
                condition, yes, no = scalar.args
                return self.of(yes if self.of(condition) else no)
            case "cast":
                return cast(self.of(scalar.args[0]), scalar.args[0].dtype, scalar.dtype)
            case name:
                args = tuple(map(self.of, scalar.args))
                return apply(name, args, scalar.args[0].dtype, scalar.dtype)


def _fold(part: Fold | Scan, values: list[Number]) -> Number:
    dtype = part.dtype
    source = part.value.dtype
    match part.fold:
        case "argmax" | "argmin":
            return _position(part.fold, values)
        case "any" | "all":
            return any(values) if part.fold == "any" else all(values)
        case "sum" | "prod":
            cast_values = [cast(value, source, dtype) for value in values]
            return _total(part.fold, cast_values, dtype)
        case "max" | "min" if not values:
            return math.nan
        case _:
            if any(math.isnan(value) for value in values):
                return math.nan
            return max(values) if part.fold == "max" else min(values)


def _total(fold: str, values: list[Number], dtype: Dtype) -> Number:
    if fold == "sum":
        if dtype not in FLOATS:
            return wrap(sum(map(int, values)), dtype)
        plain = sum(map(float, values))
        return round_to(math.fsum(values) if math.isfinite(plain) else plain, dtype)
    if dtype not in FLOATS:
        return wrap(math.prod(map(int, values)), dtype)
    return round_to(math.prod(map(float, values)), dtype)


def _position(fold: str, values: list[Number]) -> int:
    for number, value in enumerate(values):
        if math.isnan(value):
            return number
    best = max(values) if fold == "argmax" else min(values)
    return values.index(best)
