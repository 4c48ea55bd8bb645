"""Ranks agree on what is dynamic (compiler collectives).

In: what this rank has seen of the sources of a function, the arguments of the call at hand among
it. Out: what all ranks have seen, the same on each of them, so that the policy decides the same.

It goes through the store of the process group, which any rank can use at any time, never through
collectives, which the program itself may be in. Nobody is waited for longer than
`config.collective_timeout_seconds`. What comes out is evidence for the policy and nothing else:
guards hold whatever it says, so the worst that a late, silent or wrong rank can do is another
compile.

It must not know captures or entries.
"""
