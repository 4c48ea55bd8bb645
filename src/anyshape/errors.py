"""Every error that anyshape raises: what happened, why, what to do, where.

A class states its message as templates; a raise site only gives the values:

    raise ParseError(text="s0 +", column=4, detail="expected an operand")

The base class turns the two into one message, and the values stay readable as attributes. Codes are
stable, because people search for them: AS1xx belong to compiling and marking, AS2xx to
`anyshape.symbolic`, AS3xx to `anyshape.ops`. A number is never used again for something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, cast, dataclass_transform

from anyshape.support.lazy_dataclass import dataclass, fields
from anyshape.support.spelling import did_you_mean

_LONGEST_VALUE = 200
_LONGEST_CONDITION = 500
_LONGEST_EXCERPT = 72
_MOST_LISTED = 12


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False, repr=False)
class AnyshapeError(Exception):
    """Base of all errors. A subclass declares its values as fields and its message as templates.

    A class without a code is a family: something to catch, not to raise.

    >>> try:
    ...     anyshape.compile(3)
    ... except anyshape.AnyshapeError as error:
    ...     print(error.code, type(error).__name__, isinstance(error, TypeError))
    AS106 NotCallable True
    """

    code: ClassVar[str] = ""
    what: ClassVar[str] = ""
    why: ClassVar[str] = ""
    do: ClassVar[tuple[str, ...]] = ()

    where: str | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(kw_only=True, eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        super().__init__(self._message())

    def _shown(self) -> dict[str, str]:
        """The values as the templates see them; a subclass may add derived ones."""
        return {name: _show(value) for name, value in self._values().items()}

    def _values(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _message(self) -> str:
        shown = self._shown()
        lines = [f"[{self.code}] {self.what.format(**shown)}", f"  why: {self.why.format(**shown)}"]
        lines += [f"  try: {step.format(**shown)}" for step in self.do]
        if self.where:
            lines.append(f"  at:  {self.where}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from keywords; values become text, since interned expressions cannot travel."""
        values = {name: _portable(value) for name, value in self._values().items()}
        notes = {"__notes__": self.__notes__} if hasattr(self, "__notes__") else {}
        return partial(type(self), **values), (), notes


def _show(value: object) -> str:
    # Python refuses to print integers of more than some thousand digits; an error must not fail.
    if isinstance(value, int) and value.bit_length() > 4 * _LONGEST_VALUE:
        return f"an integer of {value.bit_length()} bits"
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def _portable(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return tuple(_portable(item) for item in cast("Sequence[object]", value))
    return str(value)


def _listed(values: Sequence[object], nothing: str) -> str:
    shown = [f"`{_show(value)}`" for value in values[:_MOST_LISTED]]
    if len(values) > _MOST_LISTED:
        shown.append(f"and {len(values) - _MOST_LISTED} more")
    return ", ".join(shown) or nothing


def _excerpt(text: str, column: int) -> str:
    """The line around offset `column`, cut to fit a terminal, with a caret below the offset."""
    column = min(max(column, 0), len(text))
    start = text.rfind("\n", 0, column) + 1
    end = text.find("\n", column)
    end = len(text) if end < 0 else end
    first = max(start, column - _LONGEST_EXCERPT // 2)
    last = min(end, first + _LONGEST_EXCERPT)
    before, after = "…" * (first > start), "…" * (last < end)
    line = text[first:last].replace("\t", " ")
    return f"    {before}{line}{after}\n    {' ' * (len(before) + column - first)}^"


# -- AS1xx: settings ----------------------------------------------------------------------------


class SettingsError(AnyshapeError):
    """A setting, or a text that sets one, that cannot be used."""


class BadSetting(SettingsError, ValueError):
    """A value that a setting does not take, from the program or from the environment."""

    code = "AS181"
    what = "{origin} cannot be {value}"
    why = "it takes {accepted}{nearest}"
    do = ("give one of these, or leave it out for the default",)

    #: `config.recompile_limit`, or `the environment variable ANYSHAPE_RECOMPILE_LIMIT`
    origin: str
    #: as Python writes it
    value: str
    accepted: str
    #: the words among what it takes
    words: Sequence[str] = ()

    def _shown(self) -> dict[str, str]:
        return super()._shown() | {"nearest": did_you_mean(self.value.strip("'\""), self.words)}


class UnknownSetting(SettingsError, AttributeError):
    """A name that is no setting."""

    code = "AS182"
    what = "there is no setting `{setting}`"
    why = "{nearest}"
    do = ("check the spelling: `anyshape config` and `help(anyshape.config)` list all names",)

    setting: str
    similar: Sequence[str] = ()

    def _shown(self) -> dict[str, str]:
        nothing = "no setting has a name like it"
        listed = _listed(self.similar, "")
        return super()._shown() | {"nearest": f"similar names: {listed}" if listed else nothing}


class UnknownLog(SettingsError, ValueError):
    """A name of a log that does not exist."""

    code = "AS183"
    what = "{origin} names the log `{log}`, which does not exist"
    why = "the logs are {listed}{nearest}"
    do = (
        "use these names, separated by commas: `+name` for all detail, `-name` for errors only",
        "leave the name out",
    )

    #: `ANYSHAPE_LOGS`, or `set_logs`
    origin: str
    log: str
    known: Sequence[str] = ()

    def _shown(self) -> dict[str, str]:
        nearest = did_you_mean(self.log.lstrip("+-"), self.known)
        return super()._shown() | {"listed": _listed(self.known, "none"), "nearest": nearest}


# -- compiling ------------------------------------------------------------------------------------


class CompileError(AnyshapeError):
    """A function cannot be compiled as asked."""


class DynamicDimWasFixed(CompileError, ValueError):
    """A dimension that is marked dynamic can have only one value."""

    code = "AS103"
    what = "{source} is marked dynamic, but the program only works for {value}"
    why = "{reason}{listed}"
    do = (
        "change the lines named here so that they do not depend on the value",
        "use maybe_mark_dynamic (for an integer: a plain one), or drop the mark: then it is static",
    )

    source: str
    value: object
    reason: str
    #: the conditions that left no other value, each with its line
    conditions: Sequence[str] = ()

    def _shown(self) -> dict[str, str]:
        listed = "".join(f"\n       {each[:_LONGEST_CONDITION]}" for each in self.conditions)
        return super()._shown() | {"listed": listed}


class MarkOutOfRange(CompileError, ValueError):
    """A dimension was marked with a range that its own size is outside of."""

    code = "AS108"
    what = "{mark}: dimension {dim} has the size {size}, where the mark allows {range}"
    why = "a mark declares the sizes that the dimension takes, and this tensor has another"
    do = (
        "widen the range with min= and max=",
        "do not mark this tensor: sizes outside of the range are compiled separately",
    )

    mark: str
    dim: int
    size: int
    range: str


class GraphBreakError(CompileError, RuntimeError):
    """`fullgraph=True`, and a part of the function cannot be captured."""

    code = "AS104"
    what = "{function} cannot be captured as one graph: {reason}"
    why = "{by} asks for one graph or an error"
    do = ("{listed}", "{otherwise}")

    function: str
    reason: str
    hints: Sequence[str] = ()
    #: who wants one graph: `fullgraph=True`, or `export`
    by: str = "fullgraph=True"

    def _shown(self) -> dict[str, str]:
        otherwise = "drop fullgraph=True: there is a graph break then, and the rest is compiled"
        if self.by == "export":
            otherwise = "export the part of the program that does not need it"
        listed = "; ".join(self.hints) or "rewrite the line below"
        return super()._shown() | {"listed": listed, "otherwise": otherwise}


class DataDependentError(CompileError, RuntimeError):
    """One graph is wanted, and the program asks something about data that nothing known answers."""

    code = "AS102"
    what = "{function} has a data-dependent condition: {question}"
    why = "one graph has no branches, so the condition must be the same for all data{made}"
    do = ("{listed}", "{otherwise}")

    function: str
    #: in the program's own names where it has them
    question: str
    #: where the numbers in the question come from
    numbers: Sequence[str] = ()
    #: statements to paste above the line that asks
    suggestions: Sequence[str] = ()
    #: who wants one graph: `fullgraph=True`, or `export`
    by: str = "fullgraph=True"

    def _shown(self) -> dict[str, str]:
        pasted = " or ".join(f"`{line}`" for line in self.suggestions)
        listed = (
            f"put {pasted} above the line below, if that is always so"
            if pasted
            else "compute both branches and choose with torch.where"
        )
        otherwise = "drop fullgraph=True: the condition is then a branch of the compiled program"
        if self.by == "export":
            otherwise = "write the branch as torch.cond(pred, true_fn, false_fn, operands)"
        made = "".join(f"; {number}" for number in self.numbers)
        return super()._shown() | {"listed": listed, "made": made, "otherwise": otherwise}


class RecompileError(CompileError, RuntimeError):
    """A function would be recompiled, where that is declared to be an error."""

    code = "AS105"
    what = "{function} would be recompiled: {listed}"
    why = "no compiled entry matches this call, and {rule}"
    do = (
        "mark what changes as dynamic: `mark_dynamic(tensor, dim)` or `compile(dynamic=True)`",
        "set config.error_on_recompile = False, or another stance: whichever forbids it",
    )

    function: str
    reasons: Sequence[str] = ()
    #: who declares it to be one
    rule: str = "config.error_on_recompile is set"

    def _shown(self) -> dict[str, str]:
        return super()._shown() | {"listed": _listed(self.reasons, "no entry matches")}


class NotCallable(CompileError, TypeError):
    """Something was given to `compile` that cannot be called."""

    code = "AS106"
    what = "{caller} was given {value}, which cannot be called"
    why = "it takes functions, methods, callable objects and nn.Modules"
    do = (
        "give it the function itself, not the result of calling it",
        "of an object, give it the method that is called: {caller}(optimizer.step)",
        "put @classmethod and @property above @anyshape.compile, not below it",
    )

    value: object
    caller: str = "anyshape.compile"

    def _values(self) -> dict[str, object]:
        is_long = "\n" in str(self.value)
        value = f"an object of {type(self.value).__name__}" if is_long else self.value
        return super()._values() | {"value": value}


class ClassGiven(CompileError, TypeError):
    """A class of modules was given to `compile`, where an instance is meant."""

    code = "AS110"
    what = "{caller} was given {cls}, a class of modules"
    why = "a call of the class makes a module, and it is the calls of that module that are compiled"
    do = (
        "compile an instance: anyshape.compile({cls}(...))",
        "decorate the method that is called: @anyshape.compile above `def forward`",
    )

    cls: str
    caller: str = "anyshape.compile"


class BadOption(CompileError, ValueError):
    """An argument of `compile` or of a mark that means nothing."""

    code = "AS107"
    what = "{option}={value} is not accepted"
    why = "{accepted}"
    do = ("give a value that is accepted, or leave the argument out if it has a default",)

    option: str
    value: object
    accepted: str


class UnknownArgument(CompileError, TypeError):
    """An argument was given by a name that the function does not have."""

    code = "AS109"
    what = "{function} has no argument `{argument}`"
    why = "its arguments are {listed}{nearest}"
    do = ("check the spelling", "leave the argument out")

    function: str
    argument: str
    known: Sequence[str] = ()

    def _shown(self) -> dict[str, str]:
        nearest = did_you_mean(self.argument, self.known)
        return super()._shown() | {"listed": _listed(self.known, "none"), "nearest": nearest}


class BadShapeSpec(CompileError, ValueError):
    """A spec of shapes that means nothing, or nothing for this function."""

    code = "AS111"
    what = "the spec of shapes is wrong at {place}: {found}"
    why = "expected {expected}"
    do = (
        'name sizes by parameter: dict(x="batch seq 64") or dict(x=(Dim("batch"), None, 64))',
        "leave out what the spec should not say",
    )

    #: in the spec: `shapes['x'][0]`
    place: str
    found: str
    expected: str


class ShapeContractViolation(CompileError, ValueError):
    """A call whose shapes are outside of the contract that the function was compiled for."""

    code = "AS112"
    what = "{function} was called outside of its shape contract: {listed}"
    why = "compile(shapes=...) promises one program for these shapes and no others{given}"
    do = (
        "call it with shapes that the contract allows",
        "widen the contract, or leave this size out of it",
    )

    function: str
    #: one sentence for each thing that is wrong: the argument, the dimension, the values
    problems: Sequence[str]
    #: what the dims were found to be, by name
    values: Sequence[str] = ()

    def _shown(self) -> dict[str, str]:
        given = f"; here {', '.join(self.values)}" if self.values else ""
        return super()._shown() | {"listed": "; ".join(self.problems), "given": given}


class ConstraintViolation(CompileError, ValueError):
    """A program that cannot do what was declared of its shapes."""

    code = "AS113"
    what = "{function} does not honour its shapes for all sizes declared:{listed}"
    why = "each line above needs more than the spec of shapes says"
    do = (
        "change these lines so that they hold for every size declared",
        "narrow the spec, by a range (Dim(name, min=, max=)) or a relation, or use Dim.AUTO",
        "where a size is compared with one that the spec does not name, name that one too{pasted}",
    )

    function: str
    #: for each line: what it needs, why, where, and a size that breaks it
    violations: Sequence[str]
    #: a spec that the program honours: to be given instead, its text is code to paste
    suggested: object = None

    def _shown(self) -> dict[str, str]:
        listed = "".join(f"\n  - {violation}" for violation in self.violations)
        pasted = ""
        if self.suggested is not None:
            lines = "".join(f"\n       {line}" for line in str(self.suggested).splitlines())
            pasted = f"\n  try: this spec, which is also `error.suggested`:{lines}"
        return super()._shown() | {"listed": listed, "pasted": pasted}


class BackendFailed(CompileError, RuntimeError):
    """A backend that was given to `compile` failed, or what it returned did."""

    code = "AS114"
    what = "the backend failed on {function}{when}: {detail}"
    why = "the backend is code of yours or of a library: its own error is the cause of this one"
    do = (
        "mend the backend: docs/extending.md has one from nothing",
        'set config.on_compile_error = "warn" to run such functions eagerly',
    )

    function: str
    detail: str
    #: " when it ran", of what it has returned
    when: str = ""


class ExportError(AnyshapeError):
    """Something about exporting, or about a program that was exported."""


class CannotExport(ExportError, RuntimeError):
    """A program that does something which an artifact cannot do without the program."""

    code = "AS121"
    what = "{function} cannot be exported: {reason}"
    why = "an exported program has nothing but its inputs, its weights and torch's operators"
    do = ("{listed}", "leave that part outside of what is exported")

    function: str
    reason: str
    hints: Sequence[str] = ()

    def _shown(self) -> dict[str, str]:
        return super()._shown() | {"listed": "; ".join(self.hints) or "rewrite that part"}


class ExportInputError(ExportError, ValueError):
    """An exported program was called with what it was not exported for."""

    code = "AS122"
    what = "{function} was called with what it was not exported for: {listed}"
    why = "the artifact is for the inputs that its constraints describe, and no others"
    do = (
        "call it with inputs that the constraints allow: `print(ep)` shows them",
        "export again with a wider spec (dynamic_shapes=)",
    )

    function: str
    #: one sentence for each thing that is wrong: the input, its value, the constraint
    problems: Sequence[str]

    def _shown(self) -> dict[str, str]:
        return super()._shown() | {"listed": "; ".join(self.problems)}


class ExportCheckFailed(ExportError, RuntimeError):
    """A condition on data that an exported program relies on does not hold in this run."""

    code = "AS123"
    what = "`{condition}` does not hold"
    why = "{reason}; the program was exported for data of which it holds"
    do = (
        "look at the data: the program itself asks for this, at the line named in the reason",
        "export again without what needs it",
    )

    condition: str
    reason: str


class BadPackage(ExportError, ValueError):
    """A file that is no package of an exported program, or a damaged one."""

    code = "AS124"
    what = "{file} cannot be loaded as an exported program: {found}"
    why = "expected {expected}"
    do = (
        "save it again with `ep.save(path)`, or copy it again if it was copied",
        "look into it: it is a zip file of JSON and safetensors",
    )

    file: str
    found: str
    expected: str


class VerificationError(AnyshapeError, RuntimeError):
    """A compiled call did not do what eager does (`config.verify_calls`)."""

    code = "AS198"
    what = "a compiled call of {function} differs from eager: {listed}"
    why = "config.verify_calls runs eager on copies beside entry {entry}, and compares what both do"
    do = (
        "report it{shown}: unless the program reads memory that nobody has written, it is a defect"
        " of anyshape, or of the backend that was given to compile",
        'set config.on_verify = "event" to be told without an error',
    )

    function: str
    #: the id of the compiled entry
    entry: str
    #: one sentence for each thing that differs: where, what it is, what eager has
    differences: Sequence[str]
    #: a program that shows it, if it could be written
    file: str = ""

    def _shown(self) -> dict[str, str]:
        shown = f" with {self.file}, which has the graph and its inputs" if self.file else ""
        return super()._shown() | {"listed": "; ".join(self.differences), "shown": shown}


class InternalError(AnyshapeError, RuntimeError):
    """A defect of anyshape itself."""

    code = "AS199"
    what = "anyshape failed in {stage}: {detail}"
    why = "this is a defect of anyshape, not of your program"
    do = (
        "report it with the traceback",
        'set config.on_compile_error = "warn" to run such functions eagerly',
    )

    stage: str
    detail: object


# -- symbolic: the integer engine ---------------------------------------------------------------


class SymbolicError(AnyshapeError):
    """Something that `anyshape.symbolic` was asked has no meaning."""


class SymbolicTypeError(SymbolicError, TypeError):
    """A value of the wrong type where the engine expects an expression or a fact."""

    code = "AS201"
    what = "wrong type in a symbolic expression: {detail}"
    why = "sizes are integers and facts are booleans; mixing them would hide mistakes"
    do = (
        "convert explicitly: `int(flag)` for a number, `ne(e, 0)` for a fact",
        "take the value out of the tensor, float or other object first",
    )

    detail: object


class UnknownSymbol(SymbolicError, LookupError):
    """A symbol that nothing was declared or bound for."""

    code = "AS202"
    what = "symbol `{symbol}` is not known here"
    why = "a symbol must be declared, and bound to a value to be evaluated; known: {listed}"
    do = ("check the spelling", "declare the symbol, or give a value for it")

    symbol: object
    known: Sequence[object] = ()

    def _shown(self) -> dict[str, str]:
        return super()._shown() | {"listed": _listed(self.known, "none")}


class ParseError(SymbolicError, ValueError):
    """Text that is not an expression; `column` counts from 0 and may be one past the end."""

    code = "AS203"
    what = "cannot read this as an expression: {detail}\n{excerpt}"
    why = "the text must be in the form that expressions print in"
    do = (
        "correct the text at the caret",
        "use integers, symbols, + - * // % **, min, max, ceildiv, comparisons, and/or/not",
    )

    text: str
    column: int
    detail: object

    def _shown(self) -> dict[str, str]:
        return super()._shown() | {"excerpt": _excerpt(self.text, self.column)}


class ExpressionTooLarge(SymbolicError, OverflowError, ValueError):
    """An expression or integer beyond a limit of the engine; `size` and `limit` share a unit."""

    code = "AS204"
    what = "{detail}: {size}, where the limit is {limit}"
    why = "questions about sizes must stay fast, so expressions and integers are bounded"
    do = (
        "look for a product or power that grows without need",
        "make some of the sizes static, so that the expression folds into a number",
    )

    detail: object
    size: object
    limit: int


class Contradiction(SymbolicError):
    """An assumption that cannot hold together with what is known already."""

    code = "AS205"
    what = "`{fact}` cannot be assumed (wanted because: {reason})"
    why = "it contradicts what is known: {listed}"
    do = (
        "check the input against the declared ranges and the checks made earlier",
        "drop or widen the earlier assumption that excludes it",
    )

    fact: object
    reason: object
    known: Sequence[object] = ()

    def _shown(self) -> dict[str, str]:
        return super()._shown() | {"listed": _listed(self.known, "the fact is false by itself")}


class UndefinedDivision(SymbolicError, ZeroDivisionError):
    """A division or remainder whose divisor is the constant zero."""

    code = "AS206"
    what = "`{expression}` divides by zero"
    why = "// and % mean what they mean in Python, and there this raises"
    do = ("check where the divisor comes from: a size or stride of 0 is the usual cause",)

    expression: object


# -- ops: shapes of operators ---------------------------------------------------------------------


class OperatorError(AnyshapeError):
    """The shape of an operator's result cannot be given."""

    op: object


class ShapeMismatch(OperatorError, RuntimeError):
    """The operator rejects these inputs, as it would in eager mode (so a RuntimeError too)."""

    code = "AS301"
    what = "{op}: {detail}"
    why = "the operator is not defined for these inputs; eager mode rejects them too"
    do = ("compare the shapes and dtypes of the inputs with what {op} documents",)

    detail: object


class NeedsDecision(OperatorError):
    """The result depends on a fact about an unbacked size, which nothing known decides."""

    code = "AS302"
    what = "{op} must know whether `{fact}`, because {reason}"
    why = "the fact is about a size that depends on data, so there is no value to decide it by"
    do = (
        "state it before the call: `torch._check(...)`",
        "declare a range of the size that decides it",
    )

    fact: object
    reason: object


class UnknownOperator(OperatorError, LookupError):
    """An operator without a row in the table of `anyshape.ops`."""

    code = "AS303"
    what = "no shape rule for {op}"
    why = "anyshape has no shape rule for it, and torch has no meta function"
    do = (
        "use operators that are supported (docs/operators.md)",
        "add a shape rule for it (docs/extending.md)",
    )


class WrongShapeFunction(OperatorError, RuntimeError):
    """The shape function of a library's operator is right for other sizes only."""

    code = "AS304"
    what = "{op} gave a result of {found}, where its shape function says {said}"
    why = "compiled code relies on what `register_fake` states, for all sizes"
    do = (
        "correct the function of `register_fake`; `torch.library.opcheck` compares it with the"
        " operator",
        "where data decide on a size, make it with `torch.library.get_ctx().new_dynamic_size()`",
    )

    #: what differs: the sizes of each tensor, or the dtype
    found: str
    said: str
