"""A call: which entry serves it, or what else is done with it.

In: a call. Out: its result, from an entry, from regions of the function, or from the function
itself; `compiled_function.py` decides. A subclass (`compiler/driver.py`) makes new entries.
"""
