"""Object code loaded by LLVM: for machines whose relocations we do not know, and as the judge of
our own linker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from anyshape.runtime.native.elf import UNDEFINED, read_object
from anyshape.runtime.native.engine import llvm

_NUMBERS: Final = itertools.count()


class LoadedByLlvm:
    """An object in memory. Functions live as long as this."""

    def __init__(self, data: bytes, resolve: Callable[[str], int]) -> None:
        binding = llvm()
        self._jit: Any = binding.create_lljit_compiler(use_jit_link=False)
        library = binding.JITLibraryBuilder().add_object_img(data)
        names: list[str] = []
        for symbol in read_object(data).symbols:
            if symbol.section == UNDEFINED and symbol.name:
                library.import_symbol(symbol.name, resolve(symbol.name))
            elif symbol.binding and symbol.name:
                names.append(symbol.name)
                library.export_symbol(symbol.name)
        self._tracker = library.link(self._jit, f"anyshape{next(_NUMBERS)}")
        self._exports = {name: self._tracker[name] for name in names}

    def address(self, name: str) -> int | None:
        return self._exports.get(name)
