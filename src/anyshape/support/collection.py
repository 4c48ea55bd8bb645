"""The garbage collector, which a capture does without.

A capture makes many objects that live on for a moment: collecting among them takes longer than the
capture itself. As soon as the program runs by itself it finds the collector as it left it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_paused = False


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect nothing, until `resume_collection` or the end."""
    global _paused
    with _lock:
        began = not _paused and gc.isenabled()
        if began:
            gc.disable()
            _paused = True
    try:
        yield
    finally:
        if began:
            resume_collection()


def resume_collection() -> None:
    """Let the collector be as it was before it was paused, if it is."""
    global _paused
    with _lock:
        if _paused:
            _paused = False
            gc.enable()
