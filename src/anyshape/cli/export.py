"""`anyshape export SCRIPT:OBJ`: a package of what a script has; `anyshape show PACKAGE`."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

from anyshape.cli.failure import Failure
from anyshape.errors import AnyshapeError
from anyshape.shapes import Dim, Shapes


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", metavar="SCRIPT:OBJ", help="a script, and a name in it")
    parser.add_argument(
        "--args",
        metavar="NAME",
        help="a name in the script: the arguments of a call, or a function that makes them"
        " (default: example_args)",
    )
    parser.add_argument(
        "--dynamic-shapes",
        metavar="SPEC",
        help='a spec as Python, with Dim and Shapes: \'{"x": (Dim("batch"), None)}\'; or a name in'
        " the script",
    )
    parser.add_argument("--promote", action="store_true", help="see anyshape.export")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: OBJ.zip")
    parser.add_argument("--onnx", metavar="FILE", help="write an ONNX model as well")


def run(options: argparse.Namespace) -> int:
    from anyshape.export.run import export

    script, _, name = options.object.rpartition(":")
    if not script or not name:
        raise Failure("give SCRIPT:OBJ, a script and a name in it: model.py:net")
    found = _loaded(script)
    subject = _name(found, name, script)
    args, kwargs = _arguments(found, options.args, script)
    spec = _spec(found, options.dynamic_shapes)
    try:
        exported = export(subject, args, kwargs, dynamic_shapes=spec, promote=options.promote)
        output = options.output or f"{name}.zip"
        exported.save(output)
        if options.onnx:
            exported.to_onnx(options.onnx)
    except AnyshapeError as error:
        raise Failure(str(error)) from None
    print(exported)
    print(f"written to {output} ({Path(output).stat().st_size} bytes)")
    return 0


def _loaded(script: str) -> dict[str, Any]:
    if not Path(script).is_file():
        raise Failure(f"there is no script {script}")
    folder = str(Path(script).resolve().parent)
    sys.path.insert(0, folder)
    try:
        return runpy.run_path(script, run_name="__anyshape_export__")
    finally:
        sys.path.remove(folder)


def _name(found: dict[str, Any], name: str, script: str) -> Any:
    if name not in found:
        names = ", ".join(sorted(each for each in found if not each.startswith("_")))
        raise Failure(f"{script} has no {name}; it has {names}")
    return found[name]


def _arguments(
    found: dict[str, Any], name: str | None, script: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    value = _name(found, name or "example_args", script)
    if callable(value):
        value = value()
    match value:
        case dict():
            return (), value
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), kwargs
        case tuple() | list():
            return tuple(value), {}
        case _:
            return (value,), {}


def _spec(found: dict[str, Any], text: str | None) -> Any:
    if text is None:
        return found.get("dynamic_shapes")
    if text in found:
        return found[text]
    try:
        # The user's own words, as in the script that has just been run.
        return eval(text, {**found, "Dim": Dim, "Shapes": Shapes})
    except AnyshapeError as error:
        raise Failure(str(error)) from None
    except Exception as error:
        raise Failure(f"--dynamic-shapes {text!r}: {type(error).__name__}: {error}") from None


# -- show ------------------------------------------------------------------------------------------


def add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("package", metavar="PACKAGE")
    parser.add_argument("--graph", action="store_true", help="the operators too")


def run_show(options: argparse.Namespace) -> int:
    from anyshape.export.exported import load

    try:
        exported = load(options.package)
    except FileNotFoundError:
        raise Failure(f"there is no file {options.package}") from None
    except AnyshapeError as error:
        raise Failure(str(error)) from None
    weights = exported.state_dict()
    print(exported)
    count = sum(tensor.numel() for tensor in weights.values())
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    print(
        f"{len(exported.graph.nodes)} nodes; {len(weights)} weights: {count} numbers, {size} bytes"
    )
    if options.graph:
        print()
        exported.print_readable()
    return 0
