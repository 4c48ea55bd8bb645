"""Models of the filters of warnings: `catch_warnings` and what is called inside of it.

Warnings are given after the graph, in order; so the filters are changed and restored among them.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

from anyshape.capture.abort import AbortCapture
from anyshape.capture.builtins.effects import perform
from anyshape.capture.builtins.model import Hooks, Models
from anyshape.capture.externals.side_effects import Change, Effect
from anyshape.capture.value_kinds import ATOMS


class _Saved(threading.local):
    """What compiled runs of this thread have to restore, the innermost last."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []


_saved: Final = _Saved()


def _enter() -> None:
    block = warnings.catch_warnings()
    block.__enter__()
    _saved.blocks.append(block)


def _leave() -> None:
    _saved.blocks.pop().__exit__(None, None, None)


class CatchWarnings:
    """`warnings.catch_warnings()` in a capture."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._block = warnings.catch_warnings()
        self._own: list[object] = []

    def __enter__(self) -> None:
        self._block.__enter__()
        if self._hooks.tracer.active:
            self._own = list(self._hooks.journal.filters)
            self._hooks.journal.add(Effect(Change.CALL, None, _enter, ((), {})))

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)
        if self._hooks.tracer.active:
            self._hooks.journal.filters = self._own
            self._hooks.journal.add(Effect(Change.CALL, None, _leave, ((), {})))


def _catch_warnings(hooks: Hooks, **kwargs: object) -> object:
    if any(value for value in kwargs.values()):
        raise AbortCapture("warnings are recorded, or filtered in a module")
    return CatchWarnings(hooks)


def _filter(function: Callable[..., object]) -> Callable[..., object]:
    def model(hooks: Hooks, *args: object, **kwargs: object) -> None:
        given = [
            hooks.specialized(value, "a filter of warnings") for value in (*args, *kwargs.values())
        ]
        if not all(type(value) in ATOMS or isinstance(value, type) for value in given):
            raise AbortCapture(f"`warnings.{function.__name__}` of an object")
        named = dict(zip(kwargs, given[len(args) :], strict=True))
        if named.get("append") or len(args) > _POSITIONAL[function]:
            raise AbortCapture("a filter of warnings behind the others")
        perform(hooks, function, *given[: len(args)], **named)
        hooks.journal.filters.insert(0, warnings.filters[0])

    return model


#: How many arguments come before `append`.
_POSITIONAL: Final[dict[Any, int]] = {warnings.simplefilter: 3, warnings.filterwarnings: 5}

MODELS: Final[Models] = {
    warnings.catch_warnings: _catch_warnings,
    warnings.simplefilter: _filter(warnings.simplefilter),
    warnings.filterwarnings: _filter(warnings.filterwarnings),
}
