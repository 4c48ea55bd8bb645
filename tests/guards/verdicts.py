"""Both readings of a guard side by side: the generated code and the interpreter."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from anyshape.guards.emit import EntryPlan, build_dispatcher
from anyshape.guards.explain import first_failure
from anyshape.guards.guard import Guard, Kind, SymbolSource
from anyshape.guards.path import Path, local
from anyshape.symbolic import Expr

HIT = object()
MISS = object()


def guard(kind: Kind, path: Path | None, value: object) -> Guard:
    return Guard(kind, path, value, "a test")


def plan(
    guards: Sequence[Guard],
    symbols: Sequence[SymbolSource] = (),
    inputs: Sequence[Path | Expr | int] = (),
    run: Callable[..., object] = lambda *values: HIT,
) -> EntryPlan:
    return EntryPlan(tuple(guards), tuple(symbols), tuple(inputs), run)


class Verdicts:
    """What the two say of one entry of a function of `x` and `y`."""

    def __init__(self, entry: EntryPlan, probe: Callable[[], object] | None = None) -> None:
        def function(x: Any, y: Any = None) -> None: ...

        self.entry, self.probe = entry, probe
        signature = inspect.signature(function)
        self.dispatcher = build_dispatcher(signature, [entry], lambda arguments: MISS, probe)

    def emitted(self, x: object, y: object = None) -> bool:
        answer = self.dispatcher(x, y)
        assert answer is HIT or answer is MISS, answer
        return answer is HIT

    def explained(self, x: object, y: object = None) -> str | None:
        failure = first_failure(self.entry, {"x": x, "y": y}, self.probe)
        return None if failure is None else failure.sentence

    def both(self, x: object, y: object = None) -> bool:
        """The verdict, if they agree."""
        emitted, explained = self.emitted(x, y), self.explained(x, y)
        assert emitted is (explained is None), (emitted, explained, self.dispatcher.anyshape_source)
        return emitted


X = local("x")
Y = local("y")
