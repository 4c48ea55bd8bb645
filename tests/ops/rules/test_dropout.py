"""Dropout in its variants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic
from tests.ops.laid_out import first_inside

SIZES = {"n": 3, "c": 4, "h": 5}


@pytest.mark.parametrize("prepare", [None, first_inside])
@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (F.dropout, "n c h"),
        (F.dropout, "n"),
        (F.dropout, ""),
        (F.dropout1d, "n c h"),
        (F.dropout1d, "c h"),
        (F.dropout2d, "n c h 2"),
        (F.dropout3d, "n c h 2 3"),
        (F.dropout3d, "c h 2 3"),
        (lambda x: F.dropout(x, 0.0), "n c"),
        (lambda x: F.dropout(x, 1.0), "n c"),
        (lambda x: F.dropout(x, 0.3, False), "n c"),
        (lambda x: F.dropout(x, 0.3, True, True), "n c"),
        (lambda x: F.dropout2d(x, inplace=True), "n c h 2"),
        (lambda x: F.alpha_dropout(x, 0.3), "n c"),
        (lambda x: F.alpha_dropout(x, 0.3, training=True), "n c"),
        (lambda x: F.feature_alpha_dropout(x, 0.3, training=True), "n c h"),
        (lambda x: torch.dropout(x, 0.3, True), "n c"),
        (lambda x: torch.dropout(x, p=0.3, train=True), "n c"),
        (lambda x: torch.dropout_(x, 0.3, True), "n c"),
        (lambda x: torch.feature_dropout(x, 0.3, True), "n c h"),
        (lambda x: F.dropout(x.transpose(0, 1)[:, ::2]), "n c h"),
        (lambda x: torch.nn.Dropout(0.2)(x), "n c"),
    ],
)
def test_functions(function: Any, spec: str, prepare: Any) -> None:
    used = {name: size for name, size in SIZES.items() if name in spec} or {"n": 3}
    assert dynamic(
        check(function, spec, first=used, prepare=prepare if len(spec.split()) > 1 else None)
    )


def test_native_dropout() -> None:
    """Without elements the mask is not boolean."""
    outcome = check(lambda x: torch.native_dropout(x, 0.3, True), "n c", first={"n": 3, "c": 4})
    assert outcome.guarded == [{"n": 0, "c": 4}, {"n": 3, "c": 0}]


def test_the_input_itself_keeps_its_grad() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.requires_grad_()
        with torch.no_grad():
            return F.dropout(x, training=False)

    assert dynamic(check(function, "n c", first={"n": 3, "c": 4}))


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (F.dropout1d, "n"),
        (F.dropout1d, "n c h 2"),
        (lambda x: torch.feature_dropout(x, 0.3, True), "n"),
        (lambda x: torch.dropout(x, 1.5, True), "n"),
    ],
)
def test_rejected(function: Any, spec: str) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, spec, first=SIZES)
