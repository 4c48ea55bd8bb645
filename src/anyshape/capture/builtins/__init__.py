"""Native functions: a model for each that programs use, and an allow-list of pure ones.

A model answers as the function does, through hooks, so that what it looks at is seen. A pure
function gets plain values: traced numbers are fixed by guards first, and it must not be given
objects whose own code it would run. Anything else ends the capture.
"""
