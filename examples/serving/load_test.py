"""The same load for each way to serve: latency, throughput, and compiles after warm-up.

    python examples/serving/load_test.py OUT --slices 15 --clients 16

Each client sends a request, waits for the answer and sends the next one; lengths are drawn from a
distribution with a long tail. All services run, and the load goes to one after the other, two
seconds each, again and again: so all of them meet the same neighbours on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
from model import MOST_TOKENS, VOCABULARY

SLICE_SECONDS = 2.0
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
                health = httpx.get(f"{url}/healthz", timeout=5)
                if health.is_server_error:
                    raise SystemExit(f"the service of {system} cannot start: {health.text}")
            except httpx.HTTPError:
                pass  # it does not listen yet
            time.sleep(0.1)
        yield url, process.pid, time.monotonic() - start
    finally:
        process.terminate()
        process.wait(60)


async def client(session: httpx.AsyncClient, seed: int, until: float, taken: list[float]) -> None:
    drawn = random.Random(seed)
    for length in lengths(seed):
        if time.monotonic() >= until:
            return
        tokens = [drawn.randrange(1, VOCABULARY) for _ in range(length)]
        start = time.monotonic()
        answer = await session.post("/embed", json={"tokens": tokens})
        answer.raise_for_status()
        taken.append(time.monotonic() - start)


async def under_load(
    session: httpx.AsyncClient, clients: int, seconds: float, first_seed: int
) -> list[float]:
    taken: list[float] = []
    until = time.monotonic() + seconds
    seeds = range(first_seed, first_seed + clients)
    await asyncio.gather(*(client(session, seed, until, taken) for seed in seeds))
    return taken


def counter(url: str, name: str) -> int:
    text = httpx.get(f"{url}/metrics", timeout=60).text
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    assert found, text
    return int(found[1])


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Measured:
    """A service, and what was measured of it so far."""

    def __init__(
        self, runner: asyncio.Runner, url: str, process: int, start_seconds: float
    ) -> None:
        self._runner, self._url = runner, url
        self._process, self._start = process, start_seconds
        # One for all: to make one takes longer than many requests.
        # Connections that others' turns left idle may be closed by the service at any moment.
        limits = httpx.Limits(keepalive_expiry=1)
        self._session = httpx.AsyncClient(base_url=url, timeout=60, verify=False, limits=limits)
        self._taken: list[float] = []
        self._seconds = self._processor = 0.0

    def load(self, clients: int, seconds: float, seed: int) -> None:
        before, start = processor_seconds(self._process), time.monotonic()
        self._taken += self._runner.run(under_load(self._session, clients, seconds, seed))
        self._seconds += time.monotonic() - start
        self._processor += processor_seconds(self._process) - before

    def figures(self) -> Figures:
        compiles = counter(self._url, "service_compiles_since_start_total")
        assert compiles == 0, f"{compiles} compiles after warm-up"
        taken = sorted(self._taken)
        return Figures(
            statistics.median(taken) * 1e3,
            taken[int(len(taken) * 0.99)] * 1e3,
            len(taken) / self._seconds,
            self._processor / len(taken) * 1e3,
            self._start,
            compiles,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the service.")
    parser.add_argument("folder", type=Path, help="what make_package.py has made")
    parser.add_argument("--slices", type=int, default=15)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    options = parser.parse_args()
    systems = options.systems.split(",")
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        services = {
            system: Measured(runner, *stack.enter_context(running(system, options.folder)))
            for system in systems
        }
        for number in range(options.slices):
            for service in services.values():
                service.load(options.clients, SLICE_SECONDS, number * options.clients)
            print(f"slice {number}", file=sys.stderr, flush=True)
        found = {system: service.figures() for system, service in services.items()}
    print("| system | p50 ms | p99 ms | requests/s | CPU ms a request | ready after s |")
    print("|---|---|---|---|---|---|")
    for system, each in found.items():
        print(
            f"| {system} | {each.p50_ms:.1f} | {each.p99_ms:.1f} | {each.requests_per_second:.0f}"
            f" | {each.cpu_ms:.2f} | {each.start_seconds:.1f} |"
        )


if __name__ == "__main__":
    main()
