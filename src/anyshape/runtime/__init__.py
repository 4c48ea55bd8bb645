"""Running what was compiled: the program of an entry around its graph.

In: a graph (or what a backend made of it) and the program after it, as text. Out: a function. It
must not know how either came about.
"""
