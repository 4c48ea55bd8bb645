"""Native code on tensors that are parts of larger ones."""

from __future__ import annotations

import pytest

from tests.api.test_inputs_with_gaps import PROGRAMS, check


@pytest.mark.parametrize("name", PROGRAMS)
def test_native_code_does_as_eager_does(name: str) -> None:
    check(name, "native", steps=2)
