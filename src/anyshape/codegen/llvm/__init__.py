"""Kernels as LLVM IR, with vectors written out.

In: a kernel of `loops/` and the target. Out: the text of a function that runs it.

    define i32 @name(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch)

`%buffers` are pointers to `k0`, `k1` ..., `%sizes` the i64 `n0`, `n1` ..., `%numbers` the doubles
`f0`, `f1` ...; `%scratch` has `scratch_bytes` for each thread that OpenMP may use, aligned to 64.
The function gives 0, or 1 + the number of a check that failed.

`plan.py` decides how vectors run, `kernel.py` and `loop_nest.py` write loops, `values.py` what is
in them, `threads.py` the function around.
"""
