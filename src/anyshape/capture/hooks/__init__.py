"""The hooks that instrumented code calls, one for each operation of Python that can be observed.

Each does what Python does at that place (`reference.py` has that meaning alone) and lets the tracer
see it: guards for what was read, symbols for sizes, a graph break where it cannot follow.
"""
