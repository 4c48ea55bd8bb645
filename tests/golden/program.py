"""What a program of the corpus is, and the table that all of them are in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

#: The spellings of a call's arguments: a tuple of positional ones.
Args = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """One program: what is compiled, the calls that are made of it, and how it is exported."""

    function: Callable[..., Any]
    calls: Sequence[Args]
    #: of `anyshape.compile`
    options: Mapping[str, Any] = field(default_factory=dict)
    #: of `anyshape.export`, which gets the first call as its example; None: it is not exported
    export: Mapping[str, Any] | None = field(default_factory=dict)
    #: whether autograd records its calls
    grad: bool = False
    #: whether its LLVM modules are kept as text, and not as digests alone
    llvm: bool = False


PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    """Put a program into the table, under the name of the function that makes it."""
    assert make.__name__ not in PROGRAMS
    PROGRAMS[make.__name__] = make
    return make


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype) / 7 - 1


def integers(*shape: int, below: int = 10) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape) * 3 % below
