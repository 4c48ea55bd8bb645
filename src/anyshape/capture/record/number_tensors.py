"""Tensors that stand for numbers of Python's, which eager code reads and computes with.

They have float64, as Python's floats do. Beside a tensor of one element and another dtype, torch
takes a number as one of that dtype, where a tensor of float64 would make the result one of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class NumberTensors:
    """Those of one capture."""

    def __init__(self) -> None:
        #: by identity; kept, so that no identity is used twice
        self._found: dict[int, torch.Tensor] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, tensor: torch.Tensor) -> None:
        self._found[id(tensor)] = tensor

    def forget(self) -> None:
        self._found.clear()

    def operands(
        self, args: tuple[Any, ...], convert: Callable[[torch.Tensor, torch.dtype], torch.Tensor]
    ) -> tuple[Any, ...]:
        """The operands of a call: numbers as the tensors beside them take them."""
        numbers = [self._is_number(each) for each in args]
        forms = {(each.dtype, each.dim()) for each in args if self._is_other(each)}
        if not any(numbers) or forms != {(torch.float32, 0)}:
            return args
        return tuple(
            convert(each, torch.float32) if is_number else each
            for each, is_number in zip(args, numbers, strict=True)
        )

    def note(self, args: tuple[Any, ...], result: object) -> None:
        """What is computed of numbers alone is one."""
        if not any(map(self._is_number, args)) or any(map(self._is_other, args)):
            return
        if isinstance(result, torch.Tensor):
            self.add(result)

    def _is_number(self, value: object) -> bool:
        return id(value) in self._found

    def _is_other(self, value: object) -> bool:
        return isinstance(value, torch.Tensor) and id(value) not in self._found
