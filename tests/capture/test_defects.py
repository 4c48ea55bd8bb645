"""What is said where an operation cannot be recorded."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.utils.data

import anyshape
from anyshape.errors import InternalError
from anyshape.ops.table import OpMatch, entries, lookup


def rule_with_a_mistake(q: Any, input: Any) -> Any:
    return input.rank < None


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Any:
    match = lookup(torch.sin)
    assert match is not None
    made = OpMatch(replace(match.op, rule=rule_with_a_mistake), in_place=False)
    monkeypatch.setitem(entries(), torch.sin, made)
    return anyshape.compile(lambda x: torch.sin(x) + 1, dynamic=True)


def test_a_mistake_in_a_shape_rule_is_shown_with_its_line(broken: Any) -> None:
    with (
        anyshape.config.patch(on_compile_error="raise"),
        pytest.raises(InternalError, match="recording `sin`: TypeError") as caught,
    ):
        broken(torch.ones(3))
    text = "".join(traceback.format_exception(caught.value))
    assert "in rule_with_a_mistake" in text


def test_users_get_the_answer_of_eager(broken: Any) -> None:
    x = torch.ones(3)
    with anyshape.config.patch(on_compile_error="warn"):
        assert torch.equal(broken(x), x.sin() + 1)
    assert "recording `sin` failed" in str(broken.explain())


def test_python_code_that_is_not_followed_is_not_called_native() -> None:
    collate: Any = vars(torch.utils.data)["default_collate"]
    compiled = anyshape.compile(lambda x: collate([x, x]) + 1, dynamic=True)
    assert compiled(torch.ones(3)).shape == (2, 3)
    assert "default_collate`" in str(compiled.explain())


def test_a_function_without_a_module() -> None:
    names: dict[str, Any] = {}
    exec("def function(x): return x + 1", names)
    compiled: Any = anyshape.compile(names["function"], dynamic=True)
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3) + 1)
