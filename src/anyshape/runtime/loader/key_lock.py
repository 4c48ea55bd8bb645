"""Who makes what: processes that share a cache folder make the code of a key once.

A lock is a file beside the code, which the system frees when its holder ends, however it ends. Who
waits in vain for a holder that hangs makes the code as well, and waits for nobody from then on.
Where there can be no such file (a full disk, a folder that may only be read), there is no lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from typing import Final

#: Longer than code takes to be made where sixteen processes share two cores.
MOST_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.01
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class KeyLock:
    """A lock that is held, or none for who goes on without; `release` may be called again."""

    def __init__(self, descriptor: int | None = None, folder: int = -1, name: str = "") -> None:
        self._descriptor = descriptor
        self._folder = folder
        self._name = name

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with suppress(OSError):
            os.unlink(self._name, dir_fd=self._folder)
        # Said aloud: a forked process may have the file open as well.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
        os.close(self._folder)


def try_lock(folder: int, key: str) -> KeyLock | None:
    """The lock of a key in a folder, given as a descriptor; None if another has it. OSError where
    there can be none."""
    name = f".lock-{key}"
    descriptor = os.open(name, _OPEN, 0o600, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its last holder may have removed the file meanwhile: then it is a lock of nothing.
        if os.fstat(descriptor).st_ino == os.stat(name, dir_fd=folder).st_ino:
            return KeyLock(descriptor, os.dup(folder), name)
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


class Patience:
    """How long this process waits for others."""

    def __init__(self) -> None:
        self._is_over = False

    def deadline(self) -> float:
        return time.monotonic() if self._is_over else time.monotonic() + MOST_SECONDS

    def is_over(self, deadline: float) -> bool:
        """Whether it waited long enough; if so, never again."""
        if time.monotonic() < deadline:
            return False
        self._is_over = True
        return True


patience: Final = Patience()
