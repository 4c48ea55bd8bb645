"""What earlier runs have seen: the sizes of each function's inputs, kept on disk between processes.

In: what a compile observed, under the identity of the function's code. Out: what all runs before
this one observed, which the policy takes as evidence (`Evidence.profile`), and the usual sizes.

    share = FunctionProfile(lambda: identity_of(f))
    share.known().seen("L['x']")             # tensor size=[?, 4] stride=[4, 1]
    share.learn(observed, written)           # on disk about a second later

    identity    which function it is: survives moved files, not changed code
    records     the values, and how two of them become one
    histogram   how often which size was seen, in a few numbers
    profiles    many functions, as JSON
    store       the file: atomic, locked, merged on write
    remote      the copy that machines share, behind a URL
    session     this process: read once, written in the background
    show        for people

It must not know how a capture works, and nothing of it runs when an entry serves a call. A profile
can only make a program more or less general, never wrong: so what cannot be read is left out.
"""
