"""What the emulator of a GPU would find: kernels that are wrong are wrong in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from anyshape.loops.kernels import Kernel
from tests.codegen import gpu_emulator
from tests.codegen import kernel_samples as samples
from tests.codegen.gpu_emulator import Emulated
from tests.codegen.gpu_threads import Meeting, Turns, current_number

BARRIER = "call void @llvm.nvvm.barrier0()\n"


@pytest.mark.parametrize(
    ("make", "compute", "shape", "sizes"),
    [
        (samples.transposed, lambda x: 2 * x.T, (70, 33), (33, 70)),
        (samples.running_sum, lambda x: x.cumsum(1), (3, 1500), (3, 1500)),
        (samples.sum_of_rows, lambda x: x.sum(1), (3, 4000), (3, 4000)),
    ],
)
def test_a_missing_barrier(
    make: Callable[[], Kernel],
    compute: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, int],
    sizes: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = compute(x)

    def error() -> float:
        found = np.zeros(expected.shape, np.float32)
        Emulated(make(), (2, 2, 0))([x, found], sizes)
        return float(np.abs(found - expected).max())

    assert error() < 1e-2
    for_host = gpu_emulator.for_host
    monkeypatch.setattr(
        gpu_emulator, "for_host", lambda text: for_host(text).replace(BARRIER, "\n")
    )
    assert error() > 0.1


def test_threads_go_on_in_the_other_order() -> None:
    turns = Turns()
    meeting = Meeting(turns, 3)
    order: list[tuple[int, int]] = []

    def work(number: int) -> None:
        for step in range(3):
            order.append((step, current_number()))
            assert meeting.wait(number, number * step) == [0, step, 2 * step]

    for number in range(3):
        turns.add(number, work)
    assert turns.run()
    assert [number for _, number in order] == [0, 1, 2, 2, 1, 0, 0, 1, 2]
    assert [step for step, _ in order] == [0] * 3 + [1] * 3 + [2] * 3


def test_threads_that_wait_for_nobody() -> None:
    turns = Turns()
    meeting = Meeting(turns, 2)
    turns.add(0, lambda number: meeting.wait())
    turns.add(1, lambda number: None)
    assert not turns.run()
