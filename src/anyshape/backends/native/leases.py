"""What a forward leaves for its backward where CUDA graphs are recorded: a lease on memory of its
graph, or the knowledge that there is none (`paired_graphs.py`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol

import torch

from anyshape.support.lazy_dataclass import dataclass, field

#: Saved with what is not: torch tells who asks for gradients again that all of it is gone.
with torch.inference_mode(False):
    _SENTINEL: Final = torch.empty(0, device="cpu")


class Gradients(NamedTuple):
    """What gives gradients where they come back for these outputs."""

    used: tuple[int, ...]
    #: takes what is kept and all that is behind it in a list, which it may empty
    function: Callable[[list[Any]], Any]
    #: places of what is behind that stay where they are
    stays: frozenset[int]
    #: why it cannot be recorded, if so
    why_not: str


@dataclass(slots=True)
class SeenShape:
    """What is known of a shape, from calls that ran the usual code."""

    #: for which outputs gradients came back: code that has run can be recorded
    returned: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    #: bytes that are kept
    kept: int = 0
    is_hot: bool = False
    #: how often a backward was missing
    missed: int = 0


class Seen:
    """A forward that was run as it is, and whose gradients are looked at."""

    def __init__(self, shape: SeenShape) -> None:
        self._shape = shape

    def came_back(self, used: tuple[int, ...]) -> None:
        self._shape.returned.add(used)


class Pairs(Protocol):
    """`PairedGraphs`."""

    @property
    def parameters(self) -> Collection[int]: ...
    def forward(self, inputs: Sequence[Any]) -> tuple[Sequence[Any], Lease | Seen | None]: ...
    def gradients(self, lease: Any, own: Gradients, behind: Sequence[Any]) -> Sequence[Any]: ...


class Lease:
    """What a forward has left in the memory of its graph, until this is gone."""

    def __init__(self, pairs: Pairs, pool: Any, pair: Any, inputs: Sequence[Any]) -> None:
        self._pairs = pairs
        #: of `PairedGraphs`
        self.pool, self.pair, self.inputs = pool, pair, inputs
        #: what holds that memory, if no backward was recorded before
        self.kept = pair.kept
        #: how many tensors are saved
        self.count = 1 + len(pair.watched)

    def saved(self, outputs: Sequence[Any]) -> list[torch.Tensor]:
        """What autograd saves in place of what is kept: tensors of the program that some of it
        shares memory with. Torch looks whether they were changed meanwhile."""
        owners = {True: self.inputs, False: outputs}
        return [_SENTINEL, *(owners[is_input][place] for is_input, place in self.pair.watched)]

    def reads(self, places: Collection[int]) -> frozenset[int]:
        """Which of what is saved says whether these may be read, of what is kept and of inputs."""
        at, kept = self.pair.saved_at, self.pair.kept_count
        own = (at.get(each) if each < kept else each - kept + self.count for each in places)
        return frozenset(each for each in own if each is not None)

    def gradients(self, own: Gradients, behind: Sequence[Any]) -> Sequence[Any]:
        return self._pairs.gradients(self, own, behind)
