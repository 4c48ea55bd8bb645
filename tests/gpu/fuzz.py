"""Random programs on a GPU, compiled against eager, for as long as is said:

    python -m tests.gpu.fuzz --seconds 100 --part 0/12

Programs of `tests/native` that run at all shapes on the processor: on a GPU an index out of range
would end the process. Exit code 1 if one gave something else than eager.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings

import torch

import anyshape
from tests.gpu.device import DEVICE
from tests.native.mixed_programs import EXACT, FLOATS, STORED
from tests.native.view_programs import VIEWS, Vocabulary, compared, function, inputs, program

WORDS: dict[str, Vocabulary] = {
    "views": VIEWS,
    "exact": EXACT,
    "floats": FLOATS,
    "stored": STORED,
}


def runs_everywhere(source: str, kind: str, seed: int, words: Vocabulary) -> bool:
    eager = function(source, f"{seed} first")
    try:
        with torch.no_grad():
            for shape in words.shapes:
                eager(*inputs(kind, shape, seed, words))
    except Exception:
        return False
    return True


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--part", default="0/1")
    options.add_argument("--first", type=int, default=10_000, help="the first seed")
    given = options.parse_args()
    part, parts = map(int, given.part.split("/"))
    end = time.monotonic() + given.seconds
    tried = wrong = skipped = 0
    for seed in itertools.count(given.first + part, parts):
        for name, words in WORDS.items():
            if time.monotonic() > end:
                print(f"{tried} programs, {skipped} left out, {wrong} wrong")
                return int(bool(wrong))
            source, kind = program(seed, 9, words)
            if not runs_everywhere(source, kind, seed, words):
                skipped += 1
                continue
            tried += 1
            with torch.device(DEVICE):
                found = compared(
                    source, kind, seed, lambda f: anyshape.compile(f, dynamic=True), words
                )
            if found:
                wrong += 1
                print("\n".join([f"== {name} {seed} {kind}", source, *found]), flush=True)
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
