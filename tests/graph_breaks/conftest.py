"""Each test starts with nothing compiled, no profile, and failures of ours raised, not hidden."""

from __future__ import annotations

from tests.api.conftest import fresh

__all__ = ["fresh"]
