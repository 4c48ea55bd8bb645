"""Outlining: a function with operations that cannot be traced, split around them.

In: the code object of a function, and its boundaries: where captures of it had to leave. Out: code
that runs those operations as plain Python, and *regions*, functions of the variables that the
statements between them read and assign, each of which is compiled by itself:

    def f(x):                               def f(x):
        y = x.sin() * 2                         y = R[0](x)
        np.save(path, y.numpy())      ->        np.save(path, y.numpy())
        return y.exp() + 1                      return R[1](y)

Statements around boundaries (loops, handlers, `with`) stay Python, so effects happen in Python's
order by construction. The order of the modules: `sites` (where a capture was left), `boundaries`
(the nodes of the tree there), `linearize` (boundaries become statements of their own), `dataflow`
(which variables are live and bound), `regions` (statements between boundaries), `split` (code).
"""
