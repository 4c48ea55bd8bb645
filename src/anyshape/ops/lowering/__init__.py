"""What native rows of operators are written with: values at an index, and how to compute with them.

A row is a function of the lowering (`values.Lowering`) and of the operator's arguments by the
names of its signature (`ops/signature.py`), with a `Value` for each tensor, a size for each integer
and a `NumberRef` for each float that the graph computes. It takes those that it has code for, or
all of them by `**_`: calls that give another one are torch's. It gives the value of the result, or
values nested as the result is; or it raises `NotLowered`. What it gives is compared with the meta
that the capture has: another dtype or other sizes, and torch is called.
"""
