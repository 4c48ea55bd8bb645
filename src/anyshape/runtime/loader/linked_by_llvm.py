"""Object code loaded by LLVM: for machines whose relocations we do not know, and as the judge of
our own linker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from anyshape.runtime.loader.elf import UNDEFINED, joined_objects, read_object
from anyshape.runtime.loader.engine import llvm

_NUMBERS: Final = itertools.count()


class LoadedByLlvm:
    """Objects in memory, which may need each other. Functions live as long as this."""

    def __init__(self, objects: Sequence[bytes], resolve: Callable[[str], int]) -> None:
        binding = llvm()
        self._jit: Any = binding.create_lljit_compiler(use_jit_link=False)
        library = binding.JITLibraryBuilder()
        for data in objects:
            library.add_object_img(data)
        names: dict[str, None] = {}
        outer: dict[str, None] = {}
        for symbol in joined_objects([read_object(data) for data in objects]).symbols:
            if symbol.section == UNDEFINED and symbol.name:
                outer[symbol.name] = None
            elif symbol.binding and symbol.name:
                names[symbol.name] = None
        for name in outer:
            library.import_symbol(name, resolve(name))
        for name in names:
            library.export_symbol(name)
        self._tracker = library.link(self._jit, f"anyshape{next(_NUMBERS)}")
        self._exports = {name: self._tracker[name] for name in names}

    def address(self, name: str) -> int | None:
        return self._exports.get(name)
