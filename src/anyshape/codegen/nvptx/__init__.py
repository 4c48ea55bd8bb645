"""Kernels as text: LLVM IR for NVIDIA GPUs.

In: kernels of `loops/`, as for the CPU. Out: the text of an LLVM module with a `ptx_kernel` for
each of them, and how it is launched (`module.LaunchRule`): sizes are arguments, so that one kernel
serves all. What a thread computes is the CPU's code for a vector of few lanes (`codegen/llvm`);
what is here is which thread takes what, and how threads of a block reduce together.

Text only: neither torch nor llvmlite nor libcuda is known here. `runtime/cuda` turns it into code.
"""
