"""CUDA graphs of one stream: recorded from a run of Python, in memory that they share.

Graphs of a stream run one after the other, so that what one of them leaves in memory need not
outlive the next: their memory is one pool, as large as the largest of them needs. Nothing of the
pool is ever handed out; whoever replays a graph copies results from it.

What a graph leaves for another one, as a forward does for its backward, is in a place of its own:
memory of the pool that is leased. A place has one tenant at a time, and only graphs of the tenant
are replayed there meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from anyshape.loops.program import MOST_BRANCHES
from anyshape.runtime.cuda.branch_streams import branch_streams
from anyshape.runtime.cuda.driver import driver


class CannotRecord(Exception):
    """Why a run is no CUDA graph."""


#: So many forwards of a stream may wait for their backwards in memory of graphs.
MOST_LEASES: Final = 16


class Leases:
    """Who has which place. Whoever holds the pool's lock may ask and take.

    A tenant that is gone has left: work that it has started is done before anything that the next
    one starts in the stream."""

    def __init__(self) -> None:
        self._tenants: list[weakref.ref[Any] | None] = [None] * MOST_LEASES

    def free(self) -> int | None:
        """The first place that nobody has; place 0 is for graphs that leave nothing."""
        for number, tenant in enumerate(self._tenants, 1):
            if tenant is None or tenant() is None:
                return number
        return None

    def take(self, place: int, tenant: object) -> None:
        self._tenants[place - 1] = weakref.ref(tenant)


class GraphPool:
    """The graphs of a stream, whose number is `stream`."""

    def __init__(self, device: int, stream: int) -> None:
        self.device = device
        self._stream = stream
        #: filling inputs, replaying and copying results are one, for threads that share the stream
        self.lock: Final = threading.RLock()
        #: bytes that recording has taken from the GPU, and by places
        self.taken = 0
        self.taken_at: dict[int, int] = {}
        self.leases = Leases()
        #: torch's own come round, and a graph has memory for products by stream: no other graph
        #: that may run meanwhile has these
        self._streams: Final = [
            torch.cuda.ExternalStream(driver().new_stream(), device)
            for _ in range(1 + MOST_BRANCHES)
        ]
        self._begin()

    def _begin(self) -> None:
        """A stream and memory to record with."""
        self._side, *self._branches = self._streams
        #: by places, and what holds it
        self._memory: dict[int, tuple[Any, torch.cuda.CUDAGraph]] = {}
        #: those that have recorded
        self._threads: set[int] = set()
        self._make_workspaces()
        self._memory_at(0)

    def _make_workspaces(self) -> None:
        """What torch makes once for a stream and a thread belongs to no graph: memory for
        products. Backwards are in a thread of autograd's."""
        if threading.get_ident() in self._threads:
            return
        # Branches are those of graphs without gradients, which are recorded where they are called.
        branches = () if self._threads else self._branches
        for stream in (*branches, self._side):
            with torch.cuda.stream(stream):
                for dtype in (torch.float32, torch.bfloat16):
                    one = torch.ones(16, 16, dtype=dtype, device=torch.device("cuda", self.device))
                    torch.addmm(one[0], one, torch.mm(one, one))
                stream.synchronize()
        self._threads.add(threading.get_ident())

    def _memory_at(self, place: int) -> Any:
        """The memory of a place. A graph of nothing holds it, which would be gone with the last
        graph, and its end tells torch's generator that no capture is under way: one that failed
        does not."""
        if place not in self._memory:
            handle, first = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
            with torch.cuda.stream(self._side), _no_collection():
                first.capture_begin(pool=handle, capture_error_mode="thread_local")
                try:
                    torch.zeros(1, device=torch.device("cuda", self.device))
                finally:
                    _end(first)
            self._memory[place] = handle, first
        return self._memory[place][0]

    def record(self, run: Callable[[], Any], place: int = 0) -> tuple[torch.cuda.CUDAGraph, Any]:
        """What a run starts on the GPU, and its result, in memory that holds it after each replay
        until the next one of any graph in the same place. Nothing is computed meanwhile."""
        before = torch.cuda.memory_reserved(self.device)
        self._side.wait_stream(torch.cuda.current_stream(self.device))
        graph = torch.cuda.CUDAGraph()
        try:
            self._make_workspaces()
            memory = self._memory_at(place)
            with (
                torch.cuda.stream(self._side),
                _no_collection(),
                _no_cached_casts(),
                branch_streams(self._branches),
            ):
                graph.capture_begin(pool=memory, capture_error_mode="thread_local")
                try:
                    result = run()
                finally:
                    _end(graph)
        except Exception as error:
            with contextlib.suppress(RuntimeError):  # the next one tells, if it lasts
                self._begin()
            raise CannotRecord(_first_line(error)) from error
        finally:
            taken = max(0, torch.cuda.memory_reserved(self.device) - before)
            self.taken += taken
            self.taken_at[place] = self.taken_at.get(place, 0) + taken
        return graph, result

    def copy(self, target: int, source: int, size: int) -> None:
        """Bytes from one address to another, in the stream."""
        driver().copy(target, source, size, self._stream)


def _end(graph: torch.cuda.CUDAGraph) -> None:
    with warnings.catch_warnings():
        # A run on tensors without elements starts nothing, and that is right.
        warnings.simplefilter("ignore")
        graph.capture_end()


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """A graph that is collected while another is recorded would end that."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def _no_cached_casts() -> Iterator[None]:
    """Autocast keeps what it casts of parameters for what comes behind, and a graph's memory does
    not last so long."""
    was_on = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was_on)


def _first_line(error: Exception) -> str:
    causes = [error]
    while (cause := causes[-1].__context__) is not None and isinstance(cause, Exception):
        causes.append(cause)
    # The end of a broken capture tells of itself alone: what broke it came first.
    return (str(causes[-1]).strip() or repr(causes[-1])).splitlines()[0]


_pools: Final[dict[tuple[int, int], GraphPool]] = {}
_lock: Final = threading.Lock()


class GraphDevice:
    """A GPU, as whoever records graphs sees it."""

    def __init__(self, index: int) -> None:
        self._index = index

    def stream(self) -> int | None:
        """The number of the current stream; None if another GPU is the current one, or if the
        stream is recorded already, by the user or by us."""
        if torch._C._cuda_getDevice() != self._index or torch.cuda.is_current_stream_capturing():
            return None
        return torch._C._cuda_getCurrentRawStream(self._index)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._index)

    def pool(self, stream: int) -> GraphPool:
        found = _pools.get((self._index, stream))
        if found is None:
            with _lock:
                found = _pools.get((self._index, stream))
                if found is None:
                    found = _pools[self._index, stream] = _made(self._index, stream)
        return found


def _made(device: int, stream: int) -> GraphPool:
    try:
        return GraphPool(device, stream)
    except Exception as error:
        raise CannotRecord(_first_line(error)) from error
