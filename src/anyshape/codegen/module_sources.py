"""Code that is made of several modules."""

from __future__ import annotations

from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Texts:
    #: what goes into the module of the function that calls it
    beside: str
    #: modules of their own; equal ones are the same code
    apart: tuple[str, ...] = ()
