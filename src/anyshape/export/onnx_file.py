"""To ONNX."""

from typing import Any


def to_onnx(program: Any, path: Any, opset: int) -> None:
    raise NotImplementedError
