"""Everything that is known of operators, a file a family: the shapes of their results (`ROWS`, with
signatures and effects), their native code (`@lower`) and what they are in ONNX (`@onnx`)."""
