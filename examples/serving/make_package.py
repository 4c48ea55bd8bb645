"""Make what is deployed: a package for every batch and length of the contract, and a profile.

    python examples/serving/make_package.py OUT

The package has its native code along. The profile has the sizes that traffic had, as any run of a
compiled program leaves it in `config.cache_dir`; a service starts with these.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from model import MOST_SEQUENCES, MOST_TOKENS, VOCABULARY, encoder

import anyshape
from anyshape import Dim

PACKAGE = "encoder.zip"


def traffic() -> list[torch.Tensor]:
    """Calls as they come in, for the profile."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 12), (8, 40), (16, 64), (4, 100)]
    return [torch.randint(1, VOCABULARY, shape, generator=generator) for shape in shapes]


def build(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = encoder()
    with torch.no_grad():
        with anyshape.config.patch(cache_dir=str(folder), profile=True):
            compiled = anyshape.compile(model)
            for tokens in traffic():
                compiled(tokens)
        contract = (Dim("batch", 1, MOST_SEQUENCES), Dim("length", 1, MOST_TOKENS))
        exported = anyshape.export(model, (traffic()[1],), dynamic_shapes={"tokens": contract})
        print(exported)
        exported.save(folder / PACKAGE, native_code=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
