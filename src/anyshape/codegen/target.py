"""The machine that code is made for, as text: what LLVM calls it."""

from __future__ import annotations

from anyshape.support.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    triple: str
    cpu: str
    #: `+avx2,-avx512f,...`
    features: str
    #: of a vector of f32; LLVM splits what is wider than a register
    lanes: int = 16
