"""From a captured graph to kernels, call-outs and the order in which they run.

In: an fx graph whose nodes carry the metas of their results. Out: a `Plan` of steps. Each operator
has native code that says what its result is at an index (`ops/families`); one without is called
out. It must not know about LLVM or how steps are run.
"""
