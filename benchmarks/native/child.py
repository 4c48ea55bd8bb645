"""Run a function in a forked process, with environment variables of its own, and get its answer."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar

Answer = TypeVar("Answer")

_PR_SET_PDEATHSIG: Final = 1


class ChildFailed(Exception):
    """The function raised, died or took too long; the message says which."""


def in_child(
    function: Callable[..., Answer],
    *args: Any,
    environment: Mapping[str, str] | None = None,
    limit: float = 600,
) -> Answer:
    """What `function(*args)` returns, from a fork of this process. Answers are pickled."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    sys.stdout.flush()
    process = fork.Process(target=_answer, args=(theirs, function, args, environment or {}))
    process.start()
    theirs.close()
    try:
        if not ours.poll(limit):
            raise ChildFailed(f"no answer within {limit:g} s")
        problem, answer = ours.recv()
    except EOFError:
        process.join()
        raise ChildFailed(f"the process died: exit code {process.exitcode}") from None
    finally:
        if process.is_alive() and not ours.closed:
            process.join(2)
        if process.is_alive() and process.pid:
            # Its compiler may have started processes: the session is the child's own.
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
    if problem:
        raise ChildFailed(problem)
    return answer


def _answer(
    pipe: Connection,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    environment: Mapping[str, str],
) -> None:
    os.setsid()
    # Whoever stops the benchmark stops what it is measuring.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(environment)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = (None, function(*args))
    except BaseException as error:
        traceback.print_exc()
        answer = (f"{type(error).__name__}: {error}"[:400], None)
    pipe.send(answer)
    pipe.close()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads and compiler pools of the child have nothing left to do.
    os._exit(0)
