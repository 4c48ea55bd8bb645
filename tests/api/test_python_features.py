"""Every world of `tests.api.features`, compiled and beside its eager twin."""

from __future__ import annotations

import pytest

from tests.api.features import FEATURES
from tests.api.twins import check


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", FEATURES)
def test_feature(name: str, dynamic: bool | None) -> None:
    check(FEATURES[name], dynamic)
