"""CUDA graphs without a GPU: an emulated graph computes with the memory that it was recorded with,
and overwrites what other graphs of its place have left, unless it was held at the recording."""

from __future__ import annotations

import ctypes
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from anyshape.backends.native.alias_check import extent
from anyshape.runtime.cuda.graph_pool import CannotRecord, Leases
from anyshape.support.random_state import default_generators


class EmulatedPool:
    """Graphs that run again what was recorded, on the same memory."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.taken = 0
        self.taken_at: dict[int, int] = {}
        self.leases = Leases()
        self.graphs: list[EmulatedGraph] = []
        #: why nothing can be recorded, and how many can be before
        self.refuses = ""
        self.allows = 0

    def record(self, run: Callable[[], Any], place: int = 0) -> tuple[Any, Any]:
        if self.refuses and len(self.graphs) >= self.allows:
            raise CannotRecord(self.refuses)
        cells = _cells(run)
        # Nothing is computed while a graph is recorded: put back what the run has written.
        before = [(each, _bytes_of(each).clone()) for each in _tensors(cells["args"])]
        state = default_generators.get_state()
        with _on_values(run, cells, self.copy):
            result = run()
        default_generators.set_state(state)
        for tensor, bytes in before:
            _bytes_of(tensor).copy_(bytes)
        graph = EmulatedGraph(self, place, cells, result)
        self.graphs.append(graph)
        return graph, result

    def copy(self, target: int, source: int, size: int) -> None:
        ctypes.memmove(target, source, size)


@contextmanager
def _on_values(
    run: Callable[..., Any], cells: dict[str, Any], copy: Callable[[int, int, int], None]
) -> Iterator[None]:
    """What is computed after all is computed of what inputs are, not of memory as it was."""
    assert isinstance(run, types.FunctionType)
    (cell,) = [each for each in run.__closure__ or () if each.cell_contents is cells["run"]]

    def own(*given: Any) -> Any:
        for number in cells["copied"]:
            value = cells["args"][number]
            copy(given[number].data_ptr(), value.data_ptr(), extent(value))
        return cells["run"](*given)

    cell.cell_contents = own
    try:
        yield
    finally:
        cell.cell_contents = cells["run"]


def _cells(function: Callable[..., Any]) -> dict[str, Any]:
    assert isinstance(function, types.FunctionType)
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [each for each in values if isinstance(each, torch.Tensor)]


def _memory_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))


def _alias(value: Any) -> Any:
    """The same memory, which is held for the graph: who has recorded it has another object."""
    if isinstance(value, tuple | list):
        return type(value)(map(_alias, value))
    return value.detach() if isinstance(value, torch.Tensor) else value


def _on_aliases(function: Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(function, types.FunctionType) or "kept" not in function.__code__.co_freevars:
        return function
    cells = tuple(types.CellType(_alias(each)) for each in _cells(function).values())
    return types.FunctionType(function.__code__, function.__globals__, closure=cells)


class EmulatedGraph:
    def __init__(self, pool: EmulatedPool, place: int, cells: dict[str, Any], result: Any) -> None:
        self.pool, self._place = pool, place
        self._run = _on_aliases(cells["run"])
        self._arguments = tuple(cells["given"])
        self._result = [_alias(each) for each in result]
        self._held = [weakref.ref(each) for each in _tensors(result)]
        given = {_memory_of(each) for each in _tensors(self._arguments)}
        #: results in memory of the pool, with their places
        self._own = [
            (number, each)
            for number, each in enumerate(self._result)
            if isinstance(each, torch.Tensor) and _memory_of(each) not in given
        ]
        self._copies = [self._arguments[number] for number in cells["copied"]]
        others = [each for each in pool.graphs if each._place == place]
        self._spared = {memory for each in others for memory in each.memory_held()}

    def memory_held(self) -> set[int]:
        found = [each() for each in self._held]
        return {_memory_of(each) for each in found if each is not None}

    def replay(self) -> None:
        for graph in self.pool.graphs:
            if graph._place == self._place:
                own = [each for _, each in graph._own]
                for each in own if graph is self else [*own, *graph._copies]:
                    if _memory_of(each) not in self._spared:
                        _bytes_of(each).fill_(0x5A)
        tensors = _tensors(self._arguments)
        versions = [each._version for each in tensors]
        made = self._run(*self._arguments)
        for number, each in self._own:
            own = made[number]
            assert each.stride() == own.stride(), "another layout than when it was recorded"
            self.pool.copy(each.data_ptr(), own.data_ptr(), extent(each))
        # A GPU tells autograd nothing.
        autograd: Any = torch._C
        autograd._autograd._unsafe_set_version_counter(tuple(tensors), tuple(versions))


class EmulatedDevice:
    def __init__(self) -> None:
        self.current: int | None = 0
        self.pools: dict[int, EmulatedPool] = {}

    def stream(self) -> int | None:
        return self.current

    def synchronize(self) -> None: ...

    def pool(self, stream: int) -> EmulatedPool:
        return self.pools.setdefault(stream, EmulatedPool())
