"""How often machine code was made, found and refused in this process."""

from __future__ import annotations

import threading
from typing import Final

from anyshape.support.lazy_dataclass import dataclass


@dataclass(slots=True, eq=False)
class NativeCounts:
    #: modules that LLVM made machine code of, and how long that took, of all threads together
    builds: int = 0
    build_seconds: float = 0.0
    #: code of segments that was on disk, or came from `config.cache_url`
    local_hits: int = 0
    remote_hits: int = 0
    #: code that was asked for at `config.cache_url` and was not there
    remote_misses: int = 0
    #: code that was not loaded since it is not signed, or not with our key
    refused: int = 0
    #: requests to `config.cache_url` that failed or took too long
    remote_failures: int = 0
    uploads: int = 0
    #: code that another process made while this one waited for it
    waited_for: int = 0
    #: shapes that were recorded as CUDA graphs
    cuda_graphs: int = 0


counts: Final = NativeCounts()
_lock: Final = threading.Lock()


def count(name: str, amount: float = 1) -> None:
    with _lock:
        setattr(counts, name, getattr(counts, name) + amount)
