"""Functions, closures, globals, decorators, recursion."""

# The functions below are what users write, not what we would.
# pyright: reportAttributeAccessIssue=false, reportOptionalSubscript=false, reportArgumentType=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportReturnType=false, reportUnboundVariable=false
# pyright: reportFunctionMemberAccess=false, reportUnusedExpression=false

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor

from tests.api.features.registry import feature
from tests.api.twins import World

COUNT = 0
ITEMS: list[Any] = []
SETTINGS: dict[str, Any] = {"scale": 2.0}


@feature
def inner_nonlocal() -> World:
    def f(x: Tensor) -> Any:
        n = 0

        def g(y: Tensor) -> Tensor:
            nonlocal n
            n += 1
            return y * n

        return g(g(x)), n

    return World(f)


@feature
def outer_nonlocal() -> World:
    n = 0

    def f(x: Tensor) -> Tensor:
        nonlocal n
        n += 1
        return x + n

    return World(f, watch=lambda: n)


@feature
def two_functions_share_a_cell() -> World:
    n = 1

    def bump() -> None:
        nonlocal n
        n *= 2

    def f(x: Tensor) -> Tensor:
        bump()
        return x * n

    return World(f, watch=lambda: n)


@feature
def global_counter() -> World:
    def f(x: Tensor) -> Tensor:
        global COUNT
        COUNT += 1
        ITEMS.append(COUNT)
        return x * SETTINGS["scale"] + COUNT

    start = {"COUNT": 0, "ITEMS": [], "SETTINGS": {"scale": 2.0}}
    return World(f, globals=start)


@feature
def returned_closure() -> World:
    def f(x: Tensor) -> Callable[[Tensor], Tensor]:
        y = x * 2

        def g(z: Tensor) -> Tensor:
            return z + y.sum()

        return g

    return World(f)


@feature
def returned_closure_called() -> World:
    def f(x: Tensor, k: int) -> Any:
        y = x * k
        return lambda z: z + y, [lambda i=i: i * y for i in range(2)]

    return World(lambda x: (lambda g, hs: [g(x), *[h() for h in hs]])(*f(x, 3)))


@feature
def arguments_of_every_kind() -> World:
    def g(a: Any, /, b: Any, *rest: Any, k: int = 1, **more: Any) -> Any:
        return a * k + b + len(rest) + more["z"], sorted(more)

    def f(x: Tensor, *rest: Any, **more: Any) -> Any:
        return g(x, *rest, **more)

    return World(f, lambda x: (x, 1, 2, 3), lambda x: {"z": 3, "k": 5})


@feature
def default_arguments() -> World:
    def f(x: Tensor, scale: float = 2.0, items: list[int] = [1, 2], *, shift: int = 1) -> Tensor:  # noqa: B006
        items.append(len(items))
        return x * scale + shift + len(items)

    return World(f, watch=lambda: f.__defaults__)


@feature
def default_changed_between_calls() -> World:
    def f(x: Tensor, scale: float = 2.0, *, shift: int = 1) -> Tensor:
        return x * scale + shift

    def before(step: int) -> None:
        f.__defaults__ = (float(step),)
        f.__kwdefaults__["shift"] = step

    return World(f, before=before)


@feature
def function_attribute() -> World:
    def f(x: Tensor) -> Tensor:
        f.calls += 1
        return x * f.calls

    f.calls = 0
    return World(f, watch=lambda: f.calls)


@feature
def decorated() -> World:
    def times(n: int) -> Any:
        def wrap(function: Any) -> Any:
            @functools.wraps(function)
            def inner(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **kwargs) * n

            return inner

        return wrap

    @times(3)
    @times(2)
    def g(x: Tensor) -> Tensor:
        return x + 1

    return World(lambda x: (g(x), g.__name__, functools.partial(g)(x)))


@feature
def memoised_size() -> World:
    @functools.lru_cache
    def tenfold(n: int) -> int:
        return n * 10

    return World(lambda x: x + tenfold(x.shape[0]), watch=lambda: tenfold.cache_info().currsize)


@feature
def memoised_module_level_state() -> World:
    state = {"k": 1}

    @functools.cache
    def read() -> int:
        return state["k"]

    return World(lambda x: x * read(), before=lambda step: state.update(k=step + 1))


@feature
def partial_of_function() -> World:
    def f(scale: float, x: Tensor, shift: int = 0) -> Tensor:
        return x * scale + shift

    return World(functools.partial(f, 2.0, shift=3))


@feature
def bound_method() -> World:
    class Scaler:
        def __init__(self) -> None:
            self.scale, self.calls = 2.0, 0

        def apply(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.scale + self.calls

    scaler = Scaler()

    def before(step: int) -> None:
        scaler.scale = float(step % 3)

    return World(scaler.apply, before=before, watch=lambda: scaler)


@feature
def callable_object() -> World:
    class Adder:
        def __init__(self, k: int) -> None:
            self.k = k

        def __call__(self, x: Tensor) -> Tensor:
            return x + self.k

    adder = Adder(1)
    return World(adder, before=lambda step: setattr(adder, "k", step // 2), watch=lambda: adder.k)


@feature
def static_and_class_methods() -> World:
    class Base:
        scale = 3

        @staticmethod
        def double(x: Tensor) -> Tensor:
            return x * 2

        @classmethod
        def scaled(cls, x: Tensor) -> Tensor:
            return cls.double(x) * cls.scale

    class Child(Base):
        scale = 5

    return World(
        lambda x: (Base.scaled(x), Child.scaled(x), Child().scaled(x)),
        before=lambda step: setattr(Child, "scale", 5 + step % 2),
    )


@feature
def recursion() -> World:
    def down(x: Tensor, n: int) -> Tensor:
        return x if n == 0 else down(x + 1, n - 1)

    return World(lambda x: down(x, 100))


@feature
def mutual_recursion() -> World:
    def even(n: int) -> bool:
        return True if n == 0 else odd(n - 1)

    def odd(n: int) -> bool:
        return False if n == 0 else even(n - 1)

    return World(lambda x: x * 2 if even(x.shape[0]) else x * 3)


@feature
def lambda_in_lambda() -> World:
    return World(lambda x: (lambda f: f(f(x)))(lambda y: (lambda z: z + y)(y * 2)))
