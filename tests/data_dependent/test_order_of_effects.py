"""Effects on the outside happen as often as in eager mode, in its order, also where a call fails.

Every kind of effect is put into every kind of place; each pair makes 20 random calls. Sizes include
0 and the questions are asked of data, so that calls go different ways and some of them raise.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import logging
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import anyshape
from tests import devices
from tests.data_dependent.programs import Built, Program, matrix, must_be_positive, run_twins

CALLS = 20


pytestmark = pytest.mark.usefixtures("strict")


# -- effects ---------------------------------------------------------------------------------------

LIBC = ctypes.CDLL(None)
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


class ToStandardOutput(logging.Handler):
    """Looks `sys.stdout` up at every record, so that logs and prints are one sequence."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stdout.write(f"[{record.levelname}] {record.getMessage()}\n")


LOG = logging.getLogger("tests.data_dependent")
LOG.addHandler(ToStandardOutput())
LOG.setLevel(logging.INFO)
LOG.propagate = False


class Board:
    """What effects leave behind."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self.notes: list[Any] = []
        self.stamps: list[float] = []
        self.last: Tensor | None = None
        self.total = torch.zeros(4)
        self.file = Path(tempfile.mkdtemp(dir=folder)) / "log.txt"
        self.callback = CALLBACK(self._called)

    def _called(self, number: int) -> int:
        self.notes.append(number)
        return number + 1

    def watch(self) -> Any:
        written = self.file.read_text() if self.file.exists() else ""
        # Clocks differ between twins; that they went on does not.
        rising = [a < b for a, b in itertools.pairwise(self.stamps)]
        recent = [stamp > START for stamp in self.stamps]
        return self.count, self.notes, self.last, self.total, written, rising, recent


START = time.time()

Effect = Callable[[Board, Tensor], Tensor]


def printing(board: Board, x: Tensor) -> Tensor:
    print("sum", round(x.sum().item(), 3), "of", tuple(x.shape))
    return x + 1


def printing_a_tensor(board: Board, x: Tensor) -> Tensor:
    print(x.mean(0), f"{x.shape[0]} rows")
    return x - 1


def writing_to_stdout(board: Board, x: Tensor) -> Tensor:
    written = sys.stdout.write(f"{x.numel()};")
    return x * written


def logging_a_line(board: Board, x: Tensor) -> Tensor:
    LOG.info("rows %d, largest %.3f", x.shape[0], x.abs().sum().item())
    return x + 0.5


def through_numpy(board: Board, x: Tensor) -> Tensor:
    array = x.detach().numpy()
    board.notes.append(array.sum().item())
    return torch.from_numpy(np.sort(array, axis=0)) + float(np.max(array, initial=0.0))


def numpy_draw(board: Board, x: Tensor) -> Tensor:
    return x * float(np.random.rand())


def to_file(board: Board, x: Tensor) -> Tensor:
    with board.file.open("a") as file:
        # In float64: the order of a sum must not decide the last digit.
        file.write(f"{x.shape[0]} {x.double().sum().item():.3f}\n")
    return x * 2


def reading_back(board: Board, x: Tensor) -> Tensor:
    with board.file.open("a") as file:
        file.write("x")
    return x + len(board.file.read_text())


def clock(board: Board, x: Tensor) -> Tensor:
    board.stamps.append(time.time())
    return x + (time.time() > START)


def exact_clock(board: Board, x: Tensor) -> Tensor:
    begun = time.perf_counter_ns()
    y = x.square()
    board.notes.append(time.perf_counter_ns() >= begun)
    board.stamps.append(time.time())
    return y


def drawing(board: Board, x: Tensor) -> Tensor:
    if random.random() < 0.5:
        board.notes.append(random.randint(0, 9))
    return x * random.random()


def torch_draw(board: Board, x: Tensor) -> Tensor:
    x = functional.dropout(x, 0.5, training=True)
    return x + torch.rand(x.shape[0], 1)


def native_call(board: Board, x: Tensor) -> Tensor:
    """The generator of the C library counts calls."""
    return x * (LIBC.rand() % 7)


def native_callback(board: Board, x: Tensor) -> Tensor:
    # To the last bit, whoever computes it: the callback keeps it.
    return x + board.callback(int(x.max().clamp(-9, 9) * 10))


def counting(board: Board, x: Tensor) -> Tensor:
    board.count += 1
    board.notes.append(x.shape[0])
    board.last = x
    board.total += x.sum(0)
    return x + board.count


def changing_the_argument(board: Board, x: Tensor) -> Tensor:
    x.add_(1)
    board.notes.append(x.sum().item())
    return x * 2


def warning(board: Board, x: Tensor) -> Tensor:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(f"{x.shape[0]} rows", stacklevel=1)
    board.notes.append([str(each.message) for each in caught])
    return x


def through_json(board: Board, x: Tensor) -> Tensor:
    board.notes.append(json.dumps(x[:1].tolist()))
    return x + len(board.notes)


EFFECTS: tuple[Effect, ...] = (
    printing,
    printing_a_tensor,
    writing_to_stdout,
    logging_a_line,
    through_numpy,
    numpy_draw,
    to_file,
    reading_back,
    clock,
    exact_clock,
    drawing,
    torch_draw,
    native_call,
    native_callback,
    counting,
    changing_the_argument,
    warning,
    through_json,
)

# -- places ----------------------------------------------------------------------------------------

Place = Callable[[Board, Effect], Callable[[Tensor], Any]]


def straight(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        y = effect(board, x * 2)
        return y - x

    return f


def twice_around_a_change(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    """What is seen between two effects is what was true between them."""

    def f(x: Tensor) -> Any:
        y = effect(board, x)
        board.count += 1
        board.total.add_(1)
        x.mul_(2)
        z = effect(board, x)
        board.count += 1
        return y, z, board.count

    return f


def branches(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        board.count += 1
        if x.sum() > 0:
            x = effect(board, x)
        else:
            board.notes.append("not")
        if x.mean() > 0.5:
            return effect(board, -x), board.count
        return x

    return f


def loop(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        for number in range(3):
            x = effect(board, x * 0.5)
            if x.sum() > 2:
                break
            board.notes.append(number)
        else:
            x = x - 1
        return x

    return f


def rows(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    """As many effects as there are rows that pass."""

    def f(x: Tensor) -> Any:
        total = torch.zeros(1, 4)
        for row in x[x[:, 0] > 0]:
            total = total + effect(board, row[None])
        return total

    return f


class Managed:
    def __init__(self, board: Board) -> None:
        self.board = board

    def __enter__(self) -> Managed:
        self.board.notes.append("in")
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.board.notes.append("out" if kind is None else kind.__name__)
        return kind is ValueError


@contextlib.contextmanager
def bracketed(board: Board) -> Iterator[int]:
    board.count += 1
    try:
        yield board.count
    finally:
        board.notes.append("closed")


def with_blocks(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        with Managed(board), torch.no_grad():
            x = effect(board, x)
            if x.sum() > 1:
                raise ValueError("large")
            x = effect(board, x)
        with bracketed(board) as number:
            return effect(board, x + number)

    return f


def try_blocks(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        try:
            x = effect(board, x)
            if x.max() > 1.5:
                raise ValueError("large")
            x = x + 1
        except ValueError as error:
            board.notes.append(str(error))
            x = effect(board, x * 0.1)
        except IndexError:
            board.notes.append("empty")
        else:
            board.notes.append("fine")
        finally:
            x = effect(board, x)
        return x

    return f


def comprehension(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        found = [effect(board, x * number) for number in range(3) if x.sum() > number - 1]
        sizes = {number: effect(board, part) for number, part in enumerate(found)}
        return found, sizes, any(effect(board, x).sum() > 3 for _ in range(2))

    return f


def generator(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def produce(x: Tensor) -> Iterator[Tensor]:
        for number in range(3):
            yield effect(board, x + number)
            board.notes.append(f"after {number}")

    def f(x: Tensor) -> Any:
        total = torch.zeros_like(x)
        for y in produce(x):
            total = total + y
            if total.sum() > 4:
                break
        return total

    return f


def callees(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def inner(x: Tensor, *, times: int = 1) -> Tensor:
        return effect(board, x) if x.sum() > 0 else effect(board, effect(board, x)) * times

    def outer(x: Tensor, way: Callable[..., Tensor]) -> Tensor:
        y = way(x, times=2)
        board.count += 1
        return way(y)

    def f(x: Tensor) -> Any:
        return outer(x, inner), list(map(inner, x.split(2)))

    return f


def hooks(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    with torch.random.fork_rng([]):
        devices.seed(0)
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    module.requires_grad_(False)

    def before(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (effect(board, args[0]),)

    def after(_: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> Tensor | None:
        return effect(board, result) if result.sum() > 0 else None

    module[0].register_forward_pre_hook(before)
    module[1].register_forward_hook(after)
    module.register_forward_hook(after)
    return module


PLACES: tuple[Place, ...] = (
    straight,
    twice_around_a_change,
    branches,
    loop,
    rows,
    with_blocks,
    try_blocks,
    comprehension,
    generator,
    callees,
    hooks,
)


def _program(place: Place, effect: Effect, folder: Path) -> Program:
    def build() -> Built:
        board = Board(folder)
        return Built(place(board, effect), board.watch)

    def inputs(rng: random.Random) -> tuple[Any, ...]:
        LIBC.srand(rng.randint(1, 1000))
        return (matrix(rng, least=0),)

    return Program(f"{effect.__name__} in {place.__name__}", build, inputs, CALLS)


def _pairs(effects: Sequence[Effect], places: Sequence[Place]) -> list[Any]:
    return [
        pytest.param(
            effect,
            place,
            id=f"{effect.__name__}-{place.__name__}",
        )
        for effect in effects
        for place in places
    ]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(("effect", "place"), _pairs(EFFECTS, PLACES))
def test_effects(effect: Effect, place: Place, dynamic: bool | None, tmp_path: Path) -> None:
    run_twins(_program(place, effect, tmp_path), dynamic)


# -- errors ----------------------------------------------------------------------------------------


class Stopped(Exception):
    """An error of the user's own."""


def failing_check(board: Board, x: Tensor) -> Tensor:
    torch._check(bool(x.sum() > 0), lambda: "the sum must be positive")
    return x


def failing_size_check(board: Board, x: Tensor) -> Tensor:
    count = (x > 0).sum().item()
    torch._check(count > 8, lambda: f"{count} are too few")
    return x[:1] * count


def failing_anyshape_check(board: Board, x: Tensor) -> Tensor:
    anyshape.check((x > 0).sum().item() > 8, "too few")
    return x


def failing_assertion(board: Board, x: Tensor) -> Tensor:
    return must_be_positive(x)


def tensor_index_out_of_range(board: Board, x: Tensor) -> Tensor:
    return x[int((x[:, 0] > 0).sum())]


def gather_out_of_range(board: Board, x: Tensor) -> Tensor:
    return x.index_select(0, (x[:, 0] > 0).sum()[None])


def embedding_out_of_range(board: Board, x: Tensor) -> Tensor:
    return functional.embedding((x > 0).sum(0), x)


def list_index_out_of_range(board: Board, x: Tensor) -> Tensor:
    count: Any = (x[:, 0] > 0).sum().item()
    return x * [1, 2, 3][count]


def missing_key(board: Board, x: Tensor) -> Tensor:
    count: Any = (x[:, 0] > 0).sum().item()
    return x * {0: 1, 1: 2}[count]


def division_by_zero(board: Board, x: Tensor) -> Tensor:
    return x * (6 // (x[:, 0] > 0).sum().item())


def wrong_split(board: Board, x: Tensor) -> Tensor:
    count = (x[:, 0] > 0).sum().item()
    return x.split([count, count])[0]


def in_place_then_out_of_range(board: Board, x: Tensor) -> Tensor:
    board.total.add_(1)
    x.mul_(3)
    return x.index_select(0, (x[:, 0] > 0).sum()[None])


def exception_in_an_opaque_call(board: Board, x: Tensor) -> Tensor:
    np.frombuffer(b"abcdefgh", np.float32, int((x[:, 0] > 0).sum()))
    return x + 1


def exception_of_the_user(board: Board, x: Tensor) -> Tensor:
    print("asking")
    if x.sum() > 0:
        raise Stopped(x.shape[0])
    return x + 1


def exception_from_native_callback(board: Board, x: Tensor) -> Tensor:
    found = sorted(x[:, 0].tolist(), key=lambda value: 1 / (value > 0))
    return x + found[0]


def interrupt_raised(board: Board, x: Tensor) -> Tensor:
    if x.sum() > 0:
        raise KeyboardInterrupt
    return x


def interrupt_by_signal(board: Board, x: Tensor) -> Tensor:
    if x.sum() > 0:
        signal.raise_signal(signal.SIGINT)
    return x + 1


def interrupt_in_an_opaque_call(board: Board, x: Tensor) -> Tensor:
    if x.sum() > 0:
        board.file.write_text("before")
        signal.raise_signal(signal.SIGINT)
        board.file.write_text("after")
    return x + 1


FAILURES: tuple[Effect, ...] = (
    failing_check,
    failing_size_check,
    failing_anyshape_check,
    failing_assertion,
    tensor_index_out_of_range,
    gather_out_of_range,
    embedding_out_of_range,
    list_index_out_of_range,
    missing_key,
    division_by_zero,
    wrong_split,
    in_place_then_out_of_range,
    exception_in_an_opaque_call,
    exception_of_the_user,
    exception_from_native_callback,
    interrupt_raised,
    interrupt_by_signal,
    interrupt_in_an_opaque_call,
)


def around(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    """State of every kind before and after the failure."""

    def f(x: Tensor) -> Any:
        board.count += 1
        board.notes.append("before")
        board.total.add_(1)
        board.last = x * 2
        x.add_(0.1)
        noise = torch.rand(2)
        y = effect(board, x)
        board.count += 10
        board.notes.append("after")
        board.total.add_(10)
        board.last = y
        x.add_(100)
        return y, noise, torch.rand(1)

    return f


def around_prints(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        print("before", x.shape[0])
        board.count += 1
        board.total[0] = x.sum()
        y = effect(board, x)
        print("after", round(y.sum().item(), 3))
        board.count += 10
        return y

    return f


def handled(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    """The program catches what goes wrong and goes on."""

    def f(x: Tensor) -> Any:
        board.total.add_(1)
        try:
            board.count += 1
            y = effect(board, x)
            board.notes.append("worked")
        except (Exception, KeyboardInterrupt) as error:
            board.notes.append(type(error).__name__)
            y = -x
        finally:
            board.count += 10
        return y * board.count + torch.rand(1)

    return f


def in_manager(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    def f(x: Tensor) -> Any:
        with bracketed(board) as number, Managed(board):
            x = x + number
            x = effect(board, x)
            board.notes.append("worked")
        return x

    return f


def late_in_a_loop(board: Board, effect: Effect) -> Callable[[Tensor], Any]:
    """Some rounds succeed before one fails."""

    def f(x: Tensor) -> Any:
        for _ in range(3):
            board.count += 1
            x.add_(0.25)
            x.copy_(x.roll(1, 0))
            effect(board, x)
            board.total += x.sum(0)
        return x * 2

    return f


PLACES_OF_FAILURES: tuple[Place, ...] = (around, around_prints, handled, in_manager, late_in_a_loop)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(("effect", "place"), _pairs(FAILURES, PLACES_OF_FAILURES))
def test_failures(effect: Effect, place: Place, dynamic: bool | None, tmp_path: Path) -> None:
    run_twins(_program(place, effect, tmp_path), dynamic)
