"""The page itself: template, styles, script and data in one text, and in a file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from anyshape.explain.report.analysis.differences import Comparison, compare_sides
from anyshape.explain.report.analysis.ranks import by_run, launches
from anyshape.explain.report.page.data import page_data
from anyshape.explain.trace_model import read_traces

_PARTS: Final = "anyshape.explain.report.page"

#: Characters that could end the script that holds the data, or open another.
_ESCAPED: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def data_text(data: Mapping[str, object]) -> str:
    """JSON in ASCII that is harmless inside of a script tag: all three characters stand in strings
    only, where an escape means the same."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPED)


def page_text(title: str, data: Mapping[str, object]) -> str:
    # Only this command needs it.
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    style, script = _joined("style", ".css"), _joined("script", ".js")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    template = environment.from_string(_text("page.html.jinja"))
    return template.render(
        title=title,
        style=Markup(style),
        script=Markup(script),
        data=Markup(data_text(data)),
        policy=_policy(style, script),
    )


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, and nothing runs but our own script."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}';"
        " base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _text(name: str) -> str:
    return resources.files(_PARTS).joinpath(name).read_text(encoding="utf-8")


def _joined(folder: str, ending: str) -> str:
    """The parts in the order of their names; the script is one function, so that its names are its
    own."""
    parts = sorted(
        (each for each in resources.files(_PARTS).joinpath(folder).iterdir()),
        key=lambda each: each.name,
    )
    text = "\n".join(p.read_text(encoding="utf-8") for p in parts if p.name.endswith(ending))
    return f'"use strict";\n(() => {{\n{text}\n}})();\n' if ending == ".js" else text


# -- from a trace folder to a file -----------------------------------------------------------------


def run_names(folders: Sequence[str | Path]) -> dict[str, Path]:
    """By their last names where these differ; one alone needs none."""
    if len(folders) == 1:
        return {"": Path(folders[0])}
    last = [Path(os.path.abspath(folder)).name for folder in folders]
    names = last if len(set(last)) == len(last) else [str(folder) for folder in folders]
    return dict(zip(names, map(Path, folders), strict=True))


def compare_folders(runs: Mapping[str, Path]) -> Comparison:
    """What the runs compiled, side by side."""
    return compare_sides(by_run(launches(read_traces(runs)[0])))


def write_report(
    folders: str | Path | Sequence[str | Path],
    output: str | Path,
    advice: Sequence[Mapping[str, object]] | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write the page, and return where it is. `NotATrace` if there is nothing to report on. Several
    folders are runs to be compared.

    `advice` has the fields of `anyshape.explain.advice.Advice`; `notes` are problems that are known
    already."""
    runs = run_names([folders] if isinstance(folders, str | Path) else folders)
    processes, problems = read_traces(runs)
    command = next((process.command for process in processes if process.command), "")
    name = Path(command.partition(" ")[0]).name or next(iter(runs.values())).name
    text = page_text(f"{name} · anyshape report", page_data(processes, [*notes, *problems], advice))
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The title may have half a character, which no file can hold.
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return path
