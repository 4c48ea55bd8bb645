"""The service of examples/serving as a real process, under requests of many lengths at once."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

httpx: Any = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

SERVING = Path(__file__).parents[2] / "examples" / "serving"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("package")
    command = [sys.executable, str(SERVING / "make_package.py"), str(made)]
    subprocess.run(command, check=True, timeout=380)
    return made


@contextmanager
def started(folder: Path, cache: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A service that answers, ready or not."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(SERVING / "service.py"), str(folder), "--port", str(port)]
    environment = {**os.environ, "ANYSHAPE_CACHE_DIR": str(cache)}
    process = subprocess.Popen(command, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        status_when(url, process, "/healthz", lambda _: True)
        yield url, process
    finally:
        process.kill()
        process.wait()


def status_when(
    url: str, process: subprocess.Popen[bytes], path: str, is_it: Callable[[int], bool]
) -> int:
    for _ in range(3000):
        assert process.poll() is None
        try:
            status = httpx.get(f"{url}{path}", timeout=60).status_code
            if is_it(status):
                return status
        except httpx.ConnectError:
            pass
        time.sleep(0.1)
    raise AssertionError(path)


@pytest.fixture
def service(folder: Path, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """As on another machine: with nothing but the package and the profile."""
    with started(folder, tmp_path / "cache") as (url, process):
        status_when(url, process, "/readyz", lambda status: status == 200)
        yield url, process


def test_it_lives_before_it_is_ready(folder: Path, tmp_path: Path):
    with started(folder, tmp_path / "cache") as (url, process):
        # It answers as soon as it listens, and imports and the warm-up take longer than that.
        assert httpx.get(f"{url}/readyz", timeout=60).status_code == 503
        assert httpx.post(f"{url}/embed", json={"tokens": [1]}, timeout=60).status_code == 503
        assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200
        assert numbers(url)["service_requests_total"] == 0
        status_when(url, process, "/readyz", lambda status: status == 200)
        assert httpx.post(f"{url}/embed", json={"tokens": [1]}, timeout=60).status_code == 200


def test_one_that_cannot_become_ready_says_so(tmp_path: Path):
    with started(tmp_path / "nothing", tmp_path / "cache") as (url, process):
        assert status_when(url, process, "/healthz", lambda status: status != 200) == 500
        assert httpx.get(f"{url}/readyz", timeout=60).status_code == 503


def numbers(url: str) -> dict[str, float]:
    text = httpx.get(f"{url}/metrics", timeout=60).text
    return {name: float(value) for name, value in re.findall(r"^(\w+)(?:{.*})? (\S+)$", text, re.M)}


def eager(sequences: list[list[int]]) -> list[torch.Tensor]:
    """Each alone, without padding."""
    sys.path.insert(0, str(SERVING))
    try:
        from model import encoder  # pyright: ignore[reportMissingImports] of the example
    finally:
        sys.path.remove(str(SERVING))
    model = encoder()
    with torch.no_grad():
        return [model(torch.tensor([each]))[0] for each in sequences]


async def answers(url: str, sequences: list[list[int]]) -> list[Any]:
    async with httpx.AsyncClient(base_url=url, timeout=120) as session:
        sent = [session.post("/embed", json={"tokens": tokens}) for tokens in sequences]
        return await asyncio.gather(*sent)


def test_answers_are_those_of_eager(service: tuple[str, subprocess.Popen[bytes]]):
    url, _ = service
    before = numbers(url)
    assert before["anyshape_compiles_total"] > 0
    assert before["anyshape_native_builds_total"] == 0, "its code comes with the package"
    generator = torch.Generator().manual_seed(1)
    lengths = [1, 2, 128, *torch.randint(1, 129, (60,), generator=generator).tolist()]
    sequences = [
        torch.randint(1, 1000, (length,), generator=generator).tolist() for length in lengths
    ]
    found = asyncio.run(answers(url, sequences))
    for answer, expected in zip(found, eager(sequences), strict=True):
        assert answer.status_code == 200
        vector = torch.tensor(answer.json()["vector"])
        torch.testing.assert_close(vector, expected, rtol=1e-4, atol=1e-5)
    after = numbers(url)
    assert after["service_requests_total"] == len(sequences)
    assert after["service_batches_total"] < len(sequences), "requests were served together"
    assert after["service_compiles_since_start_total"] == 0
    assert after["anyshape_compiles_total"] == before["anyshape_compiles_total"]
    assert after["anyshape_eager_calls_total"] == 0
    assert after["anyshape_hits_total"] > before["anyshape_hits_total"]
    assert httpx.get(f"{url}/healthz").status_code == 200


BAD = [
    ([], "length 0, where 1 <= length <= 128"),
    ([1] * 129, "length 129, where 1 <= length <= 128"),
    ([5, 1000], "1000, where 0 < token < 1000"),
    ([0], "0, where 0 < token < 1000"),
    ("text", "list"),
    ([1.5], "integer"),
]


def test_bad_shapes_are_refused_with_the_reason(service: tuple[str, subprocess.Popen[bytes]]):
    url, _ = service
    for tokens, reason in BAD:
        answer = httpx.post(f"{url}/embed", json={"tokens": tokens})
        assert answer.status_code == 422, tokens
        assert reason in answer.text
    assert httpx.post(f"{url}/embed", content=b"no JSON").status_code == 422
    assert httpx.post(f"{url}/embed", json={"tokens": [1, 2]}).status_code == 200
    assert numbers(url)["service_compiles_since_start_total"] == 0


def test_what_has_come_is_answered_before_the_end(service: tuple[str, subprocess.Popen[bytes]]):
    url, process = service

    async def stopped() -> list[Any]:
        sent = asyncio.ensure_future(answers(url, [[7] * 128] * 40))
        while (await asyncio.to_thread(numbers, url))["service_batches_total"] < 1:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        return await sent

    found = asyncio.run(stopped())
    assert [answer.status_code for answer in found] == [200] * 40
    assert process.wait(60) in (0, -signal.SIGTERM)
