"""Train a small GPT on sequences of any length, on as many ranks as there are, from checkpoints."""

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from steps import steps
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from train_gpt import GPT, VOCABULARY, rate


def batch_of(lengths: random.Random) -> tuple[torch.Tensor, torch.Tensor]:
    """All ranks have their own sizes."""
    batch, length = lengths.randint(1, 6), lengths.randint(4, 40)
    start = torch.randint(0, VOCABULARY, (batch, 1))
    tokens = (start + 3 * torch.arange(length + 1)) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


def main(count: int) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    raw = GPT()
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-3, weight_decay=0.1)
    model = DistributedDataParallel(torch.compile(raw))
    torch.manual_seed(2 + rank)
    lengths = random.Random(3 + rank)
    kept = Path(tempfile.gettempdir()) / f"train_gpt_{os.environ.get('MASTER_PORT', '')}.pt"
    started, half = 0.0, count // 2
    for step in steps(count):
        if step == half:
            started = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = rate(step, count)
        _, loss = model(*batch_of(lengths))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {mean.item() / dist.get_world_size():.4f}")
        if step == count // 3:
            # As after a break: weights and the optimizer's state come from a file.
            if rank == 0:
                torch.save({"model": raw.state_dict(), "optimizer": optimizer.state_dict()}, kept)
            dist.barrier()
            found = torch.load(kept, weights_only=True)
            raw.load_state_dict(found["model"])
            optimizer.load_state_dict(found["optimizer"])
            dist.barrier()
    if rank == 0:
        kept.unlink(missing_ok=True)
        if "SHOW_TIME" in os.environ:
            spent = (time.perf_counter() - started) / max(count - half, 1)
            print(f"milliseconds a step: {spent * 1e3:.2f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
