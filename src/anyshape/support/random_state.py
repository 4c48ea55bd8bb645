"""Torch's own generators as one: the processor's, and those of GPUs that are in use."""

from __future__ import annotations

from typing import Final

import torch

State = list[tuple[torch.Generator, torch.Tensor]]


class _Generators:
    def get_state(self) -> State:
        every = (torch.default_generator, *torch.cuda.default_generators)
        return [(each, each.get_state()) for each in every]

    def set_state(self, state: State) -> None:
        for generator, own in state:
            generator.set_state(own)

    def drawn_since(self, state: State) -> bool:
        """Whether numbers were drawn, or seeds set."""
        now = self.get_state()
        # A GPU that came into use meanwhile may have been drawn from.
        return len(now) != len(state) or any(
            not torch.equal(own, other) for (_, own), (_, other) in zip(now, state, strict=True)
        )


default_generators: Final = _Generators()
