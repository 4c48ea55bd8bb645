"""What stands for objects of Triton's in a program that is watched: no entry can make them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final


class Launcher(SimpleNamespace):
    """`kernel[grid]`."""

    def __init__(self, kernel: Any, grid: Any) -> None:
        super().__init__(kernel=kernel, grid=grid)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Where nobody watches any more."""
        return self.kernel[self.grid](*args, **kwargs)

    def original(self, plain: Callable[[Any], Any]) -> Any:
        return self.kernel[plain(self.grid)]


class LaunchResult(SimpleNamespace):
    """What a launch has returned: the kernel as it was compiled."""

    def __init__(self, returned: Any) -> None:
        super().__init__(returned=returned)

    def __getattr__(self, name: str) -> Any:
        # Where nobody watches any more, it is called with what it stands for.
        return getattr(self.returned if type(self) is LaunchResult else self, name)

    def original(self, plain: Callable[[Any], Any]) -> Any:
        return self.returned


STAND_INS: Final = frozenset({Launcher, LaunchResult})
