"""Two ranks that see different sizes; `EDITED=1` is the program after some changes."""

import os
import time

import torch
import torch.distributed

import anyshape

EDITED = os.environ.get("EDITED") == "1"


@anyshape.compile
def step(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 6 else torch.relu(x)


@anyshape.compile
def loss(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


@anyshape.compile
def stamp(x: torch.Tensor) -> torch.Tensor:
    return x + (1 if EDITED else time.time())


@anyshape.compile(dynamic=EDITED)
def pad(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, 1))


@anyshape.compile
def added(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


def main() -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    for size in range(2, 8):
        pad(torch.rand(size + rank))
        loss(torch.rand(size, 8))
        stamp(torch.rand(size))
    for size in (8, 9, 10, *((3,) if rank else ())):
        step(torch.rand(size, 8))
    if EDITED:
        added(torch.rand(3))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
