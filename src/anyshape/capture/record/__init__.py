"""Torch operations recorded: bound, run, written into a segment, inferred in symbols."""
