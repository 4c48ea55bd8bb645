"""Methods that name `super` in parts: with arguments and without, and in several of them."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

import anyshape


class Base:
    factor = 3

    def scaled(self, x: Tensor) -> Tensor:
        return x * self.factor


class Named(Base):
    def scaled(self, x: Tensor) -> Tensor:
        y = super(Named, self).scaled(x).sin() + 1  # noqa: UP008 the spelling that is tried
        time.strftime("%Y")
        return super(Named, self).scaled(y.cos()) - 2  # noqa: UP008


class Both(Base):
    def scaled(self, x: Tensor) -> Tensor:
        y = super(Both, self).scaled(x) + super().scaled(x.sin())  # noqa: UP008
        time.strftime("%Y")
        kind: Any = super
        return kind(Both, self).scaled(y.cos()) + super().scaled(y)


def test_named_super() -> None:
    for kind in (Named, Both):
        made: Any = kind()
        compiled = anyshape.compile(made.scaled, dynamic=True)
        for rows in (2, 3, 4, 1):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), made.scaled(x))
        kind.factor = 5
        torch.testing.assert_close(compiled(x), made.scaled(x))
        stats = compiled.stats()
        assert stats.in_parts
        assert stats.graphs >= 2
