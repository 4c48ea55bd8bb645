"""Weights packed into objects of TorchScript classes: dynamically quantized layers, and operators
that take such objects. Needs an engine of torch for quantized operators: QNNPACK, oneDNN or FBGEMM,
whichever this torch has and this machine can run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao.nn import quantized
from torch.ao.nn.quantized import dynamic
from torch.ao.quantization import quantize_dynamic

import anyshape

pytestmark = [
    # Torch is going to move these to a package of their own.
    pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning"),
    # What some engines ignore.
    pytest.mark.filterwarnings("ignore:.*reduce_range:UserWarning"),
    # Convolutions.
    pytest.mark.filterwarnings("ignore:.*poor numerical accuracy:UserWarning"),
    # Gradients end at a quantized layer.
    pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered:UserWarning"),
]


def _works(engine: str) -> bool:
    torch.backends.quantized.engine = engine
    try:
        dynamic.Linear(2, 2)(torch.ones(1, 2))
    except RuntimeError:  # an engine for another processor
        return False
    return True


@pytest.fixture(autouse=True)
def engine() -> Iterator[str]:
    before = torch.backends.quantized.engine
    names = ("qnnpack", "onednn", "fbgemm", "x86")
    found = [name for name in names if name in torch.backends.quantized.supported_engines]
    working = next(filter(_works, found), None)
    if working is None:
        pytest.skip("torch has no engine for quantized operators on this machine")
    torch.manual_seed(0)
    yield working
    torch.backends.quantized.engine = before


def layer(module: nn.Module) -> Any:
    return quantize_dynamic(nn.Sequential(module), {type(module)}, torch.qint8)[0]


def packed(module: Any) -> Any:
    return module._packed_params._packed_params


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def agree(
    program: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    before: Callable[[int], None] | None = None,
    grad: bool = False,
) -> Any:
    """Every call as eager has it; `before` is told the number of the next one."""
    compiled: Any = anyshape.compile(program)
    with torch.set_grad_enabled(grad):
        for number, call in enumerate(calls):
            if before is not None:
                before(number)
            wanted, found = program(*call), compiled(*call)
            torch.testing.assert_close(found, wanted, check_stride=True)
    return compiled.stats()


def rows(width: int, *counts: int) -> list[tuple[Tensor]]:
    return [(torch.randn(count, width),) for count in counts]


def test_a_quantized_model_is_one_graph() -> None:
    model = nn.Sequential(Block(8), Block(8), nn.Linear(8, 4))
    model = quantize_dynamic(model, {nn.Linear}, torch.qint8)
    stats = agree(model, [*rows(8, 3, 5, 1, 7, 0, 9, 2), (torch.randn(2, 3, 8),)])
    assert not stats.graph_breaks
    assert not stats.eager_calls
    assert stats.graphs <= 4


def sequences(*sizes: tuple[int, int]) -> list[tuple[Tensor]]:
    return [(torch.randn(*size, 4),) for size in sizes]


_SEQUENCES = ((3, 2), (5, 4), (1, 1), (7, 3), (2, 6))

RECURRENT: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: nn.LSTM(4, 6),
    "LSTM, two ways": lambda: nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True),
    "GRU": lambda: nn.GRU(4, 6, batch_first=True),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str) -> None:
    module = layer(RECURRENT[name]())

    def program(x: Tensor) -> Any:
        output, state = module(x + 1)
        return output * 2, state

    stats = agree(program, sequences(*_SEQUENCES))
    assert not stats.graph_breaks
    assert stats.graphs <= 3


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(kind: type[nn.Module]) -> None:
    cell = layer(kind(4, 6))

    def program(x: Tensor) -> Tensor:
        state = None
        for step in range(2):
            state = cell(x[step], state)
        return (state[0] if isinstance(state, tuple) else state) * 2  # pyright: ignore[reportOptionalOperand]

    stats = agree(program, sequences((2, 3), (2, 5), (2, 1), (2, 7)))
    assert not stats.graph_breaks


def test_operators_without_a_shape_rule() -> None:
    convolution = dynamic.Conv2d(3, 8, 3)
    bag = quantized.EmbeddingBag(10, 12)
    images = [(torch.randn(b, 3, h, w),) for b, h, w in ((2, 8, 8), (1, 9, 7), (3, 5, 5))]
    assert not agree(lambda x: torch.relu(convolution(x * 2)), images).graph_breaks
    starts = torch.tensor([0, 2])
    indices = [(torch.randint(0, 10, (count,)), starts) for count in (3, 5, 4)]
    assert not agree(lambda i, o: bag(i, o) * 2, indices).graph_breaks


def test_an_embedding() -> None:
    module = quantized.Embedding(10, 12)
    calls = [(torch.randint(0, 10, (count,)),) for count in (3, 5, 1, 7)]
    assert agree(lambda i: module(i) * 2, calls).graphs <= 2


# -- other weights at the next call ----------------------------------------------------------------


def replace(module: Any, other: Any) -> None:
    module._packed_params.set_weight_bias(*other._packed_params._weight_bias())


def overwrite(module: Any, other: Any) -> None:
    """The object stays, and has another content."""
    state = packed(other)._get_method("__getstate__")()
    packed(module)._get_method("__setstate__")(state)


@pytest.mark.parametrize("change", [replace, overwrite])
def test_weights_that_change(change: Callable[[Any, Any], None]) -> None:
    module = layer(nn.Linear(4, 6))
    others = {3: layer(nn.Linear(4, 6)), 4: layer(nn.Linear(4, 9)), 6: layer(nn.Linear(4, 6))}

    def before(number: int) -> None:
        if number in others:
            change(module, others[number])

    agree(lambda x: torch.relu(module(x * 2)) + 1, rows(4, 3, 5, 4, 3, 5, 6, 7, 2), before)


@pytest.mark.parametrize("size", [8, 1 << 18])
def test_what_was_written_before_is_undone(size: int) -> None:
    """A run that turns out to be for another weight is made again, from its start."""
    module, other = layer(nn.Linear(4, 6)), layer(nn.Linear(4, 9))
    mine, theirs = torch.zeros(size), torch.zeros(size)

    def program(x: Tensor, counter: Tensor) -> Tensor:
        counter.add_(1)
        return module(x * 2) + counter[0]

    compiled: Any = anyshape.compile(program)
    with torch.no_grad():
        for number, count in enumerate((3, 5, 4, 6, 2)):
            if number == 3:
                replace(module, other)
            x = torch.randn(count, 4)
            torch.testing.assert_close(compiled(x, mine), program(x, theirs))
            assert torch.equal(mine, theirs), number


@pytest.mark.parametrize("size", [8, 1 << 18])
def test_what_was_written_before_an_operator_of_another_form_is_undone(size: int) -> None:
    """The same with any operator that nobody knows the results of."""
    library = torch.library.Library("anyshape_test_forms", "DEF")
    library.define("f(Tensor x) -> Tensor")
    wide = False
    library.impl("f", lambda x: (x + 1).double() if wide else x + 1, "CPU")
    mine, theirs = torch.zeros(size), torch.zeros(size)

    def program(x: Tensor, counter: Tensor) -> Tensor:
        counter.add_(1)
        return torch.ops.anyshape_test_forms.f(x) * 2

    compiled: Any = anyshape.compile(program)
    for number, count in enumerate((3, 5, 4, 6)):
        wide = number >= 2
        x = torch.randn(count, 4)
        torch.testing.assert_close(compiled(x, mine), program(x, theirs))
        assert torch.equal(mine, theirs), number
    library._destroy()


def test_objects_as_arguments() -> None:
    objects = [packed(layer(nn.Linear(4, features))) for features in (6, 6, 9, 6)]

    def program(x: Tensor, weight: Any) -> Tensor:
        return torch.ops.quantized.linear_dynamic.default(x * 2, weight) + 1

    calls = [(torch.randn(n, 4), objects[k]) for n, k in ((3, 0), (5, 1), (4, 2), (6, 2), (5, 3))]
    stats = agree(program, calls)
    assert not stats.graph_breaks


def test_an_object_of_another_class_is_the_error_of_eager() -> None:
    right = packed(layer(nn.Linear(4, 6)))
    wrong = dynamic.Conv2d(3, 4, 2)._packed_params
    compiled: Any = anyshape.compile(lambda x, w: torch.ops.quantized.linear_dynamic(x * 2, w) + 1)
    with torch.no_grad():
        for count in (3, 5, 4):
            compiled(torch.randn(count, 4), right)
        for bad in (wrong, None, 3):
            with pytest.raises((RuntimeError, TypeError)):
                compiled(torch.randn(3, 4), bad)


# -- what is in an object, and what changes it -----------------------------------------------------


def test_what_is_in_an_object_is_read_by_python() -> None:
    module = layer(nn.Linear(4, 6))
    others = {3: layer(nn.Linear(4, 6)), 5: layer(nn.Linear(4, 9))}

    def before(number: int) -> None:
        if number in others:
            replace(module, others[number])

    def methods(x: Tensor) -> Tensor:
        return module(x) + packed(module).bias() + module.bias()

    def unpacked(x: Tensor) -> Tensor:
        return module(x) + torch.ops.quantized.linear_unpack(packed(module))[1]

    def asked(x: Tensor) -> Tensor:
        return module(x) * module.weight().size(0)

    for program in (methods, unpacked, asked):
        agree(program, rows(4, 3, 5, 4, 3, 5, 6, 7), before)


def test_a_write_to_what_an_object_holds() -> None:
    mine, theirs = layer(nn.Linear(4, 6)), layer(nn.Linear(4, 6))
    weight, bias = mine._packed_params._weight_bias()
    theirs._packed_params.set_weight_bias(weight, bias.clone())  # or the two share it

    def program(x: Tensor, module: Any) -> Tensor:
        torch.ops.quantized.linear_unpack(packed(module))[1].add_(1)
        return module(x) + packed(module).bias()

    compiled: Any = anyshape.compile(program)
    with torch.no_grad():
        for count in (3, 5, 4, 2):
            x = torch.randn(count, 4)
            torch.testing.assert_close(compiled(x, mine), program(x, theirs))


def test_an_operator_of_others_runs_once_each_call() -> None:
    """It may change the object, or anything, without a word in its schema."""
    library = torch.library.Library("anyshape_test_packed", "DEF")
    kind = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
    library.define(f"f(Tensor x, {kind} p) -> Tensor")
    count = 0

    def kernel(x: Tensor, p: Any) -> Tensor:
        nonlocal count
        count += 1
        return x + count

    library.impl("f", kernel, "CPU")
    weight = packed(layer(nn.Linear(4, 6)))
    compiled: Any = anyshape.compile(lambda x: torch.ops.anyshape_test_packed.f(x * 2, weight) * 2)
    for number, size in enumerate((3, 5, 1, 7), 1):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), (x * 2 + number) * 2)
    assert count == 4
    library._destroy()


def test_a_weight_packed_inside() -> None:
    float_weight, bias = torch.randn(6, 4), torch.randn(6)

    def program(x: Tensor) -> Tensor:
        weight = torch.quantize_per_tensor(float_weight, 0.1, 0, torch.qint8)
        made = torch.ops.quantized.linear_prepack(weight, bias)
        return torch.ops.quantized.linear_dynamic(x * 2, made) + 1

    agree(program, rows(4, 3, 5, 1, 7))


def test_after_a_decision_on_data() -> None:
    one, other = layer(nn.Linear(4, 6)), layer(nn.Linear(4, 6))

    def program(x: Tensor) -> Tensor:
        y = one(x)
        return other(x) + y if y.sum() > 0 else one(x * 2) - y

    agree(program, rows(4, 3, 5, 4, 2, 6, 7, 3))


def test_gradients_end_there() -> None:
    module, before, after = layer(nn.Linear(4, 6)), nn.Linear(4, 4), nn.Linear(6, 2)

    def program(x: Tensor) -> Tensor:
        return after(module(before(x))).relu().sum()

    agree(program, rows(4, 3, 5, 2), grad=True)
    compiled: Any = anyshape.compile(program)
    for count in (3, 5, 2):
        x, found = torch.randn(count, 4), []
        for run in (program, compiled):
            before.zero_grad()
            after.zero_grad()
            run(x).backward()
            weights = (*before.parameters(), *after.parameters())
            found.append([weight.grad for weight in weights])
        torch.testing.assert_close(found[0], found[1])


def test_a_statically_quantized_model() -> None:
    weights = nn.Sequential(quantized.Quantize(0.1, 0, torch.quint8), quantized.Linear(4, 6))
    model = nn.Sequential(weights, quantized.DeQuantize())
    agree(lambda x: model(x * 2) + 1, rows(4, 3, 5, 1, 7))


def test_export_says_that_it_cannot() -> None:
    with pytest.raises(anyshape.errors.CannotExport, match="ScriptObject"):
        anyshape.export(nn.Sequential(layer(nn.Linear(4, 6))), (torch.randn(3, 4),))
