"""`torch.export` as scripts call it: `anyshape.export` behind it.

    torch.export.export(model, (x,), dynamic_shapes={"x": {0: Dim("batch", max=64)}})

Dims stay torch's: whatever a script has made of them is said again in ours. What torch itself
exports (on its way to ONNX, say) is left to torch.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from anyshape.compat.module_shim import is_asked_by_torch
from anyshape.compat.unmapped import note
from anyshape.errors import BadPackage
from anyshape.export import Exported
from anyshape.export import export as export_program
from anyshape.export import load as load_package
from anyshape.shapes import Dim, Marker

#: Those of `torch.export` that are ours.
NAMES: Final = ("export", "draft_export", "save", "load")

_DIMS: Final = "torch.export.dynamic_shapes"


def functions(real: Any) -> Mapping[str, Callable[..., Any]]:
    """What stands in `torch.export`; `real` has what stood there."""
    theirs = {name: getattr(real, name) for name in NAMES}

    def export(
        mod: Any,
        args: Any = (),
        kwargs: Any = None,
        *,
        dynamic_shapes: Any = None,
        strict: bool = False,
        preserve_module_call_signature: Any = (),
        prefer_deferred_runtime_asserts_over_guards: bool = False,
    ) -> Any:
        """`torch.export.export`. How torch would look at the program (`strict`) is nothing to us:
        it runs for real."""
        if is_asked_by_torch():
            return theirs["export"](
                mod,
                args,
                kwargs,
                dynamic_shapes=dynamic_shapes,
                strict=strict,
                preserve_module_call_signature=preserve_module_call_signature,
                prefer_deferred_runtime_asserts_over_guards=(
                    prefer_deferred_runtime_asserts_over_guards
                ),
            )
        if preserve_module_call_signature:
            note("torch.export.export(preserve_module_call_signature=...)")
        examples = _further_inputs(dynamic_shapes)
        if examples is not None:
            return export_program(mod, args, kwargs, example_inputs=examples)
        spec = said_in_ours(dynamic_shapes, mod, args, kwargs)
        return export_program(mod, args, kwargs, dynamic_shapes=spec)

    def draft_export(mod: Any, args: Any, kwargs: Any = None, **options: Any) -> Any:
        """`torch.export.draft_export`: an export that never has to guess needs no draft."""
        if is_asked_by_torch():
            return theirs["draft_export"](mod, args, kwargs, **options)
        return export_program(mod, args, kwargs, **options)

    def save(ep: Any, f: Any, **options: Any) -> None:
        """`torch.export.save`, to a path or a file."""
        if not isinstance(ep, Exported):
            theirs["save"](ep, f, **options)
        elif isinstance(f, str | os.PathLike):
            ep.save(f)
        else:
            with _folder() as folder:
                ep.save(folder / "package")
                f.write((folder / "package").read_bytes())

    def load(f: Any, **options: Any) -> Any:
        """`torch.export.load`: of our packages, and of torch's."""
        if isinstance(f, str | os.PathLike):
            try:
                return load_package(f)
            except BadPackage:
                return theirs["load"](f, **options)
        with _folder() as folder:
            with (folder / "package").open("wb") as copy:
                shutil.copyfileobj(f, copy)
            try:
                return load_package(folder / "package")
            except BadPackage:
                f.seek(0)
                return theirs["load"](f, **options)

    return {"export": export, "draft_export": draft_export, "save": save, "load": load}


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# -- specs ----------------------------------------------------------------------------------------


def _further_inputs(spec: Any) -> list[Any] | None:
    """The calls of an `AdditionalInputs`."""
    is_so = type(spec).__module__ == _DIMS and type(spec).__name__ == "AdditionalInputs"
    return [(args, kwargs or {}) for args, kwargs in spec._examples] if is_so else None


def said_in_ours(spec: Any, mod: Any, args: Any, kwargs: Any) -> Any:
    """A spec in torch's words, in ours; what is ours already stays."""
    # A collection of shapes by tensor: torch works out what it says.
    if type(spec).__module__ == _DIMS and hasattr(spec, "dynamic_shapes"):
        spec = spec.dynamic_shapes(mod, tuple(args), dict(kwargs or {}))
    return _said(spec, map("dim_{}".format, itertools.count()))


def _said(item: Any, names: Iterator[str]) -> Any:
    if isinstance(item, Mapping):
        return {key: _said(each, names) for key, each in item.items()}
    if isinstance(item, list | tuple):
        return type(item)(_said(each, names) for each in item)
    if type(item).__module__ != _DIMS:
        return item
    for is_so, say in _FORMS:
        if is_so(item):
            return say(item, names)
    return item


def _hint(item: Any, names: Iterator[str]) -> Any:
    """`Dim.AUTO`, `Dim.DYNAMIC(min=2)`."""
    marker = Marker[item.type.name]
    if item.min is None and item.max is None:
        return marker
    if marker is Marker.DYNAMIC:
        return Dim(next(names), min=item.min, max=item.max)
    note(f"torch.export.{marker.value}(min=..., max=...)")
    return marker


def _derived(item: Any, names: Iterator[str]) -> Any:
    """`2 * batch + 1` is a function of `batch` there."""
    return item.fn(_said(item.root, names))


def _named(item: Any, names: Iterator[str]) -> Any:
    highest = item.max if isinstance(item.max, int) else None  # else: no bound
    return Dim(item.__name__, min=item.min, max=highest)


#: Dims of torch, by what they have.
_FORMS: Final[tuple[tuple[Callable[[Any], bool], Callable[[Any, Iterator[str]], Any]], ...]] = (
    (lambda item: hasattr(item, "type"), _hint),
    (lambda item: hasattr(item, "root"), _derived),
    (lambda item: hasattr(item, "value"), lambda item, names: item.value),
    (lambda item: hasattr(item, "__name__"), _named),
)
