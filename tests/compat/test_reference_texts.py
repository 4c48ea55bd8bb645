"""Every code example of the reference texts, as it stands there, run with `anyshape run`: as many
graphs as the texts say, with the guards and log lines that they show.

The texts are read where they are, beside the repository; ANYSHAPE_REFERENCE names another place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat.scripts import Ran, command, run

REFERENCE = Path(
    os.environ.get("ANYSHAPE_REFERENCE", Path(__file__).parents[3] / "shared" / "reference")
)
pytestmark = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference texts are not here")

_BLOCK = re.compile(
    r"^(?P<margin> *)```(?P<kind>.*)\n(?P<text>(?:.*\n)*?)(?P=margin)```", re.MULTILINE
)


class Block(NamedTuple):
    file: str
    text: str


def code_blocks() -> list[Block]:
    """Those with code in them, in order."""
    found: list[Block] = []
    for file in sorted(REFERENCE.glob("*.md")):
        for match in _BLOCK.finditer(file.read_text(encoding="utf-8")):
            text = re.sub(r"^:tags:.*\n", "", match["text"])
            is_code = match["kind"] in ("python", "{code-cell}") or "class Foo" in text
            if is_code:
                found.append(Block(file.name, text))
    return found


class Example(NamedTuple):
    """An example of a text, found by what is in it, and what the text says of it."""

    file: str
    has: tuple[str, ...]
    check: Callable[[Ran], None]
    variables: dict[str, str] = {}  # noqa: RUF012 never changed
    #: what has to come before, where the text shows a part of a program
    before: str = ""
    after: str = ""
    #: changed as the text says to change it
    edit: tuple[str, str] = ("", "")


GRAPH = "[__graph_code] TRACED GRAPH"
SHOW = "torch._logging.set_logs(graph_breaks=True, graph_code=True)\n"


def graphs(count: int) -> Callable[[Ran], None]:
    def check(ran: Ran) -> None:
        assert ran.status == 0, ran.log
        assert ran.count(GRAPH) == count

    return check


def only_sets_logs(ran: Ran) -> None:
    assert (ran.status, ran.log) == (0, "")


def profile_converges(ran: Ran) -> None:
    graphs(2)(ran)
    assert '"f32[10]"' in ran.log
    assert '"f32[s0]"' in ran.log


def specialised_by_the_product(ran: Ran) -> None:
    # The text shows the log; the mark is then an error, there as here.
    assert ran.status == 1
    assert "DynamicDimWasFixed" in ran.log
    assert re.search(r"^I\d{4} [\d:.]+ \d+ \S+:\d+\] \[0/0\] create_env$", ran.log, re.MULTILINE)
    created = (
        r"\[0/0\] create_symbol s\d+ = 5 for L\['x'\]\.size\(\)\[0\] \[2, int_oo\] return x \* y"
        r"  # script\.py:5 in fn \(.*\), for more info run with"
        r' ANYSHAPE_EXTENDED_DEBUG_CREATE_SYMBOL="s\d+" or to suppress this message run with'
        r' ANYSHAPE_EXTENDED_ADVICE="0"'
    )
    assert re.search(created, ran.log)
    added = (
        r"\[0/0\] eval Eq\(s(\d+), 5\) \[guard added\] return x \* y  # script\.py:5 in fn \(.*\),"
        r' for more info run with ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED="Eq\(s\1, 5\)"'
    )
    assert re.search(added, ran.log)
    # Frames of ours are of no use to whoever reads it.
    assert "driver.py" not in ran.log.partition("Traceback")[2]


def guards_of_the_branch(ran: Ran) -> None:
    graphs(1)(ran)
    assert "[__guards] L['x'].size()[0] < 10" in ran.log
    assert "[__guards] L['x'].size()[0] >= 2" in ran.log


def no_guard_on_zero_and_one(ran: Ran) -> None:
    graphs(1)(ran)
    assert ">= 2" not in ran.log
    assert "runtime_assert u0 < 10 [guard added]" in ran.log
    assert "(0,) (1,)" in ran.out


def static_since_the_other_is(ran: Ran) -> None:
    assert ran.status == 0, ran.log
    assert "Foo(x: float32[6], y: float32[6])" in ran.out
    assert "x.shape[0] is Dim.AUTO and came out static: it is tied to y.shape[0]" in ran.log


def dynamic_from_three_to_six(ran: Ran) -> None:
    """What the text calls ideal, where torch gave up."""
    assert ran.status == 0, ran.log
    assert "dx = y.shape[0] = x.shape[0], from 3 to 6" in ran.out


#: The page has imported these.
EXPORT = "from torch.export import export, Dim\nDIM = Dim\n"
AGAIN = "print(export(Foo(), inputs, dynamic_shapes={}))\n"

ZERO_ONE = {"ANYSHAPE_SPECIALIZE_ZERO_ONE": "1"}
IN_CALLS = "for size in (10, 20, 30):\n    g(torch.rand(size))\n"

EXAMPLES = [
    Example("dynamic_shapes.md", ("header_code",), only_sets_logs),
    Example("dynamic_shapes.md", ("dynamic=False",), graphs(4), before=SHOW),
    Example("dynamic_shapes.md", ("dynamic=True", "x* x.size()[0]"), graphs(1), before=SHOW),
    Example("dynamic_shapes.md", ("== 10", "<= 30"), graphs(3), before=SHOW),
    Example(
        "dynamic_shapes.md",
        ("def f(x):\n    return x * x.size()[0]",),
        profile_converges,
        before=SHOW,
        after="g = torch.compile(f)\n" + IN_CALLS,
    ),
    Example(
        "dynamic_shapes.md",
        ("@config.patch(enable_compiler_collectives=True)",),
        graphs(2),
        before=SHOW + "from torch._dynamo import config\n",
        after="def g(x, compiled=torch.compile(lambda x: x * 2)):\n    return compiled(x)\n"
        + IN_CALLS,
    ),
    Example("dynamic_shapes_overview.md", ("x.sin()",), graphs(98)),
    Example(
        "dynamic_shapes_overview.md",
        ("x.sin()",),
        graphs(1),
        edit=("# torch._dynamo.decorators.mark_dynamic", "torch._dynamo.decorators.mark_dynamic"),
    ),
    Example(
        "debugging_tlparse_torch_logs.md",
        ("return x * y", "mark_dynamic(x, 0)\n\nfn"),
        specialised_by_the_product,
        {"TORCH_LOGS": "dynamic", **ZERO_ONE},
    ),
    Example(
        "debugging_tlparse_torch_logs.md",
        ("mark_dynamic(y, 0)",),
        guards_of_the_branch,
        {"TORCH_LOGS": "guards,graph_code", **ZERO_ONE},
    ),
    Example(
        "debugging_tlparse_torch_logs.md",
        ("mark_unbacked",),
        no_guard_on_zero_and_one,
        {"TORCH_LOGS": "+dynamic,guards,graph_code", **ZERO_ONE},
        after="print(*(tuple(fn(torch.randn(n), torch.randn(n)).shape) for n in (0, 1)))\n",
    ),
    Example(
        "export_auto_dynamic_shapes.md",
        ("class Foo", '"y": None'),
        static_since_the_other_is,
        before=EXPORT,
        after=AGAIN.format('{"x": (DIM.AUTO,), "y": None}'),
    ),
    Example(
        "export_auto_dynamic_shapes.md",
        ("class Foo", 'Dim("dx", min=3, max=6)'),
        dynamic_from_three_to_six,
        before=EXPORT,
        after=AGAIN.format('{"x": (DIM.AUTO,), "y": {0: Dim("dx", min=3, max=6)}}'),
    ),
]


def found(example: Example) -> list[Block]:
    return [
        block
        for block in code_blocks()
        if block.file == example.file and all(text in block.text for text in example.has)
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e.file}: {e.has[0][:20]}" for e in EXAMPLES])
def test_example(tmp_path: Path, example: Example):
    blocks = found(example)
    assert blocks, "the texts have changed"
    (tmp_path / "header_code.py").write_text("", encoding="utf-8")
    for block in blocks:
        text = block.text.replace(*example.edit) if example.edit[0] else block.text
        if example.before or not text.startswith("import torch"):
            text = "import torch\n" + example.before + text
        example.check(run(tmp_path, text + example.after, **example.variables))


def test_no_example_is_left_out():
    tried = {block for example in EXAMPLES for block in found(example)}
    assert [block for block in code_blocks() if block not in tried] == []


# -- log lines that the texts show without the program ---------------------------------------------

#: Where the text says `if self.x ==33`, "at example4.py line 16".
EXAMPLE4 = """\
import torch


class Cle(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.compress = torch.nn.Linear(4, 4)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cle, self.x = Cle(), 30

    def forward(self, y):
        if self.x ==33:
            return y * 2
        return self.cle.compress(y) * self.x


model = Model()
compiled = torch.compile(model)
for model.x in (30, 31, 33):
    weight = torch.nn.Parameter(torch.rand(4 + model.x % 30, 4))
    model.cle.compress.weight, model.cle.compress.bias = weight, None
    compiled(torch.rand(3, 4))
"""


def test_the_lines_of_example4(tmp_path: Path):
    (tmp_path / "example4.py").write_text(EXAMPLE4, encoding="utf-8")
    trace = tmp_path / "trace"
    variables = {
        "TORCH_LOGS": "+dynamic,graph_code",
        "TORCH_TRACE": str(trace),
        "ANYSHAPE_ALLOW_UNSPEC_INT_ON_NN_MODULE": "1",
        "ANYSHAPE_FORCE_PARAMETER_STATIC_SHAPES": "0",
        "ANYSHAPE_FORCE_NN_MODULE_PROPERTY_STATIC_SHAPES": "0",
    }
    ran = command(tmp_path, "run", "example4.py", **variables)
    assert ran.status == 0, ran.log
    added = (
        r"\[0/2\] eval Eq\((s\d+), 33\) \[guard added\] if self\.x ==33:  # example4\.py:16 in"
        r" forward \(.*\), for more info run with"
        r' ANYSHAPE_EXTENDED_DEBUG_GUARD_ADDED="Eq\(\1, 33\)"'
    )
    found = re.search(added, ran.log)
    assert found
    assert f"[0/2] _update_var_to_range {found[1]} = VR[33, 33] (update)" in ran.log
    assert re.search(r'"Sym\(s\d\)"', ran.log), "the graph shows what is dynamic"
    weight = r"L\['self'\]\._modules\['cle'\]\._modules\['compress'\]\._parameters\['weight'\]"
    assert re.search(rf"create_symbol s\d+ = 5 for {weight}\.size\(\)\[0\] \[0, int_oo\]", ran.log)
    (log,) = trace.glob("*.log")
    match = (
        rf"TENSOR_MATCH: check_tensor\({weight}, Parameter, .*size=\[None, 4\], stride=\[4, 1\]\)"
    )
    assert re.search(match, log.read_text(encoding="utf-8"))
