"""What each of two ranks runs under `torchrun`: see test_wrappers_ranks.py.

Every row trains a model twice, eagerly and compiled, and tells of what differs: results,
parameters, gradients, buffers, the state of optimizers, and how many collectives each step made.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn.functional
from torch import nn
from torch.distributed import _functional_collectives as functional_collectives
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel as DDP

from tests.wrappers.programs import Block, Compile, Net, Told, copied, data, difference, state

ROWS: dict[str, Callable[[Compile], Told]] = {}
#: Not the same on both ranks.
SIZES = ((4, 7, 3, 12, 7, 1, 9), (5, 7, 2, 11, 8, 1, 6))


def row(program: Callable[[Compile], Told]) -> Callable[[Compile], Told]:
    ROWS[program.__name__] = program
    return program


def batches() -> Any:
    rank = dist.get_rank()
    return data(SIZES[rank], seed=rank)


def collectives() -> int:
    """How many collectives the ranks have made together."""
    group: Any = dist.distributed_c10d._get_default_group()
    return group._get_sequence_number_for_group()


def train(model: Any, whole: Any, accumulate: bool = False) -> Told:
    optimizer = torch.optim.Adam(whole.parameters(), lr=0.01)
    told: Told = []
    for step, (x, y) in enumerate(batches()):
        before = collectives()
        last = not accumulate or step % 2 == 1
        with contextlib.nullcontext() if last else whole.no_sync():
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            loss.backward()
        told.append((copied(out), copied(loss), state(whole)))
        if last:
            optimizer.step()
            optimizer.zero_grad()
        told.append((state(whole, optimizer), collectives() - before))
    return told


# -- DDP -------------------------------------------------------------------------------------------


@row
def compiled_ddp(compile: Compile) -> Told:
    model = DDP(Net())
    return train(compile(model), model)


@row
def ddp_of_compiled(compile: Compile) -> Told:
    model = DDP(compile(Net()))
    return train(model, model)


@row
def ddp_of_compiled_forward(compile: Compile) -> Told:
    net = Net()
    net.forward = compile(net.forward)
    model = DDP(net)
    return train(model, model)


@row
def ddp_of_compiled_layers(compile: Compile) -> Told:
    net = Net()
    for index, layer in enumerate(net.layers):
        net.layers[index] = compile(layer)
    model = DDP(net)
    return train(model, model)


@row
def compiled_ddp_accumulated(compile: Compile) -> Told:
    model = DDP(Net())
    return train(compile(model), model, accumulate=True)


@row
def ddp_of_compiled_accumulated(compile: Compile) -> Told:
    model = DDP(compile(Net()))
    return train(model, model, accumulate=True)


class Unused(Net):
    """Every second layer is left out in a part of the calls."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](x)
        if x.shape[0] > 6:
            x = self.layers[1](x)
        return self.head(self.norm(x))


@row
def compiled_ddp_unused(compile: Compile) -> Told:
    model = DDP(Unused(), find_unused_parameters=True)
    return train(compile(model), model)


@row
def ddp_of_compiled_unused(compile: Compile) -> Told:
    model = DDP(compile(Unused()), find_unused_parameters=True)
    return train(model, model)


@row
def compiled_ddp_static_graph(compile: Compile) -> Told:
    model = DDP(Net(), static_graph=True)
    return train(compile(model), model)


@row
def ddp_of_compiled_static_graph(compile: Compile) -> Told:
    model = DDP(compile(Net()), static_graph=True, gradient_as_bucket_view=True)
    return train(model, model)


@row
def compiled_ddp_with_comm_hook(compile: Compile) -> Told:
    """What is reduced is seen by a hook of the program, bucket by bucket."""
    log: list[Any] = []
    model = DDP(Net(), bucket_cap_mb=0.0005)

    def hook(group, bucket):  # DDP looks at annotations, which are text here
        log.append((bucket.index(), bucket.buffer().numel(), bucket.is_last()))
        return default_hooks.allreduce_hook(group, bucket)

    model.register_comm_hook(None, hook)
    return [*train(compile(model), model), log]


@row
def compiled_step_with_ddp(compile: Compile) -> Told:
    model = DDP(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    told: Told = []
    for x, y in batches():
        before = collectives()
        told.append((copied(step(x, y)), state(model, optimizer), collectives() - before))
    return told


@row
def collectives_inside(compile: Compile) -> Told:
    """A function that reduces between its operations."""

    @compile
    def normalized(x: torch.Tensor) -> torch.Tensor:
        total = x.pow(2).sum(0) + 1
        dist.all_reduce(total)
        y = x / total.sqrt() + total.mean()
        parts = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, total * (dist.get_rank() + 1))
        return y * torch.stack(parts).mean(0)

    told: Told = []
    for x, _ in batches():
        before = collectives()
        told.append((normalized(x), collectives() - before))
    return told


@row
def synchronized_batch_norm(compile: Compile) -> Told:
    """Statistics of all ranks' batches would need a GPU; running statistics are broadcast."""
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    model = DDP(net)
    compiled = compile(model)
    told: Told = []
    for x, y in batches():
        x, y = torch.cat((x, x + 1)), torch.cat((y, y))
        before = collectives()
        model.zero_grad()
        nn.functional.cross_entropy(compiled(x), y).backward()
        told.append((state(model), collectives() - before))
    return told


# -- FSDP2 -----------------------------------------------------------------------------------------


def _sharded(net: Any, by_layer: bool, **options: Any) -> Any:
    if by_layer:
        for layer in net.layers:
            fully_shard(layer, **options)
    fully_shard(net, **options)
    return net


def _fsdp_rows() -> None:
    for by_layer in (False, True):
        name = "by_layer" if by_layer else "whole"

        def after(compile: Compile, by_layer: bool = by_layer) -> Told:
            net = _sharded(Net(), by_layer)
            return train_sharded(compile(net), net)

        def before(compile: Compile, by_layer: bool = by_layer) -> Told:
            net = Net()
            for layer in net.layers:
                layer.forward = compile(layer.forward)
            _sharded(net, by_layer)
            return train_sharded(net, net)

        def around(compile: Compile, by_layer: bool = by_layer) -> Told:
            net = _sharded(compile(Net()), by_layer)
            return train_sharded(net, net)

        def kept(compile: Compile, by_layer: bool = by_layer) -> Told:
            net = _sharded(Net(), by_layer, reshard_after_forward=False)
            return train_sharded(compile(net), net)

        ROWS[f"fsdp_{name}_compiled_after"] = after
        ROWS[f"fsdp_{name}_layers_compiled_before"] = before
        ROWS[f"fsdp_{name}_around_compiled"] = around
        ROWS[f"fsdp_{name}_not_resharded"] = kept


def train_sharded(model: Any, whole: nn.Module) -> Told:
    optimizer = torch.optim.AdamW(whole.parameters(), lr=0.01)
    told: Told = []
    for x, y in batches():
        before = collectives()
        out = model(x)
        nn.functional.cross_entropy(out, y).backward()
        told.append((copied(out), state(whole)))
        optimizer.step()
        optimizer.zero_grad()
        told.append((state(whole), collectives() - before))
    return told


_fsdp_rows()


@row
def fsdp_with_compiled_optimizer(compile: Compile) -> Told:
    net = _sharded(Net(), True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    step = compile(optimizer.step)
    told: Told = []
    for x, y in batches():
        nn.functional.cross_entropy(net(x), y).backward()
        step()
        optimizer.zero_grad()
        told.append(state(net, optimizer))
    return told


@row
def fsdp_accumulated_and_clipped(compile: Compile) -> Told:
    """Gradients of two batches, reduced once, clipped by their norm over all shards."""
    net = _sharded(Net(), True)
    model = compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    told: Told = []
    for step, (x, y) in enumerate(batches()):
        before = collectives()
        last = step % 2 == 1
        net.set_requires_gradient_sync(last)
        nn.functional.cross_entropy(model(x), y).backward()
        if last:
            told.append(nn.utils.clip_grad_norm_(net.parameters(), 0.5))
            optimizer.step()
            optimizer.zero_grad()
        told.append((state(net), collectives() - before))
    return told


@row
def fsdp_in_mixed_precision(compile: Compile) -> Told:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    blocks = (Block(6), Block(6))
    net = nn.Sequential(*blocks, nn.Linear(6, 3))
    for layer in (*blocks, net):
        fully_shard(layer, mp_policy=policy)
    return train_sharded(compile(net), net)


@row
def fsdp_of_the_first_kind(compile: Compile) -> Told:
    net = FullyShardedDataParallel(Net(), device_id=torch.device("cpu"), use_orig_params=True)
    return train_sharded(compile(net), net)


@row
def sharded_optimizer(compile: Compile) -> Told:
    from torch.distributed.optim import ZeroRedundancyOptimizer  # it warns, which is no test's

    model = DDP(Net())
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01
    )
    compiled, step = compile(model), compile(optimizer.step)
    told: Told = []
    for x, y in batches():
        optimizer.zero_grad()
        nn.functional.cross_entropy(compiled(x), y).backward()
        step()
        told.append(state(model))
    return told


@row
def joined(compile: Compile) -> Told:
    """One rank has fewer batches than the other."""
    model = DDP(Net())
    compiled = compile(model)
    told: Told = []
    with Join([model]):
        for x, y in list(batches())[: 7 - 2 * dist.get_rank()]:
            model.zero_grad()
            nn.functional.cross_entropy(compiled(x), y).backward()
            told.append(state(model))
    return told


@row
def functional_collectives_inside(compile: Compile) -> Told:
    """Collectives that give new tensors, with and without a gradient."""
    everybody = list(range(dist.get_world_size()))

    @compile
    def reduced(x: torch.Tensor) -> torch.Tensor:
        total = functional_collectives.all_reduce(x.sum(0) * 2, "sum", everybody)
        shared = torch.distributed.nn.functional.all_reduce(x.mean(0) + 1)
        return x * total + shared

    told: Told = []
    for x, _ in batches():
        x.requires_grad_(True)
        before = collectives()
        out = reduced(x)
        out.sum().backward()
        assert x.grad is not None
        told.append((copied(out), copied(x.grad), collectives() - before))
    return told


# -- tensor parallel -------------------------------------------------------------------------------


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 8)
        self.down = nn.Linear(8, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * 1.5
        x = x + self.down(torch.nn.functional.gelu(self.up(x)))
        return self.head(torch.tanh(x) * 2)


def _parallel() -> Feed:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = Feed()
    parallelize_module(net, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return net


def _same_batches() -> Any:
    return data(SIZES[0])


def _train_parallel(model: Any, net: nn.Module) -> Told:
    told: Told = []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=False)
    for x, y in _same_batches():
        before = collectives()
        out = model(x)
        nn.functional.cross_entropy(out, y).backward()
        told.append((copied(out), state(net), collectives() - before))
        optimizer.step()
        optimizer.zero_grad()
    return told


@row
def tensor_parallel(compile: Compile) -> Told:
    net = _parallel()
    return _train_parallel(compile(net), net)


@row
def tensor_parallel_compiled_before(compile: Compile) -> Told:
    net = Feed()
    model = compile(net)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(net, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return _train_parallel(model, net)


# -- all rows --------------------------------------------------------------------------------------


def _counts(told: Told) -> list[int]:
    """The numbers of collectives that stand at the end of what steps tell."""
    return [each[-1] for each in told if isinstance(each, tuple) and isinstance(each[-1], int)]


def told_of(name: str, how: str) -> dict[str, Any]:
    import anyshape

    made: list[Any] = []

    def compile(function: Any) -> Any:
        found = (torch.compile if how == "compat" else anyshape.compile)(function)
        made.append(found)
        return found

    torch.manual_seed(0)
    expected = ROWS[name](lambda function: function)
    torch.manual_seed(0)
    started = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ROWS[name](compile)
    seconds = time.process_time() - started
    stats = [each.stats() for each in made]
    told = {
        "difference": difference(expected, found),
        "graphs": sum(each.graphs for each in stats),
        "hits": sum(each.hits for each in stats),
        "recompiles": sum(each.recompiles for each in stats),
        "eager_calls": sum(each.eager_calls for each in stats),
        "explained": "\n".join(str(each.explain()) for each in made),
        "warnings": [str(each.message) for each in caught if "anyshape" in str(each.message)],
        "collectives": sum(_counts(expected)),
        "seconds": seconds,
    }
    anyshape.reset()
    return told


def work(folder: Path, how: str, wanted: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if how == "compat":
        import anyshape.compat

        anyshape.compat.install()
    told: dict[str, Any] = {}
    for name in wanted or ROWS:
        try:
            told[name] = told_of(name, how)
        except Exception:
            told[name] = {"difference": traceback.format_exc(), "graphs": 0}
        (folder / f"{dist.get_rank()}.json").write_text(json.dumps(told))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
