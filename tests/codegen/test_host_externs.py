"""The table of C functions against the header that torch is installed with."""

from __future__ import annotations

import pytest

from anyshape.codegen.host.externs import EXTERNS, ExternFunction
from anyshape.graph.materialize import ON_GPUS
from anyshape.runtime.loader.symbols import c_signature, find_symbol


@pytest.mark.parametrize("row", EXTERNS.values(), ids=EXTERNS.keys())
def test_row(row: ExternFunction):
    if not find_symbol(row.symbol("cpu")):
        pytest.skip("this torch does not have it; segments that call it are refused")
    assert c_signature(row.symbol("cpu")) == row.signature


@pytest.mark.parametrize("name", sorted(ON_GPUS))
def test_row_for_gpus(name: str):
    row = EXTERNS[name]
    assert c_signature(row.symbol("cuda")) == row.signature
