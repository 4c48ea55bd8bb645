"""What a command says when it cannot do its work."""

from __future__ import annotations


class Failure(Exception):
    """Shown without a traceback; the text says what to do."""
