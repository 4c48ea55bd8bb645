"""Native code in this process: building it, keeping it on disk, and torch's C functions.

In: LLVM IR as text. Out: functions that Python calls like its own. llvmlite is imported only where
text becomes machine code: code that is found on disk is loaded without it.
"""
