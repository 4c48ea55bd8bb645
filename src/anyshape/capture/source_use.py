"""Which entries of `config.dynamic_sources` have named something.

A name that fits nothing is no error, since lists are copied from run to run; it may be a mistake
though, so it is reported once. That it fits nothing is known when the program ends, and no earlier:
the function that has it may still be to come. Until then `explain` tells.
"""

from __future__ import annotations

import atexit
import warnings
from difflib import get_close_matches
from typing import Final

from anyshape.events import kinds
from anyshape.events.stream import stream
from anyshape.policy.sources import DynamicSource, parse_dynamic_sources


class SourceUse:
    """What the process has met of the lists that were in force."""

    def __init__(self) -> None:
        self._unused: dict[str, DynamicSource] = {}
        self._used: set[str] = set()
        self._met: set[str] = set()

    def meet(self, listed: str, source: str, rank: int | None) -> None:
        """A tensor of this rank, or an integer (None), was met while a list was in force."""
        if not listed:
            return
        self._met.add(source)
        for entry in parse_dynamic_sources(listed):
            if entry.text in self._used:
                continue
            dims = (None,) if rank is None else range(rank)
            if any(entry.names(source, dim) for dim in dims):
                self._used.add(entry.text)
                self._unused.pop(entry.text, None)
            else:
                self._unused[entry.text] = entry

    @property
    def unused(self) -> list[str]:
        return list(self._unused)

    def forget(self) -> None:
        """Begin anew; what has been of use once is not reported later."""
        self._unused.clear()
        self._met.clear()

    def similar(self, text: str) -> list[str]:
        return get_close_matches(text, self._met, n=2)

    def report(self) -> None:
        """Tell what was never of use, each once."""
        for text in self.unused:
            self._used.add(self._unused.pop(text).text)
            similar = self.similar(text)
            hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
            reason = f"config.dynamic_sources names it, and no compiled function has it{hint}"
            stream.emit(kinds.MarkIgnored(text, reason))
            warnings.warn(f"anyshape: {text}: {reason}", stacklevel=2)


source_use: Final = SourceUse()
atexit.register(source_use.report)
