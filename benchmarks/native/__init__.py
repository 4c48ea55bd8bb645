"""Native code against eager and against torch.compile: `python -m benchmarks.native`.

In: the workloads of `registry`, each at four sizes. Out: a table, `benchmarks/results/native.json`
with every round that was taken, a plot, and `docs/benchmarks.md`, which is made from that JSON.

    workload, functions, networks, models, registry    what is measured
    systems                                             eager, anyshape, torch.compile
    child, steady, cold, memory, rounds, agree          how it is measured: each in its own process
    run, peers, store                                   in which order, and what is kept
    figures, aims                                       ratios from the rounds; aims and whether met
    wording, tables, plot, docs                         how it is shown

The process that starts the measuring never runs a tensor operation and never imports a compiler:
it is forked for each measurement, so a child is as good as a fresh process that has imported torch.
"""
