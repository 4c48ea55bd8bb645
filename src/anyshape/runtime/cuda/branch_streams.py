"""The streams that branches of a CUDA graph are recorded in: `codegen/host/branches.py`."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


class _Recording(threading.local):
    """What this thread records."""

    def __init__(self) -> None:
        self.streams: Sequence[torch.cuda.Stream] = ()
        self.main: torch.cuda.Stream | None = None
        self.begun: Any = None
        self.used: list[torch.cuda.Stream] = []


_recording = _Recording()


@contextmanager
def branch_streams(streams: Sequence[torch.cuda.Stream]) -> Iterator[None]:
    """The streams for branches of what is recorded meanwhile."""
    _recording.streams = streams
    _recording.used = []
    try:
        yield
    finally:
        _recording.streams = ()


def branch(number: int) -> int:
    """Called by machine code: -1 where a group begins, the number of a branch, 0 where all end."""
    now = _recording
    if not now.streams:
        return 0
    if number < 0:
        now.main = torch.cuda.current_stream()
        now.begun = now.main.record_event()
        return 0
    assert now.main is not None
    assert now.begun is not None
    if number:
        stream = now.streams[number - 1]
        stream.wait_event(now.begun)
        now.used.append(stream)
        torch.cuda.set_stream(stream)
        return 0
    torch.cuda.set_stream(now.main)
    for stream in now.used:
        now.main.wait_stream(stream)
    now.used.clear()
    return 0
