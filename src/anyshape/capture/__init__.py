"""Watch a function run for real, and write down what it did.

In: a function, its arguments, what is dynamic among them. Out: a trace: graphs, guards, effects and
a recipe for the result. The function's syntax tree is rewritten so that every operation goes
through a hooks object (`rewrite`, `instrument`); the hooks record (`hooks`) or do what Python does
and no more (`plain_hooks`).

    code = instrumented_code(function.__code__, function.__globals__)
    observed = bind(function, code, CellType(hooks), CellType(frame))
    observed(*arguments)

It must not know how graphs are compiled. Rewriting knows nothing of tensors and does not import
torch.
"""
