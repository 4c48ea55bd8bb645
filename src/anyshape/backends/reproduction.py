"""A file that shows a defect of ours: the graph as a program, with inputs like those at hand."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.fx

from anyshape.config import config


def write_reproduction(
    graph: torch.fx.GraphModule, examples: list[Any], error: Exception
) -> Path | None:
    """Where it was written; None if it cannot be."""
    text = reproduction(graph, examples, error)
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = Path(config.cache_dir) / "reproductions" / f"graph_{name}.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError:
        return None
    return path


def reproduction(graph: torch.fx.GraphModule, examples: list[Any], error: Exception) -> str:
    said = "".join(traceback.format_exception(error)).rstrip()
    lines = [
        '"""Native code failed on this graph:',
        "",
        said.replace("\\", "\\\\").replace('"""', "'''"),
        '"""',
        "",
        "import torch",
        "import anyshape",
        "",
        "anyshape.config.on_compile_error = 'raise'",
        "",
        graph.code.strip().replace("def forward(self, ", "def forward(").replace("(self)", "()"),
        "",
        "inputs = [",
        *(f"    {_input(example)}," for example in examples),
        "]",
        "compiled = anyshape.compile(forward, dynamic=True)",
        "with torch.no_grad():",
        "    compiled(*inputs)",
        "",
    ]
    return "\n".join(lines)


def _input(example: Any) -> str:
    if not isinstance(example, torch.Tensor):
        return repr(example)
    sizes, strides = tuple(example.shape), tuple(example.stride())
    return f"torch.empty_strided({sizes}, {strides}, dtype={example.dtype}).zero_()"
