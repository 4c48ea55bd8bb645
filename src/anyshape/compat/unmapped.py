"""What a script has asked for that anyshape has no counterpart of: named in one warning."""

from __future__ import annotations

import warnings
from typing import Final

_names: Final[dict[str, None]] = {}
_told: Final[set[str]] = set()


def note(name: str) -> None:
    """Remember a name: `torch._dynamo.config.verbose`."""
    _names[name] = None


def not_mapped() -> list[str]:
    """The names so far, in the order in which they were used."""
    return list(_names)


def warn() -> None:
    """Say all that was not said so far."""
    new = [name for name in _names if name not in _told]
    if new:
        _told.update(new)
        warnings.warn(
            f"anyshape: not mapped, and without effect on what anyshape does: {', '.join(new)}",
            stacklevel=2,
        )
