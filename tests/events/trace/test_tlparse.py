"""The real `tlparse` reads the traces of ten programs, in strict mode, and makes the pages that the
reference texts tell people to look at."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests import forks
from tests.events.trace.programs import HEAD, MORE, PROGRAMS

TLPARSE = shutil.which("tlparse", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")


@dataclass(frozen=True)
class Made:
    """A program, its trace, and what `tlparse` made of it."""

    program: Path
    trace: Path
    pages: Path
    events: list[dict[str, object]]

    def page(self, compile_id: str, name: str) -> str:
        """The text of the first page of this name."""
        found = sorted((self.pages / compile_id).glob(f"{name}_*"), key=_number)
        assert found, f"no {name} among {sorted(p.name for p in self.pages.glob('*/*'))}"
        return found[0].read_text(encoding="utf-8")

    def named(self, kind: str) -> list[dict[str, object]]:
        return [event for event in self.events if event.get("event") == kind]


def _number(path: Path) -> int:
    return int(path.stem.rpartition("_")[2])


Make = Callable[..., Made]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Each program is run once."""
    return cache(lambda name, rank="": make(tmp_path_factory.mktemp(name), name, rank))


def make(folder: Path, name: str, rank: str) -> Made:
    program = folder / f"{name}.py"
    source = (PROGRAMS | MORE)[name]
    program.write_text(HEAD + source, encoding="utf-8")
    variables = {
        "ANYSHAPE_TRACE": str(folder / "trace"),
        "ANYSHAPE_PROFILE": "1",
        "ANYSHAPE_CACHE_DIR": str(folder / "cache"),
        **({"RANK": rank} if rank else {}),
    }
    run = forks.run([str(program)], folder, variables)
    assert run.returncode == 0, run.stderr
    (trace,) = (folder / "trace").glob("dedicated_log_torch_trace_*.log")
    (events,) = (folder / "trace").glob("anyshape_events_*.jsonl")
    read_by_tlparse(trace, folder / "pages", ["--export"] if name == "exported" else [])
    lines = events.read_text(encoding="utf-8").splitlines()
    return Made(program, trace, folder / "pages", [json.loads(line) for line in lines])


def read_by_tlparse(trace: Path, pages: Path, more: Sequence[str] = ()) -> None:
    assert TLPARSE is not None, "tlparse is a dependency of development"
    options = [
        *more,
        "-o",
        str(pages),
        "--overwrite",
        "--no-browser",
        "--strict",
        "--strict-compile-id",
    ]
    run = subprocess.run(
        [TLPARSE, str(trace), *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_tlparse_reads_the_trace(made: Make, name: str):
    found = made(name)
    index = (found.pages / "index.html").read_text(encoding="utf-8")
    assert f"{name}.py" in index
    assert "compilation_metrics" in index
    timeline = json.loads((found.pages / "chromium_events.json").read_text(encoding="utf-8"))
    assert {event["name"] for event in timeline} >= {"compile", "capture"}
    for event in timeline:
        assert event["dur"] >= 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_our_own_events_stand_beside(made: Make, name: str):
    head, *events = made(name).events
    assert head["format"] == "anyshape-events"
    assert head["version"] == 1
    kinds = {event["event"] for event in events}
    assert {"frame_start", "sizes_seen"} <= kinds
    assert "source" in kinds
    assert "run_count" in kinds or name == "broken_mark"


CONTEXT = {"rank", "frame_id", "frame_compile_id", "attempt", "has_payload"}
PLACES = ("local", "remote")
#: Records that a trace must have, beside those that every compile leaves.
OF_A_COMPILE = {
    "str",
    "dynamo_start",
    "dynamo_output_graph",
    "dynamo_guards",
    "dynamo_cpp_guards_str",
    "compilation_metrics",
    "chromium_event",
    "artifact: put_local_code_state",
    "artifact: torch_version",
}
RECORDS: dict[str, set[str]] = {
    "static_each_time": {*OF_A_COMPILE, "artifact: recompile_reasons"},
    "automatic": {*OF_A_COMPILE, "create_symbol", "inductor_output_code", "graph_dump"},
    "specialised": {*OF_A_COMPILE, "symbolic_shape_specialization", "guard_added_fast"},
    "accidental_equality": {*OF_A_COMPILE, "symbolic_shape_specialization"},
    "unbacked": {*OF_A_COMPILE, "guard_added_fast"},
    "branches_on_data": {*OF_A_COMPILE, "artifact: dynamo_graph_break_reason"},
    "module": {*OF_A_COMPILE, "symbolic_shape_specialization", "artifact: recompile_reasons"},
    "broken_mark": {"dynamo_start", "artifact: dynamo_error", "compilation_metrics"},
    "an_error_of_the_program": {*OF_A_COMPILE, "artifact: dynamo_graph_break_reason"},
    "hostile_names": {*OF_A_COMPILE, "artifact: recompile_reasons"},
    "second_run": {
        *OF_A_COMPILE,
        *(f"artifact: {way}_{place}_code_state" for way in ("get", "put") for place in PLACES),
    },
    "exported": {"create_unbacked_symbol", "guard_added", "exported_program"},
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_of_the_trace(made: Make, name: str):
    found: set[str] = set()
    for line in made(name).trace.read_text(encoding="utf-8").splitlines():
        _, is_record, text = line.partition("] {")
        if is_record and not line.startswith("\t"):
            (kind,) = (record := json.loads("{" + text)).keys() - CONTEXT
            found.add(f"artifact: {record[kind]['name']}" if kind == "artifact" else kind)
    assert found >= RECORDS[name], RECORDS[name] - found


def test_pages_of_an_export(made: Make):
    found = made("exported")
    pages = {path.name for path in (found.pages / "-_-_-_-").iterdir()}
    assert any(name.startswith("symbolic_guard_information_") for name in pages)
    (program,) = (found.pages / "-_-_-_-").glob("exported_program_*")
    assert "x.shape[0], at least 4" in program.read_text(encoding="utf-8")


# -- what the texts tell people to look at ---------------------------------------------------------


def test_four_graphs_with_reasons(made: Make):
    found = made("static_each_time")
    graphs = list(found.pages.glob("-_0_*/dynamo_output_graph_*"))
    assert len(graphs) == 4
    reasons = json.loads(found.page("-_0_1_0", "recompile_reasons"))
    assert reasons.startswith("0/0: tensor 'x' size mismatch at index 0. expected 10, actual 20")
    several = json.loads(found.page("-_0_3_0", "recompile_reasons"))
    assert [text.partition(":")[0] for text in several] == ["0/0", "0/1", "0/2"]


def test_the_profile_as_it_is_written(made: Make):
    found = made("automatic")
    first, second = (
        found.page("-_0_0_0", "put_local_code_state"),
        found.page("-_0_1_0", "put_local_code_state"),
    )
    assert f"{found.program}:4:f:" in first
    assert "L['x']: tensor size=[10, 4] stride=[4, 1]" in first
    assert "L['x']: tensor size=[?, 4] stride=[4, 1]" in second


def test_graphs_say_what_is_dynamic(made: Make):
    found = made("automatic")
    assert '"f32[10, 4]"' in found.page("-_0_0_0", "dynamo_output_graph")
    dynamic = found.page("-_0_1_0", "dynamo_output_graph")
    assert 's0: "Sym(s0)"' in dynamic
    assert '"f32[s0, 4]"' in dynamic
    assert "automatic.py:6 in f, code: return torch.relu(x) * x.size()[0] + 1" in dynamic


def test_generated_code(made: Make):
    found = made("automatic")
    assert "define " in found.page("-_0_1_0", "inductor_output_code")
    assert "kernel" in found.page("-_0_1_0", "schedule")
    assert "native code: " in found.page("-_0_1_0", "native_operators")


def test_what_was_specialised_and_by_which_line(made: Make):
    page = made("specialised").page("-_0_0_0", "compilation_metrics")
    assert "L[&#39;x&#39;].size()[0]" in page
    assert "if x.size()[0] == 10:" in page
    assert "Eq(s0, 10)" in page
    assert "specialised.py" in page


def test_guards_as_a_list_and_as_a_tree(made: Make):
    found = made("specialised")
    assert "size()[0] &lt;" in found.page("-_0_1_0", "dynamo_guards")
    tree = found.page("-_0_1_0", "dynamo_cpp_guards_str")
    assert tree.startswith("TREE_GUARD_MANAGER:\n+- RootGuardManager\n")
    assert "size=[None]" in tree
    assert re.search(r"^\+- LAMBDA_GUARD: .*L\['x'\]\.size\(\)\[0\] < 31", tree, re.MULTILINE)


def test_a_module_property_in_a_branch(made: Make):
    found = made("module")
    pages = found.pages.glob("-_0_*/compilation_metrics_*")
    assert any("if x.shape[0] == self.x:" in page.read_text(encoding="utf-8") for page in pages)


def test_graph_breaks(made: Make):
    found = made("branches_on_data")
    reason = found.page("-_0_0_0", "dynamo_graph_break_reason")
    assert "Graph Break Reason:" in reason
    assert "branches_on_data.py" in reason
    # The same entry has grown: another attempt at the same compile.
    assert (found.pages / "-_0_0_1").exists()


@pytest.mark.parametrize(
    ("name", "error"), [("broken_mark", "AS103"), ("an_error_of_the_program", "RuntimeError")]
)
def test_failures_have_a_page(made: Make, name: str, error: str):
    found = made(name)
    failures = (found.pages / "failures_and_restarts.html").read_text(encoding="utf-8")
    assert error in failures


def test_hostile_names_are_shown_as_text(made: Make):
    found = made("hostile_names")
    for page in found.pages.rglob("*.html"):
        assert "<script>alert(" not in page.read_text(encoding="utf-8"), page


def test_a_rank_has_files_of_its_own(made: Make):
    found = made("automatic", rank="3")
    assert found.trace.name.startswith("dedicated_log_torch_trace_rank_3_")
    first = found.trace.read_text(encoding="utf-8").splitlines()[0]
    assert '"rank": 3' in first
    assert found.events[0]["rank"] == 3


def test_run_counts(made: Make):
    counts = {event["compile_id"]: event["hits"] for event in made("automatic").named("run_count")}
    assert counts == {"0/0": 0, "0/1": 2}
