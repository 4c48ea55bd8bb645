"""Change every reachable piece of a model's state: what changes eager's answer must change ours.

For each place (`tests/zoo/mutations.py`): change it, ask the compiled model and the eager one, and
change it back. If eager's answer changed, the compiled call must either have found no entry (a
guard failed) and then give eager's answer from a new capture, or give it from the old entry. Native
code is asked for the answers of entries; new captures run their graphs operator by operator.

`torch.compiler.is_compiling()` is true during capture, and some models take another path then.
Where such a model's two paths react differently to a change, the answer must be that of an eager
run which is told the same; those places are counted apart and printed. A change after which eager
does not even agree with itself (it reads memory that nobody wrote) says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from anyshape.errors import RecompileError
from tests.zoo.compare import difference
from tests.zoo.models import BY_NAME, Row
from tests.zoo.mutations import Site, sites

#: Models of different make, and how many tests share their places; together they try all.
MODELS = {
    "Llama": 1,
    "Llama cache passed in": 1,
    "GPT2": 2,
    "BERT": 1,
    "T5": 4,
    "Mistral": 1,
    "ViT": 1,
    "Mixtral": 2,
    "nn.TransformerEncoder": 1,
    "nn.LSTM": 1,
    "ResNet": 1,
    "Whisper": 4,
}
PARTS = [(name, part) for name, parts in MODELS.items() for part in range(parts)]
PAIR = (2, 6)
#: Every capture makes the dispatch among all of them anew.
MOST_ENTRIES = 12
NOTHING_CHANGED = "an entry served it"
NOT_REPRODUCIBLE = "eager itself is not reproducible"
ASKS_WHETHER_COMPILING = "differs because the program asks whether it is compiled"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    anyshape.reset()
    with anyshape.config.patch(profile=False, on_compile_error="raise", recompile_limit=1000):
        yield
    anyshape.reset()


@dataclass
class Bench:
    """A model, its compiled form, and what both answer in the state as built."""

    row: Row
    module: nn.Module = field(init=False)
    compiled: Any = field(init=False)
    #: asked where the entry of `compiled` does not fit
    capturing: Any = field(init=False)
    base: Any = field(init=False)
    sites: list[Site] = field(init=False)

    def __post_init__(self) -> None:
        self.build()

    def build(self) -> None:
        anyshape.reset()
        self.module = self.row.module()
        self.compiled = anyshape.compile(self.module, dynamic=True)
        # Eager first: what a model sets up in its first call is there before capture.
        self.eager()
        self.base = self.eager()
        assert not difference(self._call(self.compiled), self.base)
        assert not difference(self.hit(), self.base)
        self.capture_anew()
        self.sites = sites(self.module)

    def capture_anew(self) -> None:
        """With the entry of the model as it was built, and no other."""
        self.capturing = anyshape.compile(self.module, dynamic=True, backend="eager")
        assert not difference(self._call(self.capturing), self.base)

    def _call(self, function: Any) -> Any:
        args, kwargs = self.row.call(PAIR)
        torch.default_generator.manual_seed(0)
        try:
            return function(*args, **kwargs), args, kwargs
        except RecompileError:
            raise
        except Exception as error:
            return type(error), str(error)

    def eager(self) -> Any:
        return self._call(self.module)

    def eager_told_compiling(self) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.compiler, "_is_compiling_flag", True)
            return self._call(self.module)

    def captured(self) -> Any:
        """The answer of a new capture, or of an entry that one has left."""
        return self._call(self.capturing)

    def hit(self) -> Any:
        """The answer of an existing entry, or None if no entry fits."""
        with anyshape.config.patch(error_on_recompile=True):
            try:
                return self._call(self.compiled)
            except RecompileError:
                return None

    def clean(self) -> bool:
        """Whether all is as it was built."""
        hit = self.hit()
        return hit is not None and not (
            difference(hit, self.base) or difference(self.eager(), self.base)
        )


def judged(bench: Bench, site: Site) -> tuple[str, str | None]:
    """What became of the change, and what is wrong with it if anything is."""
    try:
        site.change()
    except Exception:
        return "cannot be changed", None
    try:
        hit = bench.hit()
        expected = bench.eager()
        changed = difference(expected, bench.base) is not None
        if hit is None and not changed:
            return "a guard failed, without need", None
        outcome = NOTHING_CHANGED if hit is not None else "a guard failed"
        found = hit if hit is not None else bench.captured()
        problem = difference(found, expected)
        if problem and difference(bench.eager(), expected):
            return NOT_REPRODUCIBLE, None
        if problem and not difference(found, bench.eager_told_compiling()):
            return ASKS_WHETHER_COMPILING, None
        return outcome + (", changed" if changed else ""), problem
    finally:
        site.restore()


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_every_change_is_seen(name: str, part: int) -> None:
    bench = Bench(BY_NAME[name])
    assert bench.clean(), "the untouched model must be served by its entry"
    assert bench.compiled.stats().eager_calls == 0
    outcomes: Counter[str] = Counter()
    unsound: list[str] = []
    names = [site.name for site in bench.sites]
    for position in range(part, len(names), MODELS[name]):
        outcome, problem = judged(bench, bench.sites[position])
        if problem:
            # Not of what an earlier change left behind, unseen until now?
            bench.build()
            outcome, problem = judged(bench, bench.sites[position])
        outcomes[outcome] += 1
        if outcome in (NOT_REPRODUCIBLE, ASKS_WHETHER_COMPILING):
            print(f"{names[position]}: {outcome}")
        if problem:
            unsound.append(f"{names[position]}: {problem}")
        if outcome != NOTHING_CHANGED and not bench.clean():
            # The change left traces behind (a cache, a registered object): start anew.
            bench.build()
            if [site.name for site in bench.sites] != names:
                outcomes["not reached"] = len(names) - position - 1
                break
        elif len(bench.capturing.entries) > MOST_ENTRIES:
            bench.capture_anew()
    print(f"\n{name}: {len(names)} places, {dict(outcomes)}")
    assert outcomes["a guard failed, changed"] + outcomes["an entry served it, changed"] > 0
    # Rare by nature: if it were common, this would hide what the test is for.
    assert outcomes[ASKS_WHETHER_COMPILING] + outcomes[NOT_REPRODUCIBLE] < len(names) / 50
    assert not unsound, "\n".join(unsound)
