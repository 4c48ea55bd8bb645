"""Taking traced numbers out of what leaves a capture runs no code of the objects on the way."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from anyshape.capture.externals.untrace import untraced


class AskedError(BaseException):
    """Not an `Exception`: nobody catches it by mistake."""


class Watchful:
    """Any question but those that Python itself answers is code of ours."""

    def __getattribute__(self, name: str) -> Any:
        raise AskedError(name)


class WatchfulDefaults(defaultdict[str, Any]):
    def __getattribute__(self, name: str) -> Any:
        raise AskedError(name)


class WatchfulList(list[Any]):
    def __getattribute__(self, name: str) -> Any:
        raise AskedError(name)


@pytest.mark.parametrize("kind", [Watchful, WatchfulDefaults, WatchfulList])
def test_objects_that_an_error_holds_are_not_asked(kind: Any) -> None:
    held = kind()
    error = ValueError({"held": [held]})
    assert untraced(error) is error
    assert error.args[0]["held"][0] is held
