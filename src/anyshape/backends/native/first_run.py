"""A function that waits for its native code when it is run for the first time.

The call that compiles has its result from being watched: no native code is needed until the next
one. Threads make it meanwhile, and whoever comes before they are done waits.

    def run(a0, s0): return first_run(a0, s0)

becomes the function itself, with nothing in between, by getting its code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from types import FunctionType
from typing import Any

from anyshape.backends.native.build import DeferredCode
from anyshape.runtime.waits import told_of_waits

#: What kept native code from being made, and what the graph is called with.
Failed = Callable[[Exception, Sequence[Any]], None]


def when_built(
    ready: FunctionType,
    otherwise: FunctionType,
    later: Mapping[str, DeferredCode],
    failed: Failed,
) -> FunctionType:
    """A function that does what `ready` does as soon as its globals have these functions, and what
    `otherwise` does, with the same parameters, if one of them cannot be made."""
    first = _FirstRun(ready, otherwise, later, failed)
    namespace = ready.__globals__
    count = ready.__code__.co_argcount
    parameters = ", ".join(ready.__code__.co_varnames[:count])
    namespace["first_run"] = first
    source = f"def run({parameters}): return first_run({parameters})"
    made: dict[str, FunctionType] = {}
    exec(compile(source, ready.__code__.co_filename, "exec"), namespace, made)
    first.run = made["run"]
    return first.run


class _FirstRun:
    def __init__(
        self,
        ready: FunctionType,
        otherwise: FunctionType,
        later: Mapping[str, DeferredCode],
        failed: Failed,
    ) -> None:
        self._ready = ready
        self._otherwise = otherwise
        self._later: Mapping[str, DeferredCode] | None = later
        self._failed = failed
        self._waited = told_of_waits()
        #: a signal's handler may call the function that it has interrupted
        self._lock = threading.RLock()
        #: what is to become the function
        self.run: FunctionType = ready

    def __call__(self, *args: Any) -> Any:
        with self._lock:
            if self._later is not None:
                self._wait(self._later, args)
        return self.run(*args)

    def _wait(self, later: Mapping[str, DeferredCode], args: Sequence[Any]) -> None:
        started = perf_counter()
        try:
            functions = {name: each.result() for name, each in later.items()}
        except Exception as error:
            self._failed(error.with_traceback(None), args)
            self.run.__code__ = self._otherwise.__code__
        else:
            self._ready.__globals__.update(functions)
            self.run.__code__ = self._ready.__code__
        self._later = None
        if self._waited is not None:
            self._waited(perf_counter() - started)
