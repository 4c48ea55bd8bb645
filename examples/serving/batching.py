"""Requests that come one by one are served together: dynamic batching.

A batch is what has come while the one before was computed, or within a few milliseconds, whichever
is longer; at most so many requests. One thread computes, and the event loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


class Overloaded(Exception):
    """Too many requests wait already."""


class Closed(Exception):
    """The service is shutting down."""


class _Waiting(NamedTuple, Generic[Given, Found]):
    given: Given
    result: asyncio.Future[Found]


class Batcher(Generic[Given, Found]):
    def __init__(
        self,
        compute: Callable[[Sequence[Given]], Sequence[Found]],
        most: int,
        wait_seconds: float = 0.002,
        most_waiting: int = 1024,
    ) -> None:
        self._compute = compute
        self._most = most
        self._wait = wait_seconds
        self._queue: asyncio.Queue[_Waiting[Given, Found]] = asyncio.Queue(most_waiting)
        self._thread = ThreadPoolExecutor(1, "compute")
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self.batches = self.requests = 0

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def submit(self, given: Given) -> Found:
        if self._is_closed:
            raise Closed
        result: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait(_Waiting(given, result))
        except asyncio.QueueFull:
            raise Overloaded from None
        return await result

    async def close(self) -> None:
        """Answer what waits, and take nothing more."""
        self._is_closed = True
        await self._queue.join()
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown()

    async def _serve(self) -> None:
        while True:
            batch = await self._next_batch()
            # Whoever has hung up is not waited for.
            wanted = [each for each in batch if not each.result.done()]
            if wanted:
                await self._answer(wanted)
            for _ in batch:
                self._queue.task_done()

    async def _next_batch(self) -> list[_Waiting[Given, Found]]:
        batch = [await self._queue.get()]
        end = asyncio.get_running_loop().time() + self._wait
        while len(batch) < self._most:
            left = end - asyncio.get_running_loop().time()
            try:
                if left <= 0:
                    batch.append(self._queue.get_nowait())
                else:
                    batch.append(await asyncio.wait_for(self._queue.get(), left))
            except (TimeoutError, asyncio.QueueEmpty):
                break
        return batch

    async def _answer(self, batch: list[_Waiting[Given, Found]]) -> None:
        self.batches += 1
        self.requests += len(batch)
        given = [each.given for each in batch]
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._thread, self._compute, given)
        except Exception as error:
            for each in batch:
                if not each.result.done():
                    each.result.set_exception(error)
            return
        for each, result in zip(batch, found, strict=True):
            if not each.result.done():
                each.result.set_result(result)
