"""A program: buffers, and the steps that fill them in order.

Names of buffers are the program's own (`b0`, `b1` ...). A kernel is written over names of its own
(`k0`, `k1` ..., symbols `n0`, `n1` ...) so that equal layers have equal kernels; a launch binds
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from anyshape.loops.expr import Dtype
from anyshape.loops.kernels import Kernel
from anyshape.support.lazy_dataclass import dataclass, replace
from anyshape.symbolic import Size, Symbol

Role = Literal["input", "output", "temporary"]

#: Branches of a CUDA graph beside the stream that all is recorded in.
MOST_BRANCHES: Final = 3


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of `sizes` elements, laid out by `strides` (elements). An input is given by the
    caller; an output is a new tensor that the caller gets; a temporary is the program's own."""

    name: str
    dtype: Dtype
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    role: Role


@dataclass(frozen=True, slots=True)
class Area:
    """A tensor within a buffer: sizes, strides and offset in elements."""

    buffer: str
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel: what its buffers, symbols and numbers are, in the order of its own names."""

    kernel: Kernel
    buffers: tuple[str, ...]
    sizes: tuple[Size, ...]
    numbers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extern:
    """Call a function of the tensor library from native code: `mm_out` and the like. Arguments are
    areas, sizes, floats, bools, strings or None, as that function takes them."""

    function: str
    arguments: tuple[Any, ...]


Step = Launch | Extern


def areas_of(extern: Extern) -> list[Area]:
    """The tensors among the arguments of a function, in order."""
    found: list[Area] = []
    stack: list[Any] = list(reversed(extern.arguments))
    while stack:
        argument = stack.pop()
        if isinstance(argument, Area):
            found.append(argument)
        elif isinstance(argument, tuple | list):
            stack += reversed(argument)
    return found


def buffers_of(step: Step) -> list[str]:
    """The names of the buffers that a step touches, as often as it has them."""
    if isinstance(step, Launch):
        return list(step.buffers)
    return [area.buffer for area in areas_of(step)]


def with_buffers(step: Step, name_of: Callable[[str], str]) -> Step:
    """The step with other buffers in the place of its own."""

    def renamed(argument: Any) -> Any:
        if isinstance(argument, Area):
            return replace(argument, buffer=name_of(argument.buffer))
        if isinstance(argument, tuple | list):
            return type(argument)(map(renamed, argument))
        return argument

    if isinstance(step, Launch):
        return replace(step, buffers=tuple(map(name_of, step.buffers)))
    return replace(step, arguments=renamed(step.arguments))


class SizeRead(NamedTuple):
    """The value of a symbol: a dimension of an input, by its number."""

    symbol: Symbol
    tensor: int
    dim: int


class Repeated(NamedTuple):
    """Steps that come again and again with other buffers: from number `first` on, `length` of them
    in each of so many rounds."""

    first: int
    length: int
    rounds: int


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A run of native steps: one foreign call. Takes tensors, integers and floats in this order;
    gives the outputs as new tensors. Temporaries live as long as the call."""

    inputs: tuple[Buffer, ...]
    symbols: tuple[Symbol, ...]
    numbers: tuple[str, ...]
    temporaries: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    #: integers that the tensors tell: nobody has to hand them over
    read: tuple[SizeRead, ...] = ()
    #: which of the steps are the same, if that is known
    repeated: Repeated | None = None

    @property
    def given(self) -> tuple[Symbol, ...]:
        """The integers that a call hands over."""
        read = {each.symbol for each in self.read}
        return tuple(symbol for symbol in self.symbols if symbol not in read)
