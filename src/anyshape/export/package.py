"""Packages: an exported program as a zip file that standard tools read.

    anyshape.json           which format, which version, who made it
    program.json            how it is called, what its inputs must be, the nodes of the graph
    weights.safetensors     parameters, buffers and constants
    native/…                native code, if it was asked for (see `native_part`)

No pickle and no code: what is read is data, and every name in it is looked up in tables of ours.
"""

from __future__ import annotations

import json
import operator
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter, Signature
from typing import Any, Final

import torch
import torch.fx

from anyshape.config import config
from anyshape.errors import BadOption, BadPackage, CannotExport
from anyshape.export import native_part, results, tensors_file
from anyshape.export.conditions import CHECKS, Condition
from anyshape.export.inputs import Inputs, SizeSource, starred_in
from anyshape.export.json_graph import (
    NotReadable,
    NotWritable,
    read_graph,
    read_value,
    write_graph,
    write_value,
)
from anyshape.export.operators import is_word
from anyshape.export.program import Program, put_tensor
from anyshape.support.spelling import did_you_mean
from anyshape.symbolic import Range

FORMAT: Final = "anyshape package"
VERSION: Final = 2

#: From the program of a version to that of the next one.
UPGRADES: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    # Graphs changed tensors themselves.
    1: lambda program: {**program, "changes": []},
}

_ABOUT, _PROGRAM, _WEIGHTS = "anyshape.json", "program.json", "weights.safetensors"
_WEIGHT_NAME: Final = re.compile(r"\w+(\.\w+)*")
#: The same bytes for the same program: no time of day in it.
_WHEN: Final = (1980, 1, 1, 0, 0, 0)


# -- writing ---------------------------------------------------------------------------------------


def save(
    program: Program, path: str | os.PathLike[str], code: Mapping[str, bytes] | None = None
) -> None:
    """Write a package, whole or not at all; `code` is native code to be stored with it."""
    try:
        weights, tensors = _weights(program.graph_module)
        made = {
            "signature": [_parameter(each) for each in program.signature.parameters.values()],
            "conditions": [_condition(each) for each in program.inputs.conditions],
            "sources": [_source(each) for each in program.inputs.sources],
            "ranges": {name: list(each) for name, each in program.inputs.ranges.items()},
            "facts": list(program.inputs.facts),
            "examples": dict(program.examples),
            "changes": list(program.changes),
            "weights": weights,
            "nodes": write_graph(program.graph_module.graph),
        }
        data = tensors_file.write(tensors)
    except (NotWritable, tensors_file.Damaged) as error:
        raise CannotExport(
            function=program.name,
            reason=f"a package cannot hold {error}",
            hints=["use operators of torch in its place"],
        ) from None
    about = {
        "format": FORMAT,
        "version": VERSION,
        "name": program.name,
        "torch": str(torch.__version__),
    }
    target = os.fspath(path)
    temporary = f"{target}.{os.getpid()}.part"
    try:
        with open(temporary, "xb") as file, zipfile.ZipFile(file, "w") as archive:
            _add(archive, _ABOUT, _json(about), zipfile.ZIP_DEFLATED)
            _add(archive, _PROGRAM, _json(made), zipfile.ZIP_DEFLATED)
            # Elements do not get smaller, and stored as they are they can be mapped.
            _add(archive, _WEIGHTS, data, zipfile.ZIP_STORED)
            for name, part in () if code is None else native_part.parts(code):
                _add(archive, name, part, zipfile.ZIP_DEFLATED)
        os.replace(temporary, target)
    except FileExistsError:
        raise
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = target  # the name that the caller knows
        raise


def _add(archive: zipfile.ZipFile, name: str, data: bytes, how: int) -> None:
    entry = zipfile.ZipInfo(name, _WHEN)
    entry.compress_type = how
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data, compresslevel=9)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _parameter(parameter: Parameter) -> dict[str, object]:
    made: dict[str, Any] = {"name": parameter.name, "kind": parameter.kind.name}
    if parameter.default is not Parameter.empty:
        # A default that JSON cannot have has to be given.
        with suppress(NotWritable):
            made["default"] = write_value(parameter.default)
    return made


def _condition(condition: Condition) -> dict[str, object]:
    return {
        "way": write_value(list(condition.way)),
        "kind": condition.kind,
        "value": write_value(condition.value),
    }


def _source(source: SizeSource) -> dict[str, object]:
    return {"symbol": source.symbol, "way": write_value(list(source.way)), "dim": source.dim}


def _weights(module: torch.fx.GraphModule) -> tuple[dict[str, object], dict[str, torch.Tensor]]:
    rows: dict[str, Any] = {}
    tensors: dict[str, torch.Tensor] = {}
    used = dict.fromkeys(str(node.target) for node in module.graph.nodes if node.op == "get_attr")
    for name in used:
        tensor: torch.Tensor = operator.attrgetter(name)(module)
        if not _WEIGHT_NAME.fullmatch(name):
            raise NotWritable(f"a weight of the name {name!r}")
        if tensor.layout is not torch.strided:
            raise NotWritable(f"the {tensor.layout} tensor {name}")
        tensors[name] = tensor
        rows[name] = {
            "parameter": isinstance(tensor, torch.nn.Parameter),
            "requires_grad": tensor.requires_grad,
            "device": str(tensor.device),
        }
        if not tensor.is_contiguous():
            rows[name]["strides"] = list(torch.empty_like(tensor).stride())
    return rows, tensors


# -- reading ---------------------------------------------------------------------------------------


def load(
    path: str | os.PathLike[str], classes: Sequence[type] = (), native_code: str | None = None
) -> tuple[Program, dict[str, bytes], list[str]]:
    """The program of a package, native code that comes with it (if it is trusted), and notes;
    `BadPackage` says what is wrong with one that cannot be read."""
    if native_code not in (None, "trusted"):
        accepted = f'it takes None or "trusted"{did_you_mean(native_code, ["trusted"])}'
        raise BadOption(option="native_code", value=repr(native_code), accepted=accepted)
    for kind in classes:
        results.know_class(kind)
    file = os.fspath(path)
    code, notes = {}, []
    about, program, weights = _contents(file)
    if about.get("format") != FORMAT:
        raise _bad(file, f"its format is {about.get('format')!r}", f"the format {FORMAT!r}")
    version = about.get("version")
    if type(version) is not int or version < 1:
        raise _bad(file, f"its version is {version!r}", "a number")
    if version > VERSION:
        found = f"its version is {version}, made by a later anyshape"
        raise _bad(file, found, f"a version up to {VERSION}")
    try:
        for step in range(version, VERSION):
            program = UPGRADES[step](program)
        read = _program(str(about.get("name")), program, tensors_file.read(weights))
    except (NotReadable, tensors_file.Damaged) as error:
        raise _bad(file, str(error), "what `ep.save` writes") from None
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if config.on_compile_error == "raise" and isinstance(error, AttributeError):
            raise
        raise _bad(file, f"{type(error).__name__}: {error}", "what `ep.save` writes") from error
    with zipfile.ZipFile(file) as archive:
        if native_code is not None:
            code, notes = native_part.read(archive)
        elif native_part.is_in(archive):
            notes = [
                "the package has native code, which is not used: it may do anything, and"
                ' load(path, native_code="trusted") takes it'
            ]
    return read, code, notes


def _bad(file: str, found: str, expected: str) -> BadPackage:
    return BadPackage(file=file, found=found, expected=expected)


def _contents(file: str) -> tuple[dict[str, object], dict[str, object], bytes]:
    try:
        with zipfile.ZipFile(file) as archive:
            if _ABOUT not in archive.namelist():
                found = f"it is a zip file without {_ABOUT}, which something else has written"
                raise _bad(file, found, "what `ep.save` writes")
            parts = {name: archive.read(name) for name in (_ABOUT, _PROGRAM, _WEIGHTS)}
    except (FileNotFoundError, PermissionError):
        raise
    except IsADirectoryError:
        raise _bad(file, "it is a folder", "a zip file") from None
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, zlib.error) as error:
        raise _bad(file, f"it is damaged or cut off ({error})", "a whole zip file") from None
    except KeyError as error:
        raise _bad(file, str(error.args[0]), f"{_ABOUT}, {_PROGRAM} and {_WEIGHTS}") from None
    texts: list[dict[str, Any]] = []
    for name in (_ABOUT, _PROGRAM):
        try:
            text = json.loads(parts[name])
        except ValueError as error:
            raise _bad(file, f"{name} is no JSON ({error})", "JSON") from None
        if not isinstance(text, dict):
            raise _bad(file, f"{name} holds a {type(text).__name__}", "a JSON object")
        texts.append(text)
    return texts[0], texts[1], parts[_WEIGHTS]


def _program(name: str, made: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> Program:
    root = torch.nn.Module()
    for weight, row in made["weights"].items():
        if weight not in tensors:
            raise NotReadable(f"the weight {weight!r} is missing")
        if not _WEIGHT_NAME.fullmatch(weight):
            raise NotReadable(f"the name of a weight {weight!r}")
        put_tensor(root, weight, _weight(tensors[weight], row), bool(row["parameter"]))
    graph = read_graph(made["nodes"], frozenset(made["weights"]))
    class_name = re.sub(r"\W", "_", name) or "Exported"
    if not is_word(class_name):
        class_name = "Exported"
    ranges = {str(key): Range(*value) for key, value in made["ranges"].items()}
    if not all(map(is_word, ranges)):
        raise NotReadable("the name of a symbol")
    signature = Signature([_read_parameter(each) for each in made["signature"]])
    return Program(
        name,
        torch.fx.GraphModule(root, graph, class_name),
        signature,
        Inputs(
            [_read_condition(each) for each in made["conditions"]],
            [
                SizeSource(str(each["symbol"]), _way(each["way"]), each["dim"])
                for each in made["sources"]
            ],
            ranges,
            [str(each) for each in made["facts"]],
            starred_in(signature),
        ),
        {str(key): int(value) for key, value in made["examples"].items()},
        _changes(made["changes"], graph),
    )


def _changes(names: object, graph: torch.fx.Graph) -> tuple[str, ...]:
    """What a call changes, and whether the output has as many pairs of nodes."""
    if not isinstance(names, list):
        raise NotReadable("what a call changes is no list")
    if names:
        found: object = next(iter(reversed(graph.nodes))).args[0]
        pairs = found[1] if isinstance(found, tuple) and len(found) == 2 else ()
        if len(pairs) != len(names) or not all(map(_is_pair, pairs)):
            raise NotReadable(f"the output has no pairs of what changes, {names}")
    return tuple(map(str, names))


def _is_pair(pair: object) -> bool:
    nodes = pair if isinstance(pair, tuple | list) else ()
    return len(nodes) == 2 and all(isinstance(each, torch.fx.Node) for each in nodes)


def _read_parameter(row: Mapping[str, Any]) -> Parameter:
    default = read_value(row["default"]) if "default" in row else Parameter.empty
    return Parameter(row["name"], getattr(Parameter, str(row["kind"])), default=default)


def _read_condition(row: Mapping[str, Any]) -> Condition:
    if row["kind"] not in CHECKS:
        raise NotReadable(f"the condition {row['kind']!r}")
    value = read_value(row["value"])
    if row["kind"] == "same":
        value = _as_way(value)
    elif row["kind"] == "distinct":
        value = tuple(map(_as_way, value))
    return Condition(_way(row["way"]), row["kind"], value)


def _way(row: object) -> tuple[object, ...]:
    return _as_way(read_value(row))


def _as_way(value: Any) -> tuple[Any, ...]:
    first, *steps = value
    return (first, *(tuple(step) for step in steps))


def _weight(tensor: torch.Tensor, row: Mapping[str, Any]) -> torch.Tensor:
    if "strides" in row:
        laid_out = torch.empty_strided(tensor.shape, row["strides"], dtype=tensor.dtype)
        tensor = laid_out.copy_(tensor)
    tensor = tensor.to(torch.device(row["device"]))
    if row["parameter"]:
        return torch.nn.Parameter(tensor, bool(row["requires_grad"]))
    return tensor.requires_grad_() if row["requires_grad"] else tensor
