"""Recurrent networks on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic

FIRST = {"t": 5, "n": 3}
THEN = [{"t": 7, "n": 2}, {"t": 1, "n": 1}, {"t": 4, "n": 0}, {"t": 1, "n": 5}]
LAYERS = 2


def _network(name: str, **kwargs: Any) -> tuple[Any, tuple[str, ...]]:
    module = getattr(torch.nn, name)(4, 6, LAYERS, **kwargs)
    function = getattr(torch, {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}[name])
    rows = LAYERS * (2 if module.bidirectional else 1)
    states = (f"{rows} n {module.proj_size or 6}", f"{rows} n 6")[: 2 if name == "LSTM" else 1]

    def run(x: torch.Tensor, *hx: torch.Tensor) -> Any:
        state = hx if name == "LSTM" else hx[0]
        weights = module._flat_weights
        return function(
            x,
            state,
            weights,
            module.bias,
            LAYERS,
            0.0,
            False,
            module.bidirectional,
            module.batch_first,
        )

    return run, ("n t 4" if module.batch_first else "t n 4", *states)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    "kwargs",
    [{}, {"batch_first": True}, {"bidirectional": True, "batch_first": True}, {"bias": False}],
    ids=str,
)
def test_networks(name: str, kwargs: Any) -> None:
    run, specs = _network(name, **kwargs)
    assert dynamic(check(run, *specs, first=FIRST, then=THEN))
    with torch.no_grad():
        assert dynamic(check(run, *specs, first=FIRST, then=THEN))


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projection() -> None:
    run, specs = _network("LSTM", proj_size=3, bidirectional=True)
    assert dynamic(check(run, *specs, first=FIRST, then=THEN))


def test_an_empty_sequence_is_rejected() -> None:
    run, specs = _network("GRU")
    outcome = check(run, *specs, first=FIRST)
    assert [str(need.fact) for need in outcome.needs] == ["t >= 1"]


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
@pytest.mark.parametrize("transposed", [False, True])
def test_cells(name: str, transposed: bool) -> None:
    gates = {"lstm": 4, "gru": 3}.get(name, 1)
    function = getattr(torch, f"{name}_cell")

    def run(x: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor) -> Any:
        return function(x, (h, h) if name == "lstm" else h, *weights)

    prepare = (lambda t: t.mT.contiguous().mT if t.dim() == 2 else t) if transposed else None
    weights = (f"{gates * 6} 4", f"{gates * 6} 6", f"{gates * 6}", f"{gates * 6}")
    assert dynamic(check(run, "n 4", "n 6", *weights, first={"n": 3}, prepare=prepare))
    assert dynamic(check(run, "n 4", "n 6", *weights[:2], first={"n": 3}, prepare=prepare))


def test_rejected() -> None:
    run, _ = _network("GRU")
    for specs in (("5 3 5", "2 3 6"), ("5 3 4", "2 2 6"), ("5 3 4", "1 3 6"), ("5 3 4", "2 3 5")):
        with pytest.raises(ShapeMismatch):
            check(run, *specs, first={})
    with pytest.raises(ShapeMismatch):
        check(torch.gru_cell, "2 3", "1 4", "12 3", "12 4", first={})
