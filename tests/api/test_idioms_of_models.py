"""More of what models of other libraries do: captured whole, guarded by what is read, and as eager.

Each program is called at several sizes as one graph; where it reads something that can change, the
answer after the change has to be the new one.
"""

from __future__ import annotations

import enum
import itertools
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.amp.autocast_mode import custom_bwd, custom_fwd

import anyshape

SIZES = (3, 4, 5, 1)


def whole(program: Callable[..., Any], grad: bool = False) -> Any:
    """The program compiled, once it has given eager's answers at all sizes as one graph."""
    compiled = anyshape.compile(program, dynamic=True)
    with torch.set_grad_enabled(grad):
        for size in SIZES:
            x = torch.randn(size, 4, requires_grad=grad)
            y = x.detach().clone().requires_grad_(grad)
            found, expected = compiled(x), program(y)
            assert found.dtype == expected.dtype
            torch.testing.assert_close(found, expected)
            if grad:
                found.sum().backward()
                expected.sum().backward()
                torch.testing.assert_close(x.grad, y.grad)
    stats = compiled.stats()
    assert (stats.graphs, stats.in_parts, stats.eager_calls) == (1, False, 0)
    return compiled


def in_parts(program: Callable[..., Any]) -> None:
    """Left to Python, and right."""
    compiled = anyshape.compile(program, dynamic=True)
    for size in SIZES:
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), program(x))
    stats = compiled.stats()
    assert stats.in_parts or stats.eager_calls


# -- autocast kept by a decorator, or in an attribute ----------------------------------------------


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def halved(self, x: Tensor) -> Tensor:
        return self.linear(x)

    @torch.autocast("cuda", enabled=False)
    def forward(self, x: Tensor) -> Tensor:
        return self.halved(x) * x.shape[0] + self.linear(x)


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.mode: Any = torch.autocast("cpu", dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        with self.mode:
            return self.linear(x)


@pytest.mark.parametrize("kind", [Decorated, Kept])
@pytest.mark.parametrize("grad", [False, True])
def test_autocast_from_outside(kind: type[nn.Module], grad: bool) -> None:
    whole(kind(), grad)
    assert not torch.is_autocast_enabled("cpu")


def test_what_autocast_from_outside_is_set_to_is_guarded() -> None:
    module = Kept()
    compiled: Any = whole(module)
    x = torch.randn(3, 4)
    module.mode = torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=False)
    assert compiled(x).dtype == torch.float32
    module.mode = torch.autocast(x.device.type, dtype=torch.float16)
    assert compiled(x).dtype == torch.float16


def test_autocast_from_outside_keeps_what_was_before() -> None:
    module = Kept()
    compiled: Any = whole(module)
    module.mode.prev = None
    compiled(torch.randn(3, 4))
    assert module.mode.prev is False


def test_autocast_entered_twice_is_as_eager() -> None:
    """Torch forgets what was before, and so autocast stays on: in both worlds."""
    module = Kept()

    def nested(x: Tensor) -> Tensor:
        with module.mode:
            return module(x)

    compiled = anyshape.compile(nested)
    for _ in range(3):
        states = []
        for function in (nested, compiled):
            function(torch.randn(3, 4))
            states.append(torch.is_autocast_enabled("cpu"))
            torch.set_autocast_enabled("cpu", False)
        assert states == [True, True]


# -- functions with a gradient of their own --------------------------------------------------------


class OfItself(torch.autograd.Function):
    factor = 2

    @staticmethod
    def helped(x: Tensor) -> Tensor:
        return x.sin() * OfItself.factor

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return OfItself.helped(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] as users write it
        return grad * ctx.saved_tensors[0].cos() * OfItself.factor


class OfABase(OfItself):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return OfABase.helped(x)


class Counts(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Counts.calls += 1
        return x * Counts.calls


class Remembers(torch.autograd.Function):
    seen: list[int] = []  # noqa: RUF012 the state that it must not have

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Remembers.seen.append(1)
        return x * len(Remembers.seen)


class OfADecorator(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride] as users write it
        return grad * ctx.saved_tensors[0].cos() * 3


def counting(x: Tensor) -> Any:
    count = 0

    def forward(ctx: Any, x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return x * count

    return type("Counting", (torch.autograd.Function,), {"forward": staticmethod(forward)})


@pytest.mark.parametrize("function", [OfItself, OfABase, OfADecorator])
def test_functions_that_name_their_class_or_are_decorated(function: Any) -> None:
    whole(lambda x: function.apply(x) + x.shape[0], grad=True)


def test_what_is_in_the_class_of_a_function_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: Any = whole(lambda x: OfABase.apply(x))
    x = torch.randn(3, 4)
    monkeypatch.setattr(OfItself, "factor", 5)
    torch.testing.assert_close(compiled(x), x.sin() * 5)
    monkeypatch.setattr(OfItself, "helped", staticmethod(lambda x: x + 1))
    torch.testing.assert_close(compiled(x), x + 1)


@pytest.mark.parametrize("kind", ["counts", "remembers", "counting"])
def test_functions_with_a_state_are_left_to_python(kind: str) -> None:
    function: Any = {"counts": Counts, "remembers": Remembers}.get(kind) or counting(torch.ones(1))
    compiled = anyshape.compile(lambda x: function.apply(x))
    x = torch.ones(2)
    first = int(compiled(x)[0])
    assert [int(compiled(x)[0]) for _ in range(4)] == list(range(first + 1, first + 5))


_factor = 1.0


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", ["a variable", "a global variable", "an attribute of its class"])
def test_what_the_program_sets_before_such_a_function_reads_it(
    kind: str, dynamic: bool | None
) -> None:
    outer = 1.0

    class Reads(torch.autograd.Function):
        factor = 1.0

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * Reads.factor

    class ReadsVariable(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * outer

    class ReadsGlobal(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * _factor

    def program(x: Tensor, value: float) -> Any:
        global _factor
        nonlocal outer
        if kind == "a variable":
            outer = value
            return ReadsVariable.apply(x)
        if kind == "a global variable":
            _factor = value
            return ReadsGlobal.apply(x)
        Reads.factor = value
        return Reads.apply(x)

    compiled = anyshape.compile(program, dynamic=dynamic)
    for n, value in enumerate((0.5, 0.25, 2.0, 3.0, 1.0, 2.0)):
        x = torch.randn(2 + n, 3)
        torch.testing.assert_close(compiled(x, value), x * value)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_no_module_is_converted_to_integers(dtype: torch.dtype) -> None:
    compiled = anyshape.compile(lambda x: nn.ReLU().to(dtype)(x))
    with pytest.raises(TypeError, match="floating point"):
        compiled(torch.ones(2))


# -- numbers of numpy ------------------------------------------------------------------------------


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.width = 16
        self.scale = np.float64(3.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.scale
        x *= np.sqrt(self.width)
        x = x / np.sqrt(x.dim()) + np.log(self.width)
        columns: Any = np.prod([2, 2])
        x = x.reshape(-1, columns) * x.shape[0]
        return x + torch.full((1,), np.float64(0.5)) + float(np.float32(2)) + np.ceil(1.5).item()


def test_numbers_of_numpy_are_constants_that_are_guarded() -> None:
    module = Scaled()
    compiled: Any = whole(module)
    x = torch.randn(3, 4)
    for name, value in (("width", 25), ("scale", np.float64(5)), ("scale", np.float32(5))):
        setattr(module, name, value)
        torch.testing.assert_close(compiled(x), module(x))


OPERATORS = ("mul", "add", "sub", "truediv", "pow", "floordiv", "mod", "imul", "lt", "ge", "eq")


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.float64, torch.bool])
@pytest.mark.parametrize(
    "number", [np.float64(2.5), np.float32(0.1), np.int64(3), np.int8(3), np.uint8(200)]
)
def test_numbers_of_numpy_beside_tensors(
    name: str, dtype: torch.dtype, number: Any, is_first: bool
) -> None:
    def program(x: Tensor) -> Any:
        operands = x.to(dtype) + (not dtype.is_floating_point), number
        return getattr(operator, name)(*(operands[::-1] if is_first else operands))

    outcomes = []
    for function in (program, anyshape.compile(program)):
        try:
            outcomes.append(function(torch.ones(3)))
        except (RuntimeError, TypeError) as error:
            outcomes.append(type(error))
    expected, found = outcomes
    if not isinstance(expected, Tensor):
        assert found is expected
    else:
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


MADE_OF_NUMBERS: dict[str, Callable[[Tensor, Any], Any]] = {
    "tensor": lambda x, number: torch.tensor(number),
    "by name": lambda x, number: torch.tensor(data=[number]),
    "nested": lambda x, number: torch.tensor([(number,), (1,)]),
    "as_tensor": lambda x, number: torch.as_tensor([number, True]),
    "asarray": lambda x, number: torch.asarray(number),
    "with a dtype": lambda x, number: torch.tensor(number, dtype=torch.float16),
    "new_tensor": lambda x, number: x.new_tensor([number]),
    "full": lambda x, number: torch.full((2,), number),
    "scalar_tensor": lambda x, number: torch.scalar_tensor(number),
    "computed": lambda x, number: torch.tensor(np.sqrt(abs(number))) + x,
    "beside": lambda x, number: x * number,
    "compared": lambda x, number: x == number,
    "where": lambda x, number: torch.where(x > 0, number, x),
}


@pytest.mark.parametrize("name", MADE_OF_NUMBERS)
@pytest.mark.parametrize(
    "kind",
    [
        np.float64,
        np.float32,
        np.float16,
        np.int64,
        np.int32,
        np.int8,
        np.uint8,
        np.bool_,
        np.uint64,
    ],
)
def test_the_dtype_of_a_number_of_numpy_counts(name: str, kind: Any) -> None:
    program = MADE_OF_NUMBERS[name]
    compiled = anyshape.compile(program, dynamic=True)
    numbers = [kind(1), kind(3), *([kind(2**63 + 5)] if kind is np.uint64 else [])]
    for number, x in itertools.product(numbers, (torch.ones(2), torch.zeros(3))):
        outcomes = []
        for function in (program, compiled):
            try:
                outcomes.append(function(x, number))
            except (RuntimeError, TypeError) as error:
                outcomes.append(type(error))
        expected, found = outcomes
        assert type(found) is type(expected)
        if isinstance(expected, Tensor):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
        else:
            np.testing.assert_array_equal(found, expected)


def of_a_size(x: Tensor) -> Tensor:
    return x / np.sqrt(x.shape[0])


def that_warns(x: Tensor) -> Tensor:
    with np.errstate(all="ignore"):
        return x * np.nan_to_num(np.sqrt(-1.0))


@pytest.mark.parametrize("program", [of_a_size, that_warns], ids=lambda each: each.__name__)
def test_other_numbers_of_numpy_are_left_to_python(program: Callable[[Tensor], Tensor]) -> None:
    in_parts(program)


# -- enumerations ----------------------------------------------------------------------------------


class Mode(str, enum.Enum):  # noqa: UP042 the old spelling is tried
    MEAN = "mean"
    LAST = "last"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def looks_an_option_up(x: Tensor) -> Tensor:
    text = Mode.MEAN.strip().upper().lower()
    known = {item.value for item in Mode}
    found = Mode(text) if text in known else None
    count = len(Mode) + len([each + 1 for each in reversed(Level)]) + Level.HIGH.bit_length()
    return x * count if found in Mode and Mode.MEAN.startswith("me") else x


def test_enumerations() -> None:
    whole(looks_an_option_up)


# -- arguments by name -----------------------------------------------------------------------------


BY_NAME: dict[str, Callable[[Tensor], Any]] = {
    "numel": lambda x: x * torch.numel(input=x),  # pyright: ignore[reportCallIssue] torch takes it
    "size": lambda x: x * x.size(dim=0),
    "stride": lambda x: x * (x.stride(dim=0) > 0),
    "is_floating_point": lambda x: x * torch.is_floating_point(input=x),
    "is_nonzero": lambda x: torch.is_nonzero(input=x.sum() * 0 + 1),
    "equal": lambda x: x * torch.equal(input=x, other=x * 1),
    "allclose": lambda x: x * torch.allclose(input=x, other=x + 1e-9, atol=1e-3),
    "shape": lambda x: torch.zeros(size=x.size()) + torch.reshape(input=x, shape=x.shape),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_asked_by_name(name: str) -> None:
    compiled = anyshape.compile(BY_NAME[name], dynamic=True)
    for size in SIZES:
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), BY_NAME[name](x))


# -- order of tuples -------------------------------------------------------------------------------


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor


KNOWN = {"b": Scale(2), "a": Scale(3), "c": None}


def sorts_by_names(x: Tensor, **more: Any) -> Tensor:
    more = {"d": x, "c": Scale(5), "e": x.shape[0]}
    names = [name for name, _ in sorted(more.items())] + [name for name, _ in sorted(KNOWN.items())]
    _, first = min(KNOWN.items())
    _, last = max(("x", x.shape[0], KNOWN["a"]), ("x", x.shape[0] + 1, KNOWN["b"]))[1:]
    return x * first.factor + last.factor + names.index("c")


def test_tuples_are_sorted_by_their_first_items() -> None:
    compiled: Any = whole(sorts_by_names)
    KNOWN["0"] = Scale(7)
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), sorts_by_names(x))
    del KNOWN["0"]
    torch.testing.assert_close(compiled(x), sorts_by_names(x))


def test_tuples_without_an_order_raise() -> None:
    compiled: Any = anyshape.compile(lambda x: sorted([(1, Scale(1)), (1, Scale(2))]))
    for _ in range(2):
        with pytest.raises(TypeError, match="'<' not supported between instances of 'Scale'"):
            compiled(torch.ones(1))


# -- tensors of constants --------------------------------------------------------------------------


def reduces_what_is_listed(x: Tensor) -> Tensor:
    axes = torch.arange(1, x.dim()).tolist()
    return x.sum(axes) * torch.tensor(2.5).item() + int(torch.tensor(3))


def writes_before_it_reads(x: Tensor) -> Tensor:
    positions = torch.arange(3)
    positions.data.mul_(x.shape[0])
    return x * positions.tolist()[1]


def writes_through_a_view(x: Tensor) -> Tensor:
    positions = torch.zeros(3, dtype=torch.int64)
    positions[1:].add_(x.shape[0])
    return x * positions.tolist()[1]


def reduces_dimensions_of_data(x: Tensor) -> Tensor:
    places = (x > 1e9).sum() + torch.arange(2)
    return x.sum(places.tolist())


def test_constants_are_read_of_tensors() -> None:
    whole(reduces_what_is_listed)


@pytest.mark.parametrize(
    "program", [writes_before_it_reads, writes_through_a_view, reduces_dimensions_of_data]
)
def test_what_was_written_is_no_constant(program: Callable[[Tensor], Tensor]) -> None:
    compiled = anyshape.compile(program, dynamic=True)
    for size in (*SIZES, 7):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), program(x))


# -- others ----------------------------------------------------------------------------------------


DEVICE: Final = torch.get_default_device()


class Moved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.register_buffer("steps", torch.arange(3))

    def forward(self, x: Tensor) -> Tensor:
        self.layers.to(x.device)
        return self.to(device=DEVICE, dtype=x.dtype).layers[0].to(x)(x)


def test_modules_that_are_where_they_are_moved_to() -> None:
    module = Moved()
    compiled: Any = whole(module)
    assert compiled(torch.randn(2, 4).double()).dtype == torch.float64
    assert module.layers[1].weight.dtype == torch.float64


class Traced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.inner = torch.fx.symbolic_trace(inner)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * x.shape[0]


@pytest.mark.parametrize("grad", [False, True])
def test_modules_made_by_fx(grad: bool) -> None:
    module = Traced()
    compiled: Any = whole(module, grad)
    for node in module.inner.graph.find_nodes(op="call_module", target="1"):
        with module.inner.graph.inserting_after(node):
            twice = module.inner.graph.call_function(operator.mul, (node, 2))
        node.replace_all_uses_with(twice, delete_user_cb=lambda user: user.op == "output")
    module.inner.recompile()
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), module(x))


class Meta(type):
    pass


class MadeByNew(metaclass=Meta):
    factor: int

    def __new__(cls, factor: int) -> MadeByNew:
        self = super().__new__(cls)
        self.factor = factor
        return self


DTYPES: Any = (int, float)


def makes_objects_and_dtypes(x: Tensor) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float64))
    whole, real = DTYPES
    return wide * MadeByNew(x.shape[0]).factor + torch.zeros(1, dtype=whole) + x[0, 0].to(real)


def test_objects_by_new_and_dtypes_of_python() -> None:
    whole(makes_objects_and_dtypes)
