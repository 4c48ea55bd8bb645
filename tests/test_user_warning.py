"""Warnings point at the line of the user's that led to them."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import anyshape
from anyshape.events.notices import Notices
from anyshape.support.user_warning import warn_user


def here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_at_the_caller():
    with pytest.warns(RuntimeWarning, match="^anyshape: said$") as told:
        warn_user("said", RuntimeWarning)
    line = here() - 1
    assert (told[0].filename, told[0].lineno) == (__file__, line)


class Grows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.shape[0]


@pytest.mark.parametrize("make", [Grows, lambda: lambda x: x * x.shape[0]])
@anyshape.config.patch(recompile_limit=1)
def test_of_a_compiled_call(make: type[nn.Module]):
    compiled = anyshape.compile(make())
    compiled(torch.ones(2))
    with pytest.warns(UserWarning, match="run eagerly from now on") as told:
        compiled(torch.ones(2, dtype=torch.int64))
    line = here() - 1
    assert (told[0].filename, told[0].lineno) == (__file__, line)


def test_of_a_backend_that_fails():
    def fails(graph: torch.fx.GraphModule, examples: list[object]) -> None:
        raise ValueError("no")

    compiled = anyshape.compile(lambda x: x * 2, backend=fails)  # pyright: ignore[reportArgumentType, reportCallIssue] it fails
    with pytest.warns(UserWarning, match="the backend failed") as told:
        compiled(torch.ones(2))
    line = here() - 1
    assert (told[0].filename, told[0].lineno) == (__file__, line)


def in_thread(function: Callable[[], None]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_in_a_thread_of_the_package():
    """No line of anybody's led to it, and none of Python's own is to blame."""
    with pytest.warns(UserWarning, match="^anyshape: said$") as told:
        in_thread(partial(warn_user, "said"))
    assert told[0].filename == "sys"


def test_in_a_thread_of_the_program():
    with pytest.warns(UserWarning, match="^anyshape: said$") as told:
        in_thread(lambda: warn_user("said"))
    assert told[0].filename == __file__


def test_notices_point_there_too():
    with pytest.warns(UserWarning, match="^anyshape: said$") as told:
        Notices("tests").tell("said")
    assert told[0].filename == __file__
