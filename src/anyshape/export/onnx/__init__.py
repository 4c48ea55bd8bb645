"""Exported programs as ONNX models: in comes a `Program`, out goes a file with named sizes.

    to_onnx(program, "model.onnx")

One row an operator, in the file of its family (`ops/families`). What a row has to know of a value
beyond its name (rank, element type) is looked up in a run of the example: neither changes with
sizes. An operator without a row is an error that names it.
"""

from anyshape.export.onnx.writer import to_onnx

__all__ = ["to_onnx"]
