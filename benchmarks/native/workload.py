"""A workload: a plain torch function or module, and how to make its inputs at each size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import torch
from torch import nn

#: In the order in which a compiler sees them: what people call first is neither tiny nor huge.
#: `large` is several times the L2 caches of two cores, yet below 32 MiB a tensor: above that glibc
#: maps fresh pages for every result, and the kernel's page faults hide everything else.
SIZES: Final = ("medium", "odd", "large", "tiny")

#: Sums in another order differ by this much in float32, through the layers of a small model; and by
#: this much of the largest value in the tensor, for what cancelled out.
CLOSE: Final = (1e-4, 2e-6)

Kind = Literal["function", "model"]
Dims = tuple[int, ...]


@dataclass(frozen=True)
class Workload:
    """What is measured: without gradients, unless it is trained (`benchmarks.training`)."""

    name: str
    #: the function, or the module in evaluation mode
    build: Callable[[], Callable[..., Any]]
    #: positional arguments for the numbers of a size
    inputs: Callable[..., tuple[Any, ...]]
    #: these, or others in the order in which a compiler sees them
    sizes: Mapping[str, Dims]
    kind: Kind = "function"
    #: a fused chain does so little for each byte that memory should be the limit
    memory_bound: bool = False
    #: the same model with so many layers
    with_layers: Callable[[int], nn.Module] | None = None
    #: waits until results are there, where a call does not
    settle: Callable[[], None] | None = None
    #: how far values may be from eager's: of each, and of the largest
    close: tuple[float, float] = CLOSE

    def __post_init__(self) -> None:
        assert self.sizes, f"{self.name} has no sizes"

    @property
    def order(self) -> tuple[str, ...]:
        own = [size for size in self.sizes if size not in SIZES]
        return (*(size for size in SIZES if size in self.sizes), *own)

    def at(self, chosen: Sequence[str] | None) -> Workload | None:
        """The workload at these sizes, if it has any of them; None for all of its own."""
        if chosen is None:
            return self
        found = {size: dims for size, dims in self.sizes.items() if size in chosen}
        return replace(self, sizes=found) if found else None

    def built(self) -> Callable[..., Any]:
        torch.manual_seed(0)
        return self.build()

    def arguments(self, size: str) -> tuple[Any, ...]:
        torch.manual_seed(1)
        return self.inputs(*self.sizes[size])


def sizes(tiny: Dims, medium: Dims, large: Dims, odd: Dims) -> dict[str, Dims]:
    return {"tiny": tiny, "medium": medium, "large": large, "odd": odd}
