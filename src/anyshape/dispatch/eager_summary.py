"""One line on stderr when the process ends: which compiled functions ran eagerly, and why.

    anyshape: 1 compiled function ran eagerly: step (train.py:12; 200 calls): graph break: ...

A function that runs in parts with graphs in it is not among them: `explain()`, the logs and the
report tell of its boundaries. Of several ranks the first one tells.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import Final

from anyshape.config import config
from anyshape.dispatch.entry import Counts
from anyshape.support.lazy_dataclass import dataclass

#: So many functions are named.
_MOST_NAMED: Final = 3
#: So much is said of a reason.
_MOST_TEXT: Final = 160


@dataclass(slots=True, eq=False)
class RanEagerly:
    """A compiled function that was found to have calls no graph serves."""

    function: str
    file: str
    line: int
    reason: str
    where: str
    #: of the function, and of each of its parts
    own: Counts
    parts: list[Counts]
    #: whether calls without an entry run as they are, not in parts
    stopped_whole: bool = False

    @property
    def is_eager(self) -> bool:
        graphs = self.own.graphs + sum(part.graphs for part in self.parts)
        return self.own.eager_calls > 0 and (graphs == 0 or self.stopped_whole)

    def text(self) -> str:
        calls = self.own.eager_calls
        at = f" at {os.path.basename(self.where)}" if self.where else ""
        reason = " ".join(self.reason.split())
        if len(reason) > _MOST_TEXT:
            reason = reason[: _MOST_TEXT - 3] + "..."
        return (
            f"{self.function} ({os.path.basename(self.file)}:{self.line};"
            f" {calls} call{'s' * (calls != 1)}): graph break: {reason}{at}"
        )


class EagerSummary:
    """What to tell of this process."""

    def __init__(self) -> None:
        self._found: dict[int, RanEagerly] = {}
        self._is_registered = False

    def note(self, found: RanEagerly) -> None:
        """Take the latest that is known of a function."""
        self._found[id(found.own)] = found
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self.tell)

    def forget(self) -> None:
        self._found.clear()

    def text(self) -> str:
        """The line; empty if there is nothing to tell."""
        eager = [each for each in self._found.values() if each.is_eager]
        if not eager:
            return ""
        eager.sort(key=lambda each: -each.own.eager_calls)
        named = "; ".join(each.text() for each in eager[:_MOST_NAMED])
        more = f"; and {len(eager) - _MOST_NAMED} more" if len(eager) > _MOST_NAMED else ""
        one = len(eager) == 1
        return (
            f"anyshape: {len(eager)} compiled function{'' if one else 's'} ran eagerly:"
            f" {named}{more} (details: ANYSHAPE_LOGS=graph_breaks;"
            " to hide this: config.report_eager = False)"
        )

    def tell(self) -> None:
        """Write it, at the end of the process."""
        write_at_exit(self.text)


def write_at_exit(text: Callable[[], str]) -> None:
    """A line on stderr, unless a setting says otherwise, or another rank tells; none if empty."""
    if not config.report_eager or os.environ.get("RANK", "0") != "0":
        return
    line = text()
    if line and sys.stderr is not None:
        sys.stderr.write(f"{line}\n")


summary: Final = EagerSummary()
