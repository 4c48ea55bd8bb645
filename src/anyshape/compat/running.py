"""Run a program as the main module of this process, with anyshape behind `torch.compile`."""

from __future__ import annotations

import io
import sys
import types
from importlib.machinery import ModuleSpec

from anyshape.compat.installing import install
from anyshape.dispatch.arguments import show_user_frames
from anyshape.errors import AnyshapeError


def run_as_main(file: str, spec: ModuleSpec | None = None) -> int:
    """Run a file, or the module of this spec; the exit status. Its module stays: what the program
    leaves to run at its end still finds its names."""
    install()
    main = types.ModuleType("__main__")
    package = None if spec is None else spec.parent
    main.__dict__.update(
        __file__=file, __package__=package, __spec__=spec, __builtins__=__builtins__
    )
    sys.modules["__main__"] = main
    try:
        with io.open_code(file) as opened:
            code = compile(opened.read(), file, "exec", dont_inherit=True)
        exec(code, main.__dict__)
    except Exception as error:
        _tell(error)
        return 1
    return 0


def _tell(error: Exception) -> None:
    """As Python would, without the frames of those who run the program. Our own errors are about
    lines of the program."""
    if isinstance(error, AnyshapeError):
        show_user_frames(error)
        shown = error.__traceback__
    else:
        shown = error.__traceback__.tb_next if error.__traceback__ is not None else None
    sys.excepthook(type(error), error.with_traceback(shown), shown)
