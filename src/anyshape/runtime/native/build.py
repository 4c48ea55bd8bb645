"""From text to code in this process: found on disk, or built and kept there."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import torch

from anyshape.config import config
from anyshape.runtime.native.disk_cache import DiskCache, key_of
from anyshape.runtime.native.engine import build_object
from anyshape.runtime.native.host_target import HostTarget, llvmlite_version
from anyshape.runtime.native.image import LoadedImage
from anyshape.runtime.native.link import CannotLink, link_image
from anyshape.runtime.native.linked_by_llvm import LoadedByLlvm
from anyshape.runtime.native.stored import Built, from_bytes
from anyshape.runtime.native.symbols import address_of

#: Change it when the same text becomes other code, or when what is kept looks otherwise.
_VERSION: Final = "1"

FOLDER: Final = "native"


@dataclass(frozen=True, slots=True)
class Source:
    """A module's text, the names of its functions, and words for the numbers that it fails with."""

    text: str
    entry: str | None = None
    run: str | None = None
    reasons: Sequence[str] = ()


class Loaded(Protocol):
    def address(self, name: str) -> int | None: ...


def disk_cache() -> DiskCache:
    return DiskCache(Path(config.cache_dir) / FOLDER, config.cache_size_mb << 20)


def found_or_built(
    key: str, source: Callable[[], Source], target: HostTarget, cache: DiskCache
) -> Built:
    """The code that goes by `key`, a text that says all that the source depends on. The source is
    asked for only if the code is not on disk."""
    name = key_of(
        _VERSION,
        key,
        *map(str, target),
        llvmlite_version(),
        torch.__version__,
        f"{sys.implementation.cache_tag} {platform.machine()}",
    )
    kept = cache.read(name)
    if kept is not None:
        return from_bytes(kept)
    built = build(source(), target)
    cache.write(name, built.to_bytes())
    return built


def build(source: Source, target: HostTarget) -> Built:
    data = build_object(source.text, target.triple, target.cpu, target.features)
    reasons = tuple(source.reasons)
    try:
        image = link_image(data)
    except CannotLink:
        return Built(source.entry, source.run, reasons, "object", data)
    return Built(
        source.entry,
        source.run,
        reasons,
        "image",
        image.code,
        image.slots,
        image.rebased,
        image.exports,
    )


def load(built: Built, others: Loaded | None = None) -> Loaded:
    """Put the code into memory. Its functions live as long as the result. `others`: where to look
    for functions first; they have to live as long."""

    def resolve(name: str) -> int:
        found = None if others is None else others.address(name)
        return _resolve(name) if found is None else found

    if built.kind == "image":
        return LoadedImage(built.image(), resolve)
    return LoadedByLlvm(built.code, resolve)


#: Objects that the text knows by name: their addresses are of this process alone.
_OBJECTS: Final[dict[str, object]] = {
    "anyshape_type_Tensor": torch.Tensor,
    "anyshape_type_Parameter": torch.nn.Parameter,
}


def _resolve(name: str) -> int:
    return id(_OBJECTS[name]) if name in _OBJECTS else address_of(name)
