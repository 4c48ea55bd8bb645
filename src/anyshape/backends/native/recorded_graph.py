"""One CUDA graph of a compiled graph: which inputs are copied to where it reads them, and how its
results get out of the memory that graphs share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch.autograd.graph import increment_version

from anyshape.backends.native.alias_check import extent, is_dense
from anyshape.ops.modes import modes_now
from anyshape.runtime.cuda.graph_pool import CannotRecord, Leases


class Pool(Protocol):
    """Where the graphs of a stream are recorded."""

    lock: Any
    taken: int
    taken_at: dict[int, int]
    leases: Leases

    def record(self, run: Callable[[], Any], place: int = 0) -> tuple[Any, Any]: ...
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


class _Constant(NamedTuple):
    """A result that is no tensor: it follows from the key."""

    value: Any


_copy_together: Final[Callable[..., None]] = vars(torch)["_foreach_copy_"]
#: So few copies are not worth being one.
_FEW_COPIES: Final = 3
#: Bytes from which on a copy by itself is faster: the one of several is made for small ones.
_LARGE: Final = 1 << 23


class Results:
    """How what a graph leaves in memory gets out of it: `result`, of a run on `inputs`."""

    def __init__(
        self, result: Sequence[Any], inputs: Mapping[int, torch.Tensor], device: torch.device
    ) -> None:
        self._results, self._blocks = _results(result, inputs)
        self._device = device
        alone = [each for each in self._results if isinstance(each, _Result) and each.is_alone]
        #: results that are all there is in their blocks, by those
        self._alone = {each.block: each for each in alone}

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(block.size for block in self._blocks)

    @functools.cached_property
    def _groups(self) -> list[list[int]]:
        """Blocks that are copied together, since all of a kind are."""
        dtypes: dict[torch.dtype, list[int]] = {}
        for number, block in enumerate(self._blocks):
            own = self._alone.get(number)
            if own is not None and 0 < block.size < _LARGE and is_dense(own.shape, own.strides):
                dtypes.setdefault(own.dtype, []).append(number)
        return [numbers for numbers in dtypes.values() if len(numbers) > _FEW_COPIES]

    @functools.cached_property
    def _sources(self) -> list[list[torch.Tensor]]:
        return [[self._in_memory(each) for each in numbers] for numbers in self._groups]

    @functools.cached_property
    def _one_by_one(self) -> list[int]:
        together = {number for numbers in self._groups for number in numbers}
        return [number for number in range(len(self._blocks)) if number not in together]

    def _in_memory(self, number: int) -> torch.Tensor:
        """A block itself, which is not kept by this, and which nobody else gets."""
        block, own = self._blocks[number], self._alone[number]
        storage = torch._C._construct_storage_from_data_pointer(
            block.address, self._device, block.size
        )
        with torch.inference_mode(False):
            empty = torch.empty(0, dtype=own.dtype, device=self._device)
            return empty.set_(storage, 0, own.shape, own.strides)

    def copied_out(self, pool: Pool, args: Sequence[Any]) -> list[Any]:
        """For a run on these inputs."""
        made = [self._allocated(number) for number in range(len(self._blocks))]
        for number in self._one_by_one:
            address, size = self._blocks[number]
            pool.copy(made[number].data_ptr(), address, size)
        for numbers, sources in zip(self._groups, self._sources, strict=True):
            _copy_together([made[number] for number in numbers], sources)
        return [self._handed_out(each, made, args) for each in self._results]

    def _handed_out(
        self, each: _Result | _Constant | int, made: Sequence[torch.Tensor], args: Sequence[Any]
    ) -> Any:
        if isinstance(each, int):
            return args[each]
        if isinstance(each, _Constant):
            return each.value
        if each.block is None:
            whole = args[each.place]
            offset = whole.storage_offset() + each.offset
            return whole.as_strided(each.shape, each.strides, offset)
        if each.is_alone:
            return made[each.block]
        empty = torch.empty(0, dtype=each.dtype, device=self._device)
        storage = made[each.block].untyped_storage()
        return empty.set_(storage, each.offset, each.shape, each.strides)

    def _allocated(self, number: int) -> torch.Tensor:
        own = self._alone.get(number)
        if own is None:
            size = self._blocks[number].size
            return torch.empty(size, dtype=torch.uint8, device=self._device)
        return torch.empty_strided(own.shape, own.strides, dtype=own.dtype, device=self._device)


class RecordedGraph:
    def __init__(
        self,
        pool: Pool,
        graph: Any,
        copies: Sequence[_Copy],
        results: Results,
        moved: Sequence[int],
        kind: type,
    ) -> None:
        self.pool = pool
        self._graph = graph
        self._copies = copies
        self._results = results
        #: inputs by place, as often as autograd is told that they were written to
        self._moved = moved
        self._kind = kind
        #: how often it was replayed, and how often another shape has wanted its place
        self.replays = 0
        self.wanted = 0

    @property
    def copied(self) -> int:
        """Bytes that are copied at each replay."""
        return sum(each.size for each in self._copies) + self._results.size

    def replay(self, args: Sequence[Any], is_first: bool = False) -> Any:
        self.replays += 1
        copy = self.pool.copy
        for place, address, size in self._copies:
            copy(address, args[place].data_ptr(), size)
        self._graph.replay()
        results = self._results.copied_out(self.pool, args)
        if self._moved and not is_first:
            increment_version([args[place] for place in self._moved])
        return self._kind(results)


class Recording(NamedTuple):
    """A graph of which it is to be said yet what is handed out of it."""

    pool: Pool
    graph: Any
    #: what the run gave, in memory that the graph writes to
    result: Sequence[Any]
    #: inputs as the graph reads them, by place
    inputs: Mapping[int, torch.Tensor]
    copies: Sequence[_Copy]
    moved: Sequence[int]
    device: torch.device

    def of(self, result: Sequence[Any]) -> Results:
        return Results(result, self.inputs, self.device)

    def handing_out(self, result: Sequence[Any]) -> RecordedGraph:
        results = self.of(result)
        return RecordedGraph(
            self.pool, self.graph, self.copies, results, self.moved, type(self.result)
        )


def record(
    pool: Pool, run: Callable[..., Any], args: Sequence[Any], copied: Sequence[int], place: int = 0
) -> RecordedGraph:
    """`copied`: the places of inputs that the graph reads from memory of its own. That is the
    pool's as well: nothing of it is needed when another graph runs."""
    made = recording(pool, run, args, copied, place)
    return made.handing_out(made.result)


def recording(
    pool: Pool, run: Callable[..., Any], args: Sequence[Any], copied: Sequence[int], place: int = 0
) -> Recording:
    """`place`: of the pool, where the memory is."""
    given = list(args)
    versions: dict[int, int] = {}

    def recorded() -> Any:
        with torch.inference_mode(False):
            for number in copied:
                like = args[number]
                given[number] = torch.empty_strided(
                    like.shape, like.stride(), dtype=like.dtype, device=like.device
                )
        versions.update({p: t._version for p, t in _tensors(given) if not t.is_inference()})
        return run(*given)

    modes = modes_now()
    graph, result = pool.record(recorded, place)
    if modes_now() != modes:
        raise CannotRecord("it changes a mode of torch for the code after it")
    tensors = dict(_tensors(given))
    moved = [
        number
        for number, before in versions.items()
        for _ in range(tensors[number]._version - before)
    ]
    if set(moved) & set(copied):
        raise CannotRecord("an input that was to be copied is written to")
    sizes = {number: extent(args[number]) for number in copied}
    copies = [_Copy(n, given[n].data_ptr(), size) for n, size in sizes.items() if size]
    device = next(each.device for each in tensors.values())
    return Recording(pool, graph, result, tensors, copies, moved, device)


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
