"""Compile PyTorch functions once, run them at any shape.

    import anyshape

    @anyshape.compile(dynamic=True)
    def f(x):
        return x * x.size(0)

`import anyshape` stays light: it loads neither torch nor any other third-party package; both come
with the first use of `compile`.
"""

# First: an older Python is told so before it meets anything that it cannot read.
from anyshape.support import requirements

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyshape.config import config
from anyshape.errors import AnyshapeError

if TYPE_CHECKING:
    from anyshape.api import (
        Compiled,
        CompiledModule,
        Dim,
        DynamicInt,
        Shapes,
        Stats,
        check,
        compile,
        disable,
        graph_break,
        mark_dynamic,
        mark_static,
        mark_unbacked,
        maybe_mark_dynamic,
        reset,
        set_logs,
        stats,
    )
    from anyshape.export import Exported, ShapesCollection, export, load
    from anyshape.process_metrics import metrics

__all__ = [
    "AnyshapeError",
    "Compiled",
    "CompiledModule",
    "Dim",
    "DynamicInt",
    "Exported",
    "Shapes",
    "ShapesCollection",
    "Stats",
    "__version__",
    "check",
    "compile",
    "config",
    "disable",
    "export",
    "graph_break",
    "load",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "metrics",
    "reset",
    "set_logs",
    "stats",
]

__version__ = "0.1.0"

#: A tenth of the package, which those who compile do not load.
_OF_EXPORT = frozenset({"Exported", "ShapesCollection", "export", "load"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        # With its name and the module, by which Python asks whether another one was meant.
        raise AttributeError(
            f"module 'anyshape' has no attribute {name!r}", name=name, obj=import_module(__name__)
        )
    requirements.require_torch(import_module("torch").__version__)
    # By name: `from anyshape import export` would ask this function again. The first is always
    # needed, since it does what the environment says.
    home = import_module("anyshape.api")
    if name in _OF_EXPORT:
        home = import_module("anyshape.export")
    if name == "metrics":
        home = import_module("anyshape.process_metrics")
    # The package itself can be called, and has its parts, whoever was first to ask for one of them.
    found = home if name == "export" else getattr(home, name)
    # Kept, so that the next look finds it without this function.
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
