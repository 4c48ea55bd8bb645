"""Why a graph as a whole has to run as it is."""

from __future__ import annotations


class Unlowerable(Exception):
    """The graph as a whole has to run as it is, and why."""
