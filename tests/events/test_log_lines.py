"""The exact text of every line, with a frozen clock, process and place."""

from __future__ import annotations

import io
import linecache
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from anyshape.events import (
    CallCounts,
    CallsServed,
    Compiled,
    CompileFailed,
    CompilerCollective,
    CreateSymbol,
    Defect,
    Event,
    FrameStart,
    GraphBreak,
    GraphCompiled,
    GraphRecorded,
    GuardAdded,
    GuardFailure,
    GuardSaid,
    KernelMeasured,
    MarkedDynamic,
    MarkIgnored,
    NotVerified,
    OutputCode,
    ProfileState,
    ProgramEnded,
    ProgramExported,
    RangeUpdated,
    Recompile,
    RecompileLimit,
    Replaced,
    RunCount,
    RunsEagerly,
    Schedule,
    SizesSeen,
    Specialised,
    Stream,
    SymbolShared,
    TrainingGraphs,
    VerificationFailed,
)
from anyshape.events import kinds as module
from anyshape.events.log_lines import LOGS, ROWS, LineFormatter, LogLines
from anyshape.events.settings import LogState


class Place(NamedTuple):
    filename: str
    line: int
    function: str


FILE = "/models/net.py"
HERE = Place(FILE, 2, "f")


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ANYSHAPE_EXTENDED_ADVICE", "0")
    lines = ["def f(x):\n", "    y = x * 2\n", "    return y\n"]
    linecache.cache[FILE] = (sum(map(len, lines)), None, lines, FILE)
    yield
    del linecache.cache[FILE]


HEAD = "1115 07:11:02.123456 42 anyshape/trace.py:7]"


def shown(event: Event, *logs: str) -> list[str]:
    """The lines that the logs show of the event, with the common head as `~`."""
    text, events = io.StringIO(), Stream()
    handler = logging.StreamHandler(text)
    handler.setFormatter(LineFormatter(lambda record: HEAD.removesuffix("]")))
    state = LogState(events, handler)
    state.choose(dict.fromkeys(logs or LOGS, logging.DEBUG))
    events.emit(event)
    state.choose({})
    return text.getvalue().replace(HEAD, "~").splitlines()


LINES: list[tuple[Event, list[str]]] = [
    (FrameStart("f", FILE, 1, compile_id="0/0"), ["I~ [0/0] create_env"]),
    (
        CreateSymbol("s0", 20, "L['x'].size()[0]", "[0, int_oo]", HERE, compile_id="0/1"),
        [
            "I~ [0/1] create_symbol s0 = 20 for L['x'].size()[0] [0, int_oo] "
            "y = x * 2  # /models/net.py:2 in f"
        ],
    ),
    (
        CreateSymbol("s1", 3, "L['n']", "[2, int_oo]", None, "seen 3 and 5"),
        ["I~ create_symbol s1 = 3 for L['n'] [2, int_oo] (seen 3 and 5)"],
    ),
    (
        CreateSymbol("u0", None, "L['x'].size()[0]", "[0, 8]", HERE, "marked unbacked"),
        [
            "I~ create_unbacked_symint u0 [0, 8] for L['x'].size()[0] "
            "y = x * 2  # /models/net.py:2 in f (marked unbacked)"
        ],
    ),
    (CreateSymbol("u1", None, "", "[0, int_oo]"), ["I~ create_unbacked_symint u1 [0, int_oo]"]),
    (
        GuardAdded("s0 < 10", HERE, "it was compared with <", compile_id="0/1"),
        [
            "I~ [0/1] eval s0 < 10 [guard added] "
            "y = x * 2  # /models/net.py:2 in f (it was compared with <)"
        ],
    ),
    (GuardAdded("Eq(s0, 33)"), ["I~ eval Eq(s0, 33) [guard added]"]),
    (GuardAdded("u0 < 9", at_run_time=True), ["I~ runtime_assert u0 < 9 [guard added]"]),
    (RangeUpdated("s0", "[33, 33]"), ["V~ _update_var_to_range s0 = VR[33, 33] (update)"]),
    (
        SymbolShared("s0", "L['y'].size()[0]"),
        ["V~ create_symbol s0 duck sized L['y'].size()[0]"],
    ),
    (
        ProgramExported("f", "def f", ["n = x.shape[0], any"], ["y is static"]),
        ["I~ exported f", "I~ n = x.shape[0], any", "I~ note: y is static"],
    ),
    (Replaced("s1", "s0", "[0, 9]"), ["V~ set_replacement s1 = s0 (solve) VR[0, 9]"]),
    (
        CompileFailed("AS103 DynamicDimWasFixed", "it is 5", HERE),
        ["V~ compile failed: AS103 DynamicDimWasFixed: it is 5 y = x * 2  # /models/net.py:2 in f"],
    ),
    (
        ProfileState("put", False, "/models/net.py:1:f:\nL['x']: tensor size=[?] stride=[1]"),
        [
            "V~ put_code_state (local)",
            "V~ /models/net.py:1:f:",
            "V~ L['x']: tensor size=[?] stride=[1]",
        ],
    ),
    (
        Specialised("s0", ["L['x'].size()[0]", "L['y'].size()[1]"], 33, "broadcast", HERE),
        [
            "V~ set_replacement s0 = 33 (range_refined_to_singleton) VR[33, 33] for "
            "L['x'].size()[0], L['y'].size()[1] y = x * 2  # /models/net.py:2 in f (broadcast)"
        ],
    ),
    (
        MarkedDynamic("L['x']", "from automatic dynamic/PGO"),
        ["I~ marking L['x'] as dynamic (from automatic dynamic/PGO)"],
    ),
    (
        MarkIgnored("L['x']", "mark_dynamic: config.f is on"),
        ["W~ not dynamic: L['x'] (mark_dynamic: config.f is on)"],
    ),
    (
        CompilerCollective(
            "f", 1, [0, 2], [1], 0.51234, {"L['x']": "rank 0: 8, rank 2: 16"}, compile_id="0/1"
        ),
        [
            "I~ [0/1] compiler collective 1 of f: ranks 0, 2 agree after 0.512 s, without rank 1 "
            "[L['x']: rank 0: 8, rank 2: 16]"
        ],
    ),
    (
        CompilerCollective("f", 0, [0, 1], [], 0.0),
        ["I~ compiler collective 0 of f: ranks 0, 1 agree after 0.000 s [no differences]"],
    ),
    (
        Compiled(
            0.12345, 2, 1, [GuardSaid("SHAPE_GUARD", "L['x'].size()[0] < 10")], compile_id="0/1"
        ),
        [
            "V~ [0/1] compiled in 0.123 s: 2 graphs, 1 guards",
            "V~ [0/1] [__guards] GUARDS:",
            "V~ [0/1] [__guards] L['x'].size()[0] < 10",
        ],
    ),
    (
        Recompile(
            "f",
            FILE,
            1,
            [
                GuardFailure("0/0", "tensor 'x' size mismatch at index 0. expected 10, actual 20"),
                GuardFailure("0/1", "L['x'].size()[0] < 10", HERE),
            ],
            compile_id="0/2",
        ),
        [
            "V~ [0/2] [__recompiles] Recompiling function f in /models/net.py:1",
            "V~ [0/2] [__recompiles]     triggered by the following guard failure(s):",
            "V~ [0/2] [__recompiles]     - 0/0: tensor 'x' size mismatch at index 0. "
            "expected 10, actual 20",
            "V~ [0/2] [__recompiles]     - 0/1: L['x'].size()[0] < 10  # y = x * 2  "
            "# /models/net.py:2 in f",
            "V~ [0/2] [__recompiles]       User stack trace:",
            'V~ [0/2] [__recompiles]         File "/models/net.py", line 2, in f',
            "V~ [0/2] [__recompiles]           y = x * 2",
        ],
    ),
    (
        RecompileLimit("f", FILE, 1, 64, "0/63: L['n'] == 63"),
        [
            "W~ [__recompiles] anyshape hit config.recompile_limit (64)",
            "W~ [__recompiles]    function: 'f' (/models/net.py:1)",
            "W~ [__recompiles]    last reason: 0/63: L['n'] == 63",
            "W~ [__recompiles] The function runs eagerly from now on.",
            'W~ [__recompiles] To log all recompilation reasons, use ANYSHAPE_LOGS="recompiles".',
        ],
    ),
    (
        GraphBreak("print() is called", HERE, ["remove it"], compile_id="0/0"),
        [
            "V~ [0/0] [__graph_breaks] Graph break in user code at /models/net.py:2",
            "V~ [0/0] [__graph_breaks] Graph Break Reason: print() is called",
            "V~ [0/0] [__graph_breaks]   Hint: remove it",
            "V~ [0/0] [__graph_breaks] User code traceback:",
            'V~ [0/0] [__graph_breaks]   File "/models/net.py", line 2, in f',
            "V~ [0/0] [__graph_breaks]     y = x * 2",
        ],
    ),
    (
        RunsEagerly("a generator is returned", function="f"),
        [
            "V~ [__graph_breaks] f runs eagerly: stopped in user code",
            "V~ [__graph_breaks] Graph Break Reason: a generator is returned",
        ],
    ),
    (
        GraphCompiled("def forward(x):\n    return x", {"x": ("s0", 4)}, "g", compile_id="0/0"),
        [
            "V~ [0/0] [__graph_code] TRACED GRAPH",
            "V~ [0/0] [__graph_code]  ===== g =====",
            "V~ [0/0] [__graph_code]  def forward(x):",
            "V~ [0/0] [__graph_code]     return x",
            "V~ [0/0] [__graph_sizes] TRACED GRAPH TENSOR SIZES",
            "V~ [0/0] [__graph_sizes] ===== g =====",
            "V~ [0/0] [__graph_sizes] x: (s0, 4)",
        ],
    ),
    (
        OutputCode("define void @k()", "/cache/k.ll"),
        ["V~ [__output_code] Output code: /cache/k.ll", "V~ [__output_code] define void @k()"],
    ),
    (
        OutputCode("define void @k()", is_backward=True),
        [
            "V~ [__output_code] Output code: ",
            "V~ [__output_code] define void @k()",
            "V~ [__backward_code] Output code: ",
            "V~ [__backward_code] define void @k()",
        ],
    ),
    (Schedule("for i in 0..s0"), ["V~ [__schedule] for i in 0..s0"]),
    (
        KernelMeasured("`exp` (8): 3.0 us", "4*s0", "4*s0"),
        ["V~ [__schedule] kernel `exp` (8): 3.0 us; reads 4*s0 bytes, writes 4*s0"],
    ),
    (
        GraphRecorded("8x256, 8", "forward", 0.5, 3 << 20, 1 << 20),
        [
            "V~ [__schedule] CUDA graph of forward (8x256, 8): 0.500 s, 3.1 MB, "
            "1.05 MB copied at each replay"
        ],
    ),
    (
        GraphRecorded("8x256", why_not="it waits"),
        ["V~ [__schedule] no CUDA graph of (8x256): it waits"],
    ),
    (
        TrainingGraphs("program", "with what is kept", "gradient"),
        [
            "V~ [__aot_joint_graph] Joint graph",
            "V~ [__aot_joint_graph] program",
            "V~ [__aot_joint_graph] # gradients",
            "V~ [__aot_joint_graph] gradient",
            "V~ [__aot_graphs] Forward graph",
            "V~ [__aot_graphs] with what is kept",
            "V~ [__aot_graphs] Backward graph",
            "V~ [__aot_graphs] gradient",
        ],
    ),
    (
        NotVerified("f", "it calls print"),
        ["W~ calls of f are not verified: it calls print"],
    ),
    (
        VerificationFailed("f", ["result: dtype"], "/cache/g.py"),
        [
            "E~ [__defects] a compiled call of f differs from eager",
            "E~ [__defects] result: dtype",
            "E~ [__defects] see /cache/g.py",
        ],
    ),
    (Defect("ops", "mm: sizes differ"), ["W~ [__defects] defect in ops: mm: sizes differ"]),
]


@pytest.mark.parametrize(("event", "lines"), LINES, ids=[type(e).__name__ for e, _ in LINES])
def test_lines(event: Event, lines: list[str]):
    assert shown(event) == lines


#: Too much for lines: a report makes something of them.
ONLY_IN_TRACES = (SizesSeen, RunCount, CallsServed, CallCounts, ProgramEnded)


def test_every_kind_of_event_has_lines():
    kinds = {k for k in vars(module).values() if isinstance(k, type) and issubclass(k, Event)}
    kinds -= {Event, *ONLY_IN_TRACES}
    assert {row.kind for row in ROWS} == kinds
    assert {type(event) for event, _ in LINES} == kinds


def test_only_the_chosen_logs_are_shown():
    event = Compiled(0.5, 1, 0, [GuardSaid("TYPE_MATCH", "x")])
    assert shown(event, "guards") == ["V~ [__guards] GUARDS:", "V~ [__guards] x"]
    assert shown(event, "recompiles") == []
    assert shown(Defect("ops", "bad"), "recompiles") == ["W~ [__defects] defect in ops: bad"]


def test_the_sink_listens_for_no_more_than_it_shows():
    assert set(LogLines(["graph_code"]).kinds) == {
        GraphCompiled,
        Defect,
        VerificationFailed,
    }


def test_files_below_the_current_folder_are_shown_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    frame = Place(str(tmp_path / "net.py"), 1, "f")
    assert shown(GuardAdded("s0 < 2", frame)) == ["I~ eval s0 < 2 [guard added]   # net.py:1 in f"]


def test_the_real_head_says_when_who_and_where():
    text, events = io.StringIO(), Stream()
    handler = logging.StreamHandler(text)
    handler.setFormatter(LineFormatter())
    state = LogState(events, handler)
    state.choose({"dynamic": logging.INFO})
    events.emit(GuardAdded("s0 < 2"))
    state.choose({})
    line = re.fullmatch(
        r"I\d{4} \d\d:\d\d:\d\d\.\d{6} (\d+) (\S+):(\d+)\] eval s0 < 2 .*\n", text.getvalue()
    )
    assert line is not None
    assert int(line[1]) == os.getpid()
    assert line[2].endswith("test_log_lines.py")
    assert "events.emit(GuardAdded" in linecache.getline(__file__, int(line[3]))
