"""Twin worlds: the same function with the same state, run eagerly in one and compiled in the other.

After every call the two must agree on all that a program can see: the result or the exception with
the user's lines of its traceback, what the call did to its arguments and to the watched state,
which tensors share memory, what was printed, the random number generators, torch's global modes.
Running eagerly inside a compiled call is allowed; being different is not.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
import traceback
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import anyshape
from tests import devices
from tests.zoo.compare import aliasing, difference

#: First the size that is compiled at, again, unseen ones, 1 and 0, and the first again.
SIZES = (3, 3, 5, 1, 7, 0, 4, 3)
COLUMNS = 4
#: Whose lines in a traceback are the user's: everything under tests/, apart from this file.
_TESTS = str(Path(__file__).parent.parent)


@dataclass
class World:
    """A function and what it can see. Built twice, so that twins share nothing but their code."""

    function: Callable[..., Any]
    arguments: Callable[[Tensor], tuple[Any, ...]] = lambda x: (x,)
    keywords: Callable[[Tensor], dict[str, Any]] = lambda x: {}
    before: Callable[[int], None] = lambda step: None
    """Changes the state before call number `step`."""
    watch: Callable[[], Any] = lambda: None
    """The state that calls may change."""
    globals: dict[str, Any] = field(default_factory=dict)
    """Start values of the module's global names; each twin gets its own."""
    sizes: Sequence[int] = SIZES
    settings: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `anyshape.compile`."""


@dataclass
class Outcome:
    """All that one call left behind."""

    result: Any
    raised: BaseException | None
    user_lines: list[tuple[str, int]]
    printed: str
    arguments: Any
    watched: Any
    shared: list[int]
    modes: dict[str, Any]


def check(make: Callable[[], World], dynamic: bool | None) -> Any:
    """Run the twins side by side; returns the compiled function for further questions."""
    eager, other = make(), make()
    # Both backends in turn: one runs what people run, the other is compiled in half the time.
    settings = {"backend": "native" if dynamic else "eager", **other.settings}
    compiled = anyshape.compile(other.function, dynamic=dynamic, **settings)
    names = _namespace(eager.function)
    kept = copy.deepcopy(eager.globals), copy.deepcopy(other.globals)
    for step, size in enumerate(eager.sizes):
        expected = _step(eager, eager.function, step, size, names, kept[0])
        found = _step(other, compiled, step, size, names, kept[1])
        problem = different(expected, found) or difference(kept[1], kept[0], "globals")
        assert not problem, f"call {step} at size {size}, dynamic={dynamic}: {problem}"
    return compiled


def different(expected: Outcome, found: Outcome) -> str | None:
    """The first disagreement, in words."""
    if expected.raised is None and found.raised is not None:
        text = "".join(traceback.format_exception(found.raised))
        return f"raised where eager returned {expected.result!r}\n{text}"
    if expected.raised is not None and found.raised is None:
        return f"returned {found.result!r} where eager raised {expected.raised!r}"
    for name in ("raised", "result", "arguments", "watched", "printed", "shared", "modes"):
        problem = difference(getattr(found, name), getattr(expected, name), name)
        if problem:
            return problem
    return difference(found.user_lines, expected.user_lines, "user's lines in the traceback")


def outcome(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    watch: Callable[[], Any] = lambda: None,
    seed: int = 0,
) -> Outcome:
    """Call with seeded generators, and keep everything that can be seen afterwards."""
    kwargs = kwargs or {}
    devices.seed(seed)
    random.seed(seed)
    result, raised, lines = None, None, []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            raised, lines = error, user_lines(error)
    watched = watch()
    return Outcome(
        result,
        raised,
        lines,
        printed.getvalue(),
        (args, kwargs),
        watched,
        aliasing(result, args, kwargs, watched),
        _modes(),
    )


def user_lines(error: BaseException) -> list[tuple[str, int]]:
    """Function and line of each frame of the traceback that belongs to the tests."""
    frames = traceback.extract_tb(error.__traceback__)
    return [
        (frame.name, frame.lineno or 0)
        for frame in frames
        if frame.filename.startswith(_TESTS) and frame.filename != __file__
    ]


def _step(
    world: World,
    function: Callable[..., Any],
    step: int,
    size: int,
    names: dict[str, Any],
    kept: dict[str, Any],
) -> Outcome:
    original = {name: names[name] for name in kept}
    names.update(kept)
    try:
        world.before(step)
        devices.seed(step)
        x = torch.randn(size, COLUMNS)
        return outcome(function, world.arguments(x), world.keywords(x), world.watch, step)
    finally:
        kept.update((name, names[name]) for name in kept)
        names.update(original)


def _namespace(function: Any) -> dict[str, Any]:
    inner = getattr(function, "__func__", function)
    return inner.__globals__ if isinstance(inner, types.FunctionType) else {}


def _modes() -> dict[str, Any]:
    """Global state that a call may change and must leave as eager leaves it."""
    return {
        "torch generator": devices.random_state(),
        "python generator": hash(random.getstate()),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled(torch.get_default_device().type),
    }
