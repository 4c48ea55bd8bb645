"""Traced ints and floats: they run for real and remember which sizes they were computed from."""
