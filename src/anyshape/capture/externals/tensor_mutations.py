"""What a capture changed of the tensors outside, and whether that can be undone.

A version tells that a tensor was changed in place. Some changes do not show in it: those through
`x.data`, running statistics, kernels of libraries, inference tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import torch

from anyshape.capture.abort import AbortCapture
from anyshape.guards.path import Path

#: So many bytes are copied before each run, at most, to be able to undo it.
_MOST_KEPT: Final = 1 << 18


class Changes:
    """The changes of one capture, segment by segment."""

    def __init__(self) -> None:
        #: tensors from outside, with their versions before the program changed them
        self.externals: list[tuple[Path, torch.Tensor, int | None]] = []
        #: how they lie in memory, which is not undone
        self._geometries: dict[int, _Geometry] = {}
        #: those with a history when they came in
        self._made: set[int] = set()
        #: versions at the end of the last segment
        self._versions: dict[int, int | None] = {}
        #: memory that was written without a new version: in this segment, and before
        self._written: set[int] = set()
        self._written_before: set[int] = set()
        #: whether something may have been changed that versions do not tell
        self.unseen = False
        #: whether anything was changed in place, be it the program's own
        self.any = False
        #: whether it draws from generators of the program's own
        self.draws_apart = False
        #: whether an operation may fail, by its data, after something has been changed
        self.may_raise_late = False
        #: whether the program has a handler around such an operation
        self.may_be_caught = False
        #: whether it has one around an operation that may fail before anything is changed: native
        #: code may have changed something by then
        self.may_be_caught_early = False

    @property
    def may_fail(self) -> bool:
        """Whether a run may fail and then has to be made again."""
        return self.may_raise_late or self.may_be_caught_early

    def note_raising(self, is_caught: Callable[[], bool]) -> None:
        """An operation may fail by its data; `is_caught`: whether there is a handler around it."""
        if self.any:
            self.may_raise_late = True
            self.may_be_caught |= is_caught()
        elif not self.may_be_caught_early:
            self.may_be_caught_early = is_caught()

    def add(self, path: Path, tensor: torch.Tensor) -> None:
        self.externals.append((path, tensor, _version(tensor)))
        self._geometries[id(tensor)] = _geometry_of(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            self._made.add(id(tensor))

    def with_history(self) -> Iterator[Path]:
        """Which tensors were changed that operations have made: of a leaf, autograd would not have
        allowed it."""
        for path, tensor, first in self.externals:
            if id(tensor) in self._made and _version(tensor) != first:
                yield path

    def reformed(self) -> Iterator[tuple[Path, torch.Tensor, int]]:
        """Tensors that have another form than they came with, and how many dimensions they had:
        shape, strides, memory, whether they require gradients and what made them."""
        for path, tensor, _ in self.externals:
            before = self._geometries[id(tensor)]
            if _geometry_of(tensor) != before:
                yield path, tensor, before.rank

    def has_new_history(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor that came without gradients is by now a result of operations, or is to
        have gradients: leaves where one that had a history has another."""
        before = self._geometries.get(id(tensor))
        if before is None or before == _geometry_of(tensor):
            return False
        if before.requires_grad:
            raise AbortCapture("the history of a tensor that was changed is asked for")
        return tensor.requires_grad

    def gave_history(self, but: torch.Tensor) -> bool:
        """Whether a tensor beside this one is by now a result of operations with gradients, and
        did not come with gradients: then its views are, too."""
        return self.any and any(
            tensor is not but
            and tensor.grad_fn is not None
            and not self._geometries[id(tensor)].requires_grad
            for _, tensor, _ in self.externals
        )

    def wrote(self, tensors: Iterable[torch.Tensor]) -> None:
        """The memory of these tensors was written without a new version."""
        self.any = True
        self._written.update(map(_memory_of, tensors))

    def end_segment(self) -> list[Path]:
        """Which tensors the segment changed; leaves where that is not known, or could not be
        undone."""
        if self.unseen and self.any:
            raise AbortCapture(
                "a tensor is changed where nobody can see it, before a data-dependent branch"
            )
        with torch._C.DisableTorchFunction():
            return list(self._newly_changed())

    def _newly_changed(self) -> Iterator[Path]:
        for path, tensor, first in self.externals:
            before = self._versions.get(id(tensor), first)
            now = _version(tensor)
            if now is None and self.any:
                raise AbortCapture(
                    "an inference tensor may be changed before a data-dependent branch"
                )
            if now == before and _geometry_of(tensor) != self._geometries[id(tensor)]:
                raise AbortCapture("a tensor is changed in form before a data-dependent branch")
            if now != before or (self._written and _memory_of(tensor) in self._written):
                if tensor.requires_grad and not tensor.is_leaf:
                    raise AbortCapture(
                        "a tensor with a history is changed before a data-dependent branch"
                    )
                if _geometry_of(tensor) != self._geometries[id(tensor)]:
                    raise AbortCapture(
                        "the shape of a tensor is changed before a data-dependent branch"
                    )
                yield path
            self._versions[id(tensor)] = now
        self._written_before |= self._written
        self._written.clear()

    def repeatable(self) -> bool:
        """Whether the graph may be run a second time: it has changed nothing but its own tensors.

        Asked when a compiled run fails and has to be made again, eagerly.
        """
        written = self._written or self._written_before
        if self.draws_apart or written or (self.unseen and self.any):
            return False
        return not any(
            self.any if version is None else _version(tensor) != version
            for _, tensor, version in self.externals
        )

    def needs_undo(self) -> bool:
        """Whether a failed run has to be made undone, and can be, to be made again: what it may
        have changed by then is known, and not large."""
        if not self.may_fail or self.unseen or self.repeatable():
            return False
        written = self._written | self._written_before
        changed = [
            tensor
            for _, tensor, first in self.externals
            if _version(tensor) != first or _memory_of(tensor) in written
        ]
        is_caught = self.may_be_caught or self.may_be_caught_early
        return (
            all(not tensor.requires_grad or tensor.is_leaf for tensor in changed)
            and not any(version is None for _, _, version in self.externals)
            and (is_caught or sum(tensor.nbytes for tensor in changed) <= _MOST_KEPT)
            and all(_geometry_of(tensor) == self._geometries[id(tensor)] for tensor in changed)
        )


def _version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; None for one that does not count."""
    return None if tensor.is_inference() else tensor._version


def _memory_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


class _Geometry(NamedTuple):
    """All of a tensor that is not in its elements."""

    rank: int
    requires_grad: bool
    rest: tuple[object, ...]


def _geometry_of(tensor: torch.Tensor) -> _Geometry:
    storage = tensor.untyped_storage()
    rest = (
        tensor.shape,
        tensor.stride(),
        tensor.storage_offset(),
        storage._cdata,
        storage.nbytes(),
        id(tensor.grad_fn),
    )
    return _Geometry(tensor.dim(), tensor.requires_grad, rest)
