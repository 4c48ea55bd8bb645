"""`mode="max-autotune"`: where a kernel is hot, other plans of it are tried, and the best is kept.

A segment counts its calls by size class. When a class is hot, each of its kernels is run by itself,
with one parameter of its plan after the other changed (`ALTERNATIVES`), and the segment gets code
of its own for the class. The same code path makes it: plans differ by their parameters alone.

Kernels are run with the arguments of the call at hand where they only read them, and on memory of
their own where they write. What is measured is kept on disk, by the kernel's text, the kind of the
device and the size class.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol

import torch

from anyshape.backends.native.build import DeferredCode
from anyshape.codegen.llvm import choice as cpu
from anyshape.codegen.llvm.plan import make_plan
from anyshape.codegen.nvptx import choice as gpu
from anyshape.codegen.nvptx.module import functions_of
from anyshape.codegen.target import Target
from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.graph.plan import computing
from anyshape.loops import expr
from anyshape.loops.expr import reached
from anyshape.loops.kernels import Kernel
from anyshape.loops.program import Buffer, Launch, Segment
from anyshape.loops.stages import all_roots, roots_of
from anyshape.loops.text import kernel_key
from anyshape.loops.traffic import traffic
from anyshape.runtime.loader.build import disk_cache
from anyshape.runtime.loader.disk_cache import key_of
from anyshape.runtime.loader.host_target import host_target
from anyshape.runtime.loader.own_sources import sources_hash
from anyshape.runtime.loader.torch_abi import TORCH_DTYPE
from anyshape.support.lazy_dataclass import asdict, replace
from anyshape.symbolic import Symbol, evaluate, to_text
from anyshape.symbolic.expr import symbols_of

Choice = cpu.CpuChoice | gpu.GpuChoice
#: code for a segment whose kernels have these plans
Make = Callable[[Segment, Mapping[Kernel, Choice]], Callable[..., Any]]

#: Calls in a size class before it is hot. CUDA graphs are recorded later than that.
_HOT: Final = 2
#: Size classes of a segment that have code of their own.
_MOST_CLASSES: Final = 16
#: Tuples of sizes whose class is remembered.
_MOST_SIZES: Final = 1024
#: The part of a plan's time that another one must not take: less is chance.
_WORTH: Final = 0.97
#: How often two plans are measured against each other.
_TURNS: Final = 2
#: The part of the free memory that kernels are tried in.
_ROOM: Final = 0.25
_MOST_LINES: Final = 12
_MOST_SIZES_TOLD: Final = 4
#: What makes the code that was measured.
_SOURCES: Final = ("codegen", "loops", "symbolic", "backends/native")

#: One kernel is measured at a time in a process: others would be in its way.
_measuring: Final = threading.Lock()


def size_class(size: int) -> tuple[int, int]:
    """How many binary digits a size has, and which powers of two up to 16 divide it: that decides
    on vectors."""
    return size.bit_length(), min(size & -size, 16)


# -- devices --------------------------------------------------------------------------------------


class Plans(Protocol):
    """The plans that kernels may have on a device."""

    device: torch.device
    usual: Choice
    alternatives: Mapping[str, Sequence[int]]

    def kind(self) -> str:
        """The device, as far as times depend on it."""
        ...

    def identity(self, kernel: Kernel, choice: Choice) -> object:
        """Equal for choices that make the same code."""
        ...

    def can_measure(self) -> bool: ...

    def room(self) -> int:
        """Bytes of memory that are free."""
        ...

    def microseconds(self, run: Callable[[], Any]) -> float: ...


class CpuPlans:
    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.usual: Choice = cpu.USUAL
        self.alternatives: Mapping[str, Sequence[int]] = cpu.ALTERNATIVES

    def kind(self) -> str:
        return f"{host_target(disk_cache())} {torch.get_num_threads()} threads"

    def identity(self, kernel: Kernel, choice: Choice) -> object:
        assert isinstance(choice, cpu.CpuChoice)
        plan = make_plan(kernel, Target(*host_target(disk_cache())), choice)
        return plan.lanes, plan.unroll, plan.grain if torch.get_num_threads() > 1 else 0

    def can_measure(self) -> bool:
        return True

    def room(self) -> int:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def microseconds(self, run: Callable[[], Any]) -> float:
        def seconds(count: int) -> float:
            start = perf_counter()
            for _ in range(count):
                run()
            return (perf_counter() - start) / count

        once = min(seconds(1), seconds(1))
        count = max(1, min(64, int(5e-4 / max(once, 1e-7))))
        return 1e6 * min(once, *(seconds(count) for _ in range(2 if once > 0.05 else 9)))


class GpuPlans:
    #: launches that are measured together, and clocks that the GPU waits before: the host is ahead
    _LAUNCHES: Final = 20
    _AHEAD: Final = 1_000_000

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.usual: Choice = gpu.USUAL
        self.alternatives: Mapping[str, Sequence[int]] = gpu.ALTERNATIVES

    def kind(self) -> str:
        return f"{torch.cuda.get_device_name(self.device)} {torch.version.cuda}"

    def identity(self, kernel: Kernel, choice: Choice) -> object:
        assert isinstance(choice, gpu.GpuChoice)
        return tuple(each.rule for each in functions_of("kernel", kernel, choice))

    def can_measure(self) -> bool:
        return not torch.cuda.is_current_stream_capturing()

    def room(self) -> int:
        free, _ = torch.cuda.mem_get_info(self.device)
        reserved = torch.cuda.memory_reserved(self.device)
        return free + reserved - torch.cuda.memory_allocated(self.device)

    def microseconds(self, run: Callable[[], Any]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        found: list[float] = []
        for _ in range(5):
            torch.cuda._sleep(self._AHEAD)
            start.record()
            for _ in range(self._LAUNCHES):
                run()
            end.record()
            end.synchronize()
            found.append(start.elapsed_time(end) * 1e3 / self._LAUNCHES)
        return min(found)


#: Bytes that are copied to see how fast that is.
_COPIED: Final = 1 << 28


def copy_bandwidth(plans: Plans) -> float:
    """Bytes that a copy reads and writes in a second, measured once for a kind of device; 0 if
    there is no memory for it."""
    name = key_of("copy bandwidth", plans.kind())
    found = disk_cache().read(name)
    if found is not None and found.isdigit():
        return float(found)
    if plans.room() * _ROOM < 2 * _COPIED or not plans.can_measure():
        return 0.0
    try:
        source = torch.ones(_COPIED, dtype=torch.uint8, device=plans.device)
        target = torch.ones_like(source)
    except torch.OutOfMemoryError:
        return 0.0
    measured = int(2 * _COPIED / plans.microseconds(lambda: target.copy_(source)) * 1e6)
    disk_cache().write(name, str(measured).encode())
    return float(measured)


def plans_of(device: torch.device) -> Plans:
    return GpuPlans(device) if device.type == "cuda" else CpuPlans()


# -- kernels --------------------------------------------------------------------------------------


class Measured(NamedTuple):
    """What became of a kernel at the sizes of a class."""

    choice: Choice
    #: microseconds of a launch with the usual plan, and with the chosen one
    before: float
    after: float

    def to_bytes(self) -> bytes:
        return json.dumps([asdict(self.choice), self.before, self.after]).encode()

    @staticmethod
    def from_bytes(data: bytes, usual: Choice) -> Measured | None:
        try:
            choice, before, after = json.loads(data)
            return Measured(replace(usual, **choice), float(before), float(after))
        except (ValueError, TypeError):
            return None


def why_not(launch: Launch, inputs: frozenset[str]) -> str:
    """Why a kernel cannot be run for no reason, on memory with nothing in it that matters; empty if
    it can. `inputs`: buffers whose contents are at hand."""
    kernel = launch.kernel
    names = {f"k{number}": name for number, name in enumerate(launch.buffers)}
    stores = [part for stage in kernel.stages for part in stage.stores]
    scans = [part for stage in kernel.stages for part in stage.scans]
    if any(stage.checks for stage in kernel.stages):
        return "it checks data"
    places = [symbols_of(part.address) for part in (*stores, *scans)]
    if kernel.ordered or any(place & kernel.positions.keys() for place in places):
        return "it writes where data says"
    written = {names[each] for each in computing(kernel).writes}
    if any(part.mode != "set" for part in stores) or _reads_first(kernel, names, written):
        return "it writes in place"
    # Indices have to be such: no others are safe.
    read = {s.data[0] for s in reached(list(kernel.positions.values())) if s.op == "load"}
    if not {names.get(each, "") for each in read} <= inputs - written:
        return "its indices are computed"
    return ""


def _reads_first(kernel: Kernel, names: Mapping[str, str], written: set[str]) -> bool:
    """Whether it reads something that it writes only then."""
    known: set[str] = set()
    for stage in kernel.stages:
        loads = {s.data[0] for s in reached(roots_of(stage)) if s.op == "load"}
        if any(names.get(each) in written and each not in known for each in loads):
            return True
        known |= {part.buffer for part in (*stage.stores, *stage.scans)}
    return False


def _name(kernel: Kernel) -> str:
    """What it is known by to people: some of what it computes."""
    folds = [part.fold for stage in kernel.stages for part in (*stage.folds, *stage.scans)]
    ops = [scalar.op for scalar in reached(all_roots(kernel))]
    plain = ("load", "constant", "index", "number", "row", "cast")
    names = dict.fromkeys([*folds, *(op for op in ops if op not in plain)])
    return " ".join([*names][:4]) or "copy"


class _Line(NamedTuple):
    """Of a kernel of a segment, for people."""

    name: str
    sizes: tuple[int, ...]
    launches: int
    usual: Choice
    measured: Measured
    #: bytes that are moved, and of a copy in a second
    moved: int
    bandwidth: float

    def text(self) -> str:
        return f"{self._times()}{self._speed()}"

    def _speed(self) -> str:
        return _speed(self.moved, self.measured.after, self.bandwidth)

    def _times(self) -> str:
        sizes = " x ".join(map(str, self.sizes[:_MOST_SIZES_TOLD])) or "one size"
        often = f", {self.launches} launches" if self.launches > 1 else ""
        found = self.measured
        plain, own = asdict(self.usual), asdict(found.choice)
        changed = [f"{name}={value}" for name, value in own.items() if value != plain[name]]
        if not changed:
            return f"`{self.name}` ({sizes}{often}): {found.before:.1f} us"
        by = ", ".join(changed)
        return (
            f"`{self.name}` ({sizes}{often}): {found.before:.1f} us, now {found.after:.1f} ({by})"
        )


def _speed(moved: int, microseconds: float, bandwidth: float) -> str:
    """Against that of a copy."""
    if not microseconds or not bandwidth:
        return ""
    speed = moved / microseconds * 1e6
    share = f"{speed / bandwidth:.0%} of a copy's"
    return f", {moved / 1e6:.3g} MB at {speed / 1e9:.3g} GB/s, {share}"


class Tuner:
    """Of a graph: tunes its segments, and has something to say of that."""

    def __init__(
        self, plans: Plans, make: Make, *, tries: bool = True, compile_id: str = ""
    ) -> None:
        self.plans = plans
        self.make = make
        #: whether other plans are tried; else kernels are only measured
        self.tries = tries
        self._compile_id = compile_id
        self._lines: list[_Line] = []
        self._notes: dict[str, None] = {}

    def tuned(
        self, segment: Segment, usual: Callable[..., Any] | DeferredCode
    ) -> Callable[..., Any] | DeferredCode:
        """The function of a segment, by size classes."""
        if not any(isinstance(step, Launch) for step in segment.steps):
            return usual
        scope = expr.copied_scope()
        if isinstance(usual, DeferredCode):
            return DeferredCode(lambda: TunedSegment(self, segment, usual.result(), scope))
        return TunedSegment(self, segment, usual, scope)

    def note(self, text: str) -> None:
        self._notes[text] = None

    def tell(
        self,
        segment: Segment,
        launches: Sequence[Launch],
        values: Mapping[Symbol, int],
        of: Measured,
    ) -> None:
        launch = launches[0]
        moved = traffic(segment, launch)
        sizes = tuple(evaluate(size, values) for size in launch.sizes)
        line = _Line(
            _name(launch.kernel),
            sizes,
            len(launches),
            self.plans.usual,
            of,
            evaluate(moved.reads, values) + evaluate(moved.writes, values),
            copy_bandwidth(self.plans),
        )
        self._lines.append(line)
        if stream.listening(kinds.KernelMeasured):
            stream.emit(
                kinds.KernelMeasured(
                    line.text(),
                    to_text(moved.reads),
                    to_text(moved.writes),
                    len(launches),
                    of.before,
                    of.after,
                    compile_id=self._compile_id,
                )
            )

    def lines(self) -> list[str]:
        did = "tuned" if self.tries else "measured"
        if not self._lines:
            return [f"not {did} yet: no size class is hot", *self._notes]
        before = sum(each.measured.before * each.launches for each in self._lines)
        after = sum(each.measured.after * each.launches for each in self._lines)
        count = sum(each.measured.choice != each.usual for each in self._lines)
        kernels = f"{len(self._lines)} kernels and size classes, {before:.1f} us"
        total = f"{count} of {kernels}, now {after:.1f}" if self.tries else kernels
        moved = sum(each.moved * each.launches for each in self._lines)
        total += _speed(moved, after, self._lines[0].bandwidth)
        lines = [
            f"{did}: {total}",
            *(f"kernel {each.text()}" for each in self._lines[:_MOST_LINES]),
        ]
        if len(self._lines) > _MOST_LINES:
            lines.append(f"and {len(self._lines) - _MOST_LINES} more kernels")
        return [*lines, *self._notes]

    # -- measuring ---------------------------------------------------------------------------------

    def kept(self, launch: Launch, values: Mapping[Symbol, int]) -> tuple[str, Measured | None]:
        """The name under which it is kept what became of a kernel, and what that is."""
        kind = [size_class(evaluate(size, values)) for size in launch.sizes]
        sources = sources_hash(disk_cache(), *_SOURCES)
        name = key_of("plan", kernel_key(launch), self.plans.kind(), str(kind), sources)
        data = disk_cache().read(name) if self.tries else None
        return name, None if data is None else Measured.from_bytes(data, self.plans.usual)

    def measure(
        self, segment: Segment, launch: Launch, args: Sequence[Any], values: Mapping[Symbol, int]
    ) -> Measured:
        """Try the plans of a kernel, one parameter after the other."""
        alone = _alone(segment, launch)
        given = self._given(segment, alone, launch, args, values)
        kernel, plans = launch.kernel, self.plans
        functions: dict[Choice, Callable[..., Any]] = {}

        def time(choice: Choice) -> float:
            if choice not in functions:
                functions[choice] = self.make(alone, {kernel: choice})
            return plans.microseconds(lambda: functions[choice](*given))

        chosen = plans.usual
        after = time(chosen)
        seen = {plans.identity(kernel, chosen)}
        for name, values_ in (plans.alternatives if self.tries else {}).items():
            for value in values_:
                other = replace(chosen, **{name: value})
                identity = plans.identity(kernel, other)
                if identity in seen:
                    continue
                seen.add(identity)
                taken = time(other)
                if taken < after * _WORTH and _is_faster(time, other, chosen):
                    chosen, after = other, taken
        # What else the machine did may have changed meanwhile: what is told was measured by turns.
        found = [(time(plans.usual), time(chosen)) for _ in range(_TURNS)]
        before, after = min(first for first, _ in found), min(second for _, second in found)
        if after < before * _WORTH:
            return Measured(chosen, before, after)
        return Measured(plans.usual, before, before)

    def _given(
        self,
        segment: Segment,
        alone: Segment,
        launch: Launch,
        args: Sequence[Any],
        values: Mapping[Symbol, int],
    ) -> list[Any]:
        """What the kernel by itself is called with. What it only reads is there already; the rest
        is memory of its own. torch.OutOfMemoryError if there is not so much."""
        written = {launch.buffers[int(each[1:])] for each in computing(launch.kernel).writes}
        at_hand = {b.name: tensor for b, tensor in zip(segment.inputs, args, strict=False)}
        made = [b for b in alone.inputs if b.name in written or b.name not in at_hand]
        if sum(_extent(each, values) for each in made) > self.plans.room() * _ROOM:
            raise torch.OutOfMemoryError("there is too little memory to try it")
        own = {each.name: _scratch(each, values, self.plans.device) for each in made}
        numbers = args[len(segment.inputs) + len(segment.given) :]
        tensors = [own.get(b.name, at_hand.get(b.name)) for b in alone.inputs]
        return [*tensors, *(values[symbol] for symbol in alone.symbols), *numbers]


def _is_faster(time: Callable[[Choice], float], one: Choice, than: Choice) -> bool:
    found = [(time(one), time(than)) for _ in range(_TURNS)]
    return min(first for first, _ in found) < _WORTH * min(second for _, second in found)


def _alone(segment: Segment, launch: Launch) -> Segment:
    """A segment of one kernel, which is given all of its memory."""
    known = {b.name: b for b in (*segment.inputs, *segment.temporaries, *segment.outputs)}
    inputs = [replace(known[name], role="input") for name in dict.fromkeys(launch.buffers)]
    return Segment(tuple(inputs), segment.symbols, segment.numbers, (), (), (launch,))


def _extent(buffer: Buffer, values: Mapping[Symbol, int]) -> int:
    sizes = [evaluate(size, values) for size in buffer.sizes]
    strides = [evaluate(stride, values) for stride in buffer.strides]
    last = sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    return 0 if 0 in sizes else (last + 1) * TORCH_DTYPE[buffer.dtype].itemsize


def _scratch(buffer: Buffer, values: Mapping[Symbol, int], device: torch.device) -> torch.Tensor:
    """Memory with numbers that are as good as others: nothing is divided by zero, or denormal."""
    sizes = [evaluate(size, values) for size in buffer.sizes]
    strides = [evaluate(stride, values) for stride in buffer.strides]
    made = torch.empty_strided(sizes, strides, dtype=TORCH_DTYPE[buffer.dtype], device=device)
    return made.fill_(0.5 if made.is_floating_point() else 1)


# -- segments -------------------------------------------------------------------------------------


class TunedSegment:
    """The function of a segment, which has other code in size classes that are hot."""

    def __init__(
        self,
        tuner: Tuner,
        segment: Segment,
        usual: Callable[..., Any],
        scope: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._tuner, self._segment, self._usual, self._scope = tuner, segment, usual, scope
        self._reads = [(each.tensor, each.dim) for each in segment.read]
        first = len(segment.inputs)
        self._given = slice(first, first + len(segment.given))
        steps = [step for step in segment.steps if isinstance(step, Launch)]
        self._checks = any(stage.checks for step in steps for stage in step.kernel.stages)
        #: by sizes and by their classes
        self._by_sizes: dict[tuple[int, ...], Callable[..., Any]] = {}
        self._by_class: dict[object, Callable[..., Any]] = {}
        self._calls: dict[object, int] = {}

    def __call__(self, *args: Any) -> Any:
        sizes = (*[args[tensor].shape[dim] for tensor, dim in self._reads], *args[self._given])
        return (self._by_sizes.get(sizes) or self._function(sizes, args))(*args)

    @property
    def functions(self) -> Iterator[Callable[..., Any]]:
        yield self._usual
        yield from [*self._by_class.values()]

    def check(self) -> None:
        """As functions have that check data."""
        for each in self.functions:
            if (look := getattr(each, "check", None)) is not None:
                look()

    def _function(self, sizes: tuple[int, ...], args: Sequence[Any]) -> Callable[..., Any]:
        kind = tuple(map(size_class, sizes))
        found = self._by_class.get(kind)
        if found is None:
            calls = self._calls[kind] = self._calls.get(kind, 0) + 1
            can_tune = self._tuner.plans.can_measure()
            if torch._C._len_torch_dispatch_stack():
                return self._usual  # whoever watches operators is to see none of ours
            if (calls < _HOT and can_tune) or len(self._by_class) >= _MOST_CLASSES:
                return self._usual
            # Others do not wait for it, and neither does who interrupts it.
            if not _measuring.acquire(blocking=False):
                return self._usual
            try:
                with self._scope(), torch.no_grad():
                    found = self._made(sizes, args, can_tune)
            except Exception as error:  # nothing depends on it: the usual code is there
                self._tuner.note(f"not tuned: {_first_line(error)}")
                found = self._usual
            finally:
                _measuring.release()
            if not can_tune:
                return found
            self._by_class[kind] = found
        if len(self._by_sizes) < _MOST_SIZES:
            self._by_sizes[sizes] = found
        return found

    def _made(self, sizes: Sequence[int], args: Sequence[Any], tunes: bool) -> Callable[..., Any]:
        """The segment with the plans that are best for these sizes. Where nothing can be measured,
        while a CUDA graph is recorded, with those that are known."""
        segment, tuner = self._segment, self._tuner
        if not tunes and self._checks:
            return self._usual  # where checks leave their numbers is memory that cannot be had then
        values = dict(zip(segment.given, sizes[len(self._reads) :], strict=True))
        values |= {each.symbol: n for each, n in zip(segment.read, sizes, strict=False)}
        launches: dict[Kernel, list[Launch]] = {}
        for step in segment.steps:
            if isinstance(step, Launch):
                launches.setdefault(step.kernel, []).append(step)
        inputs = frozenset(each.name for each in segment.inputs)
        choices: dict[Kernel, Choice] = {}
        for kernel, own in launches.items():
            name, measured = tuner.kept(own[0], values)
            why = why_not(own[0], inputs)
            if why and tunes:
                tuner.note(f"not tuned: `{_name(kernel)}`: {why}")
            if measured is None and not why and tunes and all(sizes):
                measured = self._measured(own[0], args, values)
                if measured is not None and tuner.tries:
                    disk_cache().write(name, measured.to_bytes())
            if measured is not None:
                choices[kernel] = measured.choice
                if tunes:
                    tuner.tell(segment, own, values, measured)
        if all(choice == tuner.plans.usual for choice in choices.values()):
            return self._usual
        return tuner.make(segment, choices)

    def _measured(
        self, launch: Launch, args: Sequence[Any], values: Mapping[Symbol, int]
    ) -> Measured | None:
        try:
            return self._tuner.measure(self._segment, launch, args, values)
        except torch.OutOfMemoryError:
            self._tuner.note(f"not tuned: `{_name(launch.kernel)}`: too little memory to try it")
            return None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0]
