"""What goes wrong below the text."""

from __future__ import annotations


class NativeUnavailable(RuntimeError):
    """Native code cannot be made or loaded here: run the graph as it is."""


class InvalidCode(RuntimeError):
    """LLVM does not take the code that was made: a defect, of a row or of ours."""


class NativeFailed(RuntimeError):
    """A native function gave up: nothing was returned. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class OutOfRange(NativeFailed, IndexError):
    """A position read from a tensor was none. Torch raises either error, by operator."""


class OutOfRangeBefore(OutOfRange):
    """The same of an earlier call, which a GPU tells of later."""


def as_torch_raises(error: Exception) -> Exception:
    """The error for users: of the classes that torch has."""
    if isinstance(error, OutOfRange):
        return IndexError(error.reason)
    return RuntimeError(error.reason) if isinstance(error, NativeFailed) else error
