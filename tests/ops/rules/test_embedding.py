"""Embeddings on symbols and on real tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anyshape.errors import ShapeMismatch
from tests.ops.driver import check, dynamic

FIRST = {"a": 2, "b": 3, "n": 9, "d": 4}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("spec", ["a b", "a", "", "a b 2"])
def test_embedding(spec: str, index: torch.dtype, dtype: torch.dtype) -> None:
    kwargs: Any = {
        "dtypes": {0: index},
        "dtype": dtype,
        "first": {k: FIRST[k] for k in "abd" if k in spec + "d"},
    }
    assert dynamic(check(F.embedding, spec, "9 d", **kwargs))
    assert dynamic(check(lambda i, w: torch.embedding(w, i), spec, "9 d", **kwargs))


def test_padding_index_is_a_row() -> None:
    outcome = check(
        F.embedding,
        "a",
        "n d",
        3,
        first={"a": 2, "n": 9, "d": 4},
        dtypes={0: torch.int64},
        then=[{"a": 2, "n": 4, "d": 4}, {"a": 2, "n": 3, "d": 4}],
    )
    assert [str(need.fact) for need in outcome.needs] == ["n >= 4"]


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags(mode: str) -> None:
    kwargs: Any = {"mode": mode, "dtypes": {0: torch.int64, 2: torch.int64}}
    outcome = check(F.embedding_bag, "a b", "9 d", first={"a": 2, "b": 3, "d": 4}, **kwargs)
    assert [str(need.fact) for need in outcome.needs] == ["b >= 1"]
    outcome = check(
        _with_offsets(**kwargs),
        "a",
        "9 d",
        "b",
        first={"a": 5, "b": 3, "d": 4},
        dtypes=kwargs["dtypes"],
        prepare=_zeros,
        # Not without bags: torch reads beyond its memory there.
        then=[{"a": 7, "b": 2, "d": 1}, {"a": 0, "b": 3, "d": 4}, {"a": 1, "b": 1, "d": 0}],
    )
    assert dynamic(outcome)
    last = check(
        _with_offsets(**kwargs, include_last_offset=True),
        "a",
        "9 d",
        "b",
        first={"a": 5, "b": 3, "d": 4},
        dtypes=kwargs["dtypes"],
        prepare=_zeros,
        then=[{"a": 7, "b": 2, "d": 1}],
    )
    assert [str(need.fact) for need in last.needs] == ["b >= 1"]


def _zeros(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 0  # torch looks at the values of offsets


def _with_offsets(dtypes: Any, **kwargs: Any) -> Any:
    return lambda i, w, o: F.embedding_bag(i, w, o, **kwargs)


def test_weights_of_samples() -> None:
    outcome = check(
        lambda i, w, s: F.embedding_bag(i, w, mode="sum", per_sample_weights=s),
        "a 3",
        "9 d",
        "a 3",
        first={"a": 2, "d": 4},
        dtypes={0: torch.int64},
    )
    assert dynamic(outcome)


@pytest.mark.parametrize(
    ("function", "specs", "dtypes"),
    [
        (F.embedding, ("2", "5"), {0: torch.int64}),
        (F.embedding, ("2", "5 3"), {0: torch.int16}),
        (F.embedding, ("2", "5 3", 5), {0: torch.int64}),
        (F.embedding_bag, ("2", "5 3"), {0: torch.int64}),
        (F.embedding_bag, ("2 0", "5 3"), {0: torch.int64}),
        (F.embedding_bag, ("2 2", "5 3", "2"), {0: torch.int64, 2: torch.int64}),
    ],
)
def test_rejected(function: Any, specs: Any, dtypes: Any) -> None:
    with pytest.raises(ShapeMismatch):
        check(function, *specs, first={}, dtypes=dtypes)
