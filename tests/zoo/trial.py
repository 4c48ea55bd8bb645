"""A model of the zoo on trial: compiled and run at its pairs beside an eager twin.

What comes out says whether every answer and all state agreed, how many graphs it took, and for each
graph beyond the first which line asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import anyshape
from anyshape.events import kinds
from anyshape.events.stream import stream
from tests.zoo.compare import aliasing, difference, module_difference, tensors
from tests.zoo.models import Row


@dataclass
class Trial:
    """What happened to one model under one policy."""

    model: str
    dynamic: bool | None
    problems: list[str] = field(default_factory=list)
    """Differences from eager; must be empty."""
    graphs: int = 0
    entries: int = 0
    hits: int = 0
    eager_calls: int = 0
    graph_breaks: int = 0
    guards: int = 0
    compile_seconds: float = 0.0
    in_parts: bool = False
    """Whether something could not be traced, and the model was split around it."""
    asked_for: list[str] = field(default_factory=list)
    """For each graph beyond the first: the guard that failed, and the user's line of it."""
    ran_eagerly: list[str] = field(default_factory=list)
    """Why calls ran eagerly, if any did."""
    broke: list[str] = field(default_factory=list)
    """Why graphs ended before their function did, if any did."""
    defects: list[str] = field(default_factory=list)
    """Operators whose shape rule disagreed with what torch did."""


def trained(row: Row, dynamic: bool | None, learning_rate: float = 0.0) -> Trial:
    """As `tried`, with gradients, in float64: sums in another order than eager's, which is rounded
    as they are, make no difference there that has to be allowed for. In float32 it grows where
    batches of few values are normalized, and takes values over the kinks of activations."""
    with _default_dtype(torch.float64):
        return tried(row, dynamic, True, learning_rate)


def tried(
    row: Row, dynamic: bool | None, gradients: bool = False, learning_rate: float = 0.0
) -> Trial:
    """Run all pairs of a row, then the first pair again: that one must be a hit. With a learning
    rate, both twins take a step of gradient descent after each pair."""
    trial = Trial(row.name, dynamic)
    eager, twin = row.module(), row.module()
    compiled: Any = anyshape.compile(twin, dynamic=dynamic)
    with _listening(trial):
        for seed, pair in enumerate((*row.pairs, row.pairs[0])):
            problem = _step(row, eager, twin, compiled, pair, seed, gradients)
            if problem:
                trial.problems.append(f"{pair}: {problem}")
                break
            if learning_rate:
                for module in (eager, twin):
                    torch.optim.SGD(module.parameters(), learning_rate).step()
    stats = compiled.stats()
    trial.graphs, trial.hits, trial.guards = stats.graphs, stats.hits, stats.guards
    trial.eager_calls, trial.graph_breaks = stats.eager_calls, stats.graph_breaks
    trial.in_parts = stats.in_parts
    trial.compile_seconds, trial.entries = stats.compile_seconds, len(compiled.entries)
    return trial


def _step(
    row: Row,
    eager: nn.Module,
    twin: nn.Module,
    compiled: Any,
    pair: tuple[int, int],
    seed: int,
    gradients: bool,
) -> str | None:
    (args, kwargs), (twin_args, twin_kwargs) = row.call(pair, seed), row.call(pair, seed)
    expected, expected_error = _called(eager, args, kwargs, seed)
    found, error = _called(compiled, twin_args, twin_kwargs, seed)
    if difference(error, expected_error):
        return f"raised {error!r}, not {expected_error!r}"
    if gradients and error is None:
        for module, result in ((eager, expected), (twin, found)):
            module.zero_grad()
            loss(result).backward()
    return (
        difference(found, expected, "result")
        or difference((twin_args, twin_kwargs), (args, kwargs), "arguments")
        or module_difference(twin, eager)
        or difference(
            aliasing(found, twin_args, twin_kwargs), aliasing(expected, args, kwargs), "aliasing"
        )
    )


def _called(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seed: int
) -> tuple[Any, Exception | None]:
    torch.default_generator.manual_seed(seed)
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error


def loss(result: Any) -> Tensor:
    """A number that depends on every floating tensor of a result that has a gradient."""
    parts = [t for t in tensors(result) if t.requires_grad and t.dtype.is_floating_point]
    return sum((part.square().sum() for part in parts), torch.zeros(()))


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _listening(trial: Trial) -> Iterator[None]:
    def hear(event: kinds.Event) -> None:
        match event:
            case kinds.Recompile(reasons=reasons) if reasons:
                last = reasons[-1]
                trial.asked_for.append(f"{last.text} at {place(last.user_frame)}")
            case kinds.RunsEagerly(reason=reason, user_frame=frame):
                trial.ran_eagerly.append(f"{reason} at {place(frame)}")
            case kinds.GraphBreak(reason=reason, user_frame=frame):
                trial.broke.append(f"{reason} at {place(frame)}")
            case kinds.Defect(text=text):
                trial.defects.append(text)
            case _:
                pass

    heard = (kinds.Recompile, kinds.RunsEagerly, kinds.GraphBreak, kinds.Defect)
    stop = stream.subscribe(hear, heard)
    try:
        yield
    finally:
        stop()


def place(frame: Any) -> str:
    """`file.py:12 in f`, with the folder of the file's package."""
    if frame is None:
        return "no line"
    path = Path(frame.filename)
    return f"{path.parent.name}/{path.name}:{frame.line} in {frame.function}"
