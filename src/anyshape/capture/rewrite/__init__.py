"""Instrumentation: the syntax tree of a function, with a hook called for each operation."""
