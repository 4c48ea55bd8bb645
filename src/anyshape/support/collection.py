"""The garbage collector, which a capture does without.

A capture makes many objects that live on for a moment: collecting among them takes longer than the
capture itself. As soon as the program runs by itself it finds the collector as it left it.

What there was before is set aside meanwhile, which has the collector count anew: the many new
objects are looked through once they are done with, but the first call of a program does not wait
until all that it has imported is. Every few times that is left out, or objects that become garbage
later might never be found where nothing else is allocated.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_lock = threading.Lock()
_paused = False
#: of pauses that set aside what there was, one in so many does not
_EVERY: Final = 8
_pauses = 0
_is_aside = False


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect nothing, until `resume_collection` or the end."""
    global _paused, _pauses, _is_aside
    with _lock:
        began = not _paused and gc.isenabled()
        if began:
            gc.disable()
            _paused = True
            _pauses += 1
            # What the program has set aside itself stays there.
            _is_aside = _pauses % _EVERY != 0 and not gc.get_freeze_count()
            if _is_aside:
                gc.freeze()
    try:
        yield
    finally:
        if began:
            resume_collection()


def resume_collection() -> None:
    """Let the collector be as it was before it was paused, if it is."""
    global _paused, _is_aside
    with _lock:
        if _paused:
            _paused = False
            if _is_aside:
                _is_aside = False
                gc.unfreeze()
            gc.enable()
