"""Kernels as LLVM IR, with vectors written out.

In: a kernel of `loops/` and the target. Out: the text of a function that runs it.

    define i32 @name(ptr %buffers, ptr %sizes, ptr %numbers, ptr %scratch)

`%buffers` are pointers to `k0`, `k1` ..., `%sizes` the i64 `n0`, `n1` ..., `%numbers` the doubles
`f0`, `f1` ...; `%scratch` has `scratch_bytes` for each thread that OpenMP may use, aligned to 64.
The function gives 0, or 1 + the number of a check that failed.

`plan.py` decides how vectors run, `kernel.py` and `loop_nest.py` write loops, `values.py` what is
in them, `threads.py` the function around. All of it is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyshape.codegen.llvm.module import (
        kernel_function,
        module_texts,
        requirements,
        scratch_bytes,
    )
    from anyshape.codegen.llvm.threads import launch_functions

__all__ = [
    "kernel_function",
    "launch_functions",
    "module_texts",
    "requirements",
    "scratch_bytes",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from anyshape.codegen.llvm import module, threads

    return getattr(threads if name == "launch_functions" else module, name)
