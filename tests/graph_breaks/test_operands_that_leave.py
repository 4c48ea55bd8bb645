"""Operators on a value that no capture can follow, in the statement that finds it: the hook of the
operator was looked up before, and meets a value that it knows nothing of. What the program did
before is done once."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import anyshape

COUNTED: list[int] = []


def _once(x: Tensor) -> Tensor:
    """An effect in the expression itself."""
    COUNTED.append(1)
    return x


def _opaque(x: Tensor) -> Tensor:
    return torch.from_numpy(_once(x).numpy())


def _merged(**named: Any) -> Any:
    return sorted(named)


def _unpacked(x: Tensor) -> Any:
    first, *rest = _opaque(x)
    return first, len(rest)


def _matched(x: Tensor) -> Any:
    match _once(x).numpy().shape:
        case (size,):
            return size
    return None


def _stored(x: Tensor) -> Any:
    _once(x).numpy()[0] += 1
    return x


def _deleted(x: Tensor) -> Any:
    items = {_once(x).data_ptr(): 1}
    del items[_once(x).data_ptr()]
    return len(items)


def _with(x: Tensor) -> Any:
    with io.BytesIO(_once(x).numpy().tobytes()) as file:
        return len(file.read())


EXPRESSIONS: dict[str, Callable[[Tensor], Any]] = {
    "is": lambda x: _opaque(x) is x,
    "is not": lambda x: _once(x)._base is not x,
    "is between unknown": lambda x: _opaque(x) is _opaque(x),
    "is None": lambda x: _once(x)._base is None,
    "==": lambda x: (_opaque(x) == x).all(),
    "a chain": lambda x: 0 < _once(x).data_ptr() != 3,
    "in": lambda x: _once(x).data_ptr() in [1, 2],
    "in of unknown": lambda x: 1.0 in _once(x).numpy(),
    "not": lambda x: not _once(x).numpy().any(),
    "and": lambda x: _once(x).numpy().any() and _once(x).data_ptr() > 0,
    "-": lambda x: -_once(x).numpy(),
    "+": lambda x: x + _opaque(x),
    "item": lambda x: _once(x).numpy()[0],
    "slice": lambda x: _once(x).numpy()[: x.size(0) - 1],
    "index": lambda x: x[_once(x).data_ptr() * 0],
    "attribute": lambda x: _once(x).numpy().flags.writeable,
    "call": lambda x: _once(x).numpy().sum(),
    "star": lambda x: [*_once(x).numpy()],
    "two stars": lambda x: _merged(a=_once(x).numpy().sum()),
    "iteration": lambda x: [each + 1 for each in _once(x).numpy()],
    "f-string": lambda x: f"{_once(x).numpy().dtype} {_once(x).data_ptr() * 0:>3}",
    "unpacking": _unpacked,
    "match": _matched,
    "a store": _stored,
    "a deletion": _deleted,
    "with": _with,
}


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_effects_before_happen_once(name: str, backend: str) -> None:
    def program(x: Tensor, log: list[int]) -> Any:
        log.append(1)
        x.add_(1)
        found = EXPRESSIONS[name](x)
        log.append(2)
        return found, x * len(log)

    compiled = anyshape.compile(program, dynamic=True, backend=backend)
    for rows in (3, 3, 5, 5, 1, 4):
        logs: tuple[list[int], list[int]] = ([], [])
        COUNTED.clear()
        inputs = torch.ones(rows + 1)[1:], torch.ones(rows + 1)[1:]
        found, counted = compiled(inputs[0], logs[0]), len(COUNTED)
        expected = program(inputs[1], logs[1])
        assert 2 * counted == len(COUNTED)
        assert logs[0] == logs[1]
        assert str(found) == str(expected)
        assert torch.equal(*inputs)
