"""Mistakes in the rows of operators: users get eager's answer, and the mistake is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import anyshape
from anyshape.errors import InternalError
from anyshape.ops.lowering import scalars
from anyshape.ops.lowering.pointwise_builder import elementwise
from anyshape.ops.lowering.scalars import constant_like, op
from anyshape.ops.op import GRADIENT, NATIVE
from anyshape.ops.table import lookup


def program(x: torch.Tensor) -> torch.Tensor:
    return (torch.sinh(x * 2) + 1) * x


def gives_nothing(c: Any, input: Any) -> None:
    elementwise(c, lambda x: x, input)


def mixes_dtypes(c: Any, input: Any) -> Any:
    """LLVM does not add floats to bools."""
    return elementwise(
        c,
        lambda x: op("add", scalars.test("lt", x, constant_like(1.0, x)), constant_like(1.0, x)),
        input,
    )


def of_another_name(grad: Any, input: Any) -> dict[str, Any]:
    return {"inputs": grad * input.cosh()}


def of_nothing(grad: Any, input: Any) -> None:
    _ = grad * input.cosh()


def calls_no_method(grad: Any, input: Any) -> Any:
    return {"input": grad.times(input.cosh())}


def raises(c: Any, input: Any) -> Any:
    return {}["x"]


def of_no_operation(c: Any, input: Any) -> Any:
    return elementwise(c, lambda x: op("plus", x, x), input)


MISTAKES: list[tuple[dict[str, Callable[..., Any]], Callable[..., Any], str]] = [
    (NATIVE, gives_nothing, "a row of native code gave None"),
    (NATIVE, mixes_dtypes, "LLVM cannot read the code"),
    (NATIVE, raises, "KeyError('x') in the native code of `sinh`"),
    (NATIVE, of_no_operation, "there is no operation `plus`"),
    (GRADIENT, calls_no_method, "in the gradient row of `sinh`"),
    (GRADIENT, of_another_name, "the gradient row of `sinh` gave"),
    (GRADIENT, of_nothing, "the gradient row of `sinh` gave None"),
]


@pytest.mark.parametrize(
    ("table", "row", "said"), MISTAKES, ids=[row.__name__ for _, row, _ in MISTAKES]
)
def test_a_mistake_is_named(
    table: dict[str, Any], row: Any, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    assert lookup(torch.sinh) is not None  # The families have filled the tables.
    monkeypatch.setitem(table, "sinh", row)
    training = table is GRADIENT
    with anyshape.config.patch(on_compile_error="warn", cache_dir=str(tmp_path)):
        compiled = anyshape.compile(program, dynamic=True)
        for size in (3, 4, 5000, 7000):
            x = torch.randn(size, requires_grad=training)
            torch.testing.assert_close(compiled(x), program(x))
        text = str(compiled.explain())
        assert "native code failed, the graph runs eagerly: " in text
        assert said in text
    with anyshape.config.patch(on_compile_error="raise", cache_dir=str(tmp_path)):
        compiled = anyshape.compile(program, dynamic=True)
        x = torch.randn(5000, requires_grad=training)
        with pytest.raises(InternalError, match=re.escape(said)):
            _ = compiled(x), compiled(x)
