"""Training in native code over many programs: models of the zoo, random programs with views, writes
and branches, and two hundred steps of a small GPT. What eager gives, at all sizes."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
import torch
import transformers as tf
from torch import Tensor, nn

import anyshape
from anyshape.backends.native import small_graphs
from tests.native.mixed_programs import FLOATS
from tests.native.view_programs import MAKES, WRITES, Vocabulary, function, inputs, program
from tests.zoo import compare
from tests.zoo.models import BY_NAME
from tests.zoo.trial import tried


@pytest.fixture(autouse=True)
def native_training(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    anyshape.reset()
    monkeypatch.setattr(small_graphs, "LEAST_ELEMENTS", {})
    with anyshape.config.patch(profile=False, native_training=True):
        yield
    anyshape.reset()


# -- models ----------------------------------------------------------------------------------------

MODELS: Final = (
    *("Llama", "GPT2", "BERT", "T5", "Mistral", "Qwen2", "Whisper", "ViT", "CLIP", "Mixtral"),
    *("DistilBERT", "OPT", "Phi", "Gemma", "GPT-NeoX", "nn.TransformerEncoder", "nn.LSTM"),
    *("nn.GRU", "MLP", "ResNet", "ResNet training", "U-Net", "ConvNeXt", "Transformer"),
)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_models(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At eight pairs of sizes, with 1 and 0, and the first again."""
    # Sums of native code come in their own order.
    monkeypatch.setattr(compare, "RELATIVE", 1e-3)
    monkeypatch.setattr(compare, "ABSOLUTE", 2e-4)
    trial = tried(BY_NAME[name], True, gradients=True)
    assert not trial.problems
    assert not trial.defects
    assert trial.graphs >= 1


# -- random programs -------------------------------------------------------------------------------

#: Ways that sizes choose, and ways that data choose.
_BRANCHES: Final = (
    "{a} * 2 if {a}.shape[0] > 2 else {a}.sin()",
    "{a}.cos() if {a}.numel() > 0 else {a} + 1",
    "{a} if {a}.dim() > 1 and {a}.shape[-1] == 1 else {a} * 0.5",
    "({a}.tanh() if {b}.sum() > 0 else {a} * 3)",
)
#: The first is what a program is compiled at.
_SHAPES: Final = ((3, 4, 2), (1, 1, 1), (5, 1, 3), (0, 2, 3), (4, 6, 17))
_VIEWS: Final = Vocabulary(FLOATS.inputs, (*MAKES, *_BRANCHES * 3), WRITES, _SHAPES, 1e-4)
_FLOATS: Final = FLOATS._replace(makes=(*FLOATS.makes, *_BRANCHES * 3), shapes=_SHAPES)
#: Apart: nothing is written, and results are tensors of their own. The ways that data choose are
#: cut there, and the rest is native.
_APART: Final = " apart"
WORDS: Final = {
    "views": _VIEWS,
    "floats": _FLOATS,
    f"views{_APART}": _VIEWS._replace(writes=("pass",)),
    f"floats{_APART}": _FLOATS._replace(writes=("pass",)),
}
PROGRAMS: Final = 60
_PARTS: Final = 5
_STEPS: Final = 9
#: Eager's refusal of gradients. Native code computes again what eager has kept, and may go on.
_REFUSED: Final = "modified by an inplace operation"


class Outcome(NamedTuple):
    #: results, inputs as they were left, gradients of the inputs
    found: list[Tensor | None]
    error: Exception | None


def _flat(tensor: Tensor) -> Tensor:
    """All memory of a tensor, as a leaf: what is strided over it is no leaf, and may be written."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0).clone().requires_grad_()


def outcome(
    call: Callable[..., Any], kind: str, shape: Any, seed: int, words: Vocabulary
) -> Outcome:
    *floats, index = inputs(kind, shape, seed, words)
    leaves = [_flat(each) for each in floats]
    given = [
        (leaf * 1).as_strided(each.shape, each.stride(), each.storage_offset())
        for leaf, each in zip(leaves, floats, strict=True)
    ]
    try:
        results = [each for each in call(*given, index) if isinstance(each, Tensor)]
        wanted = [each for each in results if each.requires_grad]
        weights = [
            torch.linspace(0.5, 1.5, each.numel(), dtype=each.dtype).view(each.shape)
            for each in wanted
        ]
        grads = torch.autograd.grad(wanted, leaves, weights, allow_unused=True) if wanted else ()
    except Exception as error:
        return Outcome([], error)
    return Outcome([*(each.detach() for each in (*results, *given)), *grads], None)


def _differences(want: Outcome, got: Outcome, far: float) -> Iterator[str]:
    if want.error is not None or got.error is not None:
        if not isinstance(got.error, type(want.error)) and _REFUSED not in str(want.error):
            yield f"{got.error!r}, not {want.error!r}"
        return
    if len(want.found) != len(got.found):
        yield f"{len(got.found)} tensors, not {len(want.found)}"
    for number, (a, b) in enumerate(zip(want.found, got.found, strict=False)):
        if a is None or b is None:
            if a is not b:
                yield f"{number}: {b}, not {a}"
        elif (a.shape, a.dtype) != (b.shape, b.dtype):
            yield f"{number}: {b.dtype} {tuple(b.shape)}, not {a.dtype} {tuple(a.shape)}"
        else:
            finite = a[a.isfinite()].abs().double()
            scale = max(1.0, finite.max().item() if finite.numel() else 0.0)
            if not torch.allclose(b, a, far, far * scale, equal_nan=True):
                yield f"{number}: {b.flatten()[:6].tolist()}, not {a.flatten()[:6].tolist()}"


def _scaled(names: str) -> str:
    return "".join(f"{name.strip()} * 1.5, " for name in names.split(",") if name.strip())


@functools.cache
def sources(name: str) -> list[tuple[int, str, str]]:
    """Seeds, sources and kinds of inputs of programs that have gradients at the first shape."""
    words, found = WORDS[name], list[tuple[int, str, str]]()
    for seed in itertools.count(1000):
        source, kind = program(seed, _STEPS, words)
        if name.endswith(_APART):
            source = re.sub(r"return (.*)", lambda m: f"return {_scaled(m[1])}", source)
        tried = outcome(function(source, f"{seed} {name} tried"), kind, _SHAPES[0], seed, words)
        grads = tried.found[-2:] if tried.error is None else []
        if any(each is not None and bool(each.any()) for each in grads):
            found.append((seed, source, kind))
        if len(found) == PROGRAMS:
            return found
    raise AssertionError("there is always another seed")


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning")
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("name", WORDS)
def test_gradients_of_random_programs(name: str, part: int) -> None:
    """At three sizes each: the first, one with 1, and one of the others; then the first again."""
    words, wrong, compared, native = WORDS[name], list[str](), 0, 0
    for seed, source, kind in sources(name)[part::_PARTS]:
        compiled = anyshape.compile(function(source, f"{seed} {name}"), dynamic=True)
        eager = function(source, f"{seed} {name} eager")
        one, other = _SHAPES[1 + seed % 2], _SHAPES[3 + seed // 2 % 2]
        for shape in (_SHAPES[0], one, other, _SHAPES[0]):
            want = outcome(eager, kind, shape, seed, words)
            if "single memory location" in str(want.error):
                continue  # A check of torch that goes by strides, also where they mean nothing.
            got = outcome(compiled, kind, shape, seed, words)
            compared += want.error is None
            told = [f"{shape}: {each}" for each in _differences(want, got, words.tolerance)]
            if told:
                wrong += ["", source, f"{seed} {kind}", *told]
                break
        native += "forward: native code" in str(compiled.explain())
    assert not wrong, "\n".join(wrong)
    # Most of the programs have gradients at most of the sizes, and are native where they can be.
    each = PROGRAMS // _PARTS
    assert compared >= 2 * each
    assert native >= each // 2 or not name.endswith(_APART)


# -- two hundred steps -----------------------------------------------------------------------------


def _gpt() -> nn.Module:
    sizes: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    none: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return tf.GPT2LMHeadModel(
        tf.GPT2Config(vocab_size=50, use_cache=False, **sizes, **none)
    ).train()


def _losses(compile_: Callable[[nn.Module], Any], steps: int) -> tuple[list[float], Any]:
    torch.manual_seed(0)
    model = _gpt()
    compiled = compile_(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    data = torch.Generator().manual_seed(0)
    losses: list[float] = []
    for _ in range(steps):
        batch, length = (int(torch.randint(1, most, (), generator=data)) for most in (6, 20))
        # Counting upwards from anywhere: something that can be learned.
        start = torch.randint(0, 50, (batch, 1), generator=data)
        tokens = (start + torch.arange(length + 1)) % 50
        optimizer.zero_grad()
        loss = compiled(input_ids=tokens, labels=tokens).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses, compiled


def test_two_hundred_steps_of_a_gpt() -> None:
    eager, _ = _losses(lambda model: model, 200)
    ours, compiled = _losses(lambda model: anyshape.compile(model, dynamic=True), 200)
    assert ours == pytest.approx(eager, rel=1e-4)
    assert sum(ours[-20:]) < 0.8 * sum(ours[:20])
    # One more where the mask is asked for another way.
    assert compiled.stats().graphs <= 2
    assert "forward: native code" in str(compiled.explain())
