"""Native code made in the background: the graph runs as it is until the code is ready."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch.fx

from anyshape.backends.eager import run_graph
from anyshape.backends.native.backend import run_native
from anyshape.config import config


class Switched:
    """A function that becomes another one, once that is made."""

    __slots__ = ("made", "run")

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run
        self.made: Future[Callable[..., Any]] | None = None

    def __call__(self, *args: Any) -> Any:
        return self.run(*args)

    def switch(self, made: Future[Callable[..., Any]]) -> None:
        if made.exception() is None:
            self.run = made.result()


def run_native_or_wait(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """Native code now, or as soon as another thread has made it (`config.background_compile`)."""
    if not config.background_compile:
        return run_native(graph, examples)
    function = Switched(run_graph(graph, examples))
    function.made = _worker().submit(run_native, graph, examples, now=True)
    function.made.add_done_callback(function.switch)
    return function


@functools.cache
def _worker() -> ThreadPoolExecutor:
    # One: compiling in parallel would take the cores from the program.
    return ThreadPoolExecutor(1, thread_name_prefix="anyshape compile")
