"""Dropout where it does nothing: in evaluation, or with probability 0. Else torch draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyshape.graph.lowerings.table import row
from anyshape.graph.values import NotLowered, Value

if TYPE_CHECKING:
    from anyshape.graph.lowering import Lowering


@row(
    *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout"),
    "feature_alpha_dropout",
)
def dropout(c: Lowering, input: Value, p: Any, training: Any, train: Any, **_: Any) -> Value:
    if (training if train is None else train) is not False and p != 0:
        raise NotLowered("random numbers are torch's")
    return input
