"""Code for a graph at one shape, where that is recorded, beside what serves all shapes."""

from __future__ import annotations

from typing import NamedTuple


class Variant(NamedTuple):
    #: what is multiplied with weights of so many elements at most has few rows
    few_rows: int = 0
    #: products that are independent of each other are in branches
    branches: bool = False
    #: attention is over few keys
    few_keys: bool = False
