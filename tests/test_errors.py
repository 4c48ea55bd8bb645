"""Every error class has a code, a full message, and survives being copied and pickled."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator

import pytest
import torch

import anyshape
from anyshape import errors
from anyshape.errors import AnyshapeError

# One example for each class that can be raised.
EXAMPLES: list[AnyshapeError] = [
    errors.BadSetting(
        origin="config.recompile_limit", value="'a'", accepted="a whole number of at least 1"
    ),
    errors.UnknownSetting(setting="recompil_limit", similar=["recompile_limit"]),
    errors.UnknownLog(origin="ANYSHAPE_LOGS", log="dyn", known=["dynamic", "guards"]),
    errors.DynamicDimWasFixed(source="L['x'].size()[0]", value=3, reason="a loop over it"),
    errors.MarkOutOfRange(mark="mark_dynamic", dim=0, size=2, range="[4, 64]"),
    errors.GraphBreakError(function="f", reason="`item` reads data", hints=["use torch.where"]),
    errors.DataDependentError(
        function="f",
        question="n > 5",
        numbers=["n is made by `n = x.item()`"],
        suggestions=["torch._check(n > 5)"],
    ),
    errors.RecompileError(function="f", reasons=["tensor 'x' size mismatch"]),
    errors.NotCallable(value=3),
    errors.ClassGiven(cls="Model"),
    errors.UnknownArgument(
        function="compile", argument="dynamci", known=("function", "dynamic", "fullgraph")
    ),
    errors.BadOption(option="backend", value="cuda", accepted='"native" or "eager"'),
    errors.BadShapeSpec(place="shapes['x'][0]", found="3.5", expected="a size"),
    errors.ShapeContractViolation(
        function="f", problems=["x.shape[0] is 5, where batch <= 4 is declared"], values=["batch=5"]
    ),
    errors.ConstraintViolation(function="f", violations=["`batch < 11` is needed, at f.py:3"]),
    errors.BackendFailed(function="f", detail="KeyError('x')"),
    errors.CannotExport(function="f", reason="it sets `self.count`", hints=["return it instead"]),
    errors.ExportInputError(
        function="f", problems=["x.shape[0] is 7, where batch <= 4 is expected"]
    ),
    errors.ExportCheckFailed(condition="u0 <= 4", reason="torch._check at f.py:3"),
    errors.BadPackage(file="f.zip", found="it ends too early", expected="a zip file"),
    errors.VerificationError(
        function="f",
        entry="0/1",
        differences=["result: dtype is torch.float64, where eager has torch.float32"],
        file="graph_5c9a21d464ee.py",
    ),
    errors.InternalError(stage="backend", detail="KeyError('x')"),
    errors.SymbolicTypeError(detail="`True` is a bool, where an integer is expected"),
    errors.UnknownSymbol(symbol="s7", known=["s0", "s1"]),
    errors.ParseError(text="s0 +", column=4, detail="expected an operand"),
    errors.ExpressionTooLarge(detail="too many terms", size=5000, limit=1000),
    errors.Contradiction(fact="s0 < 2", reason="x.view(1)", known=["s0 >= 4"]),
    errors.UndefinedDivision(expression="s0 // 0"),
    errors.ShapeMismatch(op="mm", detail="(2, 3) and (4, 5) do not multiply"),
    errors.NeedsDecision(op="view", fact="u0 == 6", reason="the element count must not change"),
    errors.UnknownOperator(op="aten.nothing"),
    errors.WrongShapeFunction(op="library.halves", found="shape (3,)", said="shape (4,)"),
]


def subclasses(cls: type[AnyshapeError]) -> Iterator[type[AnyshapeError]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from subclasses(sub)


RAISED = [cls for cls in subclasses(AnyshapeError) if cls.code]
FAMILIES = [AnyshapeError, *(cls for cls in subclasses(AnyshapeError) if not cls.code)]


def by_name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


def test_every_class_has_an_example():
    assert {type(example) for example in EXAMPLES} == set(RAISED)


def test_codes_are_unique():
    codes = [cls.code for cls in RAISED]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("cls", FAMILIES, ids=by_name)
def test_a_class_without_a_code_is_a_family(cls: type[AnyshapeError]):
    assert cls.__subclasses__()


@pytest.mark.parametrize("cls", RAISED, ids=by_name)
def test_class_says_what_why_and_what_to_do(cls: type[AnyshapeError]):
    assert re.fullmatch(r"AS[1-9]\d\d", cls.code)
    assert "code" in vars(cls), "a code is never inherited"
    assert cls.__doc__
    assert cls.what.strip()
    assert cls.why.strip()
    assert cls.do
    assert all(step.strip() for step in cls.do)


@pytest.mark.parametrize("error", EXAMPLES, ids=by_name)
def test_message_has_every_part(error: AnyshapeError):
    message = str(error)
    assert message.startswith(f"[{error.code}] ")
    assert "\n  why: " in message
    assert message.count("\n  try: ") == len(error.do)
    assert not re.search(r"[{}]", message), "a template value was not filled in"


@pytest.mark.parametrize("error", EXAMPLES, ids=by_name)
@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_copies_say_the_same(error: AnyshapeError, clone):
    error.add_note("seen in a test")
    twin = clone(error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert twin.__notes__ == error.__notes__
    del error.__notes__


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.SymbolicTypeError, TypeError),
        (errors.UnknownSymbol, LookupError),
        (errors.ParseError, ValueError),
        (errors.ExpressionTooLarge, OverflowError),
        (errors.ExpressionTooLarge, ValueError),
        (errors.UndefinedDivision, ZeroDivisionError),
        (errors.ShapeMismatch, RuntimeError),
        (errors.UnknownOperator, LookupError),
    ],
)
def test_is_also_the_builtin_people_catch(cls: type[AnyshapeError], builtin: type[Exception]):
    assert issubclass(cls, builtin)


def test_values_are_attributes():
    error = errors.NeedsDecision(op="view", fact="u0 == 6", reason="a count")
    assert (error.op, error.fact, error.reason) == ("view", "u0 == 6", "a count")


def test_location_comes_last():
    error = errors.UndefinedDivision(expression="s0 // 0", where="model.py:12")
    assert str(error).endswith("\n  at:  model.py:12")


@pytest.mark.parametrize("values", [{}, {"op": "mm"}, {"op": "mm", "detail": "", "extra": 1}])
def test_wrong_values_are_our_mistake(values: dict[str, object]):
    with pytest.raises(TypeError, match="ShapeMismatch"):
        errors.ShapeMismatch(**values)  # pyright: ignore[reportArgumentType] what the test is about


def test_braces_in_values_are_plain_text():
    assert "got {x}" in str(errors.SymbolicTypeError(detail="got {x}"))


def test_values_that_do_not_pickle_travel_as_text():
    class Interned:
        def __reduce__(self):
            raise TypeError("not here")

        def __str__(self):
            return "s0 < 2"

    error = errors.Contradiction(fact=Interned(), reason="a view", known=[Interned()])
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.fact, twin.known) == ("s0 < 2", ("s0 < 2",))
    assert str(twin) == str(error)


def test_objects_of_many_lines_are_told_by_their_class():
    optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)
    with pytest.raises(errors.NotCallable) as caught:
        anyshape.compile(optimizer)  # pyright: ignore[reportArgumentType, reportCallIssue]
    first, *_ = str(caught.value).splitlines()
    assert first == "[AS106] anyshape.compile was given an object of SGD, which cannot be called"
    assert "anyshape.compile(optimizer.step)" in str(caught.value)
    assert caught.value.value is optimizer
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_huge_values_are_cut():
    assert "an integer of" in str(errors.ExpressionTooLarge(detail="", size=10**9999, limit=1))
    assert len(str(errors.SymbolicTypeError(detail="x" * 10_000))) < 1000
    assert "and 88 more" in str(errors.UnknownSymbol(symbol="t", known=range(100)))


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("s0 +", 4, "    s0 +\n        ^\n"),
        ("s0 ? 1", 3, "    s0 ? 1\n       ^\n"),
        ("", 0, "    \n    ^\n"),
        ("a\nb $ c\nd", 4, "    b $ c\n      ^\n"),
        ("\t$", 1, "     $\n     ^\n"),
        ("s0", 99, "    s0\n      ^\n"),
    ],
)
def test_parse_error_points_at_the_column(text: str, column: int, expected: str):
    assert expected in str(errors.ParseError(text=text, column=column, detail="no"))


def test_parse_error_cuts_long_text_but_keeps_the_caret():
    text = "a" * 500 + "$" + "a" * 500
    lines = str(errors.ParseError(text=text, column=500, detail="no")).splitlines()
    assert len(lines[1]) < 90
    assert lines[1][lines[2].index("^")] == "$"
