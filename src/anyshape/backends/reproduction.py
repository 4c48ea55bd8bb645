"""A file that shows a defect of ours: the graph as a program, with inputs like those at hand."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.fx

from anyshape.config import config


def write_reproduction(
    graph: torch.fx.GraphModule, examples: list[Any], error: Exception
) -> Path | None:
    """Where it was written; None if it cannot be."""
    return _written(reproduction(graph, examples, error))


def _written(text: str, inputs: Sequence[Any] = ()) -> Path | None:
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = Path(config.cache_dir) / "reproductions" / f"graph_{name}.py"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if inputs:
            torch.save(list(inputs), path.with_suffix(".pt"))
    except Exception:
        return None
    return path


def write_difference(
    graphs: Sequence[torch.fx.GraphModule], inputs: Sequence[Any], text: str
) -> Path | None:
    """Where the graphs of a call that differs from eager were written, the values of its inputs
    beside it; None if that cannot be. A program of one graph can be run as it is."""
    codes = [_function(graph) for graph in graphs]
    count = sum(1 for node in graphs[0].graph.nodes if node.op == "placeholder") if graphs else 0
    lines = _said(text)
    if len(graphs) != 1 or len(inputs) < count:
        return _written("\n".join([*lines, "import torch", "", *codes]))
    lines += [
        "from pathlib import Path",
        "",
        "import torch",
        "import anyshape",
        "",
        *codes,
        "",
        'inputs = torch.load(Path(__file__).with_suffix(".pt"), weights_only=False)',
        "",
        "",
        "def copied():",
        "    return [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]",
        "",
        "",
        "compiled = anyshape.compile(forward, dynamic=True)",
        "compiled(*copied())",
        "torch.testing.assert_close(compiled(*copied()), forward(*copied()), equal_nan=True)",
        "",
    ]
    return _written("\n".join(lines), inputs[:count])


def _said(text: str) -> list[str]:
    return ['"""' + text.replace("\\", "\\\\").replace('"""', "'''"), '"""', ""]


def _function(graph: torch.fx.GraphModule) -> str:
    code = graph.code.strip()
    return code.replace("def forward(self, ", "def forward(").replace("(self)", "()")


def reproduction(graph: torch.fx.GraphModule, examples: list[Any], error: Exception) -> str:
    said = "".join(traceback.format_exception(error)).rstrip()
    lines = [
        *_said(f"Native code failed on this graph:\n\n{said}"),
        "import torch",
        "import anyshape",
        "",
        "anyshape.config.on_compile_error = 'raise'",
        "",
        _function(graph),
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
