"""Loops over symbolic extents: what a kernel computes, for any target.

In: expressions at an index, made by the operators' rows (`graph/`). Out: kernels (parallel axes,
stages of inner loops, stores) and the program that runs them, as plain data with a text form.

It must not know what a torch operator, LLVM or a pointer is.
"""
