"""The parts of a schedule in order, as one function of Python, written as text.

def run(a0, s0):
    b1 = segment0(a0, s0)
    c2 = call0(b1, 5)
    t3 = c2[0]
    return (t3, a0.as_strided((s0,), (1,), a0.storage_offset()))

One that gives up its inputs as soon as nothing reads them takes them in a list, which it empties:
who calls a function with arguments holds them until it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import increment_version

from anyshape.backends.native.alias_check import may_write, no_alias
from anyshape.backends.native.build import DeferredCode
from anyshape.backends.native.first_run import Failed, when_built
from anyshape.graph.plan import (
    PythonCall,
    TensorRef,
    Unlowerable,
    View,
    computing,
    leaves,
    tensors_in,
)
from anyshape.graph.schedule import Schedule, numbers_in
from anyshape.loops.program import Launch, Segment
from anyshape.ops.lowering.values import NumberRef
from anyshape.symbolic import Expr, Fact, Size, Symbol, to_text
from anyshape.symbolic.expr import bare_symbol


def raised(error: Exception, args: Sequence[Any]) -> None:
    raise error


def python_host(
    schedule: Schedule,
    function_of: Callable[[Segment], Callable[..., Any] | DeferredCode],
    otherwise: Callable[..., Any],
    expected: Sequence[Fact] = (),
    failed: Failed = raised,
) -> Host:
    """A function of the graph's inputs, and its text. `expected`: what has to be true of sizes that
    depend on data, checked as soon as they are known; native code relies on it. `otherwise`: what
    runs for sizes that the schedule is not for, and for all of them if functions that were to be
    made later cannot be, which `failed` is told."""
    return _Writer(schedule, function_of, otherwise, expected).function(failed)


class Unexpected(RuntimeError):
    """A size that depends on data is not what the graph is for."""


class Host(NamedTuple):
    run: Callable[..., Any]
    source: str
    #: of the inputs: whether what is written to shares memory with nothing; None if nothing is
    is_apart: Callable[..., bool] | None


class _Writer:
    def __init__(
        self,
        schedule: Schedule,
        function_of: Callable[[Segment], Callable[..., Any] | DeferredCode],
        otherwise: Callable[..., Any],
        expected: Sequence[Fact],
    ) -> None:
        self._expected = list(expected)
        self._plan, self._parts = schedule.plan, schedule.parts
        self._gives_up = schedule.gives_up
        #: versions that are still to be counted
        self._bumps = dict(schedule.plan.bumps)
        self._function_of = function_of
        #: functions of segments that are not there yet, by name
        self._later: dict[str, DeferredCode] = {}
        self._lines: list[str] = []
        self._namespace: dict[str, Any] = {"laid_out": laid_out, "Unexpected": Unexpected}
        self._namespace |= {"may_write": may_write, "increment_version": increment_version}
        self._namespace["otherwise"] = otherwise
        #: after which part a tensor is not needed any more
        self._last = _last_uses(schedule)
        #: results that are used as a whole, not only the tensors in them
        self._whole = {ref.name for ref in numbers_in(_arguments_of(schedule))}
        #: symbols that have their values, and those that some line needs
        self._known: set[Symbol] = set()
        facts = (*expected, *schedule.plan.assumed)
        self._needed = _symbols_of(schedule).union(*(fact.symbols for fact in facts))

    def function(self, failed: Failed) -> Host:
        parameters = ", ".join(_variable(each) for each in self._plan.inputs)
        self._known |= {each for each in self._plan.inputs if isinstance(each, Symbol)}
        head = parameters
        if self._gives_up:
            head = "given"
            self._lines += [f"{parameters}, = given", "given.clear()"]
        for each in self._plan.inputs:
            if isinstance(each, str):
                self._read_sizes(each)
        for fact in self._plan.assumed:
            self._lines.append(f"if not ({to_text(fact)}): return otherwise({parameters})")
        if addresses := [f"{name}.data_ptr()" for name in sorted(self._plan.aligned)]:
            text = f"if ({' | '.join(addresses)}) & 15: return otherwise({parameters})"
            self._lines.append(text)
        doubt = self._memory_doubt()
        if doubt:
            self._lines += [f"if {doubt}:", f"    return otherwise({parameters})"]
        native = {
            buffer.name
            for part in self._parts
            if isinstance(part, Segment)
            for buffer in part.inputs
        }
        for number, part in enumerate(self._parts):
            self._check_expected()
            if isinstance(part, Segment):
                self._segment(part)
            else:
                self._call(part, native)
            gone = [name for name, last in self._last.items() if last == number]
            if gone:
                self._lines.append(f"del {', '.join(gone)}")
        self._check_expected()
        unknown = self._needed - self._known
        if unknown:
            names = ", ".join(sorted(symbol.name for symbol in unknown))
            raise Unlowerable(f"no tensor has {names} as a size")
        outputs = "".join(f"{self._text(each)}, " for each in self._plan.outputs)
        body = [*self._lines, f"return ({outputs})"]
        source = "\n".join([f"def run({head}):", *(f"    {line}" for line in body)])
        run = self._compiled(source)
        if self._later:
            every = "*given" if self._gives_up else parameters
            plain = f"def run({head}): return otherwise({every})"
            run = when_built(run, self._compiled(plain), self._later, failed)
        is_apart = self._compiled(f"def run({parameters}): return not ({doubt})") if doubt else None
        return Host(run, source, is_apart)

    def _compiled(self, source: str) -> FunctionType:
        made: dict[str, FunctionType] = {}
        exec(compile(source, "<anyshape: native program>", "exec"), self._namespace, made)
        return made["run"]

    def _memory_doubt(self) -> str:
        """What is true where a tensor that is changed may share memory with others: the graph runs
        as it is. Empty if none is changed."""
        held = self._plan.held
        given = [each for each in self._plan.inputs if isinstance(each, str) and each in held]
        changed = set(self._plan.changed)
        if not changed:
            return ""
        written = [name for name in given if name in changed]
        others = [name for name in given if name not in changed]
        self._namespace["apart"] = no_alias()
        # Most tensors are apart, and native code sees that in no time.
        doubt = " or ".join(
            [
                *(f"{name}.is_inference()" for name in written),
                f"not apart({', '.join([str(len(written)), *written, *others])})",
            ]
        )
        groups = ", ".join(f"({''.join(f'{name}, ' for name in g)})" for g in (written, others))
        return f"({doubt}) and not may_write({groups})"

    def _check_expected(self) -> None:
        """Check what can be checked by now."""
        for fact in list(self._expected):
            if fact.symbols <= self._known:
                self._expected.remove(fact)
                text = to_text(fact)
                self._lines += [f"if not ({text}):", f"    raise Unexpected({text!r})"]

    def _segment(self, segment: Segment) -> None:
        function = self._function_of(segment)
        name = self._named("segment", function)
        if isinstance(function, DeferredCode):
            self._later[name] = function
        arguments = [
            *(buffer.name for buffer in segment.inputs),
            *(symbol.name for symbol in segment.given),
            *segment.numbers,
        ]
        call = f"{name}({', '.join(arguments)})"
        # Autograd has to see that a tensor is not what it was, be it that a later part writes to
        # it: nothing that it records comes between.
        self._count_writes(name for name in _written_by(segment) if self._plan.held[name].given)
        targets = ", ".join(buffer.name for buffer in segment.outputs)
        self._lines.append(f"{targets} = {call}" if targets else call)
        self._count_writes(buffer.name for buffer in segment.outputs)

    def _count_writes(self, names: Iterable[str]) -> None:
        """The versions of tensors, as eager would have counted them."""
        moved = [name for name in names for _ in range(self._bumps.pop(name, 0))]
        if moved:
            self._lines.append(f"increment_version(({', '.join(moved)},))")

    def _call(self, call: PythonCall, native: set[str]) -> None:
        arguments = [self._text(each) for each in call.args]
        arguments += [f"{name}={self._text(each)}" for name, each in call.kwargs.items()]
        if call.kind == "call_method":
            function = f"{arguments.pop(0)}.{call.target}"
        else:
            function = self._named("call", call.target)
        result = call.result if call.symbol is None else call.symbol.name
        if call.symbol is not None:
            self._known.add(call.symbol)
        self._lines.append(f"{result} = {function}({', '.join(arguments)})")
        for name, path in call.tensors:
            place = "".join(f"[{index}]" for index in path)
            self._lines.append(f"{name} = {result}{place}")
            self._read_sizes(name)
            held = self._plan.held.get(name)
            if held is not None and name in native:
                strides = self._text(held.strides)
                self._lines.append(f"{name} = laid_out({name}, {strides})")
        if call.tensors and call.result not in self._whole:
            self._lines.append(f"del {result}")

    def _read_sizes(self, name: str) -> None:
        """Symbols get their values from the first tensor that has them as a size or a stride."""
        held = self._plan.held.get(name)
        if held is None:
            return
        for what, sizes in (("shape", held.sizes), ("stride()", held.strides)):
            for dim, size in enumerate(sizes):
                symbol = bare_symbol(size)
                if symbol is not None and symbol in self._needed - self._known:
                    self._known.add(symbol)
                    self._lines.append(f"{symbol.name} = {name}.{what}[{dim}]")

    def _text(self, value: Any) -> str:
        """An argument as Python source; what has none becomes a name."""
        match value:
            case TensorRef():
                return self._tensor(value)
            case NumberRef():
                return value.name
            case Expr():
                return f"({to_text(value)})"
            case slice():
                parts = (value.start, value.stop, value.step)
                return f"slice({', '.join(map(self._text, parts))})"
            case dict():
                items = (f"{key!r}: {self._text(item)}" for key, item in value.items())
                return f"{{{', '.join(items)}}}"
            case tuple() if type(value) is tuple:
                return f"({''.join(f'{self._text(item)}, ' for item in value)})"
            case list():
                return f"[{', '.join(map(self._text, value))}]"
            case tuple():
                kind = self._named("kind", type(value))
                return f"{kind}({', '.join(map(self._text, value))})"
            case int() | bool() | None:
                return repr(value)
            case _:
                return self._named("value", value)

    def _tensor(self, ref: TensorRef) -> str:
        if ref.sizes is None:
            text = ref.buffer
            for view in ref.views:
                text = self._viewed(text, view)
            return text
        offset = f"{ref.buffer}.storage_offset() + {to_text(ref.offset)}"
        if ref.offset == 0:
            offset = f"{ref.buffer}.storage_offset()"
        return f"{ref.buffer}.as_strided({_sizes(ref.sizes)}, {_sizes(ref.strides)}, {offset})"

    def _viewed(self, text: str, view: View) -> str:
        arguments = [self._text(each) for each in view.args]
        arguments += [f"{name}={self._text(each)}" for name, each in view.kwargs.items()]
        if view.kind == "getattr":
            text = f"{text}.{view.target}"
        elif view.kind == "call_method":
            text = f"{text}.{view.target}({', '.join(arguments)})"
        else:
            function = self._named("view", view.target)
            text = f"{function}({', '.join([text, *arguments])})"
        return text if view.place is None else f"{text}[{view.place}]"

    def _named(self, prefix: str, value: Any) -> str:
        name = f"{prefix}_{len(self._namespace)}"
        self._namespace[name] = value
        return name


def _symbols_of(schedule: Schedule) -> set[Symbol]:
    """The symbols that Python code uses: what it hands to segments and calls, and outputs."""
    found: set[Symbol] = set()
    stack: list[Any] = list(schedule.plan.outputs)
    for part in schedule.parts:
        if isinstance(part, Segment):
            found |= set(part.given)
        else:
            stack += [part.args, part.kwargs]
            stack += [
                schedule.plan.held[name].strides
                for name, _ in part.tensors
                if name in schedule.plan.held
            ]
    for ref in tensors_in(stack):
        stack += [ref.sizes, ref.strides, ref.offset]
        stack += [(view.args, view.kwargs) for view in ref.views]
    sizes = [leaf for leaf in leaves(stack) if isinstance(leaf, Expr)]
    return found.union(*(size.symbols for size in sizes))


def _written_by(segment: Segment) -> list[str]:
    """Inputs of a segment that its kernels write to."""
    inputs = {buffer.name for buffer in segment.inputs}
    found: dict[str, None] = {}
    for step in segment.steps:
        if isinstance(step, Launch):
            names = {f"k{number}": name for number, name in enumerate(step.buffers)}
            found |= dict.fromkeys(names[own] for own in sorted(computing(step.kernel).writes))
    return [name for name in found if name in inputs]


def _variable(name: str | Symbol) -> str:
    return name.name if isinstance(name, Symbol) else name


def _sizes(sizes: Sequence[Size]) -> str:
    return f"({''.join(f'{to_text(size)}, ' for size in sizes)})"


def _arguments_of(schedule: Schedule) -> list[Any]:
    calls = [part for part in schedule.parts if isinstance(part, PythonCall)]
    return [schedule.plan.outputs, [(call.args, call.kwargs) for call in calls]]


def _last_uses(schedule: Schedule) -> dict[str, int]:
    """Of each tensor that a part makes, the last part that uses it; outputs are used at the end.
    Also of inputs, if they are given up."""
    last: dict[str, int] = {}
    made: set[str] = set()
    if schedule.gives_up:
        inputs = schedule.plan.inputs
        made = {each for each in inputs if isinstance(each, str) and each in schedule.plan.held}
    for number, part in enumerate(schedule.parts):
        if isinstance(part, Segment):
            made |= {buffer.name for buffer in part.outputs}
            used = {buffer.name for buffer in (*part.inputs, *part.outputs)}
        else:
            made |= {name for name, _ in part.tensors}
            used = set(part.reads) | {name for name, _ in part.tensors}
        last |= dict.fromkeys(sorted(used & made), number)
    kept = {ref.buffer for ref in tensors_in(list(schedule.plan.outputs))}
    return {name: number for name, number in last.items() if name not in kept}


def laid_out(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor with these strides; a copy if torch has chosen others. Native code relies on
    them."""
    found = tensor.stride()
    if found == strides:
        return tensor
    for size, own, wanted in zip(tensor.shape, found, strides, strict=True):
        if size > 1 and own != wanted:
            if 0 in tensor.shape:
                return tensor
            copy = tensor.new_empty_strided(tensor.shape, strides)
            return copy.copy_(tensor)
    return tensor
