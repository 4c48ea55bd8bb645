"""Contracts that annotations are: `shapes="annotations"`."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Annotated, Any, NamedTuple, Optional, TypedDict

import numpy as np
import pytest
import torch
from jaxtyping import Bool, Float, Float32, Int, Num, Shaped, jaxtyped
from torch import Tensor, nn

import anyshape
from anyshape.errors import BadShapeSpec, ShapeContractViolation


def compiled(function: Any) -> Any:
    return anyshape.compile(function, shapes="annotations")


def check(function: Any, *calls: tuple[Any, ...], captures: int = 1) -> Any:
    """Each call as eager, with so many programs for all of them."""
    made = compiled(function)
    for args in (*calls, *calls):
        torch.testing.assert_close(made(*args), function(*args))
    assert made.stats().captures == captures
    return made


def refuses(made: Any, *args: Any, because: str) -> None:
    with pytest.raises(ShapeContractViolation, match=because):
        made(*args)


def r(*sizes: int) -> Tensor:
    return torch.randn(sizes)


def test_names_and_numbers():
    def f(x: Float[Tensor, "batch seq 8"], y: Float[Tensor, "batch 8"]) -> Float[Tensor, "batch"]:
        return (x.sum(1) + y).sum(1)

    made = check(f, *((r(b, s, 8), r(b, 8)) for b, s in ((2, 3), (5, 4), (1, 1), (3, 0), (0, 2))))
    refuses(made, r(2, 3, 7), r(2, 8), because=re.escape("x.shape[2] is 7"))
    refuses(made, r(2, 3, 8), r(3, 8), because=re.escape("y.shape[0] is 3, where batch is 2"))
    refuses(made, r(2, 8), r(2, 8), because="x has 2 dimensions")
    refuses(made, torch.ones(2, 3, 8, dtype=torch.int64), r(2, 8), because="dtype int64")


def test_a_program_that_needs_more_than_it_says():
    def f(x: Float[Tensor, "n 4"]) -> Tensor:
        return x.view(2, 2, 4)

    with pytest.raises(anyshape.AnyshapeError, match=r"n.* == 4|needed"):
        compiled(f)(r(4, 4))


def test_expressions():
    def f(x: Float[Tensor, "n"], y: Float[Tensor, "n+1"], z: Float[Tensor, "2*n"]) -> Tensor:
        return x.sum() + y.sum() + z.sum()

    made = check(f, *((r(n), r(n + 1), r(2 * n)) for n in (3, 0, 7)))
    refuses(made, r(3), r(3), r(6), because=re.escape("y.shape[0] is 3, where n + 1 is 4"))


def test_any_number_of_dimensions():
    def f(x: Float[Tensor, "... 4"], y: Shaped[Tensor, "..."]) -> Tensor:
        return x.sum(-1)

    # Not spoken of: static until it is seen to change.
    check(f, (r(3, 4), r(2)), (r(5, 4), r(2)), captures=2)
    check(f, (r(3, 4), r(2)), (r(2, 3, 4), r(2)), captures=2)
    refuses(compiled(f), r(3), r(3), because="shape")


def test_any_number_of_named_dimensions():
    def f(x: Float[Tensor, "*batch 4"], y: Float[Tensor, "*batch"]) -> Tensor:
        return x * y[..., None]

    made = check(f, (r(3, 2, 4), r(3, 2)), (r(5, 7, 4), r(5, 7)))
    torch.testing.assert_close(made(r(4), r().abs() * 0), torch.zeros(4))
    refuses(made, r(3, 2, 4), r(3, 3), because="shape")
    refuses(made, r(3, 2, 4), r(3), because=re.escape("1 dimensions for `*batch`"))
    refuses(made, torch.tensor(1.0), r(), because="at least 1")


def test_broadcasts():
    def f(x: Float[Tensor, "n 4"], y: Float[Tensor, "#n 4"]) -> Tensor:
        return x + y

    made = check(f, (r(3, 4), r(3, 4)), (r(5, 4), r(5, 4)))
    check(f, (r(3, 4), r(1, 4)), (r(5, 4), r(1, 4)))
    check(f, (r(3, 4), r(3, 4)), (r(5, 4), r(1, 4)), (r(7, 4), r(1, 4)), captures=2)
    refuses(made, r(3, 4), r(2, 4), because=re.escape("y.shape[0] is 2, where n is 3"))


def test_broadcasts_of_any_number():
    def f(x: Float[Tensor, "#*b 4"], y: Float[Tensor, "#*b 4"]) -> Tensor:
        return x + y

    made = check(f, (r(3, 2, 4), r(2, 4)), (r(5, 6, 4), r(6, 4)))
    check(f, (r(3, 1, 4), r(2, 4)), (r(5, 1, 4), r(6, 4)))
    refuses(made, r(3, 2, 4), r(3, 4), because="shape")


def test_anonymous_and_documented_dimensions():
    def f(x: Float[Tensor, "rows=3 _ _cols"]) -> Tensor:
        return x.sum(0)

    made = compiled(f)
    torch.testing.assert_close(made(torch.ones(3, 2, 5)), torch.full((2, 5), 3.0))
    refuses(made, r(2, 2, 5), because="contract has 3")


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (Float, torch.bfloat16, torch.int32),
        (Float32, torch.float32, torch.float64),
        (Int, torch.int8, torch.uint8),
        (Bool, torch.bool, torch.uint8),
        (Num, torch.complex64, torch.bool),
        (Shaped, torch.bool, None),
    ],
)
def test_dtypes(kind: Any, right: torch.dtype, wrong: torch.dtype | None):
    def f(x: Tensor) -> Tensor:
        return x.clone()

    f.__annotations__["x"] = kind[Tensor, "n"]
    made = compiled(f)
    for n in (2, 3):
        assert made(torch.ones(n).to(right)).dtype is right
    if wrong is not None:
        refuses(made, torch.ones(2, dtype=wrong), because="dtype")


def test_what_may_be_absent():
    def f(
        x: Float[Tensor, "n"],
        y: Optional[Float[Tensor, "n"]] = None,  # noqa: UP045 people write it
        z: Float[Tensor, "n"] | None = None,
    ) -> Tensor:
        x = x if y is None else x + y
        return x if z is None else x * z

    made = check(f, (r(3),), (r(4),))
    check(f, (r(3), r(3), r(3)), (r(4), r(4), r(4)))
    refuses(made, r(3), None, r(4), because="z.shape")


class Pair(NamedTuple):
    left: Float[Tensor, "n 2"]
    right: Float[Tensor, "n 3"]


class Batch(TypedDict):
    ids: Int[Tensor, "n"]
    other: int


@dataclasses.dataclass
class Data:
    values: Float[Tensor, "n"]
    name: str


def test_containers():
    def f(
        pair: Pair,
        batch: Batch,
        data: Annotated[Data, "more"],
        two: tuple[Float[Tensor, "n"], int],
        many: list[Float[Tensor, "n"]],
        named: dict[str, Float[Tensor, "n"]],
    ) -> Tensor:
        n = pair.left.sum(1) + pair.right.sum(1) + batch["ids"] + data.values + two[0] * two[1]
        return n + many[0] + many[1] + named["a"]

    def args(n: int, last: int | None = None) -> tuple[Any, ...]:
        batch: Batch = {"ids": torch.arange(n), "other": 1}
        many = [r(n), r(n if last is None else last)]
        return Pair(r(n, 2), r(n, 3)), batch, Data(r(n), "d"), (r(n), 2), many, {"a": r(n)}

    made = check(f, args(3), args(5))
    refuses(made, *args(3, 4), because=re.escape("many[1].shape[0] is 4"))


def test_star_arguments():
    def f(*xs: Float[Tensor, "n"], **named: Float[Tensor, "n"]) -> Tensor:
        return sum(xs, named["by"])

    made = compiled(f)
    for n in (2, 3, 5):
        xs, by = (r(n), r(n)), r(n)
        torch.testing.assert_close(made(*xs, by=by), xs[0] + xs[1] + by)
    assert made.stats().captures == 1
    with pytest.raises(ShapeContractViolation, match="named"):
        made(r(2), r(2), by=r(3))


def test_modules_methods_and_partials():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 2)

        def forward(self, x: Float[Tensor, "batch 4"]) -> Float[Tensor, "batch 2"]:
            return self.linear(x)

        def twice(self, x: Float[Tensor, "batch 4"], k: int = 2) -> Tensor:
            return self.linear(x) * k

    class Call:
        def __call__(self, x: Float[Tensor, "batch 4"]) -> Tensor:
            return x * 2

    net = Net()
    for function in (net, net.twice, functools.partial(net.twice, k=3), Call()):
        made = compiled(function)
        for n in (2, 3, 5):
            x = r(n, 4)
            torch.testing.assert_close(made(x), function(x))
        assert made.stats().captures == 1
        refuses(made, r(2, 3), because=re.escape("x.shape[1] is 3"))


def test_a_function_with_a_checker_of_its_own():
    @jaxtyped(typechecker=None)
    def f(x: Float[Tensor, "n 4"]) -> Tensor:
        return x * 2

    made = compiled(f)
    for n in (2, 3):
        torch.testing.assert_close(made(torch.ones(n, 4)), torch.full((n, 4), 2.0))
    refuses(made, r(2, 3), because="contract has 4")


def test_arrays_of_others_are_not_spoken_of():
    def f(x: Float[Tensor, "n"], a: Float[np.ndarray, "n"]) -> Tensor:
        return x * float(a[0])

    made = compiled(f)
    torch.testing.assert_close(made(torch.ones(3), np.full(2, 2.0)), torch.full((3,), 2.0))


# -- what cannot be said ---------------------------------------------------------------------------


def no_annotations(x: Tensor, n: int) -> Tensor:
    return x * n


def from_elsewhere(x: Float[Tensor, "{n}"], n: int) -> Tensor:
    return x


def of_a_tree(x: Float[Tensor, "?n"]) -> Tensor:
    return x


def alternatives(x: Float[Tensor, "n"] | Float[Tensor, "n m"]) -> Tensor:
    return x


def a_set(x: set[Float[Tensor, "n"]]) -> Tensor:
    return x.pop()


def unknown_name(x: Float[Tensor, "n"], y: Missing) -> Tensor:  # pyright: ignore[reportUndefinedVariable] on purpose
    return x


def no_size(x: Float[Tensor, "n//2"]) -> Tensor:
    return x


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_annotations, "no parameter with an annotation"),
        (from_elsewhere, r"the word `{n}` \(a value from outside"),
        (of_a_tree, r"the word `\?n`"),
        (alternatives, "one shape, or one and None"),
        (a_set, "tuples, sequences, mappings"),
        (unknown_name, "annotation of y: 'Missing' cannot be evaluated"),
        (no_size, "the dim `n`"),
        (torch.sin, "no parameter"),
    ],
)
def test_what_is_not_supported_is_named(function: Any, said: str):
    with pytest.raises(BadShapeSpec, match=said):
        compiled(function)
