"""Kernels as text: LLVM IR for the CPU.

In: kernels of `loops/`, whose values are vectors of a fixed number of lanes. Out: the text of an
LLVM module. The mathematical functions that LLVM has no instruction for are in `vector_math`:

    call <16 x float> @as.exp.f32.v16(<16 x float> %x)

Text only: neither torch nor llvmlite is known here. `runtime/` turns the text into code.
"""
