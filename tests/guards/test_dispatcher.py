"""The generated function as a whole: signatures, several entries, what passes through."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from anyshape.guards.emit import EntryPlan, build_dispatcher
from anyshape.guards.guard import Kind, SymbolSource
from anyshape.guards.path import local
from anyshape.symbolic import as_symbol, floordiv, maximum, symbol
from tests.guards.cases import spec
from tests.guards.verdicts import guard

MARK = object()


def plain(x, y): ...
def defaults(x, y=MARK, z=[]): ...  # noqa: B006 the very list is the point
def positional(x, y=1, /): ...
def mixed(x, /, y, *args, z, w=MARK, **kwargs): ...
def keyword_only(*, x, y=2): ...
def starred(*args, **kwargs): ...
def after_star(x, *rest, y=3): ...
def nothing(): ...
def builtins_(type, len, id, tuple, map, hasattr, min, max, int, Exception, dict, list): ...
def ours(_as_c0, _as_p1, _as_dispatcher=1, _as_=2, _as__=3, _as_state=4): ...
def accents(é, ñ=1): ...


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (plain, (1, 2), {}),
    (plain, (1,), {"y": 2}),
    (defaults, (1,), {}),
    (defaults, (1, 2), {"z": 3}),
    (positional, (1,), {}),
    (mixed, (1, 2, 3, 4), {"z": 5, "v": 6}),
    (mixed, (1,), {"y": 2, "z": 5, "w": 7}),
    (keyword_only, (), {"x": 1}),
    (starred, (1, 2), {"a": 3}),
    (starred, (), {}),
    (after_star, (1, 2, 3), {"y": 4}),
    (nothing, (), {}),
    (builtins_, tuple(range(12)), {}),
    (ours, (1, 2), {}),
    (accents, (1,), {}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS)
def test_arguments_arrive_by_name(function: Any, args: Any, kwargs: Any):
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    wanted = dict(bound.arguments)
    missed = build_dispatcher(signature, [], lambda arguments: arguments)(*args, **kwargs)
    assert isinstance(missed, dict)
    assert list(missed) == list(wanted)
    for name, value in wanted.items():
        assert missed[name] is value or missed[name] == value


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS)
def test_inputs_are_the_objects_at_their_paths(function: Any, args: Any, kwargs: Any):
    signature = inspect.signature(function)
    roots = [local(name) for name in signature.parameters]
    guards = [
        guard(Kind.TYPE, root, tuple if p.kind is p.VAR_POSITIONAL else dict)
        for root, p in zip(roots, signature.parameters.values(), strict=True)
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    entry = EntryPlan(guards, (), roots, lambda *values: values)
    found = build_dispatcher(signature, [entry], lambda arguments: "miss")(*args, **kwargs)
    missed = build_dispatcher(signature, [], lambda arguments: arguments)(*args, **kwargs)
    assert isinstance(found, tuple)
    assert isinstance(missed, dict)
    assert [type(value) for value in found] == [type(value) for value in missed.values()]
    assert all(a is b or a == b for a, b in zip(found, missed.values(), strict=True))


@pytest.mark.parametrize(("function", "args", "kwargs"), CALLS)
def test_wrong_calls_are_type_errors_as_in_python(function: Any, args: Any, kwargs: Any):
    dispatcher = build_dispatcher(inspect.signature(function), [], lambda arguments: arguments)
    wrong: list[tuple[Any, Any]] = [((*args, *range(20)), kwargs), (args, {**kwargs, "no": 1})]
    for more, named in wrong:
        try:
            function(*more, **named)
        except TypeError:
            with pytest.raises(TypeError):
                dispatcher(*more, **named)


def test_defaults_are_the_same_objects():
    dispatcher: Any = build_dispatcher(inspect.signature(defaults), [], lambda arguments: arguments)
    assert dispatcher(0)["y"] is MARK
    assert dispatcher(0)["z"] is inspect.signature(defaults).parameters["z"].default


def test_guards_with_clashing_names():
    """Every builtin that generated code uses, as a parameter."""
    x, n = local("type"), symbol("n")
    path = local("dict")
    entry = EntryPlan(
        [
            guard(Kind.TYPE, x, list),
            guard(Kind.LENGTH, x, 2),
            guard(Kind.TYPE, path, dict),
            guard(Kind.KEYS, path, ("a",)),
            guard(Kind.NO_ATTRIBUTE, x, "shape"),
            guard(Kind.DISTINCT, None, (x.item(0), x.item(1), x, path, local("id"))),
            guard(Kind.EQUALS, local("map"), 0.0),
        ],
        [SymbolSource(as_symbol(n), local("len"), None)],
        [maximum(n, 3), local("min"), floordiv(n, 2)],
        lambda *values: values,
    )
    dispatcher = build_dispatcher(inspect.signature(builtins_), [entry], lambda arguments: "miss")
    rest = (None, "hasattr", "min", "max", "int", "Exception")
    assert dispatcher([1, 2], 9, 5, None, 0.0, *rest[1:], {"a": 1}, None) == (9, "min", 4)
    assert dispatcher([1, 1], 9, 5, None, 0.0, *rest[1:], {"a": 1}, None) == "miss"
    assert dispatcher([1, 2], 9, 5, None, -0.0, *rest[1:], {"a": 1}, None) == "miss"


def entries(count: int) -> list[EntryPlan]:
    x = local("x")
    return [
        EntryPlan([guard(Kind.EQUALS, x.item("n"), i)], (), (), lambda i=i: i, [0])
        for i in range(count)
    ]


@pytest.mark.parametrize("count", range(6))
def test_the_first_entry_that_holds_runs(count: int):
    plans = entries(count)
    dispatcher = build_dispatcher(inspect.signature(plain), plans, lambda arguments: "miss")
    for i in range(count):
        assert dispatcher({"n": i}, None) == i
        assert [plan.counter for plan in plans] == [[1] if j <= i else [0] for j in range(count)]
    assert dispatcher({"n": count}, None) == "miss"
    assert dispatcher({}, None) == "miss"
    assert dispatcher(None, None) == "miss"


def test_an_entry_whose_walk_raises_lets_the_next_one_run():
    x = local("x")
    plans = [
        EntryPlan([guard(Kind.EQUALS, path, 1)], (), (), lambda: "first")
        for path in (x.item("a").item("b"), x.item(3), x.attribute("a"), x.cell())
    ]
    last = EntryPlan([guard(Kind.TYPE, x, list)], (), (), lambda: "last")
    dispatcher = build_dispatcher(
        inspect.signature(plain), [*plans, last], lambda arguments: "miss"
    )
    assert dispatcher([], None) == "last"


@pytest.mark.parametrize("error", [KeyError, AttributeError, TypeError, StopIteration, SystemExit])
def test_what_run_raises_passes_through(error: type[BaseException]):
    def run() -> None:
        raise error("mine")

    missed: list[object] = []
    plans = [EntryPlan((), (), (), run), EntryPlan((), (), (), lambda: "second")]
    dispatcher = build_dispatcher(inspect.signature(nothing), plans, missed.append)
    with pytest.raises(error, match="mine") as caught:
        dispatcher()
    assert caught.value.__context__ is None
    assert not missed


def test_what_miss_raises_has_no_context():
    def miss(arguments: dict[str, object]) -> None:
        raise LookupError("mine")

    plans = [EntryPlan([guard(Kind.EQUALS, local("x").item(9), 1)], (), (), lambda: 1)]
    dispatcher = build_dispatcher(inspect.signature(plain), plans, miss)
    with pytest.raises(LookupError) as caught:
        dispatcher([], 1)
    assert caught.value.__context__ is None


def test_the_state_is_probed_once_a_call():
    calls: list[int] = []

    def probe() -> int:
        calls.append(1)
        return 2

    plans = [
        EntryPlan([guard(Kind.STATE, None, value)], (), (), lambda value=value: value)
        for value in range(3)
    ]
    dispatcher = build_dispatcher(inspect.signature(nothing), plans, lambda a: "miss", probe)
    assert dispatcher() == 2
    assert len(calls) == 1


def test_a_plan_that_cannot_work_is_refused():
    signature = inspect.signature(plain)
    state = EntryPlan([guard(Kind.STATE, None, 1)], (), (), len)
    with pytest.raises(ValueError, match="no probe"):
        build_dispatcher(signature, [state], len)
    with pytest.raises(ValueError, match="no parameter of that name"):
        build_dispatcher(signature, [EntryPlan((), (), [local("z")], len)], len)
    with pytest.raises(ValueError, match="the value of s0"):
        build_dispatcher(signature, [EntryPlan((), (), [symbol("s0")], len)], len)


def test_sizes_decide_before_a_deep_walk():
    """Entries of one function differ in sizes; the module they share is looked at last."""
    x, deep = local("x"), local("y")
    for _ in range(3):
        deep = deep.item("child")
    s0 = symbol("s0")
    entry = EntryPlan(
        [guard(Kind.EQUALS, deep, 1), guard(Kind.TENSOR, x, spec(None))],
        [SymbolSource(as_symbol(s0), x, 0)],
        [s0 + 1],
        lambda size: size,
    )
    source = build_dispatcher(inspect.signature(plain), [entry], len).anyshape_source
    assert source.index(".shape") < source.index("'child'")


def test_a_path_is_walked_once():
    deep = local("x").item("a").item("b")
    guards = [guard(Kind.EQUALS, deep.item(i), i) for i in range(3)]
    entry = EntryPlan(guards, (), [deep, deep.item(0)], lambda *values: values)
    dispatcher = build_dispatcher(inspect.signature(plain), [entry], lambda arguments: "miss")
    assert dispatcher.anyshape_source.count("'a'") == 1 + 3  # once in code, thrice in comments
    assert dispatcher({"a": {"b": [0, 1, 2]}}, 0) == ([0, 1, 2], 0)


def test_a_module():
    """What capture records of a small module, on the module and on others of its class."""
    x, module = local("x"), local("y")
    weight = module.instance("_parameters").item("weight")
    entry = EntryPlan(
        [
            guard(Kind.TYPE, module, torch.nn.Linear),
            guard(Kind.NO_INSTANCE_ATTRIBUTE, module, "forward"),
            guard(Kind.EQUALS, module.instance("training"), True),
            guard(Kind.LENGTH, module.instance("_forward_hooks"), 0),
            guard(
                Kind.TENSOR,
                weight,
                spec(3, 2, type=torch.nn.Parameter, requires_grad=True, order=(0, 1)),
            ),
            guard(Kind.TENSOR, x, spec(None, 2)),
        ],
        (),
        [weight],
        lambda weight: weight,
    )
    dispatcher = build_dispatcher(inspect.signature(plain), [entry], lambda arguments: "miss")
    tensor = torch.zeros(5, 2)
    for _ in range(2):
        linear = torch.nn.Linear(2, 3)
        assert dispatcher(tensor, linear) is linear.weight
        linear.eval()
        assert dispatcher(tensor, linear) == "miss"
        linear.train()
        handle = linear.register_forward_hook(lambda *args: None)
        assert dispatcher(tensor, linear) == "miss"
        handle.remove()
        assert dispatcher(tensor, linear) is linear.weight
        linear.weight.requires_grad_(False)
        assert dispatcher(tensor, linear) == "miss"
        linear.weight.requires_grad_(True)
        linear.forward = len  # pyright: ignore[reportAttributeAccessIssue] what the guard is about
        assert dispatcher(tensor, linear) == "miss"
    assert dispatcher(tensor, torch.nn.Linear(3, 3)) == "miss"
    assert dispatcher(tensor, torch.nn.Sequential()) == "miss"
