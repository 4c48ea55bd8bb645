"""A slice of torch's operator table for every run of the tests; all of it is in
tests/slow/test_opdb.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ops.judge import Operator, Verdict, judge
from tests.ops.opdb import operators

#: Some of each family.
NAMES = [
    "abs",
    "add",
    "mul",
    "where",
    "clamp",
    "lt",
    "sum",
    "mean",
    "amax",
    "var",
    "all",
    "argmax",
    "logsumexp",
    "softmax",
    "nn.functional.layer_norm",
    "nn.functional.group_norm",
    "matmul",
    "bmm",
    "nn.functional.linear",
    "nn.functional.conv2d",
    "nn.functional.max_pool2d",
    "cat",
    "stack",
    "split",
    "chunk",
    "reshape",
    "permute",
    "transpose",
    "unsqueeze",
    "expand",
    "flatten",
    "__getitem__",
    "T",
    "gather",
    "scatter",
    "index_select",
    "topk",
    "sort",
    "cumsum",
    "nn.functional.embedding",
    "nn.functional.cross_entropy",
    "nn.functional.scaled_dot_product_attention",
    "ones_like",
    "full",
    "tril",
    "nonzero",
]

OPERATORS = {operator.name: operator for operator in operators()}


@pytest.mark.parametrize("operator", [OPERATORS[name] for name in NAMES], ids=NAMES)
def test_right_and_fully_dynamic(operator: Operator) -> None:
    judgement = judge(replace(operator, samples=lambda: operator.samples()[::3]))
    assert judgement.verdict is Verdict.DYNAMIC, judgement.reason
