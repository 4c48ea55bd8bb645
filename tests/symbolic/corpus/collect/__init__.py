"""Collects the corpus of questions that shape code asks about sizes.

    python -m tests.symbolic.corpus.collect record RAW          trace programs, write what was asked
    python -m tests.symbolic.corpus.collect build RAW [LIMIT]   choose, decide with z3, write
    python -m tests.symbolic.corpus.collect check               try the corpus on small integers

In: programs (`networks`, `tensor_programs`, `data_programs`, `models`, `operator_samples`), run by
`tracing` while `recorder` listens to torch. Out: `questions.jsonl` (`choose`, `truth`, `build`).

Test code: unlike the package it may import torch's symbolic-shape stack, sympy and z3.
"""
