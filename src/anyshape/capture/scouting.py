"""What else a capture could not have followed, looked for after it was given up.

The call runs on as plain Python. Whatever it calls that no capture can follow is noted with its
site, so that one call finds all boundaries on its way: else each would take a call of its own.
"""

from __future__ import annotations

import types
from typing import Any, Final

from anyshape.boundary_markers import traceable_behind
from anyshape.capture.builtins import table as natives
from anyshape.capture.externals.untrace import StrippingHooks, untraced
from anyshape.capture.hooks.caller_frames import called
from anyshape.capture.hooks.watched_code import is_operation, may_be_watched
from anyshape.capture.outline.sites import Site, sites_on_stack
from anyshape.capture.rewrite.instrument import Refused, instrumented_code, is_instrumented

#: So many are noted: more are a loop over the same ones.
_MOST: Final = 32


class ScoutingHooks(StrippingHooks):
    """Plain Python that notes the sites of opaque calls."""

    def __init__(self) -> None:
        self.found: dict[tuple[Site, ...], None] = {}

    def call(self, function: object, /, *args: object, **kwargs: object) -> Any:
        if len(self.found) < _MOST and _is_opaque(function):
            self.found[sites_on_stack()] = None
            return called(
                function,
                tuple(map(untraced, args)),
                {name: untraced(value) for name, value in kwargs.items()},
            )
        return StrippingHooks.call(self, function, *args, **kwargs)


def _is_opaque(function: Any) -> bool:
    function = traceable_behind(function) or function
    kind = type(function)
    if kind is types.BuiltinFunctionType:
        return not is_operation(function) and natives.is_opaque(function)
    if kind is not types.FunctionType or is_instrumented(function.__code__):
        return False
    if natives.MODELS.get(function) is not None or is_operation(function):
        return False
    if not may_be_watched(function.__code__.co_filename):
        return natives.is_opaque(function)
    return isinstance(instrumented_code(function.__code__, function.__globals__), Refused)
