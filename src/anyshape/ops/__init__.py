"""The shape of every operator's result, in symbols.

In: facts, a torch callable, its arguments with a `Meta` for each tensor and an `Expr` for each
symbolic integer. Out: `Inferred`, with the metas of the result and every fact that the result
relies on and that was not known, each with its reason.

    x = Meta((s0, 64), torch.float32, contiguous(2), torch.device("cpu"))
    infer(facts, torch.relu, (x,), {}).value.shape      # (s0, 64)

It must not know how programs are captured, nor run anything on real data.
"""
