"""Mathematical functions over vectors, as text of LLVM IR.

In: which functions are called, for which kind of float and how many lanes. Out: their definitions.

    definitions([("exp", "f32", 16)])   # defines <16 x float> @as.exp.f32.v16(<16 x float>)

Every function is within 2 ulp of the exact result, or of float32 at least as good as eager where
that is worse (docs/vector_math.md has the measured figures), for all inputs: NaN, infinities, both
zeros and denormals included.
"""

from anyshape.codegen.vector_math.table import (
    FUNCTIONS,
    NEAR,
    WITHIN,
    definitions,
    near,
    supports,
    within,
)

__all__ = ["FUNCTIONS", "NEAR", "WITHIN", "definitions", "near", "supports", "within"]
