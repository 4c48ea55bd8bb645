"""What each of four ranks runs under `torchrun`: see test_ranks.py.

The process that `torchrun` starts only watches over another one, which is the rank. `torchrun` ends
all ranks when one of its processes fails, and here the others are to go on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

LIMIT = 4.0
SLEEPER, CACHED, KILLED = 3, 1, 2


def work(folder: Path) -> None:
    import torch
    import torch.distributed as dist

    import anyshape

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    anyshape.config.enable_compiler_collectives = True
    anyshape.config.profile = False
    told: dict[str, Any] = {}

    def call(name: str, compiled: Any, *args: Any) -> None:
        started = time.monotonic()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = compiled(*args)
        seconds = time.monotonic() - started
        assert torch.equal(result, compiled.__anyshape_original__()(*args))
        told[name] = {
            "seconds": seconds,
            "warnings": [str(each.message) for each in caught],
            "entries": [
                sorted((each.source, each.reason) for each in entry.dynamic)
                for entry in compiled.explain().entries
            ],
        }
        (folder / f"{rank}.json").write_text(json.dumps(told))

    @anyshape.compile
    def agree(x, batch, n):
        return x * n + batch["y"][0].sum()

    @anyshape.compile
    def asleep(x):
        return x * 2 + x.sum()

    @anyshape.compile
    def cached(x):
        return x * 3 + x.sum()

    @anyshape.compile
    def killed(x):
        return x * 4 + x.sum()

    # All come, in different order; the limit plays no role.
    anyshape.config.collective_timeout_seconds = 60.0
    time.sleep(0.3 * (3 - rank))
    y = torch.ones(5 + (rank == 2))
    call("first", agree, torch.ones(8 + rank, 4), {"y": [y]}, 3)
    call("again", agree, torch.ones(20 + rank, 4), {"y": [torch.ones(9)]}, 3)
    call("cached, first", cached, torch.ones(8, 4))

    anyshape.config.collective_timeout_seconds = LIMIT
    dist.barrier()
    if rank == SLEEPER:
        time.sleep(LIMIT + 2)
    call("asleep", asleep, torch.ones(8 + rank, 4))

    dist.barrier()
    size = 8 if rank == CACHED else 8 + rank + 1
    call("cached, second", cached, torch.ones(size, 4))
    dist.barrier()
    call("cached, third", cached, torch.ones(8, 5 + rank))

    dist.barrier()
    if rank == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    call("killed", killed, torch.ones(8 + rank, 4))
    told["done"] = True
    (folder / f"{rank}.json").write_text(json.dumps(told))
    os._exit(0)  # taking a group apart that has lost a rank is another story


def main() -> None:
    folder = Path(sys.argv[1])
    if sys.argv[2:] == ["work"]:
        work(folder)
        return
    subprocess.run([sys.executable, __file__, str(folder), "work"], check=False, timeout=180)


if __name__ == "__main__":
    main()
