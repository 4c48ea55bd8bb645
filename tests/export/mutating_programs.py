"""Random programs of views and writes (`tests/native/view_programs.py`), exported."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import anyshape
from anyshape import Dim
from anyshape.errors import AnyshapeError, ExportError, ExportInputError
from tests.native.view_programs import SHAPES, function, inputs, program
from tests.zoo.compare import aliasing, difference


def wrong(seed: int, folder: Path) -> tuple[str, str]:
    """What an exported program does otherwise than eager, at all shapes that it takes (nothing, if
    all is well), and what became of it: functional, in place, or why it was not exported."""
    source, kind = program(seed)
    auto = (Dim.AUTO,) * 3
    eager = function(source, f"{seed} eager")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exported = anyshape.export(
                function(source, f"{seed} exported"),
                inputs(kind, SHAPES[0], seed),
                dynamic_shapes={"x": auto, "y": auto},
            )
            exported.save(folder / "package.zip")
        except AnyshapeError as error:
            return "", f"{type(error).__name__}: {error}"
        except RuntimeError as error:
            # An export runs the program on dense copies: torch sees there that what is written
            # overlaps with what is read, which it does not see among gaps.
            if "single memory location" not in str(error):
                raise
            return "", f"{error}"
        plain = anyshape.load(folder / "package.zip", backend="eager")
        for shape in SHAPES:
            for each in (plain, exported):
                found = _wrong_at(eager, each, kind, shape, seed)
                if found:
                    return f"{source}{kind} {shape}: {found}", ""
    return "", exported.notes[0] if exported.notes else "functional"


def _wrong_at(eager: Any, exported: Any, kind: str, shape: Any, seed: int) -> str | None:
    here, there = (inputs(kind, shape, seed) for _ in range(2))
    try:
        found: Any = exported(*there)
    except ExportInputError:
        return None
    except ExportError as error:
        return f"{error}"
    except Exception as error:
        found = error
    try:
        wanted: Any = eager(*here)
    except Exception as error:
        # Torch may look at strides that mean nothing: then there is nothing to compare with.
        strides = "single memory location" in str(error)
        return None if strides or isinstance(found, type(error)) else f"{error!r} is not raised"
    if isinstance(found, Exception):
        return f"{found!r}"
    found, wanted = [*found, *there], [*wanted, *here]
    if kind == "with gaps":
        # Such an input is copied before the graph sees it.
        found, wanted = ([each.clone().contiguous() for each in every] for every in (found, wanted))
    elif aliasing(list(filter(Tensor.numel, found))) != aliasing(
        list(filter(Tensor.numel, wanted))
    ):
        return "other tensors share memory"
    return difference(found, wanted)
