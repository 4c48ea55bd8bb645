"""`anyshape export SCRIPT:OBJ`: a package of what a script has; `anyshape show PACKAGE`."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyshape.cli.command import Failure
from anyshape.errors import AnyshapeError
from anyshape.shapes import Dim, Shapes

_EXAMPLES = """\
examples:
  anyshape export model.py:net
      the object `net` of model.py, called with its `example_args`, for its `dynamic_shapes`
  anyshape export model.py:net --dynamic-shapes '{"x": (Dim("batch", max=64), None)}' -o net.zip
  anyshape export model.py:net --examples calls --onnx net.onnx
      every size that differs between the calls in the list `calls` is dynamic
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "object", metavar="SCRIPT:OBJ", help="a script, and a name in it: a function or a module"
    )
    parser.add_argument(
        "--args",
        metavar="NAME",
        help="a name in the script: the arguments of a call, or a function that makes them"
        " (default: example_args)",
    )
    parser.add_argument(
        "--examples",
        metavar="NAME",
        help="a name in the script: a list of calls, of which every size that differs is dynamic",
    )
    parser.add_argument(
        "--dynamic-shapes",
        metavar="SPEC",
        help="a spec as Python, in which Dim and Shapes are known, or a name in the script"
        " (default: dynamic_shapes, if the script has it)",
    )
    parser.add_argument(
        "--promote",
        action="store_true",
        help="make sizes dynamic that the spec does not name, where one that is Dim.AUTO would be"
        " static otherwise",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the package (default: OBJ.zip)")
    parser.add_argument("--onnx", metavar="FILE", help="write an ONNX model as well")


def run(options: argparse.Namespace) -> int:
    from anyshape.export.run import export

    script, _, name = options.object.rpartition(":")
    if not script or not name:
        raise Failure("give SCRIPT:OBJ, a script and a name in it: model.py:net")
    found = _loaded(script)
    subject = _name(found, name, script)
    if isinstance(subject, type):
        raise Failure(f"{name} is a class; name an object of it, as in `net = {name}(...)`")
    examples = _made(found, options.examples, script) if options.examples else None
    args, kwargs = _arguments(found, options.args, script, examples is None)
    spec = _spec(found, options.dynamic_shapes)
    output = options.output or f"{name}.zip"
    with _program_of(script):
        exported = export(
            subject,
            args,
            kwargs,
            dynamic_shapes=spec,
            example_inputs=examples,
            promote=options.promote,
        )
    print(exported)
    _written(output, exported.save)
    if options.onnx:
        _written(options.onnx, exported.to_onnx)
    return 0


def _written(path: str, write: Callable[[str], None]) -> None:
    try:
        write(path)
    except AnyshapeError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from None
    print(f"written to {path} ({Path(path).stat().st_size} bytes)")


@contextmanager
def _program_of(script: str) -> Iterator[None]:
    """Failures of the user's own code are shown with the user's own lines."""
    try:
        yield
    except AnyshapeError as error:
        raise Failure(str(error)) from None
    except SystemExit as error:
        raise Failure(f"{script} ended itself, with status {error.code}") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = next((i for i, each in enumerate(frames) if Path(each.filename) == Path(script)), 0)
        lines = traceback.format_list(frames[at:]) + traceback.format_exception_only(error)
        raise Failure(f"{script} failed:\n{''.join(lines).rstrip()}") from None


def _loaded(script: str) -> dict[str, Any]:
    if not Path(script).is_file():
        raise Failure(f"there is no script {script}")
    folder = str(Path(script).resolve().parent)
    sys.path.insert(0, folder)
    try:
        with _program_of(script):
            return runpy.run_path(script, run_name="__anyshape_export__")
    finally:
        sys.path.remove(folder)


def _name(found: dict[str, Any], name: str, script: str) -> Any:
    """`net`, or `net.encoder`."""
    first, *inside = name.split(".")
    if first not in found:
        names = ", ".join(sorted(each for each in found if not each.startswith("_")))
        raise Failure(f"{script} has no {first}; it has {names}")
    value = found[first]
    for each in inside:
        if not hasattr(value, each):
            raise Failure(f"{first} in {script} has no {each}")
        value = getattr(value, each)
    return value


def _made(found: dict[str, Any], name: str, script: str) -> Any:
    value = _name(found, name, script)
    if not callable(value):
        return value
    with _program_of(script):
        return value()


def _arguments(
    found: dict[str, Any], name: str | None, script: str, needed: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if name is None and not needed:
        return (), {}
    value = _made(found, name or "example_args", script)
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
    parser.add_argument("package", metavar="PACKAGE", help="a file that `ep.save(path)` wrote")
    parser.add_argument("--graph", action="store_true", help="the operators too")


def run_show(options: argparse.Namespace) -> int:
    from anyshape.export.exported import load

    try:
        exported = load(options.package)
    except FileNotFoundError:
        raise Failure(f"there is no file {options.package}") from None
    except PermissionError as error:
        raise Failure(f"{options.package} cannot be read: {error.strerror}") from None
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
