"""Programs run eagerly and compiled, side by side: results, and all that they say on the way.

Every call must be served by a graph: these are for what can be traced.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import anyshape
from tests.zoo.compare import difference

SIZES = (3, 3, 5, 7, 4, 5)


@dataclass
class Said:
    """What a call returned, or raised, and what it said."""

    result: Any = None
    raised: str = ""
    printed: str = ""
    errors: str = ""
    logged: list[Any] = field(default_factory=list)
    warned: list[Any] = field(default_factory=list)


class _Keeping(logging.Handler):
    def __init__(self, said: Said) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        place = (record.filename, record.lineno, record.funcName, getattr(record, "extra", None))
        self._said.logged.append((record.levelname, record.getMessage(), place))


def heard(function: Callable[..., Any], *args: Any) -> Said:
    """Call it, and listen."""
    said = Said()
    out, err = io.StringIO(), io.StringIO()
    handler = _Keeping(said)
    logging.getLogger().addHandler(handler)
    torch.manual_seed(7)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            try:
                said.result = function(*args)
            except Exception as error:
                said.raised = repr(error)
    finally:
        logging.getLogger().removeHandler(handler)
    said.printed, said.errors = out.getvalue(), err.getvalue()
    said.warned = [(str(w.message), w.category, w.filename, w.lineno) for w in caught]
    return said


def numbers(size: int, grad: bool = False) -> Tensor:
    """Small integers, whose sums are exact in any order."""
    values = torch.arange(4.0 * size).remainder(7).reshape(size, 4) - 3
    return values.requires_grad_(grad)


def check(
    program: Callable[[Tensor], Any],
    sizes: Sequence[int] = SIZES,
    before: Callable[[int], None] = lambda step: None,
    graphs: int | None = 2,
    grad: bool = False,
    eager: int = 0,
) -> Any:
    """Run the twins; `before` changes something before each call, for both."""
    compiled = anyshape.compile(program)
    for step, size in enumerate(sizes):
        before(step)
        expected = heard(program, numbers(size, grad))
        before(step)
        found = heard(compiled, numbers(size, grad))
        problem = difference(vars(found), vars(expected), "call")
        assert not problem, f"call {step} at size {size}: {problem}"
        assert not expected.raised, expected.raised
    stats = compiled.stats()
    assert stats.graphs >= 1
    assert stats.eager_calls == eager, compiled.explain()
    assert graphs is None or stats.graphs <= graphs, compiled.explain()
    return compiled
