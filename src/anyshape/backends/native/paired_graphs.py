"""A graph with gradients by CUDA graphs: pairs of a forward and its backwards, at each hot shape.

What a forward keeps stays in the memory of its graph, and the backward's graph reads it there:
nothing of it is copied. The memory is a place of the pool that is leased: as long as somebody may
ask for the gradients, no other graph is replayed in that place. A forward that finds no free place
runs as it would without graphs.

The memory of what is kept is held until the first backward is recorded, which is where gradients
come back next. After that, what is recorded for other shapes uses it as well, at other times: a
place needs no more memory than the largest shape in it. Where gradients come back in a way that is
not recorded, what is kept is copied out, and the usual code runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from anyshape.backends.native.alias_check import extent
from anyshape.backends.native.cuda_graphs import (
    CallKey,
    Device,
    Inputs,
    NotRecorded,
    ShapeGraphs,
    checks_of,
    flags_now,
    graph_device,
    has_address,
    inputs_of,
    why_not,
)
from anyshape.backends.native.leases import Gradients, Lease, Seen, SeenShape
from anyshape.backends.native.python_host import Host
from anyshape.backends.native.recorded_graph import (
    Pool,
    RecordedGraph,
    Recording,
    record,
    recording,
)
from anyshape.events.native_counts import count
from anyshape.graph.backward_graph import TrainingGraphs
from anyshape.runtime.cuda.graph_pool import CannotRecord

#: So often gradients may come back in a way that is not recorded.
_MOST_MISSED: Final = 3
#: Pairs that wait for a backward to be recorded, and hold memory that others could use.
_MOST_HELD: Final = 4
#: Shapes of which there is something to be remembered.
_MOST_KNOWN: Final = 4096
_top_hooks: Final[Callable[..., Any] | None] = getattr(
    vars(torch._C)["_autograd"], "_top_saved_tensors_default_hooks", None
)


def _sees_what_is_saved() -> bool:
    """Whether a hook is to be given what autograd saves."""
    assert _top_hooks is not None, "such a torch has no pairs"
    return _top_hooks(True) is not None


class Pair:
    """A forward at one shape in one place, and its backwards."""

    def __init__(self, made: Recording, outputs: int, key: CallKey, place: int) -> None:
        self.key, self.place = key, place
        self.forward = made.handing_out(made.result[:outputs])
        kept = made.result[outputs:]
        #: what holds its memory, until a backward is recorded
        self.kept: Sequence[Any] | None = kept
        self.kept_count = len(kept)
        self._kept = made.of(kept)
        #: tensors of the program that what is kept shares memory with: whether it is an input, and
        #: its place; and where they are saved, by the numbers of what is kept
        owners = _owners(made.result[:outputs], made.inputs)
        found = [owners.get(each.untyped_storage()._cdata) for each in kept]
        self.watched = list(dict.fromkeys(each for each in found if each is not None))
        numbers = {each: number for number, each in enumerate(self.watched, 1)}
        self.saved_at = {n: numbers[each] for n, each in enumerate(found) if each is not None}
        self.backwards: dict[Any, RecordedGraph] = {}
        #: whether a backward is missing
        self.is_stale = False
        self.wanted = 0

    @property
    def replays(self) -> int:
        return self.forward.replays

    def kept_copied_out(self, lease: Lease) -> list[Any]:
        return self._kept.copied_out(lease.pool, lease.inputs)


def _owners(
    outputs: Sequence[Any], inputs: Mapping[int, torch.Tensor]
) -> dict[int, tuple[bool, int]]:
    """Inputs and outputs by their memory."""
    found = {each.untyped_storage()._cdata: (True, place) for place, each in inputs.items()}
    for place, each in enumerate(outputs):
        # A view is handed out as a tensor that may be changed.
        if isinstance(each, torch.Tensor) and not each._is_view():
            found.setdefault(each.untyped_storage()._cdata, (False, place))
    return found


def _look(value: torch.Tensor) -> Any:
    """What a copy of its bytes depends on."""
    return value.shape, None if value.is_contiguous() else value.stride()


def _behind(
    kept: Sequence[Any], function: Callable[[list[Any]], Any]
) -> Callable[..., Sequence[Any]]:
    return lambda *args: function([*kept, *args])


class PairedGraphs(ShapeGraphs):
    """`run`: gives so many `outputs`, and behind them what is kept."""

    def __init__(
        self,
        run: Callable[..., Any],
        outputs: int,
        inputs: Inputs,
        device: Device,
        apart: Callable[..., bool] | None = None,
        check: Callable[[], None] = lambda: None,
        compile_id: str = "",
    ) -> None:
        super().__init__(run, inputs, device, apart, check, compile_id=compile_id)
        self._outputs = outputs
        #: inputs by place that stay where they are
        self.parameters: Final = inputs.parameters
        self._shapes: dict[CallKey, SeenShape] = {}
        #: pairs whose memory is held
        self._held: deque[Pair] = deque()
        self._backward_replays = self._crowded = self._copied_out = 0

    # -- forward -----------------------------------------------------------------------------------

    def forward(self, inputs: Sequence[Any]) -> tuple[Sequence[Any], Lease | Seen | None]:
        """The outputs, and behind them what is kept if there is no lease."""
        key = self._key_of_call(inputs)
        if key is None or _sees_what_is_saved():
            return self._run(*inputs), None
        shape = self._shape(key)
        leased = self._leased(key, shape, inputs) if self._may_lease(key, shape, inputs) else None
        if leased is not None:
            return leased
        result = self._run(*inputs)
        kept = result[self._outputs :]
        shape.kept = sum(extent(each) for each in kept if isinstance(each, torch.Tensor))
        return result, Seen(shape)

    def _shape(self, key: CallKey) -> SeenShape:
        found = self._shapes.get(key)
        if found is None:
            if len(self._shapes) >= _MOST_KNOWN:
                self._shapes.clear()
            found = self._shapes[key] = SeenShape()
        return found

    def _may_lease(self, key: CallKey, shape: SeenShape, inputs: Sequence[Any]) -> bool:
        if shape.is_hot:
            return key not in self._refused and self._is_apart(inputs)
        shape.is_hot = self._is_hot(key, inputs) and bool(shape.returned)
        return shape.is_hot

    def _leased(
        self, key: CallKey, shape: SeenShape, inputs: Sequence[Any]
    ) -> tuple[Sequence[Any], Lease] | None:
        pool = self._pool(key)
        if pool is None:
            return None
        self._check()
        with pool.lock:
            place = pool.leases.free()
            if place is None:
                self._crowded += 1
                return None
            pair = self._graphs.get((place, key))
            if pair is None or pair.is_stale:
                pair = self._recorded(pool, place, key, shape, inputs)
            if pair is None:
                return None
            self._touch((place, key))
            lease = Lease(self, pool, pair, inputs)
            pool.leases.take(place, lease)
            self._replays += 1
            return pair.forward.replay(inputs, is_first=not pair.replays), lease

    def _recorded(
        self, pool: Pool, place: int, key: CallKey, shape: SeenShape, inputs: Sequence[Any]
    ) -> Pair | None:
        self._graphs.pop((place, key), None)
        if not self._has_room(pool, key, max(0, shape.kept - pool.taken_at.get(place, 0))):
            return None
        try:
            with self._told(pool, inputs, "forward") as told:
                made = recording(pool, self._run, inputs, self._copied, place)
                pair = Pair(made, self._outputs, key, place)
                told(pair.forward)
        except CannotRecord as error:
            self._refuse(key, str(error))
            return None
        count("cuda_graphs")
        self._graphs[place, key] = pair
        self._held.append(pair)
        if len(self._held) > _MOST_HELD:
            self._held.popleft().kept = None
        return pair

    # -- backward ----------------------------------------------------------------------------------

    def gradients(self, lease: Lease, own: Gradients, behind: Sequence[Any]) -> Sequence[Any]:
        pair, pool = lease.pair, lease.pool
        is_elsewhere = self._device.stream() != pair.key[0]
        if is_elsewhere:
            self._device.synchronize()
        with pool.lock:
            found = None if is_elsewhere else self._backward(lease, own, behind)
            if found is not None:
                self._check()
                self._backward_replays += 1
                return found.replay(behind)
            self._copied_out += 1
            kept = pair.kept_copied_out(lease)
        if is_elsewhere:
            self._device.synchronize()
        result = own.function([*kept, *behind])
        self._shape(pair.key).returned.add(own.used)
        return result

    def _backward(
        self, lease: Lease, own: Gradients, behind: Sequence[Any]
    ) -> RecordedGraph | None:
        """The graph of a backward. None where what is kept has to be copied out."""
        pair = lease.pair
        moving = [each for each in enumerate(behind) if each[0] not in own.stays]
        copied = [number for number, each in moving if isinstance(each, torch.Tensor)]
        if not all(has_address(behind[number]) for number in copied):
            return None
        looks = tuple([_look(behind[number]) for number in copied])
        stays = tuple([behind[number].data_ptr() for number in own.stays])
        key = own.used, flags_now(), looks, stays
        found = pair.backwards.get(key)
        if found is not None:
            return found
        shape = self._shape(pair.key)
        why = own.why_not
        if own.used not in shape.returned:
            return None
        if lease.kept is None:
            # The next forward records another pair: memory of this one may be others' by now.
            pair.is_stale = True
            shape.missed += 1
            if shape.missed > _MOST_MISSED:
                why = why or "gradients come back in another way at each call"
        elif not why:
            kept, pool = lease.kept, lease.pool
            try:
                with self._told(pool, lease.inputs, "backward") as told:
                    run = _behind(kept, own.function)
                    found = told(record(pool, run, behind, copied, pair.place))
            except CannotRecord as error:
                why = str(error)
        if why:
            for place, of in list(self._graphs):
                if of == pair.key:
                    self._graphs.pop((place, of), None)
            self._refuse(pair.key, f"backward: {why}")
        if found is not None:
            count("cuda_graphs")
            pair.backwards[key] = found
            pair.kept = None
        return found

    @staticmethod
    def why_not(backward: torch.fx.Graph) -> str:
        """Why a backward cannot be recorded."""
        return why_not(backward)

    # -- for people --------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        if self._given_up:
            return [f"no CUDA graphs: {self._given_up}"]
        shapes = len({key for _, key in self._graphs})
        lines = [
            f"CUDA graphs: {shapes} shapes, replayed {self._replays} times forward and "
            f"{self._backward_replays} times backward"
        ]
        if self._crowded:
            lines.append(f"{self._crowded} calls had no CUDA graph: many forwards were pending")
        if self._copied_out:
            lines.append(f"{self._copied_out} backwards had none: they came in another way")
        return lines + [f"no CUDA graph: {why}" for why in dict.fromkeys(self._refused.values())]


def paired(
    graphs: TrainingGraphs,
    device: torch.device,
    host: Host,
    functions: Sequence[Any],
    compile_id: str,
) -> tuple[PairedGraphs | None, PairedGraphs | NotRecorded]:
    """What runs a forward, and what there is to say of it. `functions`: those of segments, to which
    those of backwards are added."""
    forward = graphs.forward.graph
    why = "" if _top_hooks else "this torch does not tell of hooks on what is saved"
    why = why or why_not(forward) or why_not(graphs.backward.graph)
    if why:
        return None, NotRecorded(why)
    check, inputs = checks_of(functions), inputs_of(forward)
    made = PairedGraphs(
        *(host.run, graphs.outputs, inputs, graph_device(device), host.is_apart, check, compile_id)
    )
    return made, made
