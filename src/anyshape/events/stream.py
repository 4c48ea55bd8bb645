"""The stream: events go to whoever listens for their kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final

from anyshape.events.kinds import Event
from anyshape.support.user_warning import warn_user

Sink = Callable[[Event], None]


class _Once:
    """Makes an event, for all who want it. A compile makes several of these: they cost little."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Event]) -> None:
        self._make = make
        self._made: Event | None = None

    def __call__(self) -> Event:
        if self._made is None:
            self._made = self._make()
        return self._made


class Stream:
    """Sinks by kind of event. Emitting without listeners costs one look-up."""

    __slots__ = ("_everything", "_lock", "_of_kind", "_subscriptions")

    def __init__(self) -> None:
        self._lock = Lock()
        self._subscriptions: list[tuple[Sink, frozenset[type[Event]] | None]] = []
        # Replaced as a whole, never changed: emitting needs no lock.
        self._of_kind: dict[type[Event], tuple[Sink, ...]] = {}
        self._everything: tuple[Sink, ...] = ()

    def subscribe(
        self, sink: Sink, kinds: Iterable[type[Event]] | None = None
    ) -> Callable[[], None]:
        """Give the sink all events of these kinds, or of all kinds; the result ends it."""
        subscription = (sink, None if kinds is None else frozenset(kinds))
        with self._lock:
            self._subscriptions.append(subscription)
            self._arrange()

        def unsubscribe() -> None:
            with self._lock:
                # By identity: the same sink may be subscribed twice.
                self._subscriptions = [s for s in self._subscriptions if s is not subscription]
                self._arrange()

        return unsubscribe

    def _arrange(self) -> None:
        named = {kind for _, kinds in self._subscriptions for kind in kinds or ()}
        self._of_kind = {
            kind: tuple(s for s, kinds in self._subscriptions if kinds is None or kind in kinds)
            for kind in named
        }
        self._everything = tuple(s for s, kinds in self._subscriptions if kinds is None)

    def listening(self, kind: type[Event]) -> bool:
        """Whether an event of this kind would reach anybody: ask before building costly texts."""
        return bool(self._everything) or kind in self._of_kind

    def emit(self, event: Event) -> None:
        for sink in self._of_kind.get(type(event), self._everything):
            try:
                sink(event)
            except Exception as error:
                warn_of_failure(type(event), error)

    def emit_made(self, kind: type[Event], make: Callable[[], Event]) -> None:
        """Emit an event whose texts take long to make: a sink with a method `later` is given the
        function instead, and makes the event when there is time. What it is made of must not
        change."""
        make = _Once(make)
        for sink in self._of_kind.get(kind, self._everything):
            try:
                later: Callable[[Callable[[], Event]], None] | None = getattr(sink, "later", None)
                if later is None:
                    sink(make())
                else:
                    later(make)
            except Exception as error:
                warn_of_failure(kind, error)


def warn_of_failure(kind: type[Event], error: Exception) -> None:
    """Telling must never change the answer of the user's program."""
    text = f"a listener failed on {kind.__name__}: {type(error).__name__}: {error}"
    warn_user(text, RuntimeWarning)


#: What the package emits to.
stream: Final = Stream()
