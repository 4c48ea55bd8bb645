"""Which input sizes and integers are dynamic, and why.

In: what a source is now, what it was seen as before, marks, settings. Out: one decision for each
dimension or integer, with its reason in words. All of it is pure: nothing is remembered here, and
it must not know tensors, guards or how a capture works.

    decide_sizes("L['x']", (20, 4), Source(), Evidence(seen=of_sizes((10, 4))), config, None)
    # dimension 0 is dynamic: "it was seen as 10, and it is 20 now"; dimension 1 is static
"""
