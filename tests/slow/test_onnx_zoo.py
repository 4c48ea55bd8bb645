"""The models of the zoo as ONNX models, with names for batch and length: right in onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from anyshape.errors import CannotExport
from tests.export.test_onnx import session_of
from tests.slow.test_export_zoo import SIZES, exported
from tests.zoo.compare import tensors
from tests.zoo.models import ROWS, Pair, Row

pytest.importorskip("onnxruntime")

#: What ONNX has no operator for, or this package no row.
NOT_MAPPED = {
    "Llama cache passed in": "of which no example can be made",
    "Mixtral": "torch.histc",
    "T5": "ONNX has no operator here for",
    "Mamba": "ONNX has no operator here for",
    "ResNet training": "changing stem",
}


def given(session: Any, row: Row, pair: Pair) -> dict[str, Any]:
    args, kwargs = row.call(pair)
    if args:
        return {session.get_inputs()[0].name: args[0].numpy()}
    return {each.name: kwargs[each.name].numpy() for each in session.get_inputs()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_right_at_all_sizes(row: Row, tmp_path: Path) -> None:
    module, program = exported(row)
    try:
        session = session_of(program, tmp_path / "model.onnx")
    except CannotExport as error:
        reason = NOT_MAPPED.get(row.name, "nothing to be refused")
        if not re.search(reason, str(error)):
            raise
        return
    named = {size for each in session.get_inputs() for size in each.shape if isinstance(size, str)}
    assert named
    for pair in SIZES:
        args, kwargs = row.call(pair)
        with torch.no_grad():
            expected = list(tensors(module(*args, **kwargs)))
        found = [torch.tensor(each) for each in session.run(None, given(session, row, pair))]
        for each in expected:
            assert any(_close(each, one) for one in found), (pair, list(each.shape))


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-3, atol=1e-4)
