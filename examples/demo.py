"""What works today: one compiled program for all sizes, beside eager. Run it with `make demo`."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import anyshape
from anyshape.api import emit_run_counts
from anyshape.cli import main as command_line
from anyshape.events.trace import start_trace

WIDTH, HEADS = 64, 4


class Block(nn.Module):
    """A transformer block; batch and length are whatever comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def branching(x: Tensor) -> Tensor:
    """The program tells sizes apart, so it takes a graph for each answer."""
    if x.size(0) == 10:
        return x * 10
    if x.size(0) <= 30:
        return x * 200
    return x * x.size(0)


class Counter(nn.Module):
    """State that a call changes: a buffer in place, another one replaced, a list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("last", torch.zeros(4))
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.total += x.sum(0)
        self.sizes.append(x.shape[0])
        self.last = x.sum(0)
        return x + self.total


def show(
    console: Console,
    title: str,
    subject: Callable[..., Any],
    shapes: Iterable[tuple[int, ...]],
    dynamic: bool | None = None,
) -> None:
    """Call the compiled subject and an eager twin at each shape, and tell what served the call."""
    twin = copy.deepcopy(subject)
    compiled = anyshape.compile(subject, dynamic=dynamic)
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("sizes", "what happened", "entry", "same as eager", "graphs", "ms"):
        table.add_column(heading, justify="left" if heading == "what happened" else "right")
    for shape in shapes:
        x = torch.randn(shape)
        expected = twin(x.clone())
        entries = {entry.id: entry.hits for entry in compiled.entries}
        start = time.perf_counter()
        found = compiled(x)
        taken = (time.perf_counter() - start) * 1e3
        served = next((e for e in compiled.entries if e.hits != entries.get(e.id, 0)), None)
        happened = (
            "hit" if served else "captured" if len(compiled.entries) > len(entries) else "eager"
        )
        entry = served or (compiled.entries[-1] if happened == "captured" else None)
        # Native code rounds in another order: to the last digits, not to the last bit.
        equal = torch.allclose(found, expected, rtol=1e-5, atol=1e-6)
        table.add_row(
            " x ".join(map(str, shape)),
            happened,
            entry.id if entry else "-",
            "[green]yes" if equal else "[red]NO",
            str(compiled.stats().graphs),
            f"{taken:.2f}",
        )
        assert equal, f"{title} at {shape}: the compiled answer must be eager's"
    console.print(table)
    for entry in compiled.entries:
        for guard in entry.guards:
            if "size()" in guard.text and guard.user_frame is not None:
                where = guard.user_frame
                console.print(
                    f"  entry {entry.id} holds for {guard.text}, asked for at"
                    f" {where.filename.rpartition('/')[2]}:{where.line}",
                    markup=False,
                )
    console.print()


def main() -> None:
    console = Console(width=100)
    torch.manual_seed(0)
    # As ANYSHAPE_TRACE=folder does for a whole program.
    folder = Path(tempfile.mkdtemp(prefix="anyshape-demo-"))
    stop = start_trace(folder, versions={"torch": torch.__version__})
    with anyshape.config.patch(profile=False), torch.no_grad():
        sizes = [(2, 8), (3, 11), (1, 9), (4, 1), (1, 1), (0, 5), (5, 0), (16, 33), (2, 8)]
        block = [(*size, WIDTH) for size in sizes]
        show(console, "A transformer block, dynamic=True: one graph", Block(), block, dynamic=True)
        show(console, "The same, automatic: what changed becomes dynamic", Block(), block)
        branches = [(n,) for n in (10, 20, 30, 40, 50, 10, 1, 0)]
        show(console, "A program that tells sizes apart", branching, branches, dynamic=True)
        show(console, "A module with state", Counter(), [(n, 4) for n in (3, 5, 1, 0, 5)], True)
    total = anyshape.stats()
    console.print(
        f"{total.graphs} graphs, {total.hits} hits, {total.compile_seconds:.2f} s to compile"
    )
    emit_run_counts()
    stop()
    console.print("What was compiled, and why:")
    command_line(["report", str(folder)])


if __name__ == "__main__":
    main()
