"""Put anyshape behind the names of PyTorch's compiler, in this process."""

from __future__ import annotations

import atexit
import io
import os
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Final

import torch

from anyshape import api
from anyshape.capture.builtins.table import MODELS
from anyshape.compat import compiling, exporting, settings
from anyshape.compat.environment import translate
from anyshape.compat.module_shim import bind, find_modules_below, stand_in
from anyshape.compat.settings import Settings
from anyshape.compat.unmapped import warn
from anyshape.dispatch.arguments import show_user_frames
from anyshape.errors import AnyshapeError

_DYNAMO: Final = "torch._dynamo"
_INDUCTOR: Final = "torch._inductor"
_EXPORT: Final = "torch.export"

_installed: Final[set[str]] = set()


def install() -> None:
    """From here on `torch.compile` and its kin are anyshape's. May be called again."""
    if _installed:
        return
    _installed.add("compat")
    translate(os.environ)
    api.tell_as_the_environment_says()
    # By name: what torch has there is a peer, never a part of ours.
    setattr(torch, "compile", compiling.compile)  # noqa: B010 see above
    stand_in("torch.compiler", compiling.COMPILER)
    setattr(sys.modules["torch._logging"], "set_logs", compiling.set_logs)  # noqa: B010 as above
    _install_settings()
    stand_in(_DYNAMO, {**compiling.DYNAMO, "config": sys.modules[f"{_DYNAMO}.config"]})
    stand_in(f"{_DYNAMO}.decorators", compiling.DYNAMO)
    stand_in(f"{_DYNAMO}.eval_frame", {"OptimizedModule": api.CompiledModule})
    stand_in(f"{_DYNAMO}.exc", compiling.ERRORS)
    stand_in(_INDUCTOR, {"config": sys.modules[f"{_INDUCTOR}.config"]})
    find_modules_below()
    MODELS[compiling.nothing] = lambda hooks, *args, **kwargs: None
    stand_in(_EXPORT, exporting.functions(sys.modules[_EXPORT]))
    atexit.register(warn)


def _install_settings() -> None:
    for name, mapped in (
        ("torch._dynamo.config", settings.DYNAMO),
        ("torch._inductor.config", settings.INDUCTOR),
        ("torch.fx.experimental._config", settings.SHAPES),
        ("torch.compiler.config", settings.COMPILER),
    ):
        bind(name, Settings(name, mapped, sys.modules.get(name)))


# -- the main module -------------------------------------------------------------------------------


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
