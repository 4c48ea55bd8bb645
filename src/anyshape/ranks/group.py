"""The process group of this process, as far as ranks tell each other what they have seen."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

import torch.distributed as dist

from anyshape.ranks.agreement_protocol import AgreementProtocol, Patience
from anyshape.support import worker
from anyshape.support.lazy_dataclass import dataclass, field

#: Changes with the protocol, so that ranks of different versions of ours do not meet.
_PREFIX: Final = "anyshape/1"
#: How much longer than its limit a talk with the store may take before the store counts as silent:
#: seconds, and a part of the limit.
_MARGIN: Final = (2.0, 0.1)

_T = TypeVar("_T")


class Silent(Exception):
    """The store did not answer."""


@dataclass(slots=True)
class Group:
    """One process group; another one is made when the program makes another."""

    rank: int
    world: int
    _of: weakref.ref[Any]
    _store: Any = None
    _prefix: str = ""
    patience: Patience = field(default_factory=Patience)
    #: why this rank goes on alone, if it does
    broken: str = ""
    #: functions by name: one that is compiled twice is two, in the order of their first compiles
    _functions: Counter[str] = field(default_factory=Counter[str])

    def is_of(self, store: Any) -> bool:
        return self._of() is store

    def rounds(self, function: str) -> AgreementProtocol:
        """For a function that has not been compiled in this group."""
        if self._store is None:
            self._store = self._connect()
        number = self._functions[function]
        self._functions[function] += 1
        name = f"{self._prefix}/{function}#{number}"
        return AgreementProtocol(self._store, name, self.rank, self.world, self.patience)

    def _connect(self) -> Any:
        store = self._of()
        if store is None:
            raise Silent("the process group is gone")
        # A connection of our own: on the program's one somebody may wait for long, and others then
        # wait for the connection.
        store = _cloned(store)
        # A store may outlive its group, and what was agreed on in that must not count here.
        self._prefix = f"{_PREFIX}/{store.add(f'{_PREFIX}/groups/{self.rank}', 1)}"
        return store


def _cloned(store: Any) -> Any:
    try:
        return store.clone()
    except (AttributeError, NotImplementedError, RuntimeError):
        return store  # one of the program's own making


@dataclass(slots=True)
class Current:
    """The group that the process is in now."""

    _group: Group | None = None

    def group(self) -> Group | None:
        """None if there is nobody to talk to."""
        if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
            self._group = None
            return None
        store = dist.distributed_c10d._get_default_store()
        if self._group is None or not self._group.is_of(store):
            # Held weakly: a server must be gone when the program has left its group.
            self._group = Group(dist.get_rank(), dist.get_world_size(), weakref.ref(store))
        return self._group


current: Final = Current()


def within(seconds: float, work: Callable[[], _T]) -> _T:
    """The result of `work`, which talks to the store. In a thread, because such a talk hangs if the
    machine of the store does."""
    longest = seconds + _MARGIN[0] + seconds * _MARGIN[1]
    try:
        return worker.within(longest, work, "anyshape ranks")
    except TimeoutError:
        raise Silent(f"it did not answer for {longest:.3g} s") from None
