"""Everything that native code can read of a value from outside, enumerated.

`values` has the types (two values of each), `protocols` the ways to read one, `places` where it may
stand, `running` compiles one program for each combination and compares it with eager Python.
"""
