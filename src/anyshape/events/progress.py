"""A line on the terminal while a compile takes long, and nothing else, ever.

    anyshape: compiling Net [0/1]  backend, 2 graphs, 5 kernels, 3.4 s

It is shown where stderr is a terminal (not with `config.progress = False`), after a second, and is
wiped away when the compile is done. Not during capture: the program itself runs then, and may
print. A thread draws it, which sleeps while nothing is compiled: the compile itself only notes
where it is.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TextIO

from anyshape.config import config
from anyshape.support.lazy_dataclass import dataclass, field

#: The stage in which the program runs.
_CAPTURE: Final = "capture"

#: A compile that takes no longer is none of the user's business.
LONG_SECONDS: Final = 1.0
_REDRAW_SECONDS: Final = 0.2

_WIPE: Final = "\r\x1b[2K"


@dataclass(slots=True, eq=False)
class Compiling:
    """A compile that is under way."""

    function: str
    compile_id: str
    started: float = field(default_factory=time.monotonic)
    stage: str = _CAPTURE
    graphs: int = 0
    kernels: int = 0

    def text(self, now: float) -> str:
        counts = [(self.graphs, "graph"), (self.kernels, "kernel")]
        done = [f"{count} {what}{'s' * (count != 1)}" for count, what in counts if count]
        parts = [self.stage, *done, f"{now - self.started:.1f} s"]
        return f"anyshape: compiling {self.function} [{self.compile_id}]  {', '.join(parts)}"


class Progress:
    """The compiles that are under way, and the thread that shows the first of them."""

    def __init__(self) -> None:
        self._start()
        os.register_at_fork(after_in_child=self._start)
        atexit.register(self._end)

    def _start(self) -> None:
        self._active: list[Compiling] = []
        self._of_thread = threading.local()
        self._is_something = threading.Event()
        self._thread: threading.Thread | None = None
        #: held while something is written
        self._writing = threading.Lock()
        self._shown_on: TextIO | None = None
        self._is_ended = False

    def _end(self) -> None:
        """Python ends, and a thread of the program may still compile: a thread that is stopped
        within a write would keep others from writing."""
        with self._writing:
            self._is_ended = True

    # -- what the compiler tells -----------------------------------------------------------------

    @contextmanager
    def compiling(self, function: str, compile_id: str) -> Generator[None]:
        """A compile, in this thread. Those within it count as part of it."""
        if getattr(self._of_thread, "now", None) is not None or not _is_wanted():
            yield
            return
        made = self._of_thread.now = Compiling(function, compile_id)
        self._active.append(made)
        self._wake()
        try:
            yield
        finally:
            self._of_thread.now = None
            self._active.remove(made)
            if self._shown_on is not None:
                self._wipe()

    @property
    def now(self) -> Compiling | None:
        """The compile of this thread, if anybody is shown how far it is."""
        return getattr(self._of_thread, "now", None)

    def stage(self, name: str) -> None:
        if (now := self.now) is not None:
            now.stage = name
            if name == _CAPTURE and self._shown_on is not None:
                self._wipe()

    def graph(self) -> None:
        if (now := self.now) is not None:
            now.graphs += 1

    def kernel(self) -> None:
        if (now := self.now) is not None:
            now.kernels += 1

    # -- the thread that shows it ----------------------------------------------------------------

    def _wake(self) -> None:
        if self._thread is None:
            with self._writing:
                if self._thread is None:
                    self._thread = self._started()
        if not self._is_something.is_set():
            self._is_something.set()

    def _started(self) -> threading.Thread:
        made = threading.Thread(target=self._run, name="anyshape-progress", daemon=True)
        # There is no other thread to be had while Python ends.
        with contextlib.suppress(RuntimeError):
            made.start()
        return made

    def _run(self) -> None:
        draw: Callable[[TextIO, str], None] | None = None
        while True:
            self._is_something.wait()
            self._is_something.clear()
            while self._active:
                with contextlib.suppress(IndexError):  # done since
                    waited = time.monotonic() - self._active[0].started
                    if waited < LONG_SECONDS:
                        time.sleep(LONG_SECONDS - waited)
                        continue
                    draw = draw or _drawer()
                    self._draw(draw)
                time.sleep(_REDRAW_SECONDS)

    def _draw(self, draw: Callable[[TextIO, str], None]) -> None:
        with self._writing:
            # Before the look at what is under way: a compile that ends between the two wipes.
            before, file = self._shown_on, sys.stderr
            self._shown_on = file
            first = next((each for each in self._active if each.stage != _CAPTURE), None)
            if first is None or self._is_ended:
                self._shown_on = before
                return
            # The terminal may be gone, or closed: that is no reason to disturb the program.
            with contextlib.suppress(Exception):
                draw(file, first.text(time.monotonic()))

    def _wipe(self) -> None:
        with self._writing:
            file, self._shown_on = self._shown_on, None
            if file is not None:
                with contextlib.suppress(Exception):
                    file.write(_WIPE)
                    file.flush()


def _is_wanted() -> bool:
    try:
        is_terminal = sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False
    return is_terminal and config.progress and os.environ.get("TERM") != "dumb"


def _drawer() -> Callable[[TextIO, str], None]:
    """With rich, or with plain text where it is not installed."""
    try:
        from rich.console import Console
        from rich.spinner import Spinner
        from rich.text import Text
    except ImportError:
        return _draw_plainly
    spinner = Spinner("dots")

    def draw(file: TextIO, text: str) -> None:
        console = Console(file=file, highlight=False)
        line = Text.assemble(_frame(spinner.render(time.monotonic())), " ", (text, "cyan"))
        line.truncate(max(console.width - 1, 1))
        file.write(_WIPE)
        console.print(line, end="", soft_wrap=True)
        file.flush()

    return draw


def _frame(rendered: Any) -> str:
    return str(getattr(rendered, "plain", ""))


def _draw_plainly(file: TextIO, text: str) -> None:
    try:
        width = os.get_terminal_size(file.fileno()).columns or 80
    except (OSError, ValueError):
        width = 80
    file.write(_WIPE + text[: max(width - 1, 1)])
    file.flush()


#: What the package tells.
progress: Final = Progress()
