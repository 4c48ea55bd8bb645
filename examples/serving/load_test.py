"""The same load for each way to serve: latency, throughput, and compiles after warm-up.

    python examples/serving/load_test.py OUT --seconds 20 --clients 16 --rounds 3

Each client sends a request, waits for the answer and sends the next one; lengths are drawn from a
distribution with a long tail. Systems take turns, so that all of them meet the same neighbours, and
the figures are those of the median round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from model import MOST_TOKENS, VOCABULARY

SYSTEMS = ("anyshape", "eager", "torch.compile")


class Figures(NamedTuple):
    p50_ms: float
    p99_ms: float
    requests_per_second: float
    #: processor time of the service; what neighbours do on the machine changes it least
    cpu_ms: float
    #: from the start of the process until it is ready
    start_seconds: float
    compiles_under_load: int


def lengths(seed: int) -> Iterator[int]:
    drawn = random.Random(seed)
    while True:
        yield min(MOST_TOKENS, 1 + int(drawn.lognormvariate(2.7, 0.7)))


@contextmanager
def running(system: str, folder: Path) -> Iterator[tuple[str, int, float]]:
    """A service as a process of its own: its URL, its number, how long it took to be ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    start = time.monotonic()
    service = Path(__file__).with_name("service.py")
    command = [sys.executable, str(service), str(folder), "--port", str(port), "--system", system]
    process = subprocess.Popen(command)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            if process.poll() is not None:
                raise SystemExit(f"the service of {system} ended with {process.returncode}")
            try:
                if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.1)
        yield url, process.pid, time.monotonic() - start
    finally:
        process.terminate()
        process.wait(60)


async def client(url: str, seed: int, until: float, taken: list[float]) -> None:
    drawn = random.Random(seed)
    async with httpx.AsyncClient(base_url=url, timeout=60) as session:
        for length in lengths(seed):
            if time.monotonic() >= until:
                return
            tokens = [drawn.randrange(1, VOCABULARY) for _ in range(length)]
            start = time.monotonic()
            answer = await session.post("/embed", json={"tokens": tokens})
            answer.raise_for_status()
            taken.append(time.monotonic() - start)


async def under_load(url: str, clients: int, seconds: float) -> list[float]:
    taken: list[float] = []
    until = time.monotonic() + seconds
    await asyncio.gather(*(client(url, seed, until, taken) for seed in range(clients)))
    return taken


def counter(url: str, name: str) -> int:
    text = httpx.get(f"{url}/metrics", timeout=60).text
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    assert found, text
    return int(found[1])


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(system: str, folder: Path, clients: int, seconds: float) -> Figures:
    with running(system, folder) as (url, process, start_seconds):
        asyncio.run(under_load(url, clients, 1))
        before = processor_seconds(process)
        taken = sorted(asyncio.run(under_load(url, clients, seconds)))
        spent = processor_seconds(process) - before
        compiles = counter(url, "service_compiles_since_start_total")
    assert compiles == 0, f"{compiles} compiles after warm-up"
    return Figures(
        statistics.median(taken) * 1e3,
        taken[int(len(taken) * 0.99)] * 1e3,
        len(taken) / seconds,
        spent / len(taken) * 1e3,
        start_seconds,
        compiles,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the service.")
    parser.add_argument("folder", type=Path, help="what make_package.py has made")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    options = parser.parse_args()
    systems = options.systems.split(",")
    rounds: dict[str, list[Figures]] = {system: [] for system in systems}
    for _ in range(options.rounds):
        for system in systems:
            found = measured(system, options.folder, options.clients, options.seconds)
            rounds[system].append(found)
            print(json.dumps({"system": system, **found._asdict()}), file=sys.stderr, flush=True)
    print("| system | p50 ms | p99 ms | requests/s | CPU ms a request | ready after s |")
    print("|---|---|---|---|---|---|")
    for system, every in rounds.items():
        middle = sorted(every, key=lambda each: each.requests_per_second)[len(every) // 2]
        print(
            f"| {system} | {middle.p50_ms:.1f} | {middle.p99_ms:.1f}"
            f" | {middle.requests_per_second:.0f} | {middle.cpu_ms:.2f}"
            f" | {middle.start_seconds:.1f} |"
        )


if __name__ == "__main__":
    main()
