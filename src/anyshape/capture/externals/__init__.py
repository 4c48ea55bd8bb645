"""Objects from outside of a capture: what is read is guarded, what is changed is done again.

`side_effects.py` keeps changes in order, `epilogue.py` writes the program that repeats them after
the graph and makes the result, `untrace.py` gives plain values for traced ones where they leave.
"""
