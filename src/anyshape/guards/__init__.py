"""Conditions under which a compiled entry gives the eager answer: data first, code last.

In: paths to what capture read, and what it relied on there. Out: one generated function per
compiled function, which finds the entry for a call, and sentences that say why none was found. It
must not know how the guards came about, nor import torch: what it compares are values.
"""
