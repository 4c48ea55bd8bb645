"""One line on stderr when the process ends, if it changed modules that it had compiled, and called
nothing of what it had compiled.

Such are modules of which trainers call other methods (`training_step`), and those whose original is
called. Of several ranks the first one tells.
"""

from __future__ import annotations

import atexit
import functools
import weakref
from typing import Any, Final

import torch

from anyshape.dispatch.eager_summary import write_at_exit
from anyshape.dispatch.entry import all_counts

_watched: Final[list[weakref.finalize[..., Any]]] = []
#: the names of modules that were changed while they were compiled
_changed: Final[dict[str, None]] = {}


def watch(compiled: torch.nn.Module, original: torch.nn.Module) -> None:
    """Look at the end of a compiled module whether its parameters are as they are now."""
    _tell_at_exit()
    name = type(original).__name__
    # Weakly: a module may hold what was compiled of it.
    made = weakref.finalize(compiled, _note, weakref.ref(original), name, _versions(original))
    made.atexit = False
    _watched[:] = [each for each in _watched if each.alive]
    _watched.append(made)


@functools.cache
def _tell_at_exit() -> None:
    atexit.register(tell)


def forget() -> None:
    for each in _watched:
        each.detach()
    _watched.clear()
    _changed.clear()


def text() -> str:
    """The line; empty if there is nothing to tell."""
    for each in _watched:
        each()
    if not _changed or any(each.captures or each.eager_calls for each in all_counts):
        return ""
    return (
        f"anyshape: {', '.join(_changed)}: compiled and never called, while the parameters changed."
        " Only a call of the module itself runs compiled code: where another method is called, as"
        " training_step is by Lightning, compile that, or the modules that it calls"
        " (config.report_eager = False: nothing)"
    )


def tell() -> None:
    write_at_exit(text)


def _note(original: weakref.ref[torch.nn.Module], name: str, before: int) -> None:
    module = original()
    if module is None:
        return
    if _versions(module) != before or any(each.grad is not None for each in _parameters(module)):
        _changed[name] = None


def _versions(module: torch.nn.Module) -> int:
    """A number that grows with each write to a parameter."""
    return sum(
        each._version
        for each in _parameters(module)
        if each.requires_grad and not each.is_inference()
    )


def _parameters(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    """None of a module that cannot be asked: it may have parts without a hash."""
    try:
        return list(module.parameters())
    except Exception:
        return []
