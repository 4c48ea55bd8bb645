"""Native code on a GPU against eager and against torch.compile: `python -m benchmarks.gpu`.

In: the workloads of `benchmarks.native` at the same sizes, and two whole models over many shapes,
all of them on a GPU. Out: tables as text, and JSON with every round that was taken.

How it is measured is `benchmarks.native`'s business: each workload in its own process, systems by
turns, the medians of rounds. A call is timed with a wait for the GPU: the host's time and its own.
"""
