"""The table of C functions against the header that torch is installed with."""

from __future__ import annotations

import pytest

from anyshape.codegen.host.externs import EXTERNS, ExternFunction
from anyshape.runtime.native.c_signatures import c_signature
from anyshape.runtime.native.symbols import find_symbol


@pytest.mark.parametrize("row", EXTERNS.values(), ids=EXTERNS.keys())
def test_row(row: ExternFunction):
    assert find_symbol(row.symbol)
    assert c_signature(row.symbol) == row.signature
