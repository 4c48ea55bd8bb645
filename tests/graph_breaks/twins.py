"""Twins of a program, one eager and one compiled, called side by side.

After every call they must agree on all that a program can see: the result with its strides, memory
that is shared and gradients, or the exception with what it was raised from and the program's lines
of its traceback; what the call did to arguments, state and globals; the log; what was printed; the
three random number generators and torch's modes.
"""

from __future__ import annotations

import contextlib
import io
import random
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

import anyshape
from tests.graph_breaks.opaque import LOG
from tests.graph_breaks.table import NEW_CALLS, SEEDS, Built, Program
from tests.zoo.compare import aliasing, difference, tensors

_HERE: Final = str(Path(__file__).parent)
#: Whose lines in a traceback are not the program's.
_NOT_PROGRAMS: Final = (__file__, str(Path(_HERE, "opaque.py")))


@dataclass
class Seen:
    """All that one call left behind."""

    raised: list[tuple[str, str]]
    log: list[Any]
    result: Any
    printed: str
    warned: list[str]
    arguments: Any
    state: Any
    shared: list[int]
    gradients: Any
    lines: list[tuple[str, int]]
    generators: Any
    modes: Any


class Twin:
    """One of the two, with globals of its own."""

    def __init__(self, program: Program, compiling: Callable[[Any], Any] | None) -> None:
        self._program = program
        self.made: Built = program.build()
        self.function: Any = (
            self.made.function if compiling is None else compiling(self.made.function)
        )
        self._globals = {name: _copied(value) for name, value in program.globals.items()}
        self._names = _namespace(self.made.function)

    def call(self, call: int, around: Callable[[], Any] = contextlib.nullcontext) -> Seen:
        """Call number `call`; the function itself runs inside of `around`."""
        with self._own_globals():
            return self._observe(call, around)

    @contextlib.contextmanager
    def _own_globals(self) -> Iterator[None]:
        before = {name: self._names[name] for name in self._globals}
        self._names.update(self._globals)
        try:
            yield
        finally:
            self._globals = {name: self._names[name] for name in before}
            self._names.update(before)

    def _observe(self, call: int, around: Callable[[], Any]) -> Seen:
        program, seed = self._program, SEEDS[call % len(SEEDS)]
        _seed(seed)
        args, kwargs = program.inputs(call), program.keywords(call)
        program.before(call)
        _seed(seed)
        LOG.clear()
        result, raised = None, None
        with contextlib.redirect_stdout(io.StringIO()) as printed, _heard() as warned, around():
            try:
                result = _valid(_finished(self.function(*args, **kwargs)))
            except (Exception, KeyboardInterrupt) as error:
                raised = error
        generators, modes = _generators(), _modes()
        names = {name: self._names[name] for name in self._globals}
        state = self.made.watch(), names
        seen = Seen(
            _chain(raised),
            list(LOG),
            result,
            printed.getvalue(),
            [str(each.message) for each in warned if "anyshape:" not in str(each.message)],
            (args, kwargs),
            _copied(state),
            aliasing(result, args, kwargs, state),
            _gradients(result, (args, kwargs, state)),
            _lines(raised),
            generators,
            modes,
        )
        if raised is not None:
            # Frames of the traceback hold the tensors of the call.
            raised.__traceback__ = None
        return seen


def run_twins(program: Program, calls: int = NEW_CALLS, **settings: Any) -> Any:
    """Call the twins side by side; returns the compiled one, for more calls."""
    eager = Twin(program, None)
    other = Twin(program, lambda function: anyshape.compile(function, **settings))
    for call in range(calls):
        expected, found = eager.call(call), other.call(call)
        problem = different(expected, found)
        assert not problem, f"{program.name}, call {call}, {settings}: {problem}"
    return other


def different(expected: Seen, found: Seen) -> str | None:
    """The first disagreement, in words."""
    for each in fields(Seen):
        ours, theirs = getattr(found, each.name), getattr(expected, each.name)
        if each.name == "gradients" and theirs is None:
            continue
        if problem := difference(ours, theirs, each.name):
            return f"{problem}\n  ours:   {ours!r:.500}\n  eager's: {theirs!r:.500}"
    return None


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed itself looks at its callers
    random.seed(seed)
    np.random.seed(seed)


@contextlib.contextmanager
def _heard() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


def _finished(result: Any) -> Any:
    """What a generator gives, or a coroutine, to the end."""
    if isinstance(result, types.GeneratorType):
        return [result.__name__, *result]
    if isinstance(result, types.CoroutineType):
        try:
            while True:
                result.send(None)
        except StopIteration as stop:
            return stop.value
    return result


def _valid(result: Any) -> Any:
    """Without views that autograd has made invalid: they raise at every question."""
    if isinstance(result, Tensor):
        try:
            _ = result.grad_fn
        except RuntimeError as error:
            return str(error)
        return result
    if type(result) in (list, tuple):
        return type(result)(_valid(each) for each in result)
    return result


def _chain(error: BaseException | None) -> list[tuple[str, str]]:
    """The exception and those that it was raised from or during, with how they are linked."""
    found: list[tuple[str, str]] = []
    while error is not None:
        notes = getattr(error, "__notes__", [])
        found.append((type(error).__qualname__, f"{error} {notes}"))
        if error.__cause__ is not None:
            found.append(("from", ""))
            error = error.__cause__
        else:
            error = None if error.__suppress_context__ else error.__context__
    return found


def _lines(error: BaseException | None) -> list[tuple[str, int]]:
    """Function and line of each frame of the traceback that is the program's."""
    if error is None:
        return []
    return [
        (frame.name, frame.lineno or 0)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(_HERE) and frame.filename not in _NOT_PROGRAMS
    ]


def _gradients(result: Any, leaves: Any) -> Any:
    """Of the sum of all that was returned, with respect to what was given and kept."""
    outputs = [each for each in tensors(result) if each.requires_grad]
    wanted = [each for each in tensors(leaves) if each.requires_grad and each.is_leaf]
    if not outputs or not wanted:
        return None
    try:
        total: Any = sum(each.double().sum() for each in outputs)
        return torch.autograd.grad(total, wanted, allow_unused=True)
    except RuntimeError:
        return None  # The program wrote to what eager's backward needs.


def _generators() -> Any:
    numbers = np.random.get_state(legacy=False)["state"]
    return (
        torch.get_rng_state(),
        hash(random.getstate()),
        (numbers["key"].tobytes(), numbers["pos"]),
    )


def _modes() -> Any:
    """Global state that a call may change and must leave as eager leaves it."""
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
    }


def _copied(value: Any) -> Any:
    """A snapshot: a later call must not change what this one is seen to have left."""
    if isinstance(value, Tensor):
        kept = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        with torch.no_grad():
            kept.copy_(value)
        return kept.requires_grad_(value.requires_grad)
    if type(value) in (list, tuple, set):
        return type(value)(_copied(each) for each in value)
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, torch.nn.Module):
        plain = {k: v for k, v in vars(value).items() if not k.startswith("_") and k != "training"}
        return (
            _copied(dict(value.state_dict())),
            _copied(plain),
            [_copied(each) for each in value._modules.values()],
        )
    return value


def _namespace(function: Any) -> dict[str, Any]:
    inner = getattr(function, "__func__", function)
    if isinstance(inner, torch.nn.Module):
        inner = type(inner).forward
    return inner.__globals__ if isinstance(inner, types.FunctionType) else {}
