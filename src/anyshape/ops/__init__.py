"""What is known of operators, and the shapes of their results in symbols.

A family of operators has one file (`families/`) with all that is known of them: names, signatures
and effects, shape rules, native code, what they are in ONNX.

In: facts, a torch callable, its arguments with a `Meta` for each tensor and an `Expr` for each
symbolic integer. Out: `Inferred`, with the metas of the result and every fact that the result
relies on and that was not known, each with its reason.

    x = Meta((s0, 64), torch.float32, contiguous(2), torch.device("cpu"))
    infer(facts, torch.relu, (x,), {}).value.shape      # (s0, 64)

It must not know how programs are captured, lowered or exported, nor run anything on real data.
"""
