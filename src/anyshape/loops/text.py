"""Kernels and programs as text: what logs show, and the key by which equal kernels are one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from anyshape.loops.expr import Axis, Scalar
from anyshape.loops.generalized import range_of
from anyshape.loops.kernels import Check, Fold, Kernel, Scan, Stage, Store
from anyshape.loops.program import Extern, Launch, Repeated, Segment, Step, buffers_of
from anyshape.symbolic import Size, to_text

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">"}
_SIGNS |= {"ge": ">=", "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^"}


def scalar_text(scalar: Scalar) -> str:
    """One line, shared parts written out."""
    return _Lines(set()).of(scalar)


_STORES: Final = {"set": "=", "add": "+="}


def kernel_text(kernel: Kernel) -> str:
    """All that matters of a kernel. Parts that are used twice have a line of their own."""
    kind = "".join(f" {name}" for name in ("ordered", "short", "attends") if getattr(kernel, name))
    lines = [f"kernel{kind} ({_axes(kernel.axes)})"]
    for name, (dtype, size) in kernel.private.items():
        lines.append(f"  private {name}: {dtype}[{to_text(size)}]")
    for symbol, scalar in kernel.positions.items():
        lines.append(f"  position {symbol.name} = {scalar_text(scalar)}")
    for stage in kernel.stages:
        lines.append(f"  stage ({_axes(stage.axes)})")
        lines += [f"    {line}" for line in _stage(stage)]
    return "\n".join(lines)


def kernel_key(launch: Launch) -> str:
    """All that the code of a launch's kernel depends on."""
    ranges = ", ".join(str(range_of(size)) for size in launch.sizes)
    return f"{kernel_text(launch.kernel)}\n{ranges}"


def segment_text(segment: Segment) -> str:
    """A program step by step."""
    head = ", ".join(
        [
            *(f"{b.name}: {b.dtype}{_shape(b.sizes, b.strides)}" for b in segment.inputs),
            *(symbol.name for symbol in segment.given),
            *segment.numbers,
        ]
    )
    lines = [f"segment ({head})"]
    for symbol, tensor, dim in segment.read:
        lines.append(f"  {symbol.name} = size {dim} of {segment.inputs[tensor].name}")
    for buffer in (*segment.temporaries, *segment.outputs):
        shape = _shape(buffer.sizes, buffer.strides)
        lines.append(f"  {buffer.role} {buffer.name}: {buffer.dtype}{shape}")
    number = 0
    while number < len(segment.steps):
        if segment.repeated is not None and number == segment.repeated.first:
            lines += _rounds(segment.steps, segment.repeated)
            number += segment.repeated.length * segment.repeated.rounds
            continue
        lines += _step(segment.steps[number])
        number += 1
    return "\n".join(lines)


def _step(step: Step) -> list[str]:
    if isinstance(step, Extern):
        return [f"  {step.function}({', '.join(map(str, step.arguments))})"]
    names = [*step.buffers, *map(to_text, step.sizes), *step.numbers]
    kernel = kernel_text(step.kernel).splitlines()
    return [f"  launch ({', '.join(names)})", *(f"    {line}" for line in kernel)]


def _rounds(steps: Sequence[Step], repeated: Repeated) -> list[str]:
    """The first round, and which buffers the others have in its place."""
    first, length, rounds = repeated
    lines = [line for step in steps[first : first + length] for line in _step(step)]
    for number in range(1, rounds):
        start = first + length * number
        names = [name for step in steps[start : start + length] for name in buffers_of(step)]
        lines.append(f"  these {length} steps again with {' '.join(names)}")
    return lines


def _shape(sizes: tuple[Size, ...], strides: tuple[Size, ...]) -> str:
    inner = ", ".join(f"{to_text(a)}:{to_text(b)}" for a, b in zip(sizes, strides, strict=True))
    return f"[{inner}]"


def _axes(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis.symbol.name} < {to_text(axis.extent)}" for axis in axes)


def _stage(stage: Stage) -> list[str]:
    parts: list[Store | Fold | Scan | Check] = [*stage.checks, *stage.folds, *stage.scans]
    parts += stage.stores
    lines = _Lines(_shared(parts))
    for part in parts:
        value = lines.of(part.condition if isinstance(part, Check) else part.value)
        match part:
            case Check():
                lines.add(f"check {value}, {part.message!r}")
            case Fold():
                lines.add(f"{part.name} = {part.fold} {value} as {part.dtype}")
            case Scan():
                target = f"{part.buffer}[{to_text(part.address)}]"
                lines.add(f"{target} = running {part.fold} {value} as {part.dtype}")
            case Store():
                target = f"{part.buffer}[{to_text(part.address)}]"
                where = "" if part.mask is None else f" where {lines.of(part.mask)}"
                lines.add(f"{target} {_STORES.get(part.mode, part.mode)} {value}{where}")
    return lines.lines


def _shared(parts: Iterable[Store | Fold | Scan | Check]) -> set[Scalar]:
    """What is used more than once and is worth a name."""
    seen: set[Scalar] = set()
    shared: set[Scalar] = set()
    stack: list[Scalar] = []
    for part in parts:
        stack.append(part.condition if isinstance(part, Check) else part.value)
        if isinstance(part, Store) and part.mask is not None:
            stack.append(part.mask)
    while stack:
        scalar = stack.pop()
        if scalar in seen:
            if scalar.args:
                shared.add(scalar)
            continue
        seen.add(scalar)
        stack += scalar.args
    return shared


class _Lines:
    def __init__(self, shared: set[Scalar]) -> None:
        self._shared = shared
        self._names: dict[Scalar, str] = {}
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        self.lines.append(line)

    def of(self, scalar: Scalar) -> str:
        found = self._names.get(scalar)
        if found is None:
            found = self._text(scalar)
            if scalar in self._shared:
                name = f"v{len(self._names)}"
                self.add(f"{name} = {found}")
                self._names[scalar] = found = name
        return found

    def _text(self, scalar: Scalar) -> str:
        match scalar.op:
            case "constant":
                return f"{scalar.data!r}:{scalar.dtype}"
            case "index":
                return f"({to_text(scalar.data)})"
            case "number" | "row":
                return str(scalar.data)
            case "load":
                buffer, address = scalar.data
                text = f"{buffer}[{to_text(address)}]:{scalar.dtype}"
                if scalar.args:
                    mask, other = map(self.of, scalar.args)
                    return f"({text} if {mask} else {other})"
                return text
            case "reduce":
                fold, axes = scalar.data
                return f"{fold}({_axes(axes)}: {self.of(scalar.args[0])})"
            case "cast":
                return f"{scalar.dtype}({self.of(scalar.args[0])})"
            case name:
                args = [self.of(arg) for arg in scalar.args]
                if name in _SIGNS:
                    return f"({args[0]} {_SIGNS[name]} {args[1]})"
                return f"{name}({', '.join(args)})"
