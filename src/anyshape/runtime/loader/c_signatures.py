"""What torch's C functions take, by the header that torch is installed with.

A row of our table that this torch does not agree with would call a function with the wrong
arguments. So it is looked up before code is built; torch comes with its headers.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final

import torch

_HEADER: Final = "include/torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h"

#: As the table of C functions writes them: `codegen/host/externs.py`. A length comes with its list.
_LETTERS: Final = {
    "AtenTensorHandle": "T",
    "AtenTensorHandle*": "t",
    "int64_t": "i",
    "int64_t*": "j",
    "double": "f",
    "double*": "g",
    "int32_t": "b",
    "int32_t*": "c",
    "const char*": "s",
    "const int64_t*": "I",
}


def c_signature(symbol: str) -> tuple[str, int] | None:
    """A letter for each parameter (`?` for kinds that we do not know), and how many tensors it
    gives; None if the header does not have it."""
    found = re.search(rf"\b{re.escape(symbol)}\((.*?)\);", _header())
    if found is None:
        return None
    letters, results = "", 0
    for parameter in found[1].split(", "):
        kind, name = parameter.rsplit(" ", 1)
        if name.startswith("ret"):
            results += 1
        elif not name.endswith("_len_"):
            letters += _LETTERS.get(kind, "?")
    return letters, results


@functools.cache
def _header() -> str:
    try:
        return (Path(torch.__file__).parent / _HEADER).read_text()
    except OSError:
        return ""
