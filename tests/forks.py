"""Processes of Python for tests: forks of one that has loaded torch, which takes seconds to load,
and most of anyshape.

A fork is a new process in all but this: torch is loaded, and the modules of anyshape that a first
call needs, but for those that do what the environment says; strings hash as they do in the other
forks of the session, and options of the interpreter cannot be given. What is about anyshape being
loaded asks for a bare fork. What is about torch being loaded, or about keys that processes share,
starts processes of its own.

Run as a program, this file is the process that forks.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def run(
    arguments: Sequence[str],
    folder: Path,
    variables: Mapping[str, str | None] | None = None,
    bare: bool = False,
) -> subprocess.CompletedProcess[str]:
    """What `python *arguments` gives: of a script and its arguments, or of `-m`, a module and its
    arguments. The variables are added to the environment, or taken from it. `bare`: nothing but
    torch is loaded."""
    environment = {**os.environ, **(variables or {})}
    with tempfile.TemporaryDirectory() as held:
        out, errors = Path(held, "out"), Path(held, "errors")
        request = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": {k: v for k, v in environment.items() if v is not None},
            "out": str(out),
            "errors": str(errors),
        }
        server = _server(bare)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(
            [*arguments], status, out.read_text("utf-8"), errors.read_text("utf-8")
        )


#: What `anyshape.api` loads, and what compiles: modules that do nothing when they are loaded.
_LOADED = (
    *("anyshape.backends", "anyshape.compiler.driver", "anyshape.dispatch.call_log"),
    *("anyshape.events.settings", "anyshape.events.trace", "anyshape.explain.explanation"),
    *("anyshape.marks", "anyshape.profile.session", "anyshape.shapes", "llvmlite.binding"),
)


@functools.cache
def _server(bare: bool) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, *([] if bare else _LOADED)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return server


# -- in the process that forks ---------------------------------------------------------------------

#: Seconds that a program may take.
_LIMIT = 380


def _asked() -> dict[str, Any] | None:
    """In a fork: what it is to run. In the process that forks: None, when nobody asks any more."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def _become(request: dict[str, Any]) -> None:
    """Take over the streams, the folder and the environment of the process that is asked for."""
    signal.alarm(_LIMIT)
    for file, stream, flags in (
        (os.devnull, 0, os.O_RDONLY),
        (request["out"], 1, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (request["errors"], 2, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(file, flags)
        os.dup2(opened, stream)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 it stays open
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])


def _run(first: str, *arguments: str) -> None:
    """As the interpreter does with its arguments."""
    if first == "-m":
        sys.argv = [*arguments]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *arguments]
        sys.path[0] = str(Path(first).absolute().parent)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    # Not the folder of this file: its neighbours have names of modules.
    sys.path[0] = os.getcwd()
    import torch  # noqa: F401 that is what it is for

    for _module in sys.argv[1:]:
        importlib.import_module(_module)
    # What it has is not looked at again: pages stay shared with the forks.
    gc.collect()
    gc.freeze()

    _request = _asked()
    if _request is not None:
        _become(_request)
        _run(*_request["arguments"])
