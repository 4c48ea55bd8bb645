"""Run by `test_replaced.py`: functions of torch are replaced, and compiled programs that call them
must do as eager ones do. The argument says when: before anyshape is imported, before the first
compile, or between calls of what is compiled."""

from __future__ import annotations

import functools
import linecache
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

WHEN = sys.argv[1]

UNARY = (
    *("relu", "abs", "neg", "exp", "sigmoid", "tanh", "sin", "sqrt", "square", "sum", "mean"),
    *("softmax", "cumsum", "clone", "flatten", "transpose", "amax", "sort", "index_select"),
    *("select", "unsqueeze", "round", "erf", "floor", "isnan", "logsumexp"),
)
#: What follows the tensor in a call.
MORE = {
    **dict.fromkeys(("softmax", "cumsum", "unsqueeze", "logsumexp"), "0"),
    "transpose": "0, 1",
    "select": "0, 0",
    "index_select": "0, torch.tensor([1, 0])",
}
FUNCTIONAL = {
    **dict.fromkeys(("gelu", "silu", "relu", "elu", "softplus", "leaky_relu", "mish"), ""),
    "softmax": "0",
    "layer_norm": "(4,)",
    "normalize": "",
    "pad": "(1, 1)",
    "one_hot": "",
    "scaled_dot_product_attention": "x, x",
}


def wrapped(function: Any, way: int) -> Callable[..., Any]:
    """Calls a function and changes what it gives, in one of the ways in which libraries do it."""

    def replacement(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        return found + 1 if isinstance(found, torch.Tensor) else found

    if way == 1:
        return functools.wraps(function)(replacement)
    return torch.enable_grad()(replacement) if way == 2 else replacement


def program(name: str, call: str) -> Callable[[torch.Tensor], Any]:
    text = f"def f(x):\n    y = {call}\n    return y, x * 2 + 1\n"
    linecache.cache[f"<{name}>"] = (len(text), None, text.splitlines(True), f"<{name}>")
    names: dict[str, Any] = {"torch": torch, "F": F}
    exec(compile(text, f"<{name}>", "exec"), names)
    return names["f"]


class Waits(torch.nn.Module):
    """Cannot be traced whole."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (2 if time.time() > 0 else 3)


MODEL = torch.nn.Sequential(
    torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU()), Waits(), torch.nn.Linear(4, 4)
).requires_grad_(False)


def in_parts(x: torch.Tensor) -> Any:
    return MODEL(x), MODEL(input=x) + 1


OF_MODULES = (
    *((torch.nn.Module, "__call__"), (torch.nn.Module, "_call_impl"), (Waits, "forward")),
    *((torch.nn.Sequential, "forward"), (torch.nn.Linear, "forward"), (torch.nn.GELU, "forward")),
)


def rows() -> list[tuple[Any, str, Callable[[torch.Tensor], Any]]]:
    found: list[tuple[Any, str, Any]] = []
    for name in UNARY:
        more = MORE.get(name, "")
        call = f"torch.{name}(x{', ' if more else ''}{more})"
        found.append((torch, name, program(f"torch.{name}", call)))
        found.append((torch.Tensor, name, program(f"Tensor.{name}", f"x.{name}({more})")))
    for name, more in FUNCTIONAL.items():
        data = "(x > 0).long()" if name == "one_hot" else "x"
        call = f"F.{name}({data}{', ' if more else ''}{more})"
        found.append((F, name, program(f"F.{name}", call)))
    return [*found, *((home, name, in_parts) for home, name in OF_MODULES)]


ROWS = rows()
ORIGINAL = [getattr(home, name) for home, name, _ in ROWS]


def replace(number: int) -> None:
    home, name, _ = ROWS[number]
    setattr(home, name, wrapped(ORIGINAL[number], number % 3))


def put_back(number: int) -> None:
    home, name, _ = ROWS[number]
    if home is torch.Tensor and name not in torch.Tensor.__dict__:
        return
    if home is torch.Tensor and hasattr(torch._C.TensorBase, name):
        delattr(home, name)
    else:
        setattr(home, name, ORIGINAL[number])


def difference(found: Any, expected: Any) -> str | None:
    try:
        torch.testing.assert_close(found, expected, equal_nan=True)
    except AssertionError as error:
        return str(error).splitlines()[0]
    return None


def main() -> None:
    if WHEN == "import":
        for number in range(len(ROWS)):
            replace(number)
    import anyshape

    warnings.simplefilter("error", UserWarning)
    anyshape.config.report_eager = False
    if WHEN == "compile":
        for number in range(len(ROWS)):
            replace(number)
    wrong: list[str] = []
    for number, (home, name, function) in enumerate(ROWS):
        for backend in ("eager", "native") if number % 4 == 0 else ("eager",):
            compiled = anyshape.compile(function, backend=backend)
            for call, size in enumerate((3, 4, 5, 6, 7)):
                if WHEN == "calls" and call == 3:
                    replace(number)
                x = torch.randn(size, 4)
                problem = difference(compiled(x), function(x))
                if problem:
                    wrong.append(f"{home.__name__}.{name} {backend} call {call}: {problem}")
            if WHEN == "calls":
                put_back(number)
    print(f"{len(ROWS)} functions, {len(wrong)} wrong")
    print(*wrong, sep="\n")


main()
