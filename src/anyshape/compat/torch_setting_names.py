"""The settings that modules of torch's compiler have, by name: read from their files.

Reading is enough to tell what anyshape has no counterpart for from what is misspelt; nothing of
torch's compiler is loaded.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import torch

from anyshape.errors import BadOption
from anyshape.support.spelling import did_you_mean

#: options of `torch.compile` that are not among the settings of its generated code
_OTHERS: Final = frozenset({"guard_filter_fn", "use_aoti"})


def check_options(options: object) -> None:
    """An error for an option of `torch.compile` that torch would refuse as well."""
    if not isinstance(options, Mapping):
        raise BadOption(
            option="options", value=repr(options), accepted="it takes a dict by name, or None"
        )
    known = setting_names("torch._inductor.config") | _OTHERS
    for name, value in options.items():
        if known > _OTHERS and str(name).replace("-", "_") not in known:
            accepted = f"torch.compile has no such option{did_you_mean(name, known)}"
            raise BadOption(option=f"options[{name!r}]", value=repr(value), accepted=accepted)


@functools.cache
def setting_names(module: str) -> frozenset[str]:
    """The names that a module assigns, also in classes (`triton.cudagraphs`); none if its file is
    not to be found."""
    file = Path(torch.__file__).parents[1].joinpath(*module.split("."))
    try:
        text = file.with_suffix(".py").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    return frozenset(_assigned(ast.parse(text).body, ""))


def _assigned(body: list[ast.stmt], before: str) -> Iterator[str]:
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                yield before + name
            case ast.ClassDef():
                yield before + node.name
                yield from _assigned(node.body, f"{before}{node.name}.")
            case ast.If():
                yield from _assigned([*node.body, *node.orelse], before)
            case _:
                pass
