"""What a program reads of `obj.__dict__` when that is replaced, by captures and by hits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape


class Held:
    def __init__(self) -> None:
        self.scale = 2.0
        self.shift = torch.ones(3)


class Answering(dict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return 100.0 if key == "scale" else dict.__getitem__(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        return 50.0 if key == "scale" else default

    def __contains__(self, key: object) -> bool:
        return key != "scale"


class Missing(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        return 7.0


READS: dict[str, Callable[[Held, torch.Tensor], Any]] = {
    "item": lambda held, x: x * held.__dict__["scale"] + held.__dict__["shift"],
    "get": lambda held, x: x * held.__dict__.get("scale", 9.0),
    "vars": lambda held, x: x * vars(held)["scale"],
    "contains": lambda held, x: x + 1 if "scale" in held.__dict__ else x - 1,
    "attribute": lambda held, x: x * held.scale,
}


def _set(kind: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Held], None]:
    def change(held: Held) -> None:
        held.__dict__ = kind({**held.__dict__, "scale": 3.0})

    return change


def _remove(held: Held) -> None:
    held.__dict__ = {"shift": held.__dict__["shift"]}


CHANGES: dict[str, Callable[[Held], None]] = {
    "another dictionary": _set(dict),
    "an ordered one": _set(OrderedDict),
    "one that answers itself": _set(Answering),
    "one that makes what it has not": _set(Missing),
    "without the name": _remove,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("first", ["as it is", "changed"])
def test_as_eager(read: str, change: str, first: str) -> None:
    function = READS[read]
    held, x = Held(), torch.arange(3.0)
    if first == "changed":
        CHANGES[change](held)
    compiled = anyshape.compile(function)

    def outcome(call: Callable[..., Any]) -> Any:
        try:
            return call(held, x).tolist()
        except (KeyError, AttributeError) as error:
            return type(error)

    for _ in range(4):  # a capture, hits by guards and by a stamp
        assert outcome(compiled) == outcome(function)
    if first == "as it is":
        CHANGES[change](held)
    else:
        held.__dict__ = {"scale": 5.0, "shift": torch.zeros(3)}
    for _ in range(3):
        assert outcome(compiled) == outcome(function)
