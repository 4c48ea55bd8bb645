"""Compile PyTorch functions once, run them at any shape.

    import anyshape

    @anyshape.compile(dynamic=True)
    def f(x):
        return x * x.size(0)

`import anyshape` stays light: it loads neither torch nor any other third-party package; both come
with the first use of `compile`.
"""

from typing import TYPE_CHECKING, Any

from anyshape.config import config
from anyshape.errors import AnyshapeError

if TYPE_CHECKING:
    from anyshape.api import (
        Dim,
        DynamicInt,
        Exported,
        Shapes,
        ShapesCollection,
        check,
        compile,
        export,
        load,
        mark_dynamic,
        mark_static,
        mark_unbacked,
        maybe_mark_dynamic,
        reset,
        set_logs,
        stats,
    )

__all__ = [
    "AnyshapeError",
    "Dim",
    "DynamicInt",
    "Exported",
    "Shapes",
    "ShapesCollection",
    "__version__",
    "check",
    "compile",
    "config",
    "export",
    "load",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "reset",
    "set_logs",
    "stats",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'anyshape' has no attribute {name!r}")
    from anyshape import api

    # Kept, so that the next look finds it without this function.
    found = globals()[name] = getattr(api, name)
    return found
