"""A service over an exported package: batches, a contract on shapes, health, metrics.

    python examples/serving/make_package.py OUT
    python examples/serving/service.py OUT --port 8000

    POST /embed    {"tokens": [5, 17, 3]} -> {"vector": [...]}; 422 with the reason for bad shapes
    GET  /healthz  200 as long as the process lives, 500 if it cannot become ready
    GET  /readyz   200 once it is warm, until it shuts down
    GET  /metrics  for Prometheus

`--system eager` and `--system torch.compile` serve the same model in other ways, to be measured
under the same load.
"""

from __future__ import annotations

import argparse
import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import torch
import uvicorn
from batching import Batcher, Closed, Overloaded
from fastapi import FastAPI, HTTPException, Response
from make_package import PACKAGE
from model import MOST_SEQUENCES, MOST_TOKENS, PADDING, VOCABULARY, encoder
from pydantic import BaseModel
from torch import Tensor

import anyshape
from anyshape.profile import store

Program = Callable[[Tensor], Tensor]


class Request(BaseModel):
    tokens: list[int]


class Answer(BaseModel):
    vector: list[float]


def program_of(system: str, folder: Path) -> Program:
    match system:
        case "anyshape":
            # The package was made by ourselves: its native code may be trusted.
            return anyshape.load(folder / PACKAGE, native_code="trusted")
        case "eager":
            return encoder()
        case "torch.compile":
            return torch.compile(encoder(), dynamic=True)
        case _:
            raise SystemExit(f"no system {system!r}")


def sizes_of_profile(folder: Path) -> list[tuple[int, int]]:
    """Batches and lengths that earlier runs have seen, the most frequent first."""
    known = store.read(store.file_in(str(folder)))
    records = [record for record in known.values() if record.name == "Encoder.forward"]
    return [
        size
        for record in records
        for size in zip(
            record.typical("L['tokens'].size()[0]"),
            record.typical("L['tokens'].size()[1]"),
            strict=False,
        )
    ]


def warm_up(program: Program, sizes: Sequence[tuple[int, int]]) -> None:
    """Call it with what it is going to be called with, and with the ends of the contract."""
    ends = [(1, 1), (1, 2), (2, 1), (MOST_SEQUENCES, MOST_TOKENS)]
    for shape in (*sizes, *ends):
        for _ in range(2):
            program(torch.ones(shape, dtype=torch.int64))


def reason_against(tokens: Sequence[int]) -> str | None:
    """Why the package is not for these; None if it is."""
    if not 1 <= len(tokens) <= MOST_TOKENS:
        return f"tokens has length {len(tokens)}, where 1 <= length <= {MOST_TOKENS}"
    wrong = next((each for each in tokens if not PADDING < each < VOCABULARY), None)
    if wrong is not None:
        return f"tokens has {wrong}, where {PADDING} < token < {VOCABULARY}"
    return None


def compute(program: Program, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
    longest = max(map(len, sequences))
    padded = [[*each, *[PADDING] * (longest - len(each))] for each in sequences]
    with torch.no_grad():
        return program(torch.tensor(padded)).tolist()


class Service:
    """The state behind the endpoints."""

    def __init__(self, system: str, folder: Path) -> None:
        self._system, self._folder = system, folder
        #: why it is never going to be ready, if so
        self.failure = ""
        self.rejected = 0
        self.compiles_at_start = 0
        #: what answers requests; None until the program is warm, and when it shuts down
        self.batcher: Batcher[Sequence[int], list[float]] | None = None

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        # Beside the server: whoever asks meanwhile hears that it lives, and is not ready.
        warming = asyncio.create_task(self._start())
        yield
        # The server has stopped listening: what has come is still answered.
        await warming
        batcher, self.batcher = self.batcher, None
        if batcher is not None:
            await batcher.close()

    async def _start(self) -> None:
        try:
            program = await asyncio.to_thread(self._warm_program)
        except Exception as error:
            traceback.print_exc()
            self.failure = f"{type(error).__name__}: {error}"
            return
        self.compiles_at_start = anyshape.metrics().total.compiles
        batcher = Batcher[Sequence[int], list[float]](partial(compute, program), MOST_SEQUENCES)
        batcher.start()
        self.batcher = batcher

    def _warm_program(self) -> Program:
        program = program_of(self._system, self._folder)
        with torch.no_grad():
            warm_up(program, sizes_of_profile(self._folder))
        return program

    def prometheus(self) -> str:
        batcher = self.batcher
        own = {
            "requests": 0 if batcher is None else batcher.requests,
            "batches": 0 if batcher is None else batcher.batches,
            "rejected": self.rejected,
            "compiles_since_start": 0
            if batcher is None
            else anyshape.metrics().total.compiles - self.compiles_at_start,
        }
        lines = [
            f"# TYPE service_{name}_total counter\nservice_{name}_total {value}\n"
            for name, value in own.items()
        ]
        return "".join(lines) + anyshape.metrics().prometheus()


def app_of(service: Service) -> FastAPI:
    app = FastAPI(lifespan=service.running)

    @app.post("/embed")
    async def embed(request: Request) -> Answer:
        reason = reason_against(request.tokens)
        if reason is not None:
            service.rejected += 1
            raise HTTPException(422, reason)
        if service.batcher is None:
            raise HTTPException(503, "not ready")
        try:
            return Answer(vector=await service.batcher.submit(request.tokens))
        except Overloaded:
            raise HTTPException(503, "too many requests are waiting") from None
        except Closed:
            raise HTTPException(503, "shutting down") from None

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        if service.failure:
            raise HTTPException(500, service.failure)
        return {"status": "alive"}

    @app.get("/readyz")
    async def readyz() -> dict[str, str]:
        if service.batcher is None:
            raise HTTPException(503, "not ready")
        return {"status": "ready"}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.prometheus(), media_type="text/plain; version=0.0.4")

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve the encoder.")
    parser.add_argument("folder", type=Path, help="what make_package.py has made")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--system", default="anyshape", help="anyshape, eager or torch.compile")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    app = app_of(Service(options.system, options.folder))
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
