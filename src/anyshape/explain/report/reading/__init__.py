"""The files of a trace as processes, their functions, and the entries of each.

A trace may have been cut off, may be of another version or of several runs, and may come from
anybody. What cannot be read is left out and named among the problems; no text in it is trusted to
be anything but text.
"""
