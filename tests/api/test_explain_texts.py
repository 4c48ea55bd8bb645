"""What `explain` prints of deep models: what a user can act on first, equal layers once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import anyshape


class Block(nn.Module):
    def __init__(self, width: int, scale: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.scale if self.scale > 1 else self.linear(x)


def explained(*scales: int) -> tuple[list[str], list[str]]:
    model = anyshape.compile(nn.Sequential(*(Block(4, scale) for scale in scales)))
    with torch.no_grad():
        for n in (2, 3, 5):
            model(torch.ones(n, 4))
    assert isinstance(model, anyshape.CompiledModule)
    return str(model.explain()).splitlines(), str(model.explain(verbose=True)).splitlines()


def test_equal_layers_are_told_once():
    short, long = explained(*[2] * 8)
    deeper, deeper_long = explained(*[2] * 16)
    assert len(short) == len(deeper) < len(long) < len(deeper_long)
    (first, *_) = [line for line in deeper if ".scale == 2" in line]
    assert first.endswith("(and 15 alike in other layers)")
    assert any("['weight'].size()[0] = 4 (and 15 alike" in line for line in deeper)
    # All of them are there for those who ask.
    for index in range(16):
        assert any(f"['{index}'].scale == 2" in line for line in deeper_long)
        weight = f"['{index}']._modules['linear']._parameters['weight']"
        assert any(weight in line for line in deeper_long)


def test_layers_that_differ_are_told_apart():
    short, _ = explained(2, 2, 3, 2)
    told = [line for line in short if ".scale == " in line]
    assert any(".scale == 3" in line and "alike" not in line for line in told)
    assert any(".scale == 2" in line and "(and 2 alike" in line for line in told)


def test_inputs_are_never_folded():
    def f(*xs: Tensor) -> Tensor:
        return torch.stack([x.sum() for x in xs])

    compiled = anyshape.compile(f)
    text = str(compiled.explain(*(torch.ones(n) for n in range(2, 6))))
    for n in range(4):
        assert f"L['xs'][{n}].size()[0]" in text


def test_as_many_sizes_as_gradients_have_are_told_together():
    def f(xs: list[Tensor]) -> Tensor:
        return torch.stack([x.sum() for x in xs])

    compiled = anyshape.compile(f, dynamic=True)
    compiled([torch.ones(n) for n in range(2, 42)])
    told = [line for line in str(compiled.explain()).splitlines() if "  dynamic: " in line]
    assert len(told) == 1
    assert "any L['xs'][0].size()[0]" in told[0]
    assert "and 34 more" in told[0]
    everything = str(compiled.explain(verbose=True))
    for n in range(40):
        assert f"any L['xs'][{n}].size()[0]" in everything


def test_recompiles_come_first():
    short, _ = explained(2)
    assert short[1].startswith("  recompiled because ")
    entries = [number for number, line in enumerate(short) if line.startswith("entry ")]
    recompiles = [number for number, line in enumerate(short) if "recompiled because" in line]
    assert max(recompiles) < min(entries)


def branching(x: Tensor) -> Tensor:
    if x.size(0) > 16:
        return x * 2
    return x + 1


def test_a_recompile_names_the_line_that_relies_on_what_changed():
    compiled = anyshape.compile(branching, dynamic=True)
    for n in (4, 20):
        compiled(torch.ones(n))
    text = str(compiled.explain())
    recompiles = text[: text.index("entry ")]
    assert f"{__file__}:" in recompiles
    assert "if x.size(0) > 16:" in recompiles


def test_entries_for_one_size_each_are_told_together():
    compiled = anyshape.compile(lambda x: x.sin() * 2, dynamic=False)
    for n in range(2, 8):
        compiled(torch.ones(n))
    short, long = compiled.explain(), compiled.explain(verbose=True)
    assert "(and 4 more with other values)" in str(short)
    first, last = short.entries[1].id, short.entries[-1].id
    assert str(short).endswith(f"entry {first} to {last}: the same for other values")
    assert len(short.entries) == str(long).count("entry ") == 6


def test_what_an_earlier_entry_has_is_told_there():
    def f(x: Tensor, flag: bool) -> Tensor:
        return x + 1 if flag else x * 2

    compiled = anyshape.compile(f)
    for flag in (True, False):
        compiled(torch.ones(3), flag)
    short, long = str(compiled.explain()), str(compiled.explain(verbose=True))
    assert short.count("L['x'].size()[0] = 3") == 1
    assert "more, as in an entry before" in short
    assert long.count("L['x'].size()[0] = 3") == 2


CONTEXTS = {
    "grad mode was on, and is off now": torch.no_grad,
    "autocast was off, and is on for cpu (torch.bfloat16) now": lambda: torch.autocast("cpu"),
    "inference mode was off, and is on now": torch.inference_mode,
}


@pytest.mark.parametrize("said", CONTEXTS)
def test_which_part_of_the_state_has_changed(said: str):
    def f(x: Tensor) -> Tensor:
        return x * 2

    compiled = anyshape.compile(f)
    compiled(torch.ones(3))
    with CONTEXTS[said]():
        compiled(torch.ones(3))
    (line,) = [
        line for line in str(compiled.explain()).splitlines() if "recompiled because" in line
    ]
    assert said in line
    assert "global state" not in line


def test_a_program_with_a_verbose_of_its_own():
    def f(x: Tensor, verbose: bool = False) -> Tensor:
        return x + 1 if verbose else x

    compiled = anyshape.compile(f)
    compiled.explain(torch.ones(2), verbose=True)
    compiled.explain(torch.ones(2))
    assert compiled.stats().captures == 2


# -- what spares a recompile -----------------------------------------------------------------------


def remedies(function: Callable[..., object], *calls: tuple[object, ...], **how: Any) -> list[str]:
    compiled = anyshape.compile(function, **how)
    for each in calls:
        compiled(*each)
    lines = str(compiled.explain()).splitlines()
    return [line.partition(": ")[2] for line in lines if "what spares it: " in line]


def product(x: Tensor, n: object) -> Tensor:
    return x * (len(n) if isinstance(n, str) else n)  # pyright: ignore[reportOperatorIssue]


def test_what_spares_a_size_that_was_static():
    """Each by its own name: two sizes that change are two causes."""
    calls = [(torch.ones(*shape), 1) for shape in ((2, 3), (4, 3), (4, 5))]
    assert remedies(product, *calls) == [
        "compile(dynamic=True), anyshape.mark_dynamic(x, 0),"
        """ or config.dynamic_sources = "L['x']:0\"""",
        "compile(dynamic=True), anyshape.mark_dynamic(x, 1),"
        """ or config.dynamic_sources = "L['x']:1\"""",
    ]


@pytest.mark.parametrize("remedy", ["dynamic=True", "mark_dynamic", "dynamic_sources"])
def test_what_spares_it_does(remedy: str):
    def f(x: Tensor) -> Tensor:
        return x.sin() * 2

    sources = "L['x']:0" if remedy == "dynamic_sources" else ""
    with anyshape.config.patch(dynamic_sources=sources):
        compiled = anyshape.compile(f, dynamic=True if remedy == "dynamic=True" else None)
        for n in (3, 4, 5):
            x = torch.ones(n)
            if remedy == "mark_dynamic":
                anyshape.mark_dynamic(x, 0)
            compiled(x)
    assert compiled.stats().recompiles == 0


def test_what_spares_values():
    x = torch.ones(3)
    (integer,) = remedies(product, (x, 1), (x, 2))
    assert integer.startswith("compile(dynamic=True), anyshape.DynamicInt(n), or")
    (number,) = remedies(product, (x, 0.5), (x, 0.25))
    assert number.startswith("a tensor in its place")
    (text,) = remedies(product, (x, "a"), (x, "bc"))
    assert text.startswith("nothing, if it chooses what is computed")
    (dtype,) = remedies(product, (x, 1), (x.long(), 1))
    assert dtype.startswith("one dtype")


@pytest.mark.parametrize("dynamic", [None, True])
def test_where_the_program_tells_sizes_apart_dynamic_spares_nothing(dynamic: bool | None):
    (said,) = remedies(branching, (torch.ones(4),), (torch.ones(20),), dynamic=dynamic)
    assert said.startswith("one formula for both sides of the branch")


def test_dynamic_false_is_what_to_drop():
    (said,) = remedies(branching, (torch.ones(2),), (torch.ones(3),), dynamic=False)
    assert said.startswith("dropping dynamic=False")


def _typed_at_a_prompt() -> Callable[[Tensor], Tensor]:
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x * 2", names)
    return names["f"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_typed_at_a_prompt, "define it in a file: what is typed at a prompt, or given to exec"),
        (lambda: lambda x: f"{x + 1}"[:3], "print or log it instead"),
    ],
)
def test_what_spares_running_eagerly(make: Callable[[], Callable[[Tensor], Any]], told: str):
    compiled = anyshape.compile(make(), dynamic=True)
    for n in (2, 3):
        compiled(torch.ones(n))
    lines = str(compiled.explain()).splitlines()
    assert lines[1].startswith(("  runs eagerly: ", "  runs in parts, "))
    (said,) = [line for line in lines if line.startswith("      what spares it: ")]
    assert told in said


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 1)
        self.width = 2

    def forward(self, x: Tensor) -> Tensor:
        y = self.other(self.one(x).relu())
        return y * self.width


def _hooked(x: Tensor) -> Tensor:
    layer = nn.Linear(3, 3)
    layer.register_full_backward_hook(lambda *_: None)
    return layer(x)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda x: (x.sum().backward(), x)[1], "call it outside of what is compiled"),
        (lambda x: ((x * 2).retain_grad(), x)[1], "call it outside of what is compiled"),
        (lambda x: x * len(str((x * 2).grad_fn)), "read it outside of what is compiled"),
        (_hooked, "a full backward hook"),
        (lambda x: x * (x.data_ptr() % 2), "ask for it outside of what is compiled"),
        (lambda x: x * x.numpy(force=True).sum(), "keep the value in a tensor"),
    ],
)
def test_a_break_says_what_spares_it(function: Callable[[Tensor], Tensor], told: str):
    compiled = anyshape.compile(function, fullgraph=True)
    with pytest.raises(anyshape.AnyshapeError, match=told):
        compiled(torch.ones(2, 3, requires_grad=True))


def test_integers_of_modules_that_a_line_reads_are_told_together():
    model = anyshape.compile(Convolutions(), dynamic=True)
    with torch.no_grad():
        for n in (2, 3):
            model(torch.ones(n, 3, 8, 8))
    assert isinstance(model, anyshape.CompiledModule)
    short, long = (
        [line for line in str(model.explain(verbose=every)).splitlines() if "  only if" in line]
        for every in (False, True)
    )
    read = [line for line in long if "read by the program" in line and "._modules[" in line]
    assert len(read) > 10
    assert any(f"(and {len(read) - 1} more that modules hold)" in line for line in short)
    assert any("L['self'].width == 2: read by the program" in line for line in short)
    sizes = [line for line in long if "L['x'].size()" in line]
    assert sizes
    assert set(sizes) <= set(short)


@anyshape.disable
def _shown(x: Tensor) -> Tensor:
    return x


def test_values_without_a_name():
    """What a line that is split gives its next part."""

    def split(x: Tensor) -> Tensor:
        return _shown(x.sin() + 1) * 2 + 1

    compiled = anyshape.compile(split, dynamic=True)
    for n in (2, 3, 4, 5, 6):
        x = torch.ones(n)
        torch.testing.assert_close(compiled(x), x.sin() * 2 + 3)
    told = str(compiled.explain())
    assert "__anyshape" not in told
    assert "any (unnamed value " in told, told
