"""What `print` puts between and behind its arguments, also if that is nothing."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor

import anyshape


@pytest.mark.parametrize("end", ["", "|", "\n", None])
@pytest.mark.parametrize("sep", ["", "-", None])
def test_text_is_that_of_eager(sep: str | None, end: str | None) -> None:
    def function(x: Tensor, stream: io.StringIO) -> Tensor:
        y = x * 2
        print("a", y.sum().item(), "b", sep=sep, end=end, file=stream)
        return y

    compiled = anyshape.compile(function, dynamic=True)
    for size in (2, 3, 3):
        texts = io.StringIO(), io.StringIO()
        function(torch.ones(size), texts[0])
        compiled(torch.ones(size), texts[1])
        assert texts[1].getvalue() == texts[0].getvalue()
