"""Calls that cannot be traced, and the log in which the order of effects can be seen.

`opaque` has no source, so nothing can look inside. It notes what it was given as it was at that
moment, and gives back what the program asks for.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import torch

#: What happened during a call, in order.
LOG: Final[list[Any]] = []


def seen(value: Any) -> Any:
    """A value as it is now."""
    if isinstance(value, torch.Tensor):
        flags = value.requires_grad, value.dtype, tuple(value.shape)
        return *flags, value.detach().flatten().tolist()
    if isinstance(value, (list, tuple)):
        return [seen(each) for each in value]
    if isinstance(value, dict):
        return {key: seen(each) for key, each in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else type(value).__name__


class Trouble(Exception):
    """What a boundary raises."""


_SOURCE: Final = '''
def opaque(tag, *values):
    """Note the values; give back the last one, or the tag."""
    with boundary():
        LOG.append((tag, *map(seen, values)))
    return values[-1] if values else tag

def opaque_raise(tag, condition=True, kind=Trouble):
    """Raise, if the condition holds."""
    LOG.append(("may raise", tag))
    if condition:
        raise kind("trouble in " + str(tag))
    return tag

def opaque_write(tensor, number):
    """Write to a tensor, and give it back."""
    with boundary(), torch.no_grad():
        LOG.append(("write", number, seen(tensor)))
        tensor.add_(number)
    return tensor

def opaque_number(tensor):
    """A number made of data."""
    with boundary():
        found = float(tensor.detach().sum())
    LOG.append(("number", found))
    return found

def opaque_true(tensor):
    """A truth made of data."""
    LOG.append(("truth",))
    with boundary():
        return float(tensor.detach().sum()) > 0

def opaque_count(tensor, most=3):
    """A small count made of data."""
    LOG.append(("count",))
    with boundary():
        return int(abs(float(tensor.detach().sum()))) % most + 1
'''

_scope: Final[dict[str, Any]] = {
    "LOG": LOG,
    "seen": seen,
    "torch": torch,
    "Trouble": Trouble,
    # A name in profiles, by which what happens inside is told from the program's own operations.
    "boundary": functools.partial(torch.profiler.record_function, "boundary"),
}
exec(_SOURCE, _scope)  # without a file behind it: its source is not available

opaque: Final = _scope["opaque"]
opaque_raise: Final = _scope["opaque_raise"]
opaque_write: Final = _scope["opaque_write"]
opaque_number: Final = _scope["opaque_number"]
opaque_true: Final = _scope["opaque_true"]
opaque_count: Final = _scope["opaque_count"]


def note(tag: Any, *values: Any) -> Any:
    """Note, where all can be traced."""
    LOG.append((tag, *(tuple(each.shape) for each in values)))
    return tag
