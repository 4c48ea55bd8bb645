"""Calls that cannot be traced in every position of an expression; what is evaluated when shows in
the log."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from tests.graph_breaks.opaque import note, opaque, opaque_count, opaque_number, opaque_true
from tests.graph_breaks.table import leaf, program, rows, rows_and_flag, rows_and_number, two


class Holder:
    """An object whose attributes are seen to be read and written."""

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.items: list[Any] = [1, 2, 3]

    @property
    def watched(self) -> Any:
        opaque("get", self.value)
        return self.value

    @watched.setter
    def watched(self, value: Any) -> None:
        opaque("set", value)
        self.value = value


@program(two)
def operands_of_a_sum(x: Tensor, y: Tensor) -> Tensor:
    z = opaque("left", x * 2) + opaque("right", y - 1) * 2
    return (z - opaque_number(z)).relu()


@program(two)
def arguments_in_order(x: Tensor, y: Tensor) -> Tensor:
    z = torch.where(opaque("a", x > 0), opaque("b", y * 2), other=opaque("c", x - y))
    return (z + 1).sum(0) * opaque("d", 2)


@program()
def callee_before_arguments(x: Tensor) -> Tensor:
    y = x * 2 + 1
    z = opaque("callee", y).clamp(opaque("low", -1), max=opaque("high", 2))
    return (z - 1).relu() * 2


@program(rows_and_flag)
def conditional_expression(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    z = opaque("yes", y - 1) if opaque("test", flag) else opaque("no", y + 1)
    return z.relu() * (2 if opaque_true(z) else 3)


@program(rows_and_flag)
def and_or_short_circuit(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    a = flag and opaque("and", 2)
    b = flag or opaque("or", 3)
    y = y * (1 + a) - (1 + b)
    c = (opaque_true(y) and opaque("both", 5)) or opaque("neither", 7)
    return y.relu() + c


@program(rows_and_number)
def chained_comparison(x: Tensor, n: int) -> Tensor:
    y = x * n + 1
    if opaque("low", 2) < n < opaque("high", 5):
        y = y - 1
        y = y.relu()
    z = y * 2
    return z if opaque("a", 1) <= opaque("b", n) != opaque("c", 4) else -z


@program()
def walrus(x: Tensor) -> Tensor:
    y = x * 2 + 1
    if (count := opaque_count(y)) > 1:
        y = y * count - 1
    z = (w := opaque("w", y.relu())) + 1
    return z * w + count


@program()
def walrus_in_a_comprehension(x: Tensor) -> tuple[list[float], Tensor]:
    y = x * 2 + 1
    found = [last := opaque_number(row) for row in y]
    z = y - last
    return found, z.relu()


@program()
def f_strings(x: Tensor) -> tuple[str, Tensor]:
    y = x * 2 + 1
    text = f"{opaque('a', len(y))}:{opaque_number(y):.{opaque('digits', 2)}f}!{opaque('b')!r}"
    z = y - len(text)
    return text, z.relu()


@program()
def starred_assignment(x: Tensor) -> tuple[Any, Tensor]:
    y = x * 2 + 1
    first, *middle, last = opaque("parts", [*y.unbind(1)])
    z = first * last - sum(middle, torch.zeros(len(y)))
    return len(middle), z.relu()


@program()
def tuple_unpacking(x: Tensor) -> Tensor:
    y = x * 2 + 1
    (a, b), c = opaque("pair", (y, y - 1)), opaque("single", y.relu())
    a, b = b, a
    return (a * 2 - b) + c


@program(one_side="every call raises before the other side")
def too_many_to_unpack(x: Tensor) -> Tensor:
    y = x * 2 + 1
    x.add_(1)
    a, b, c = opaque("rows", y)
    return a + b - c.relu()


@program()
def starred_arguments(x: Tensor) -> Tensor:
    y = x * 2 + 1
    parts = [y, y - 1]
    z = torch.cat(*[opaque("list", parts)], **opaque("dict", {"dim": 1}))
    return z.relu().sum(1)


@program()
def subscript_of_a_boundary(x: Tensor) -> Tensor:
    y = x * 2 + 1
    z = y[opaque("row", 0)] + y[opaque("from", 1) :, opaque("column", 2)].sum()
    return z.relu() * 2 - y.mean(0)


@program()
def store_to_a_subscript(x: Tensor) -> Tensor:
    y = x * 2 + 1
    y[opaque("row", 0)] = opaque("value", 5.0)
    y[:, opaque("column", 1)] = y[:, 0] * 2
    return y.relu() - 1


@program()
def augmented_subscript(x: Tensor) -> Tensor:
    y = x * 2 + 1
    y[opaque("row", 0)] += opaque("value", y[1] * 2)
    y[opaque("again", -1)] *= 3
    return y.relu() - 1


@program()
def augmented_items_of_a_list(x: Tensor) -> tuple[list[Any], Tensor]:
    y = x * 2 + 1
    items: list[Any] = [1, y, "a"]
    items[opaque("first", 0)] += opaque("one", 4)
    items[opaque("second", 1)] += opaque("two", 1)
    items[2] += opaque("text", "b")
    return items, (y * items[0]).relu()


@program()
def augmented_attribute(x: Tensor) -> tuple[Any, Tensor]:
    holder = Holder(x * 2 + 1)
    holder.value += opaque("added", 1)
    opaque("holder", holder.value)
    holder.value *= 2
    return holder.value, (x - 1).relu() * holder.value


@program()
def augmented_property(x: Tensor) -> Tensor:
    holder = Holder(x * 2)
    holder.watched += 1
    y = holder.watched - 3
    holder.watched = y.relu()
    return holder.value * 2 - 1


@program()
def augmented_keeps_the_object(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2 + 1
    alias = y
    y += opaque("one", 1)
    y = y * opaque("two", 2)
    y -= 3
    return alias.relu(), y


@program()
def left_operand_is_read_first(x: Tensor) -> tuple[list[int], Tensor]:
    numbers = [1]
    y = x * 2 + 1

    def grow() -> int:
        opaque("grow", len(numbers))
        numbers.append(len(numbers))
        return 10

    total = len(numbers) + grow() + len(numbers)
    return numbers, y.relu() * total - len(numbers)


@program()
def variable_written_in_an_operand(x: Tensor) -> Tensor:
    y = x + 1
    z = y + (y := opaque("new", y * 2)) - y
    return z * y + 1


@program()
def in_place_in_an_operand(x: Tensor) -> Tensor:
    y = x * 2 + 1
    z = (y * 1) + opaque("written", y.add_(1)) + y * 2
    return z - y


@program(rows_and_flag)
def slices_and_ellipsis(x: Tensor, flag: bool) -> Tensor:
    y = x * 2 + 1
    part = y[..., opaque("from", 1) : opaque("to", 3 if flag else 4) : opaque("step", 2)]
    return (part.relu() - 1).sum(0)


@program()
def dict_display(x: Tensor) -> tuple[list[str], Tensor]:
    y = x * 2 + 1
    made = {opaque("k1"): opaque("v1", y - 1), **opaque("more", {"m": y}), "z": opaque("v3", 3)}
    return list(made), made["k1"] * made["z"] + made["m"].relu()


@program()
def list_and_set_display(x: Tensor) -> tuple[Any, Tensor]:
    y = x * 2 + 1
    made = [opaque("a", 1), *opaque("b", (2, 3)), opaque("c", y.sum())]
    unique = {opaque("d", 1), opaque("e", 2), 1}
    return (made[:3], unique), (y - made[3]).relu() * len(unique)


@program()
def comparison_of_boundaries(x: Tensor) -> tuple[bool, Tensor]:
    y = x * 2 + 1
    inside = opaque("needle", len(y)) in opaque("hay", [2, 3, 4])
    same = opaque("one", y) is opaque("other", y)
    z = y * 2 - int(inside)
    return same, z.relu() + int(same)


@program()
def unary_operators(x: Tensor) -> tuple[bool, Tensor]:
    y = x * 2 + 1
    z = -opaque("negated", y) + ~opaque("inverted", 5)
    return not opaque_true(z), z.abs() - 1


@program(two)
def matrix_product_of_boundaries(x: Tensor, y: Tensor) -> Tensor:
    z = opaque("a", x + 1) @ opaque("b", y.t() - 1)
    return (z * 2).relu().sum(0)


@program()
def lambda_with_the_boundary(x: Tensor) -> Tensor:
    y = x * 2 + 1
    scale = lambda t, by=opaque("default", 2): opaque("inside", t * by)  # noqa: B008, E731 what is tested
    return scale(y) - scale(y.relu(), 3)


@program()
def key_function(x: Tensor) -> Tensor:
    y = x * 2 + 1
    order = sorted(y.unbind(0), key=lambda row: opaque_number(row))
    z = torch.stack(order) - 1
    return z.relu() * y


@program()
def map_with_the_boundary(x: Tensor) -> Tensor:
    y = x * 2 + 1
    parts = list(map(functools.partial(opaque, "row"), y * 2))
    z = torch.stack(parts) - y
    return z.relu() + 1


@program(leaf)
def value_of_a_method_chain(x: Tensor) -> Tensor:
    y = opaque("end", (x * 2).relu().add(1)).mul(3).sub(1)
    return opaque("last", y.sum(0)).pow(2).mul(0.25)


@program(rows)
def deleted_names_and_items(x: Tensor) -> tuple[Any, Tensor]:
    y = x * 2 + 1
    kept = {"a": y - 1, "b": y + 1, "c": 3}
    del kept[opaque("key", "b")]
    z = kept["a"] * kept["c"]
    del y
    opaque("gone", list(kept))
    return list(kept), z.relu() - 1


@program(rows)
def assignment_to_several_targets(x: Tensor) -> tuple[Any, Tensor]:
    holder, items = Holder(), [0, 0]
    y = holder.value = items[opaque("index", 1)] = opaque("value", x * 2 + 1)
    y = y.relu() - 1
    return (holder.value, items), y * 2


@program(rows)
def targets_are_evaluated_after(x: Tensor) -> tuple[Any, Tensor]:
    items: list[Any] = [0, 0, 0]
    y = x * 2 + 1
    items[opaque("target", 0)], items[note("no", y) and 1] = opaque("value", y - 1), opaque("w", 2)
    return items, y.relu() * 2


@program(rows)
def print_as_an_expression(x: Tensor) -> tuple[Any, Tensor]:
    y = x * 2 + 1
    nothing = print("rows", len(y)) or opaque("or", len(y))
    z = y - nothing
    return nothing, z.relu()


@program(rows_and_number)
def type_of_a_value(x: Tensor, n: int) -> tuple[str, Tensor]:
    y = x * n + 1
    kind = type(opaque("value", y if n % 2 else n))
    z = y.relu() if kind is int else y.abs()
    return kind.__name__, z * 2 - 1


@program(rows_and_flag)
def walrus_that_is_not_evaluated(x: Tensor, flag: bool) -> Tensor:
    y, k, n = x * 2 + 1, 5, 6
    try:
        z = 3 if opaque_true(y) else (k := 4)
        y = y - opaque("k", k)
        w = flag and (n := z)
        y = y.relu() * opaque("n", n) - int(w)
    except ValueError:
        y = y * 100
    return y + k
