"""Every model of the zoo, compiled, right at its eight pairs of sizes, with and without gradients.

`make docs` writes what these runs find into docs/models.md.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from tests.zoo.compare import difference, module_difference
from tests.zoo.models import BY_NAME, ROWS, Row, filled_cache, tokens
from tests.zoo.trial import Trial, place, trained, tried

pytestmark = pytest.mark.usefixtures("fresh")

#: Models whose backward pass is compared too: one of each kind of layer.
WITH_GRADIENTS = (
    "Llama",
    "GPT2",
    "BERT",
    "T5",
    "Mixtral",
    "nn.TransformerEncoder",
    "nn.LSTM",
    "MLP",
    "ResNet training",
    "U-Net",
    "ConvNeXt",
)
#: Its products of groups have no float64.
FLOAT32 = ("Mixtral",)
#: Models for which eager raises at an empty batch: the compiled one must raise the same.
REFUSES_EMPTY = ("Llama", "GPT2", "BERT", "T5", "ViT", "Whisper")


@pytest.fixture(name="fresh")
def _fresh() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise"):
        yield
    anyshape.reset()


def judge(trial: Trial) -> None:
    """Right everywhere; what ran eagerly is reported, not hidden."""
    told = [*trial.asked_for, *(f"EAGER: {reason}" for reason in trial.ran_eagerly)]
    print(f"\n{trial.model} dynamic={trial.dynamic}: {trial.graphs} graphs, {trial.hits} hits")
    print("".join(f"    {line}\n" for line in told), end="")
    assert not trial.problems
    assert not trial.defects
    assert trial.graphs >= 1, trial.ran_eagerly
    # An eager call without an event that says why would be silent.
    assert bool(trial.eager_calls) == bool(trial.ran_eagerly)
    assert len(trial.asked_for) == trial.entries - 1
    assert all("no line" not in line for line in trial.asked_for), trial.asked_for


@pytest.mark.parametrize("dynamic", [None, True], ids=["None", "True"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_model(row: Row, dynamic: bool | None) -> None:
    judge(tried(row, dynamic))


@pytest.mark.parametrize("dynamic", [None, True], ids=["None", "True"])
@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients(name: str, dynamic: bool | None) -> None:
    row = BY_NAME[name]
    judge(tried(row, dynamic, gradients=True) if name in FLOAT32 else trained(row, dynamic))


@pytest.mark.parametrize("dynamic", [None, True], ids=["None", "True"])
def test_gradients_of_a_scan_in_sequence(dynamic: bool | None) -> None:
    """Mamba asks whether it is being compiled, and takes a parallel scan then, whose gradients are
    not eager's: of one step it has none for what eager multiplies with zero."""
    row = BY_NAME["Mamba"]

    def in_sequence() -> nn.Module:
        model = row.build()
        for module in model.modules():
            if hasattr(module, "use_associative_scan"):
                setattr(module, "use_associative_scan", False)  # noqa: B010 no stub has it
        return model

    sequential = replace(row, name="Mamba in sequence", build=in_sequence)
    judge(trained(sequential, dynamic))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_static(row: Row) -> None:
    """One graph for each set of sizes, and never a wrong one: of some size, of 1, and of what is
    special of the model."""
    pairs = (row.pairs[0], row.pairs[2], row.pairs[3], row.pairs[-1])
    trial = tried(replace(row, pairs=pairs), dynamic=False)
    assert not trial.problems
    assert trial.graphs <= len(pairs)


@pytest.mark.parametrize("name", REFUSES_EMPTY)
def test_empty_batch_raises_as_eager(name: str) -> None:
    row = BY_NAME[name]
    pairs = (row.pairs[0], (0, 5), row.pairs[1], (0, 3))
    trial = tried(Row(row.name, row.build, row.inputs, pairs), dynamic=True)
    assert not trial.problems


@pytest.mark.parametrize("dynamic", [None, True], ids=["None", "True"])
@pytest.mark.parametrize("batch", [1, 3])
def test_decoding_with_a_growing_cache(batch: int, dynamic: bool | None) -> None:
    """Prefill, then one token a step into one cache: it is mutated in place, and grows."""
    row = BY_NAME["Llama cache passed in"]
    eager, twin = row.module(), row.module()
    compiled: Any = anyshape.compile(twin, dynamic=dynamic)
    torch.manual_seed(0)
    cache = filled_cache(batch, 5)
    twin_cache = copy.deepcopy(cache)
    for step in range(8):
        ids = tokens(batch, 1)
        with torch.no_grad():  # Else the cache requires grad after the first step: another graph.
            expected = eager(input_ids=ids, past_key_values=cache, use_cache=True)
            found = compiled(input_ids=ids, past_key_values=twin_cache, use_cache=True)
        assert found.past_key_values is twin_cache
        assert twin_cache.get_seq_length() == 6 + step
        problem = difference(found, expected) or difference(twin_cache, cache, "cache")
        assert not problem, step
    assert not module_difference(twin, eager)
    assert compiled.stats().graphs <= (1 if dynamic else 2)
    assert compiled.stats().eager_calls == 0


def test_generate() -> None:
    """The generation loop of transformers around a compiled model: prefill and steps mixed."""
    row = BY_NAME["Llama"]
    eager, twin = row.module(), row.module()
    compiled: Any = anyshape.compile(twin)
    torch.manual_seed(0)
    for batch, length in [(1, 4), (2, 6), (1, 9)]:
        ids = tokens(batch, length)
        settings = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
        expected = eager.generate(ids, **settings)  # pyright: ignore[reportCallIssue] because nn.Module's stub hides it
        found = compiled.generate(ids, **settings)
        assert torch.equal(found, expected)


def test_order_of_calls_does_not_matter() -> None:
    """Metamorphic: each order of the pairs gives the same answers."""
    row = BY_NAME["nn.TransformerEncoder"]
    for order in itertools.islice(itertools.permutations(row.pairs), 0, 40320, 5003):
        anyshape.reset()
        trial = tried(Row(row.name, row.build, row.inputs, tuple(order)), dynamic=None)
        assert not trial.problems, order


def test_places_read_well() -> None:
    assert place(None) == "no line"
