"""One CUDA graph of a compiled graph: which inputs are copied to where it reads them, and how its
results get out of the memory that graphs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch.autograd.graph import increment_version

from anyshape.backends.native.alias_check import extent
from anyshape.ops.modes import modes_now
from anyshape.runtime.cuda.graph_pool import CannotRecord


class Pool(Protocol):
    """Where the graphs of a stream are recorded."""

    lock: Any
    taken: int

    def record(self, run: Callable[[], Any]) -> tuple[Any, Any]: ...
    def copy(self, target: int, source: int, size: int) -> None: ...


class _Copy(NamedTuple):
    """An input that a graph reads elsewhere."""

    place: int
    address: int
    size: int


class _Block(NamedTuple):
    """Memory of the pool that holds results."""

    address: int
    size: int


class _Result(NamedTuple):
    """A tensor of the result: in a block, or in an input's memory."""

    block: int | None
    place: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    #: whether it is all there is in its block
    is_alone: bool = False


class RecordedGraph:
    def __init__(
        self,
        pool: Pool,
        graph: Any,
        copies: Sequence[_Copy],
        results: Sequence[_Result | _Constant | int],
        blocks: Sequence[_Block],
        moved: Sequence[int],
        kind: type,
        device: torch.device,
    ) -> None:
        self.pool = pool
        self._graph = graph
        self._copies = copies
        #: an integer is the place of an input that is a result itself
        self._results = results
        alone = {
            each.block: each for each in results if isinstance(each, _Result) and each.is_alone
        }
        #: of each block its address and size, and the result that is all there is in it
        self._outputs = [(*block, alone.get(number)) for number, block in enumerate(blocks)]
        #: inputs by place, as often as autograd is told that they were written to
        self._moved = moved
        self._kind = kind
        self._device = device
        #: how often it was replayed, and how often another shape has wanted its place
        self.replays = 0
        self.wanted = 0

    def replay(self, args: Sequence[Any], is_first: bool = False) -> Any:
        self.replays += 1
        copy = self.pool.copy
        for place, address, size in self._copies:
            copy(address, args[place].data_ptr(), size)
        self._graph.replay()
        made: list[torch.Tensor] = []
        results: list[Any] = []
        for address, size, alone in self._outputs:
            tensor = self._allocated(size, alone)
            copy(tensor.data_ptr(), address, size)
            made.append(tensor)
        if self._moved and not is_first:
            increment_version([args[place] for place in self._moved])
        for each in self._results:
            if isinstance(each, int):
                results.append(args[each])
            elif isinstance(each, _Constant):
                results.append(each.value)
            elif each.block is None:
                whole = args[each.place]
                offset = whole.storage_offset() + each.offset
                results.append(whole.as_strided(each.shape, each.strides, offset))
            elif each.is_alone:
                results.append(made[each.block])
            else:
                empty = torch.empty(0, dtype=each.dtype, device=self._device)
                storage = made[each.block].untyped_storage()
                results.append(empty.set_(storage, each.offset, each.shape, each.strides))
        return self._kind(results)

    def _allocated(self, size: int, alone: _Result | None) -> torch.Tensor:
        if alone is None:
            return torch.empty(size, dtype=torch.uint8, device=self._device)
        return torch.empty_strided(
            alone.shape, alone.strides, dtype=alone.dtype, device=self._device
        )


class _Constant(NamedTuple):
    """A result that is no tensor: it follows from the key."""

    value: Any


def record(
    pool: Pool, run: Callable[..., Any], args: Sequence[Any], copied: Sequence[int]
) -> RecordedGraph:
    """`copied`: the places of inputs that the graph reads from memory of its own. That is the
    pool's as well: nothing of it is needed when another graph runs."""
    given = list(args)
    versions: dict[int, int] = {}

    def recorded() -> Any:
        with torch.inference_mode(False):
            for place in copied:
                like = args[place]
                given[place] = torch.empty_strided(
                    like.shape, like.stride(), dtype=like.dtype, device=like.device
                )
        versions.update({p: t._version for p, t in _tensors(given) if not t.is_inference()})
        return run(*given)

    modes = modes_now()
    graph, result = pool.record(recorded)
    if modes_now() != modes:
        raise CannotRecord("it changes a mode of torch for the code after it")
    tensors = dict(_tensors(given))
    moved = [
        place for place, before in versions.items() for _ in range(tensors[place]._version - before)
    ]
    if set(moved) & set(copied):
        raise CannotRecord("an input that was to be copied is written to")
    sizes = {place: extent(args[place]) for place in copied}
    copies = [_Copy(p, given[p].data_ptr(), size) for p, size in sizes.items() if size]
    device = next(each.device for each in tensors.values())
    results, blocks = _results(result, tensors)
    return RecordedGraph(pool, graph, copies, results, blocks, moved, type(result), device)


def _tensors(values: Sequence[Any]) -> list[tuple[int, torch.Tensor]]:
    return [(place, each) for place, each in enumerate(values) if isinstance(each, torch.Tensor)]


def _results(
    result: Sequence[Any], inputs: Mapping[int, torch.Tensor]
) -> tuple[list[_Result | _Constant | int], list[_Block]]:
    by_object = {id(each): place for place, each in inputs.items()}
    by_storage = {each.untyped_storage()._cdata: place for place, each in inputs.items()}
    blocks: dict[int, int] = {}
    sizes: list[_Block] = []
    found: list[_Result | _Constant | int] = []
    for each in result:
        if not isinstance(each, torch.Tensor):
            found.append(_Constant(each))
            continue
        if type(each) is not torch.Tensor:
            raise CannotRecord(f"a result is a {type(each).__name__}")
        if id(each) in by_object:
            found.append(by_object[id(each)])
            continue
        storage = each.untyped_storage()
        layout = tuple(each.shape), each.stride(), each.dtype
        place = by_storage.get(storage._cdata)
        if place is not None:
            whole = inputs[place]
            if whole.dtype != each.dtype:
                raise CannotRecord("a result is an input seen as another dtype")
            offset = int(each.storage_offset() - whole.storage_offset())
            found.append(_Result(None, place, *layout, offset))
            continue
        number = blocks.setdefault(storage._cdata, len(blocks))
        end = int(each.storage_offset()) * each.element_size() + extent(each)
        if number == len(sizes):
            sizes.append(_Block(storage.data_ptr(), end))
        else:
            sizes[number] = sizes[number]._replace(size=max(end, sizes[number].size))
        found.append(_Result(number, 0, *layout, int(each.storage_offset())))
    return [_alone(each, found) for each in found], sizes


def _alone(
    each: _Result | _Constant | int, every: Sequence[_Result | _Constant | int]
) -> _Result | _Constant | int:
    if not isinstance(each, _Result) or each.block is None or each.offset:
        return each
    same = [other for other in every if isinstance(other, _Result) and other.block == each.block]
    return each._replace(is_alone=len(same) == 1)
