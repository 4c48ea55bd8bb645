"""Capture with and without replay, and describe what came out: both ways have to agree in all."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

import anyshape
from anyshape.capture.replay.layers import switch
from anyshape.compiler import driver
from anyshape.guards.path import Path

Arguments = tuple[Any, ...]


@contextlib.contextmanager
def captures() -> Iterator[list[Any]]:
    """What the captures made meanwhile gave."""
    found: list[Any] = []
    capture = driver.capture

    def kept(*args: Any, **kwargs: Any) -> Any:
        captured = capture(*args, **kwargs)
        found.append(captured.outcome)
        return captured

    driver.capture = kept
    try:
        yield found
    finally:
        driver.capture = capture


def described(outcome: Any) -> list[str]:
    """All that a capture found out, line by line; identities left out."""
    if not hasattr(outcome, "segments"):
        return [f"left: {outcome.reason} {outcome.frame}"]
    lines: list[str] = []
    for segment in outcome.segments:
        for node in segment.graph.graph.nodes:
            notes = sorted((str(key), repr(value)) for key, value in node.meta.items())
            lines.append(f"{node.op} {node} {node.target} {node.args} {node.kwargs} {notes}")
        lines.append(f"inputs {segment.inputs} {segment.expectations} {segment.changed}")
    lines += sorted(
        f"{guard.kind.name} {guard.path} {_text(guard.value)} {guard.reason} {guard.user_frame}"
        for guard in outcome.guards
    )
    lines.append(f"symbols {outcome.symbols} {outcome.facts.assumptions}")
    lines += outcome.lines
    lines.append(f"result {outcome.result} {outcome.is_flat} {outcome.may_draw}")
    lines.append(f"{outcome.needs_undo} {outcome.may_raise_late} {outcome.checks_forms}")
    return [re.sub(r" at 0x[0-9a-f]+", "", line) for line in lines]


def _text(value: Any) -> str:
    if isinstance(value, Path):
        return value.text
    return str(tuple(map(_text, value))) if isinstance(value, tuple) else repr(value)


class Trial:
    """One model, captured both ways."""

    def __init__(self, build: Callable[[], nn.Module], arguments: Callable[[], Arguments]) -> None:
        self.build = build
        self.arguments = arguments

    def run(self, grad: bool = False) -> int:
        """Compare everything, eager's answer among it; how many calls were replayed."""
        on = self._captured(grad)
        with switch.off():
            off = self._captured(grad)
        assert on[:-1] == off[:-1]
        assert off[-1] == 0
        return on[-1]

    def _captured(self, grad: bool) -> tuple[Any, ...]:
        before = switch.replayed
        with torch.set_grad_enabled(grad), captures() as found:
            compiled: Any = anyshape.compile(self._built(), dynamic=True, backend="eager")
            answers = self._answers(compiled)
            assert equal(answers, self._answers(self._built()))
        told = re.sub(r"\d+/\d+", "", str(compiled.explain()))
        return [described(each) for each in found], told, switch.replayed - before

    def _built(self) -> nn.Module:
        torch.manual_seed(0)
        RemovableHandle.next_id = 0  # hooks are named by it
        return self.build()

    def _answers(self, model: nn.Module) -> list[Any]:
        found: list[Any] = []
        for _ in range(2):
            torch.manual_seed(1)
            found.append((plain(model(*self.arguments())), torch.get_rng_state()))
        return found


def plain(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda each: each.detach().clone(), value)


def equal(one: Any, other: Any) -> bool:
    ones, form = pytree.tree_flatten(one)
    others, other_form = pytree.tree_flatten(other)
    return form == other_form and all(
        torch.allclose(a, b, equal_nan=True) if isinstance(a, Tensor) else a == b
        for a, b in zip(ones, others, strict=True)
    )
