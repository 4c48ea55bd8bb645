"""Training against eager and against torch.compile: `python -m benchmarks.training`.

In: the functions of `benchmarks.native` with gradients, and whole steps of small networks and
models with AdamW and clipped gradients. Out: tables as text, and JSON with every round.

    workloads          what is trained
    subject            a workload as one system trains it
    measure            how it is measured: each in its own process, systems by turns
    text               how it is shown

How calls take turns, what a process of its own is, and when two results agree is the business of
`benchmarks.native`. Times are processor time of one thread: other processes disturb it little.
"""
