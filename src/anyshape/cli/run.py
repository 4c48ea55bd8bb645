"""`anyshape run script.py args…`: a PyTorch script as it is, with anyshape behind `torch.compile`.

The script runs as `python script.py args…` would run it: as `__main__`, with its own arguments and
folder. `-m package.module` runs a module. Processes that it starts are treated alike.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from anyshape.cli.command import Failure, takes_program
from anyshape.compat.children import reach
from anyshape.compat.environment import translate


def add(parser: argparse.ArgumentParser) -> None:
    takes_program(parser)


def run(options: argparse.Namespace) -> int:
    # Torch acts on its variables when it is loaded.
    translate(os.environ)
    reach(os.environ)
    file, spec, folder = _found(options.script, options.module)
    sys.argv = [file, *options.arguments]
    if sys.flags.safe_path == 0:
        # In place of the folder of the command itself.
        sys.path[0:1] = [folder]
    from anyshape.compat import installing

    return installing.run_as_main(file, spec)


def _found(script: str, is_module: bool) -> tuple[str, ModuleSpec | None, str]:
    """The file, what it is as a module, and the folder that imports start from."""
    if not is_module:
        path = Path(script)
        if path.is_dir():
            path = path / "__main__.py"
        if not path.is_file():
            raise Failure(f"there is no file {script}")
        file = str(path.absolute())
        return file, None, str(path.resolve().parent)
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(script)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{script}.__main__")
    except ModuleNotFoundError:
        spec = None
    finally:
        del sys.path[0]
    if spec is None or spec.origin is None:
        raise Failure(f"there is no module {script} that could be run")
    return spec.origin, spec, os.getcwd()
