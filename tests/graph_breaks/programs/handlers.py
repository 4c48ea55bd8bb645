"""Handlers around calls that cannot be traced, and exceptions that go through them."""

from __future__ import annotations

import contextlib
import json
import struct
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.graph_breaks.opaque import Trouble, note, opaque, opaque_raise
from tests.graph_breaks.table import leaf, program, rows, rows_and_flag, rows_and_number


class Worse(Trouble):
    """A custom exception with fields."""

    def __init__(self, code: int, tensor: Tensor) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.tensor = tensor


@program(rows_and_flag)
def boundary_raises_and_is_caught(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        opaque_raise("try", flag)
        y = y - 3
        y = y.relu()
    except Trouble:
        y = y * y + 1
    return y.sum(0) * 2


@program(rows_and_flag)
def try_with_all_clauses(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        note("try", y)
        y = y - 1
        opaque_raise("in the try", flag)
    except Trouble as error:
        note(str(error), y)
        y = y.abs() + 2
    else:
        note("else", y)
        y = y * 3 - 1
    finally:
        note("finally", y)
        y = y + 0.5
    return y.relu().sum(1)


@program(rows_and_flag)
def boundary_in_the_handler(x: Tensor, flag: bool) -> Tensor:
    y = x + 1
    try:
        y = y * 2
        if flag:
            raise ValueError("by the program")
        y = y - 1
    except ValueError as error:
        opaque("handler", str(error))
        y = y.relu() * 3
    return y.sum(0) + 1


@program()
def boundary_in_finally(x: Tensor) -> Tensor:
    y = x * 2 + 1
    try:
        y = y.relu() - 1
        return y * 2
    finally:
        opaque("finally", y)
        y = y + 1
        note("after", y)


@program(rows_and_flag)
def raised_again(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        opaque_raise("inside", flag)
        y = y - 1
    except Trouble:
        y.add_(1)
        note("caught", y)
        raise
    return y.relu() * 2


@program(rows_and_flag)
def raised_from(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        opaque_raise("inside", flag)
    except Trouble as error:
        x.mul_(2)
        raise RuntimeError(f"rows {len(y)}") from error
    return y.relu() * 2


@program(rows_and_flag)
def raised_during_another(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        y = y + 1
        opaque_raise("inside", flag)
    except Trouble:
        y = y - 1
        opaque_raise("in the handler", flag, ValueError)
    return y.relu() * 2


@program(rows_and_flag)
def raised_from_none(x: Tensor, flag: bool) -> Tensor:
    y = x.abs() + 1
    try:
        opaque_raise("inside", flag)
    except Trouble:
        raise KeyError("other") from None
    return y * 2


@program(rows_and_number)
def nested_handlers(x: Tensor, n: int) -> Tensor:
    y = x * n + 1
    try:
        try:
            opaque_raise("a", n % 3 == 0, ValueError)
            y = y * 2
        except KeyError:
            y = y - 100
        finally:
            note("inner", y)
            y = y + 1
        opaque_raise("b", n % 3 == 1, KeyError)
        y = y - 1
    except (ValueError, KeyError) as error:
        note(type(error).__name__, y)
        y = y.relu() * 5
    return y.sum(0)


@program(rows_and_flag)
def custom_exception_with_a_tensor(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        if flag:
            raise Worse(opaque("code", len(y)), y * 3)
        y = y - 1
    except Worse as error:
        y = error.tensor + error.code
        y = y.relu()
    return y.sum(1) * 2


@program(rows_and_flag)
def suppressed(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    with contextlib.suppress(Trouble):
        y = y + 2
        opaque_raise("suppressed", flag)
        y = y * 3
        y = y - 1
    return y.relu().sum(0)


@program()
def tensor_code_raises(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("before", y)
    try:
        y = y @ y.new_ones(len(y) + 9, 2)
    except RuntimeError:
        y = y.relu() + 5
    return y.sum(0) * 2


@program(one_side="every call raises before the other side")
def tensor_code_raises_through(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("before", y)
    x.add_(1)
    y = y.view(-1, 3) if y.numel() % 3 == 0 else y.view(4, -1)
    return y.reshape(x.shape[0], 5)


@program()
def boundary_raises_through(x: Tensor) -> Tensor:
    y = x * 2 + 1
    x.add_(1)
    note("written", y)
    opaque_raise("out", len(y) > 3)
    x.mul_(2)
    return y.relu() - x


@program()
def native_error_caught(x: Tensor) -> Tensor:
    y = x * 2 + 1
    try:
        number = json.loads("[1, 2" + ("]" if len(y) % 2 else ""))
    except json.JSONDecodeError as error:
        y = y - error.pos
        number = [0]
    return (y * len(number)).relu().sum(0)


@program()
def struct_error_through(x: Tensor) -> Tensor:
    y = x * 2 + 1
    x.zero_()
    packed = struct.pack("<B", len(y) * 60)
    return y.relu() - len(packed)


@program()
def numpy_error_caught(x: Tensor) -> tuple[Any, Tensor]:
    y = x @ x.t() * 2
    y[0] = 0.0
    try:
        found = np.linalg.inv(y.numpy())
    except np.linalg.LinAlgError as error:
        return str(error), y.relu() + 1
    return found.shape, y.sum(0)


@program(rows_and_number)
def handler_by_tuple_and_order(x: Tensor, n: int) -> Tensor:
    y = x * 2 + 1
    kinds = (ValueError, KeyError, Trouble)
    try:
        opaque_raise("kind", True, kinds[n % 3])
    except (ValueError, TypeError):
        y = y * 2 - 1
    except LookupError:
        y = y * 3 - 1
    except Exception:
        y = y * 4 - 1
    return y.relu().sum(1)


@program(rows_and_flag)
def error_name_is_deleted(x: Tensor, flag: bool) -> Tensor:
    error = "kept"
    y = x * 2 + 1
    try:
        opaque_raise("x", flag)
    except Trouble as error:
        y = y - len(str(error))
        y = y.relu()
    return y.sum(0) + len(error)  # pyright: ignore[reportPossiblyUnboundVariable] what is tested


@program(rows_and_flag)
def return_in_finally_wins(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        opaque_raise("lost", flag)
        return y * 100
    finally:
        y = y.relu() + 1
        return y - 1  # noqa: B012, SIM107 this is what is tested


@program(rows_and_number)
def break_in_finally(x: Tensor, n: int) -> Tensor:
    y = x * 2 + 1
    for step in range(n):
        try:
            y = y + step
            opaque_raise(step, step == 2, ValueError)
        finally:
            note("step", y)
            if step == 2:
                break  # noqa: B012 this is what is tested
    return y.relu().sum(0)


@program(rows_and_flag)
def unbound_after_a_branch(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    if flag:
        z = opaque("bound", y) - 1
        z = z.relu()
    y = y * 3
    return y + z  # pyright: ignore[reportPossiblyUnboundVariable] this is what is tested


def _last(*given: Any) -> Any:
    return given[-1]


@program(rows_and_flag)
def unbound_before_an_effect(x: Tensor, flag: bool) -> Any:
    y = x * 2 + 1
    opaque("before", y)
    if flag:
        z = y.relu() - 1
    y = y + 1
    return _last(z, opaque("only if bound"), y * 2)  # pyright: ignore[reportPossiblyUnboundVariable] what is tested


@program(rows_and_flag)
def unbound_and_augmented(x: Tensor, flag: bool) -> Any:
    y = x * 2 + 1
    opaque("before", y)
    if flag:
        z = y.relu() - 1
    z -= opaque("only if bound", 2)  # pyright: ignore[reportPossiblyUnboundVariable] what is tested
    return z * 2 + y


@program(rows_and_flag)
def unbound_in_results(x: Tensor, flag: bool) -> Any:
    y = x * 2 + 1
    opaque("before", y)
    if flag:
        z = y.relu() - 1
    return z, x.add_(1), note("only if bound"), y * 2  # pyright: ignore[reportPossiblyUnboundVariable] what is tested


@program()
def results_bind_a_variable(x: Tensor) -> Any:
    y = x * 2 + 1
    opaque("before", y)
    return y, (y := y + 1), y * 2, y.add_(1).sum(0)


@program(rows_and_flag)
def unbound_after_a_raise(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    with contextlib.suppress(Trouble):
        opaque_raise("z", flag)
        z = y.relu() + 1
    y = y * 2
    return y - z  # pyright: ignore[reportPossiblyUnboundVariable] this is what is tested


@program(rows_and_flag)
def unbound_after_del(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    z = y.relu() * 2
    opaque("before del", z)
    if flag:
        del z
    y = y - 1
    return y * z  # pyright: ignore[reportPossiblyUnboundVariable] what is tested


@program(one_side="every call raises before the other side")
def name_error_of_a_global(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("before", y)
    y = y.relu()
    return y + not_a_name  # noqa: F821  # pyright: ignore[reportUndefinedVariable] this is what is tested


@program(rows_and_flag)
def attribute_error_caught(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    holder = opaque("holder", "text" if flag else [])
    try:
        holder.append(y)
        y = y - 1
    except AttributeError as error:
        y = y + len(str(error))
    return y.relu().sum(0)


@program(rows_and_flag)
def group_of_exceptions(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        if flag:
            raise ExceptionGroup("both", [ValueError("a"), Trouble("b")])
        y = y - 1
    except* ValueError:
        opaque("values", y)
        y = y * 3
    except* Trouble:
        y = y.relu() + 1
    return y.sum(0)


@program(rows_and_flag)
def notes_on_an_exception(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    try:
        opaque_raise("noted", flag)
        y = y * 2
    except Trouble as error:
        error.add_note(f"rows {len(y)}")
        y.mul_(2)
        raise
    return y.relu() - 1


@program(rows_and_flag)
def assertion_beside(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    opaque("checked", flag)
    x.add_(1)
    if not flag:
        raise AssertionError(f"flag is {flag} at {len(y)}")
    y = y.relu() - 1
    return y.sum(0)


@program(leaf)
def in_place_on_a_leaf_raises(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("before", y)
    try:
        x.add_(1)
    except RuntimeError as error:
        y = y - len(str(error)) % 7
    return y.relu() * 3


@program(rows)
def loop_of_retries(x: Tensor) -> Tensor:
    y = x * 2 + 1
    tries = 0
    while True:
        tries += 1
        try:
            y = y + 1
            opaque_raise(tries, tries < 3)
            break
        except Trouble:
            y = y * 2 - 1
            continue
    return y.relu() * tries


@program(rows)
def truth_raises(x: Tensor) -> Tensor:
    y = x * 2 + 1
    opaque("before", y)
    try:
        if y > 0:
            y = y * 100
    except RuntimeError as error:
        y = y - len(str(error)) % 5
    return y.relu() + 1


@program(rows_and_flag)
def stop_iteration_through(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    numbers = iter([1, 2] if flag else [1])
    y = y + next(numbers)
    opaque("first", y)
    y = y * next(numbers)
    return y.relu() - 1


@program(rows)
def keyboard_interrupt_through(x: Tensor) -> Tensor:
    y = x * 2 + 1
    try:
        opaque_raise("stop", len(y) == 2, KeyboardInterrupt)
        y = y - 1
    except Exception:
        y = y * 1000
    finally:
        x.add_(1)
    return y.relu() + torch.ones(4)
