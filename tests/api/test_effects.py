"""Printing, warning and logging in compiled functions: in order, and in the name of their lines."""

# The functions below are what users write, not what we would.
# ruff: noqa: B028, UP031
# pyright: basic

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import anyshape
from tests.api.programs import check, heard, numbers

log = logging.getLogger("tests.effects")
adapter = logging.LoggerAdapter(log, {"extra": 5})
linear = nn.Linear(4, 4)
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


class Config:
    def __init__(self) -> None:
        self.width = 4

    def __repr__(self) -> str:
        return f"Config({self.width})"


config = Config()


@program
def print_plain_values(x):
    print("n", x.shape[0], x.shape, x.dtype, [1, x.shape[0]], {"a": x.shape}, end="!\n", sep=";")
    print(config, torch.Tensor, (x.shape[0],), flush=True)
    return x + 1


@program
def print_tensors(x):
    y = x * 2
    print(y, [x.sum()], {"max": y.max()}, "last")
    return y + 1


@program
def print_before_a_write(x):
    y = x * 2
    print(y, x)
    y += 1
    x.zero_()
    print(y, x, f"{x[0]}")
    return y


@program
def formats(x):
    total = x.sum()
    print(f"{total} {total:.2f} {total!r} {x.shape[0]:>4}", "%s of %5d, %.1f%%" % (total, 3, total))
    print("{} {:.3f} {0!r} {name}".replace("{0!r}", "").format(total, total, name=x.shape))
    print("a" + f"{x.shape[0]}" + str(total), "-".join(["b", f"{total}", repr(x.shape[0])]))
    return x * 2


@program
def return_texts(x):
    text = f"{x.shape[0]} rows"
    return x + 1, text, {"key": f"{x.sum():.1f}"}, [str(x.shape)]


@program
def numbers_of_data(x):
    total = x.sum().item()
    print(f"total {total:.2f} {int(total)}", total)
    return x + total


@program
def other_streams(x):
    print("to stderr", file=sys.stderr)
    sys.stdout.write("written\n")
    sys.stdout.flush()
    sys.stderr.write("too\n")
    return x + 1


@program
def module_is_printed(x):
    print(linear)
    return linear(x)


@program
def log_records(x):
    log.warning("shape %s, sum %s, %d", x.shape, x.sum(), x.shape[0])
    log.info("not shown %s", x)
    log.debug(f"not shown {x}")
    log.error(f"sum {x.sum()}")
    log.log(logging.CRITICAL, "level %d", 50)
    log.critical("with %s", "extra", extra={"extra": x.shape[0]})
    logging.warning("root %d", x.shape[0])
    logging.getLogger("tests.effects.other").warning("named")
    adapter.warning("adapted")
    if log.isEnabledFor(logging.DEBUG):
        x = x * 0
    return x + 1


def helper(x):
    log.warning("by the caller", stacklevel=2)
    log.warning("by its caller", stacklevel=3)
    warnings.warn("by the caller", stacklevel=2)
    return x * 2


@program
def in_the_name_of_callers(x):
    y = helper(x)
    warnings.warn("outside", stacklevel=2)
    return y


@program
def warn_of_all_kinds(x):
    warnings.warn("plain")
    warnings.warn(f"size {x.shape[0]}", DeprecationWarning)
    warnings.warn(f"sum {x.sum()}", stacklevel=1)
    warnings.warn(UserWarning("made", x.shape[0]))
    return x + 1


@program
def filters_of_warnings(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("hidden")
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=DeprecationWarning)
            warnings.warn("shown", DeprecationWarning)
            warnings.warn("hidden")
    warnings.warn("seen")
    return x + 1


@program
def effects_in_order(x):
    print("one")
    y = x.exp()
    if y.sum() > 1e9:
        print("never")
    log.warning("two")
    print(x.sum())
    sys.stdout.write("three\n")
    print("four", x.shape[0])
    return y


@program
def containers_as_they_were(x):
    seen = []
    seen.append(x.shape[0])
    print(seen)
    log.warning("%s", seen)
    seen.append(2)
    print(seen)
    return x + len(seen)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_said(name: str) -> None:
    # A branch on data has a graph on each side of it.
    check(PROGRAMS[name], graphs=4 if name == "effects_in_order" else 2)


def test_text_with_a_gradient() -> None:
    def f(x):
        y = (x * 2).sum()
        print(x.sum(0), y, linear.weight.sum() * 0)
        print(linear.bias.shape, f"{y:.1f} {linear.bias[:0]}", nn.Parameter)
        return y

    check(f, grad=True)


def test_text_that_is_a_key_is_guarded() -> None:
    table = {"n3": 1.0, "n5": 2.0}

    def f(x):
        key = f"n{x.shape[0]}"
        return x * table.get(key, 7.0), key.upper(), key == "n5", len(key)

    check(f, sizes=(3, 3, 5, 5, 30, 5, 3), graphs=None)


def test_text_of_a_tensor_that_is_looked_into_ends_the_capture() -> None:
    def f(x):
        return x * len(f"{x.sum()}")

    compiled = anyshape.compile(f)
    for size in (3, 3, 25, 3):
        assert torch.equal(compiled(numbers(size)), f(numbers(size)))
    assert compiled.stats().graphs == 2  # before the text is looked into, and after it


@pytest.mark.parametrize("use", ["float(t)", "{t: 1}[t] * 1.0", "t.split('.')[0] == 'x'", "t + 1"])
def test_texts_do_not_escape_unguarded(use: str) -> None:
    scope: dict[str, Any] = {}
    exec(
        "def f(x, t):\n    try:\n        return %s\n    except TypeError:\n        return -1" % use,
        scope,
    )
    inner = scope["f"]

    def f(x):
        return x * 2, inner(x, f"{x.shape[0]}"), inner(x, f"{x.sum()}")

    compiled = anyshape.compile(f)
    for size in (3, 5, 7, 5, 3):
        expected, found = heard(f, numbers(size)), heard(compiled, numbers(size))
        assert (expected.raised, str(expected.result)) == (found.raised, str(found.result))


def test_a_warning_that_becomes_an_error_is_raised_where_it_is() -> None:
    def f(x):
        try:
            warnings.warn("now")
        except UserWarning:
            return x - 1
        return x + 1

    def as_error(step: int) -> None:
        warnings.resetwarnings()
        if step in (2, 3):
            warnings.simplefilter("error")

    compiled = anyshape.compile(f)
    with warnings.catch_warnings():
        for step, size in enumerate((3, 3, 3, 5, 5, 3)):
            as_error(step)
            with warnings.catch_warnings(record=True) as caught:
                assert torch.equal(compiled(numbers(size)), f(numbers(size)))
            assert len({str(w.message) for w in caught}) <= 1


def test_a_level_that_changes() -> None:
    def f(x):
        log.info("hello %s", x.sum())
        return x + 1

    def level(step: int) -> None:
        log.setLevel(logging.INFO if step in (2, 3) else logging.WARNING)

    try:
        check(f, before=level, graphs=4)
    finally:
        log.setLevel(logging.NOTSET)


def test_once_is_once() -> None:
    @functools.lru_cache(None)
    def warn_once(logger, message):
        logger.warning(message)

    def f(x):
        warn_once(log, "only once")
        return x + 1

    compiled = anyshape.compile(f)
    said = [heard(compiled, numbers(size)).logged for size in (3, 3, 5, 7)]
    assert list(map(len, said)) == [1, 0, 0, 0]
    warn_once.cache_clear()
    assert len(heard(compiled, numbers(3)).logged) == 1
    assert compiled.stats().eager_calls == 0


def test_what_cannot_be_traced_still_names_the_users_line() -> None:
    def f(x):
        y = x + len(open.__name__) * hash(sys.stdin.__class__) * 0
        sys.intern("runs eagerly")
        log.warning("here")
        warnings.warn("here", stacklevel=2)
        return y

    compiled = anyshape.compile(f)
    for size in (3, 5, 7, 4):
        expected, found = heard(f, numbers(size)), heard(compiled, numbers(size))
        assert (expected.logged, expected.warned) == (found.logged, found.warned)
