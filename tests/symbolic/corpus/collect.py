# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false
# pyright: reportCallIssue=false, reportOperatorIssue=false, reportReturnType=false, reportRedeclaration=false, reportFunctionMemberAccess=false
# (this file patches torch's internals and builds ast nodes)
"""Collects the corpus of questions that shape code asks about sizes.

    python collect.py record RAW      trace programs with torch's own stack, write what was asked
    python collect.py build RAW       select, keep the hand-written ones, decide with z3, write
    python collect.py check           check questions.jsonl again by brute force on small integers
    python collect.py readme          print the tables of README.md

Test code: unlike the package it may import torch's symbolic-shape stack, sympy and z3.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import itertools
import json
import random
import re
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE / "questions.jsonl"

# --------------------------------------------------------------------------------------------------
# 1. Expressions as text.  A raw tree is a tuple (op, args...); leaves: int, bool, str (a symbol).

BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "int_floordiv": "//",
    "mod": "%",
    "pow_by_natural": "**",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
PRECEDENCE = {
    "or": 1,
    "and": 2,
    "not": 3,
    "cmp": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "//": 6,
    "%": 6,
    "neg": 7,
    "**": 8,
    "atom": 9,
}


class Unsupported(Exception):
    """The expression has no form in the text syntax (floats, conditionals, ...)."""


def text_of(tree: object) -> str:
    return _text(tree)[0]


def _text(t: object) -> tuple[str, int]:
    if isinstance(t, bool):
        return str(t), PRECEDENCE["atom"]
    if isinstance(t, int):
        return str(t), PRECEDENCE["atom"] if t >= 0 else PRECEDENCE["neg"]
    if isinstance(t, str):
        return t, PRECEDENCE["atom"]
    assert isinstance(t, tuple)
    op, *args = t
    if op in ("and", "or"):
        p = PRECEDENCE[op]
        return f" {op} ".join(_wrap(a, p + 1) for a in args), p
    if op == "not":
        return "not " + _wrap(args[0], PRECEDENCE["not"]), PRECEDENCE["not"]
    if op == "neg":
        return "-" + _wrap(args[0], PRECEDENCE["neg"] + 1), PRECEDENCE["neg"]
    if op in ("min", "max", "ceildiv"):
        return f"{op}({', '.join(text_of(a) for a in args)})", PRECEDENCE["atom"]
    if op in BINARY:
        sign = BINARY[op]
        p = PRECEDENCE.get(sign, PRECEDENCE["cmp"])
        left = _wrap(args[0], p + (sign in ("**",) or p == PRECEDENCE["cmp"]))
        return f"{left} {sign} {_wrap(args[1], p + 1)}", p
    raise Unsupported(op)


def _wrap(t: object, least: int) -> str:
    text, p = _text(t)
    return text if p >= least else f"({text})"


def tree_size(t: object) -> int:
    return 1 + sum(tree_size(a) for a in t[1:]) if isinstance(t, tuple) else 1


def symbols_in(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\b[su]\d+\b", text)))


# --------------------------------------------------------------------------------------------------
# 2. Recording.  SymNode builds sympy expressions, which simplify themselves; we keep beside each
#    node the tree as the shape code wrote it, and log each truth value that is asked of a node,
#    with the facts that the ShapeEnv knew.

MAX_TREE = 70
log_rows: list[dict] = []
context: dict = {"program": "", "ops": []}


def tree_of_sympy(e) -> object:
    """A sympy expression of torch's as a raw tree."""
    import sympy
    from torch.utils._sympy import functions as F
    from torch.utils._sympy.numbers import IntInfinity, NegativeIntInfinity

    if isinstance(e, (bool, int)):
        return e
    if e in (sympy.true, sympy.false):
        return bool(e)
    if isinstance(e, sympy.Integer):
        return int(e)
    if isinstance(e, (IntInfinity, NegativeIntInfinity)):
        raise Unsupported("infinity")
    if isinstance(e, sympy.Symbol):
        if not re.fullmatch(r"[su]\d+", e.name):
            raise Unsupported(e.name)
        return e.name
    a = [tree_of_sympy(x) for x in e.args]
    fold = lambda op: __import__("functools").reduce(lambda x, y: (op, x, y), a)  # noqa: E731
    if isinstance(e, sympy.Add):
        pos = [x for x in e.args if not x.could_extract_minus_sign()]
        negs = [-x for x in e.args if x.could_extract_minus_sign()]
        pos.sort(key=lambda x: (x.is_number, str(x)))
        out = tree_of_sympy(pos[0]) if pos else ("neg", tree_of_sympy(negs.pop(0)))
        for x in pos[1:]:
            out = ("add", out, tree_of_sympy(x))
        for x in negs:
            out = ("sub", out, tree_of_sympy(x))
        return out
    if isinstance(e, sympy.Mul):
        if e.args[0] == -1 and len(e.args) > 1:
            return ("neg", tree_of_sympy(-e))
        return fold("mul")
    if isinstance(e, (sympy.Pow, F.PowByNatural)) and isinstance(a[1], int) and 0 <= a[1] <= 6:
        return ("pow_by_natural", *a)
    if isinstance(e, F.FloorDiv):
        return ("int_floordiv", *a)
    if isinstance(e, (F.Mod, F.PythonMod, sympy.Mod)):
        return ("mod", *a)
    if isinstance(e, F.ModularIndexing):
        return ("mod", ("int_floordiv", a[0], a[1]), a[2])
    if isinstance(e, (F.Max, sympy.Max)):
        return ("max", *a)
    if isinstance(e, (F.Min, sympy.Min)):
        return ("min", *a)
    if isinstance(e, F.CeilToInt) and isinstance(e.args[0], F.IntTrueDiv):
        return ("ceildiv", *[tree_of_sympy(x) for x in e.args[0].args])
    if isinstance(e, (F.FloorToInt, F.TruncToInt)) and isinstance(e.args[0], F.IntTrueDiv):
        return ("int_floordiv", *[tree_of_sympy(x) for x in e.args[0].args])
    for cls, op in (
        (sympy.Eq, "eq"),
        (sympy.Ne, "ne"),
        (sympy.Lt, "lt"),
        (sympy.Le, "le"),
        (sympy.Gt, "gt"),
        (sympy.Ge, "ge"),
    ):
        if isinstance(e, cls):
            return (op, *a)
    if isinstance(e, sympy.And):
        return ("and", *a)
    if isinstance(e, sympy.Or):
        return ("or", *a)
    if isinstance(e, sympy.Not):
        return ("not", a[0])
    raise Unsupported(type(e).__name__)


def raw_of(node) -> object:
    if hasattr(node, "_raw"):
        if node._raw is None:
            raise Unsupported("from an unsupported operation")
        return node._raw
    if getattr(node, "constant", None) is not None:
        return node.constant
    return tree_of_sympy(node._expr)


def simplify_floats(op: str, args: list) -> object:
    """The tree of one SymNode method; ceil and floor of an int division become integer ones."""

    def bad_float(x: object) -> bool:
        return isinstance(x, float) or (
            isinstance(x, tuple) and x[0] in ("int_truediv", "float_truediv")
        )

    if (
        op in ("ceil", "floor", "trunc", "sym_int")
        and isinstance(args[0], tuple)
        and args[0][0] in ("int_truediv", "float_truediv")
    ):
        return ("ceildiv" if op == "ceil" else "int_floordiv", *args[0][1:])
    if op in ("ceil", "floor", "trunc", "sym_int", "sym_float", "pos"):
        return args[0]
    if op in ("int_truediv", "float_truediv"):
        return (op, *args)
    if any(bad_float(a) for a in args):
        raise Unsupported(op)
    if op in ("and", "or", "sym_and", "sym_or"):
        return (op.removeprefix("sym_"), *args)
    if op == "sym_not":
        return ("not", args[0])
    if op == "neg":
        return ("neg", args[0])
    if op in ("sym_min", "sym_max"):
        return (op[4:], *args)
    if op == "abs":
        return ("max", args[0], ("neg", args[0]))
    if op in BINARY:
        return (op, *args)
    raise Unsupported(op)


def contiguous_tree(sizes: list, strides: list, order: list[int]) -> object:
    """is_contiguous as torch's sympy_is_contiguous_generic writes it, without simplification."""
    expected: object = 1
    terms = []
    for d in order:
        terms.append(("or", ("eq", sizes[d], 1), ("eq", strides[d], expected)))
        expected = sizes[d] if expected == 1 else ("mul", expected, sizes[d])
    whole: object = ("and", *terms) if len(terms) > 1 else terms[0]
    return ("or", whole, *[("eq", s, 0) for s in sizes])


def install_recorder() -> None:
    import torch  # noqa: F401
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental import symbolic_shapes
    from torch.fx.experimental.sym_node import SymNode

    def wrap(attr: str, op: str) -> None:
        if not hasattr(SymNode, attr):
            return
        original = getattr(SymNode, attr)

        def method(self, *others):
            result = original(self, *others)
            if (
                result is self
                or any(result is o for o in others)
                or "_raw" in getattr(result, "__dict__", {"_raw": 0})
            ):
                return result
            try:
                tree = simplify_floats(op, [raw_of(n) for n in (self, *others)])
                if tree_size(tree) > MAX_TREE:
                    raise Unsupported("too large")
                result._raw = tree
            except Unsupported as why:
                if str(why) != "too large":
                    result._raw = None
            except Exception:
                result._raw = None
            return result

        setattr(SymNode, attr, method)

    for op in (
        "add",
        "sub",
        "mul",
        "mod",
        "pow_by_natural",
        "int_floordiv",
        "int_truediv",
        "float_truediv",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "sym_min",
        "sym_max",
        "sym_not",
        "neg",
        "abs",
        "ceil",
        "floor",
        "trunc",
        "sym_float",
        "sym_int",
        "pos",
    ):
        wrap(f"_{op}", op)
    wrap("_and_", "and")
    wrap("_or_", "or")

    sym_sum = SymNode.sym_sum

    def sym_sum_recorded(self, args):
        result = sym_sum(self, args)
        try:
            tree = raw_of(args[0])
            for a in args[1:]:
                tree = ("add", tree, raw_of(a))
            result._raw = tree
        except Exception:
            pass
        return result

    SymNode.sym_sum = sym_sum_recorded

    orders = {
        "is_contiguous": lambda n: list(range(n - 1, -1, -1)),
        "is_channels_last_contiguous_2d": lambda n: [1, 3, 2, 0],
        "is_channels_last_contiguous_3d": lambda n: [1, 4, 3, 2, 0],
    }
    for name, order in orders.items():
        original = getattr(SymNode, f"_{name}")

        def method(self, sizes, strides, original=original, order=order):
            result = original(self, sizes, strides)
            with contextlib.suppress(Exception):
                result._raw = contiguous_tree(
                    [raw_of(s) for s in sizes], [raw_of(s) for s in strides], order(len(sizes))
                )
            return result

        setattr(SymNode, f"_{name}", method)

    def hook(owner, name: str, node_at: int, file_at: int | None = None) -> None:
        original = getattr(owner, name)

        def method(*args, **kwargs):
            node = args[node_at]
            file = args[file_at] if file_at is not None and len(args) > file_at else ""
            note(getattr(node, "node", node), file)
            return original(*args, **kwargs)

        setattr(owner, name, method)

    hook(symbolic_shapes.ShapeEnv, "evaluate_sym_node", 1)
    hook(symbolic_shapes, "_static_eval_sym_bool", 0)
    hook(symbolic_shapes, "_sym_node_hint_disproves", 0)
    for name in (
        "guard_bool",
        "guard_or_false",
        "guard_or_true",
        "expect_true",
        "statically_known_true",
        "guard_size_oblivious",
    ):
        hook(SymNode, name, 0, 1)
    hook(SymNode, "maybe_as_bool", 0)

    for name in ("evaluate_expr", "guard_or_defer_runtime_assert"):
        original = getattr(symbolic_shapes.ShapeEnv, name)

        def method(self, expr, *args, original=original, **kwargs):
            note_sympy(self, expr)
            return original(self, expr, *args, **kwargs)

        method.cache_clear = getattr(original, "cache_clear", None)
        method.cache_info = getattr(original, "cache_info", None)
        setattr(symbolic_shapes.ShapeEnv, name, method)

    dispatch = FakeTensorMode.dispatch

    def dispatch_recorded(self, func, types, args=(), kwargs=None):
        context["ops"].append(str(func))
        try:
            return dispatch(self, func, types, args, kwargs)
        finally:
            context["ops"].pop()

    FakeTensorMode.dispatch = dispatch_recorded


SKIP_FILES = (
    "sym_node.py",
    "symbolic_shapes.py",
    "recording.py",
    "collect.py",
    "torch/__init__.py",
    "_sympy",
    "contextlib.py",
    "functools.py",
    "_stats.py",
    "_traceback.py",
    "sympy/",
)


def asker() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(s in name for s in SKIP_FILES):
            path = Path(name)
            module = path.parent.name if path.stem == "__init__" else path.stem
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return "C++"


def note(node, file: str) -> None:
    if getattr(node, "pytype", None) is not bool or node.shape_env is None:
        return
    try:
        tree = raw_of(node)
    except Unsupported:
        return
    key = (id(node.shape_env), tree)
    if key in seen_rows:
        return
    seen_rows.add(key)
    note_tree(node.shape_env, tree, file, "as written")


def note_sympy(env, expr) -> None:
    import sympy

    if not isinstance(expr, (sympy.logic.boolalg.Boolean, sympy.core.relational.Relational)):
        return
    key = (id(env), expr)
    if key in seen_rows:
        return
    seen_rows.add(key)
    try:
        tree = tree_of_sympy(expr)
    except Unsupported:
        return
    if tree_size(tree) <= MAX_TREE:
        note_tree(env, tree, "", "simplified by sympy")


seen_rows: set = set()


def finite(bound) -> int | None:
    """A bound of torch's value ranges; its infinities and the limits of int64 are None."""
    try:
        value = int(bound)
    except (AttributeError, TypeError, ValueError, OverflowError):
        return None
    return value if abs(value) < 2**40 else None


def note_tree(env, tree: object, file: str, form: str) -> None:
    if not isinstance(tree, tuple):
        return
    try:
        ask = text_of(tree)
    except Unsupported:
        return
    names = symbols_in(ask)
    key = (id(env), ask)
    if not names or key in seen_rows:
        return
    seen_rows.add(key)
    where = asker()
    env_names = {s.name: s for s in env.var_to_range}
    given, known = [], set(names)
    for name in names:
        symbol = env_names.get(name)
        if symbol is not None and symbol in env.replacements:
            try:
                fact = text_of(("eq", name, tree_of_sympy(env._find(symbol))))
            except Unsupported:
                continue
            given.append(fact)
            known.update(symbols_in(fact))
    facts = [g.expr for g in env.guards] + [
        r.expr for rs in env.deferred_runtime_asserts.values() for r in rs
    ]
    for fact in facts:
        fact_names = {s.name for s in fact.free_symbols}
        if fact_names and fact_names <= known:
            try:
                tree_f = tree_of_sympy(fact)
                if tree_size(tree_f) <= 30:
                    given.append(text_of(tree_f))
            except Unsupported:
                continue
    ranges = {}
    for name in dict.fromkeys([*names, *itertools.chain(*map(symbols_in, given))]):
        symbol = env_names.get(name)
        if symbol is None:
            return
        r = env.var_to_range[symbol]
        lower, upper = finite(r.lower), finite(r.upper)
        if name.startswith("s") and lower is not None and lower <= 2:
            lower = 0
        ranges[name] = [lower, upper]
    op = context["ops"][-1] if context["ops"] else ""
    file = Path(file).name if file and "/" in file else ""
    origin = "; ".join(
        x for x in (context["program"], op, where + (f" ({file})" if file else "")) if x
    )
    log_rows.append(
        {
            "ask": ask,
            "given": list(dict.fromkeys(given)),
            "symbols": ranges,
            "origin": origin,
            "form": form,
            "program": context["program"],
            "op": op,
            "where": where,
        }
    )


# --------------------------------------------------------------------------------------------------
# 3. Programs to trace.


PROGRAM_SECONDS = 15


class TooSlow(BaseException):
    """A program ran past its time limit; what it asked until then is kept."""


@contextlib.contextmanager
def time_limit(seconds: float):
    def stop(signum, frame):
        raise TooSlow

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_programs() -> None:
    import warnings

    import torch
    import torch._dynamo.config
    import torch.fx.experimental._config as fx_config
    from torch import nn
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    warnings.simplefilter("ignore")
    import logging

    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch._dynamo.config.fake_tensor_cache_enabled = False
    torch._dynamo.config.capture_scalar_outputs = True
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    install_recorder()
    failures = collections.Counter()

    def fake(
        name: str,
        fn,
        *inputs,
        unbacked: tuple[int, ...] = (),
        duck: bool = False,
        static: tuple[int, ...] = (),
    ) -> None:
        """Runs fn on fake tensors of symbolic sizes; `unbacked`, `static`: which inputs are so."""
        context["program"] = name
        fx_config.use_duck_shape = duck
        seen_rows.clear()
        env = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
        mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
        try:
            fakes = []
            for i, x in enumerate(inputs):
                if not isinstance(x, torch.Tensor) or i in static:
                    fakes.append(
                        mode.from_tensor(x, static_shapes=True)
                        if isinstance(x, torch.Tensor)
                        else x
                    )
                    continue
                kind = (
                    DimDynamic.UNBACKED
                    if i in unbacked
                    else (DimDynamic.DUCK if duck else DimDynamic.DYNAMIC)
                )
                ctx = StatelessSymbolicContext(
                    dynamic_sizes=[kind] * x.dim(), constraint_sizes=[None] * x.dim()
                )
                from torch._dynamo.source import ConstantSource

                fakes.append(
                    mode.from_tensor(x, symbolic_context=ctx, source=ConstantSource(f"x{i}"))
                )
            with time_limit(PROGRAM_SECONDS), enable_python_dispatcher(), mode, torch.no_grad():
                fn(*fakes)
        except (Exception, TooSlow) as e:
            failures[f"{name}: {type(e).__name__}: {str(e)[:90]}"] += 1

    def compiled(name: str, fn, *inputs) -> None:
        context["program"] = f"torch.compile {name}"
        fx_config.use_duck_shape = False
        torch._dynamo.reset()
        seen_rows.clear()
        try:
            with time_limit(3 * PROGRAM_SECONDS), torch.no_grad():
                torch.compile(fn, backend="eager", dynamic=True)(*inputs)
        except (Exception, TooSlow) as e:
            failures[f"compile {name}: {type(e).__name__}: {str(e)[:90]}"] += 1

    def exported(name: str, fn, inputs, dynamic_shapes) -> None:
        context["program"] = f"torch.export {name}"

        class Wrap(nn.Module):
            def forward(self, *args):
                return fn(*args)

        try:
            torch.export.export(
                fn if isinstance(fn, nn.Module) else Wrap(),
                inputs,
                dynamic_shapes=dynamic_shapes if isinstance(fn, nn.Module) else (dynamic_shapes,),
                strict=False,
            )
        except Exception as e:
            failures[f"export {name}: {type(e).__name__}: {str(e)[:90]}"] += 1

    R = torch.randn
    F = nn.functional

    # -- hand-written networks
    conv_net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 5, groups=2),
        nn.BatchNorm2d(8).eval(),
        nn.AdaptiveAvgPool2d((3, 3)),
        nn.Flatten(),
        nn.Linear(72, 10),
    )
    fake("ConvNet", conv_net, R(4, 3, 65, 70))
    fake("ConvNet channels_last", conv_net, R(4, 3, 65, 70).to(memory_format=torch.channels_last))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.d1, self.d2 = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
            self.up, self.o = nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Conv2d(8, 1, 1)

        def forward(self, x):
            a = self.d1(x).relu()
            b = self.d2(F.max_pool2d(a, 2)).relu()
            u = self.up(b)
            pad_h, pad_w = a.shape[2] - u.shape[2], a.shape[3] - u.shape[3]
            u = F.pad(u, [pad_w // 2, pad_w - pad_w // 2, pad_h // 2, pad_h - pad_h // 2])
            return self.o(torch.cat([a, u], 1))

    fake("UNet", UNet(), R(2, 3, 33, 46))
    compiled("UNet", UNet(), R(2, 3, 33, 46))
    fake("LSTM", nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True), R(3, 7, 6), static=())
    fake("GRU", nn.GRU(6, 8), R(5, 3, 6))
    fake(
        "TransformerEncoder",
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 1).eval(),
        R(3, 7, 16),
    )
    fake("MultiheadAttention", lambda x, y: mha(x, y, y), R(5, 3, 16), R(9, 3, 16)) if (
        mha := nn.MultiheadAttention(16, 4).eval()
    ) else None
    fake(
        "Conv1d dilated",
        nn.Sequential(nn.Conv1d(4, 4, 3, dilation=4, padding=8), nn.Conv1d(4, 8, 7, stride=3)),
        R(2, 4, 50),
    )
    fake(
        "Conv3d+pool",
        nn.Sequential(
            nn.Conv3d(2, 4, 3, stride=(1, 2, 2), padding=1), nn.AvgPool3d(2, ceil_mode=True)
        ),
        R(2, 2, 9, 14, 15),
    )
    fake(
        "ConvTranspose chain",
        nn.Sequential(
            nn.ConvTranspose2d(3, 6, 4, 2, 1), nn.ConvTranspose2d(6, 3, 3, 3, output_padding=1)
        ),
        R(2, 3, 7, 9),
    )
    fake(
        "pools",
        lambda x: (
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(x, (2, 3), ceil_mode=True, count_include_pad=False),
            F.lp_pool2d(x, 2, 3, stride=2),
            F.adaptive_max_pool2d(x, (5, None)),
            F.max_pool2d(x, 3, 1, dilation=2),
            F.adaptive_avg_pool2d(x, x.shape[-1] // 2),
        ),
        R(2, 3, 19, 22),
    )
    fake(
        "unfold/fold",
        lambda x: F.fold(F.unfold(x, 3, padding=1, stride=2), x.shape[-2:], 3, padding=1, stride=2),
        R(2, 3, 19, 22),
    )

    def patch_embed(x, p=4):
        b, c, h, w = x.shape
        x = F.pad(x, (0, (p - w % p) % p, 0, (p - h % p) % p))
        h, w = x.shape[2:]
        y = (
            x.view(b, c, h // p, p, w // p, p)
            .permute(0, 2, 4, 3, 5, 1)
            .reshape(b, (h // p) * (w // p), p * p * c)
        )
        return y.view(b, h // p, w // p, p, p, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)

    fake("patch embedding", patch_embed, R(2, 3, 18, 23))
    compiled("patch embedding", patch_embed, R(2, 3, 18, 23))

    def window_attention(x, ws=4):
        b, h, w, c = x.shape
        pad_r, pad_b = (ws - w % ws) % ws, (ws - h % ws) % ws
        x = F.pad(x, (0, 0, 0, pad_r, 0, pad_b))
        _, hp, wp, _ = x.shape
        x = torch.roll(x, shifts=(-(ws // 2), -(ws // 2)), dims=(1, 2))
        win = (
            x.view(b, hp // ws, ws, wp // ws, ws, c)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(-1, ws * ws, c)
        )
        qk = win @ win.transpose(1, 2)
        out = (qk.softmax(-1) @ win).view(-1, ws, ws, c)
        bb = int(out.shape[0] // (hp * wp // ws // ws))
        out = (
            out.view(bb, hp // ws, wp // ws, ws, ws, -1)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(bb, hp, wp, -1)
        )
        return out[:, :h, :w, :].contiguous()

    fake("Swin window attention", window_attention, R(2, 10, 13, 8))
    compiled("Swin window attention", window_attention, R(2, 10, 13, 8))

    def split_heads(x, heads=4):
        b, s, h = x.shape
        q = x.view(b, s, heads, h // heads).transpose(1, 2)
        m = torch.ones(s, s, dtype=torch.bool).tril()
        a = (q @ q.transpose(-1, -2)).masked_fill(~m, -1e9).softmax(-1) @ q
        return a.transpose(1, 2).contiguous().view(b, s, h) + x

    fake("split heads", split_heads, R(2, 7, 16))
    compiled("split heads", split_heads, R(2, 7, 16))

    def gqa(q, k, v, mask):
        b, hq, s, d = q.shape
        rep = hq // k.shape[1]
        k = k[:, :, None].expand(b, k.shape[1], rep, k.shape[2], d).reshape(b, hq, k.shape[2], d)
        v = v.repeat_interleave(rep, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, :, -s:, : k.shape[2]])

    fake(
        "grouped-query attention",
        gqa,
        R(2, 8, 5, 16),
        R(2, 4, 9, 16),
        R(2, 4, 9, 16),
        R(2, 1, 12, 12),
    )

    def kv_cache(k, cache, n):
        total = cache.shape[1] + k.shape[1]
        full = torch.cat([cache, k], 1)
        recent = full[:, -16:]
        mask = torch.full((k.shape[1], total), float("-inf")).triu(total - k.shape[1] + 1)
        return recent, mask, full[:, n:], full.narrow(1, total - k.shape[1], k.shape[1])

    fake("KV cache", kv_cache, R(2, 3, 8), R(2, 21, 8), 2)

    def local_attention(x, w=4):
        b, s, d = x.shape
        pad = -s % w
        x = F.pad(x, (0, 0, 0, pad))
        n = x.shape[1] // w
        x = x.reshape(b, n, w, d)
        prev = F.pad(x, (0, 0, 0, 0, 1, 0))[:, :-1]
        kv = torch.cat([prev, x], 2)
        return torch.einsum("bnqd,bnkd->bnqk", x, kv).reshape(b, n * w, 2 * w)[:, :s]

    fake("local attention", local_attention, R(2, 10, 8))

    def slices(x, y):
        n = x.shape[0]
        return (
            x[1:],
            x[:-1],
            x[-3:],
            x[:100],
            x[2:-2],
            x[::2],
            x[1::3],
            x[n // 2 :],
            x[: n - 4],
            x[-n // 2 :],
            x[n - 5 : n - 1],
            x[:, -1:],
            x[..., ::4],
            x[: y.shape[0]],
            x[y.shape[0] :],
            x[y.shape[0] : 2 * y.shape[0]],
            x.narrow(0, 2, n - 4),
            x[max(n - 6, 0) :],
            x[n:],
            x[-(n + 3) :],
            x[3:1],
        )

    fake("slices", slices, R(11, 9), R(4, 5))
    fake("slices unbacked", slices, R(11, 9), R(4, 5), unbacked=(0,))

    def splits(x):
        n = x.shape[1]
        return (
            x.chunk(3, 1),
            x.split(4, 1),
            x.split([2, n - 5, 3], 1),
            x.tensor_split(3, 1),
            x.unbind(0)[0],
            torch.cat([x, x[:, :3], x.flip(1)], 1),
            torch.stack([x, x], 1).flatten(0, 1),
            x.split(n // 2, 1),
            torch.cat(x.chunk(2, 1), 0),
            x.hsplit([2, n - 1]),
        )

    fake("splits", splits, R(3, 11))

    def views(x):
        b, s, h = x.shape
        return (
            x.view(-1, h),
            x.view(b * s, h).view(b, s, h),
            x.view(b, -1),
            x.reshape(-1),
            x.transpose(0, 1).reshape(s, -1),
            x.transpose(1, 2).reshape(b, h * s),
            x.view(b, s, 2, h // 2),
            x.view(b, s, h // 2, 2).flatten(2),
            x.unflatten(2, (-1, 4)),
            x.flatten(1),
            x.permute(2, 0, 1).contiguous().view(h, b * s),
            x.unsqueeze(1).expand(b, 3, s, h).reshape(3 * b, s, h),
            x[:, :, ::2].reshape(b * s, -1),
            x[:, 1:].reshape(-1, h),
            x.squeeze(0),
            x.squeeze(),
            x.view(b, s * h).unfold(1, 4, 2),
            x.as_strided((b, h), (s * h, 1)),
            x.diagonal(0, 1, 2),
            x.diagonal(2, 0, 1),
            x.t if x.dim() == 2 else None,
            x.unsqueeze(-1).squeeze(-1),
            x.swapaxes(0, 2).flatten(),
            x.expand(4, b, s, h).reshape(-1, s, h),
            x.movedim(0, -1).reshape(s, h * b),
            x.repeat(2, 1, 3).view(2 * b, -1),
        )

    def each(name: str, fns, *inputs, **kw) -> None:
        for i, fn in enumerate(fns):
            fake(f"{name} {i}", fn, *inputs, **kw)

    fake("views", views, R(3, 5, 8))
    each(
        "view",
        [
            lambda x: x.view(-1, 2, x.shape[2] // 2),
            lambda x: x.view(x.shape[0], -1, 4),
            lambda x: x.view(x.shape[0] * x.shape[1] * x.shape[2]),
            lambda x: x.reshape(x.shape[1], x.shape[0], -1),
            lambda x: x.transpose(0, 1).view(-1),
            lambda x: x[:, ::2].flatten(0, 1),
            lambda x: x.permute(0, 2, 1).reshape(x.shape[0] * 2, -1),
            lambda x: x.view(x.shape[0], x.shape[1] * x.shape[2] // 4, 4),
            lambda x: x.unsqueeze(2).expand(-1, -1, 3, -1).flatten(1, 2),
            lambda x: x.reshape(-1, x.shape[1] * 2),
            lambda x: x.view(torch.int32).view(-1),
            lambda x: x.view(torch.float64),
            lambda x: x.view(torch.int16).unflatten(-1, (-1, 2)),
            lambda x: torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()),
            lambda x: (
                x.contiguous()
                .view(x.shape[0], x.shape[1], 1, x.shape[2])
                .expand(-1, -1, x.shape[1], -1)
                .reshape(x.shape[0], -1, x.shape[2])
            ),
        ],
        R(3, 6, 8),
    )
    each(
        "view unbacked",
        [
            lambda x: x.view(-1),
            lambda x: x.view(x.shape[0] * x.shape[1], x.shape[2]),
            lambda x: x.reshape(x.shape[0], -1),
            lambda x: x.flatten(1).unsqueeze(0),
            lambda x: x.transpose(0, 1).contiguous(),
            lambda x: x.transpose(1, 2).reshape(x.shape[0], -1),
            lambda x: x.expand(3, -1, -1, -1).sum(0),
            lambda x: x[1:-1].contiguous(),
            lambda x: x + x.sum(1, keepdim=True),
            lambda x: x.unfold(2, 2, 1),
            lambda x: x @ x.transpose(1, 2),
            lambda x: F.pad(x, (1, 2)),
            lambda x: torch.cat([x, x], 2).chunk(2, 2),
            lambda x: x.diagonal(0, 1, 2),
            lambda x: x.mean((0, 2)).softmax(0),
            lambda x: F.layer_norm(x, x.shape[-1:]),
        ],
        R(3, 6, 8),
        unbacked=(0,),
    )

    def broadcasts(a, b, c):
        return (
            a + b,
            a * c[None],
            torch.where(a > 0, b, c),
            torch.broadcast_to(c, a.shape),
            a @ b.transpose(-1, -2),
            a.expand_as(torch.ones(2, *a.shape)),
            torch.baddbmm(a, a, b),
            torch.outer(c[0], c[1]),
        )

    fake("broadcast", broadcasts, R(3, 5, 8), R(3, 5, 8), R(5, 8))
    each(
        "broadcast",
        [
            lambda a, b: a + b,
            lambda a, b: torch.add(a, b[:, None]),
            lambda a, b: torch.broadcast_tensors(a, b),
            lambda a, b: a @ b[..., None],
            lambda a, b: torch.maximum(a[:, None], b[None, :]),
            lambda a, b: torch.einsum("bi,bj->ij", a, b),
            lambda a, b: a * b.sum(0, keepdim=True),
            lambda a, b: torch.where(a > 0, a, b[:1]),
            lambda a, b: a.addmm(a, b.t() @ b),
            lambda a, b: torch.cdist(a, b),
            lambda a, b: F.linear(a, b),
            lambda a, b: torch.kron(a, b),
            lambda a, b: torch.addcmul(a, a, b),
        ],
        R(6, 6),
        R(6, 6),
    )

    def indexing(x, i):
        x[i] = 0
        return (
            x[i],
            x[:, None, i % 3],
            x.index_select(0, i),
            x.gather(0, i[:, None].expand(-1, x.shape[1])),
            x.scatter(0, i[:, None], 1.0),
            torch.arange(0, x.shape[0], 2),
            torch.arange(3, x.shape[1]),
            F.one_hot(i, 10),
            x.roll(2, 0),
            x.flip(0),
            x.topk(2, 0),
            x.sort(),
            x.cumsum(0),
            torch.tril(x, -1),
            torch.triu_indices(x.shape[0], x.shape[1], 1),
            torch.tril_indices(x.shape[0], x.shape[1]),
            F.embedding(i, x),
            x.index_put((i,), x[0]),
            x.kthvalue(2, 0),
            x.diag(),
            x.diag(1),
            torch.diag_embed(i.float(), 2),
            x.rot90(),
            torch.searchsorted(x[0].sort()[0], x[1]),
            torch.linspace(0, 1, x.shape[0]),
            torch.meshgrid(x[0], x[1], indexing="ij"),
            torch.block_diag(x, x),
            torch.vander(i.float(), 3),
            torch.combinations(x[0], 2),
            torch.cartesian_prod(x[0], x[1]),
        )

    fake("indexing", indexing, R(9, 7), torch.arange(5))
    fake(
        "pads",
        lambda x: (
            F.pad(x, (1, 2, 3, 4)),
            F.pad(x, (-1, 2)),
            F.pad(x, (-1, -2, -3, 0)),
            F.pad(x, (2, 2), mode="reflect"),
            F.pad(x, (1, 1, 2, 2), mode="replicate"),
            F.pad(x, (3, 3), mode="circular"),
            F.pad(x, (x.shape[-1] // 2, x.shape[-1] % 2)),
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, size=(x.shape[2] * 2, 7)),
            F.pixel_shuffle(x, 2),
            F.pixel_unshuffle(x[:, :, :8, :8], 2),
            F.interpolate(x, scale_factor=0.5, mode="bilinear"),
            F.channel_shuffle(x, 2),
            F.group_norm(x, 2),
            x.unfold(2, 3, 2).unfold(3, 3, 2),
            F.grid_sample(x, R(2, 5, 5, 2)),
            torch.stft(x[0, 0], 8, window=torch.ones(8), return_complex=True),
        ),
        R(2, 4, 10, 12),
    )
    each(
        "resize",
        [
            lambda x: F.pixel_shuffle(x, 2),
            lambda x: F.pixel_unshuffle(x, 2),
            lambda x: F.pad(x, (4, 4), mode="reflect"),
            lambda x: F.pad(x, (-2, -3, 1, -1)),
            lambda x: F.interpolate(x, scale_factor=0.5),
            lambda x: F.group_norm(x, 2),
            lambda x: F.unfold(x, 2, dilation=2),
            lambda x: torch.stft(x[:, 0, 0], 4, 2, window=torch.ones(4), return_complex=True),
            lambda x: F.channel_shuffle(x, 2),
            lambda x: x.view(x.shape[0], 2, x.shape[1] // 2, *x.shape[2:]).mean(2),
            lambda x: F.avg_pool2d(x, x.shape[2:]),
            lambda x: F.glu(x, 1),
            lambda x: torch.fft.irfft(torch.fft.rfft(x)),
            lambda x: x.chunk(2, -1)[1].contiguous(),
        ],
        R(2, 4, 10, 12),
    )

    # -- programs whose sizes come from data
    def nonzero(x):
        i = x.nonzero()
        y = x[i[:, 0]]
        return (
            y.sum(),
            y.view(-1, x.shape[1]),
            y[: x.shape[0]],
            torch.cat([y, x]),
            y + y,
            y.reshape(y.shape[0] * y.shape[1]),
            y.unsqueeze(1).expand(-1, 3, -1).flatten(0, 1),
            y.chunk(2),
        )

    def masked(x):
        y = x.masked_select(x > 0)
        z = x[x > 0.5]
        torch._check(z.shape[0] <= y.shape[0])
        return (
            y.view(-1, 1) * 2,
            z.sum(),
            torch.cat([y, z]),
            y[: z.shape[0]],
            F.pad(y, (0, 3)),
            y.unfold(0, 1, 1),
            y[None] @ y[:, None],
        )

    def item(x, i):
        u = i[0].item()
        v = i[1].item()
        torch._check(u >= 0)
        torch._check(u <= x.shape[0])
        torch._check(v >= 2)
        torch._check(v % 4 == 0)
        return (
            x[:u],
            x[u:],
            x.narrow(0, 0, u),
            torch.zeros(u, v).view(-1, 4),
            torch.arange(u),
            torch.ones(v).view(v // 4, 4),
            torch.zeros(u + 1, v).view(u + 1, 2, v // 2),
            x[:u].sum(0) + x[0],
            torch.ones(v // 2, 2).view(v),
        )

    def split_sizes(x, i):
        n = i.tolist()
        for k in n:
            torch._check(k >= 0)
            torch._check(k <= x.shape[0])
        torch._check(sum(n) == x.shape[0])
        return [p + 1 for p in x.split(n)], torch.cat(list(x.split(n))).view(x.shape)

    def repeat(x, i):
        y = x.repeat_interleave(i, 0)
        a, b = torch.unique(i, return_inverse=True)
        return (
            y + 1,
            y @ y.t(),
            y.view(y.shape[0], -1),
            a.sum(),
            b.view(-1),
            F.one_hot(b),
            torch.bincount(i),
            y[:, ::2].reshape(-1),
        )

    def ragged(x, i):
        n = i.max().item()
        torch._check(n > 0)
        torch._check(n < 512)
        m = torch.arange(n)[None] < i[:, None]
        pad = (n + 7) // 8 * 8
        buf = torch.zeros(i.shape[0], pad, x.shape[1])
        return (
            m.sum(),
            buf[:, :n],
            buf.view(i.shape[0], -1, 8, x.shape[1]),
            buf.flatten(0, 1)[:n],
            m.view(-1),
            F.pad(m, (0, pad - n)),
            buf[:, n:].sum(1),
        )

    for name, fn, args in (
        ("nonzero", nonzero, (R(6, 5),)),
        ("masked_select", masked, (R(6, 5),)),
        ("item", item, (R(6, 5), torch.tensor([3, 8]))),
        ("split sizes", split_sizes, (R(6, 5), torch.tensor([1, 2, 3]))),
        ("repeat/unique", repeat, (R(6, 5), torch.tensor([1, 2, 3, 1, 2, 3]))),
        ("ragged", ragged, (R(6, 5), torch.tensor([1, 2, 3]))),
    ):
        fake(name, fn, *args, static=(1,) if name != "repeat/unique" else ())
        compiled(name, fn, *args)
    print(f"hand-written programs: {len(log_rows)} rows", flush=True)

    # -- exports with declared dimensions
    Dim = torch.export.Dim
    exported(
        "linear batch 4*n",
        lambda x: x.view(-1, 4, x.shape[1]).sum(1),
        (R(8, 5),),
        ({0: 4 * Dim("n", min=1, max=64), 1: Dim("d")},),
    )
    exported(
        "two inputs n, n+1",
        lambda x, y: y[1:] + x,
        (R(6, 5), R(7, 5)),
        ({0: (n := Dim("n")), 1: (d := Dim("d"))}, {0: n + 1, 1: d}),
    )
    exported(
        "sequence",
        split_heads,
        (R(2, 7, 16),),
        ({0: Dim("b", max=64), 1: Dim("s", min=2, max=4096)},),
    )
    exported(
        "conv",
        conv_net,
        (R(4, 3, 64, 72),),
        ({0: Dim("b"), 2: Dim("h", min=16, max=512), 3: Dim("w", min=16, max=512)},),
    )
    exported("2*n+1", lambda x: x[::2] + 1, (R(7, 5),), ({0: 2 * Dim("n", min=1) + 1},))

    # -- models of transformers, tiny, random
    run_transformers(fake, compiled, failures)
    print(f"after transformers: {len(log_rows)} rows", flush=True)
    run_op_db(fake)
    print(f"after op_db: {len(log_rows)} rows", flush=True)
    for what, count in failures.most_common():
        if not what.startswith("op_db"):
            print(f"  stopped early ({count}): {what}")


def run_transformers(fake, compiled, failures) -> None:
    import torch
    import transformers as T

    small = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "vocab_size": 50,
        "max_position_embeddings": 64,
    }
    ids = torch.randint(0, 50, (3, 7))
    mask = torch.ones(3, 7, dtype=torch.long)
    pix = torch.randn(2, 3, 32, 32)

    def text(m):
        return lambda i, a: m(input_ids=i, attention_mask=a)

    def build(cls, config):
        return cls(config).eval()

    table = [
        (
            "Llama",
            lambda: text(build(T.LlamaForCausalLM, T.LlamaConfig(**small, num_key_value_heads=2))),
            (ids, mask),
        ),
        (
            "Mistral sliding window",
            lambda: text(
                build(
                    T.MistralModel,
                    T.MistralConfig(**small, num_key_value_heads=2, sliding_window=4),
                )
            ),
            (ids, mask),
        ),
        (
            "Mixtral",
            lambda: text(
                build(
                    T.MixtralForCausalLM,
                    T.MixtralConfig(**small, num_key_value_heads=2, num_local_experts=4),
                )
            ),
            (ids, mask),
        ),
        (
            "Qwen2",
            lambda: text(build(T.Qwen2Model, T.Qwen2Config(**small, num_key_value_heads=2))),
            (ids, mask),
        ),
        ("Bert", lambda: text(build(T.BertModel, T.BertConfig(**small))), (ids, mask)),
        (
            "GPT2",
            lambda: text(
                build(
                    T.GPT2LMHeadModel,
                    T.GPT2Config(n_embd=16, n_layer=1, n_head=4, vocab_size=50, n_positions=64),
                )
            ),
            (ids, mask),
        ),
        ("GPT-NeoX", lambda: text(build(T.GPTNeoXModel, T.GPTNeoXConfig(**small))), (ids, mask)),
        (
            "T5",
            lambda: (
                lambda m: lambda i, a: m(input_ids=i, attention_mask=a, decoder_input_ids=i[:, :4])
            )(
                build(
                    T.T5Model,
                    T.T5Config(
                        d_model=16, d_kv=4, d_ff=32, num_layers=1, num_heads=4, vocab_size=50
                    ),
                )
            ),
            (ids, mask),
        ),
        (
            "Longformer",
            lambda: text(
                build(
                    T.LongformerModel,
                    T.LongformerConfig(**small, attention_window=[4], pad_token_id=0),
                )
            ),
            (ids, mask),
        ),
        (
            "XLNet",
            lambda: text(
                build(
                    T.XLNetModel,
                    T.XLNetConfig(d_model=16, n_layer=1, n_head=4, d_inner=32, vocab_size=50),
                )
            ),
            (ids, mask),
        ),
        (
            "Bloom",
            lambda: text(
                build(
                    T.BloomModel, T.BloomConfig(hidden_size=16, n_layer=1, n_head=4, vocab_size=50)
                )
            ),
            (ids, mask),
        ),
        (
            "Mamba",
            lambda: (lambda m: lambda i, a: m(input_ids=i))(
                build(
                    T.MambaModel,
                    T.MambaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=50, state_size=4),
                )
            ),
            (ids, mask),
        ),
        (
            "BigBird",
            lambda: text(
                build(T.BigBirdModel, T.BigBirdConfig(**small, attention_type="original_full"))
            ),
            (ids, mask),
        ),
        (
            "Reformer",
            lambda: text(
                build(
                    T.ReformerModel,
                    T.ReformerConfig(
                        attention_head_size=4,
                        hidden_size=16,
                        num_attention_heads=4,
                        feed_forward_size=32,
                        vocab_size=50,
                        attn_layers=["local"],
                        axial_pos_embds=False,
                        max_position_embeddings=64,
                        local_attn_chunk_length=4,
                    ),
                )
            ),
            (ids, mask),
        ),
        (
            "ViT",
            lambda: build(
                T.ViTModel,
                T.ViTConfig(
                    hidden_size=16,
                    intermediate_size=32,
                    num_hidden_layers=1,
                    num_attention_heads=4,
                    image_size=32,
                    patch_size=8,
                ),
            ),
            (pix,),
        ),
        (
            "ViT interpolate",
            lambda: (lambda m: lambda x: m(x, interpolate_pos_encoding=True))(
                build(
                    T.ViTModel,
                    T.ViTConfig(
                        hidden_size=16,
                        intermediate_size=32,
                        num_hidden_layers=1,
                        num_attention_heads=4,
                        image_size=32,
                        patch_size=8,
                    ),
                )
            ),
            (torch.randn(2, 3, 40, 48),),
        ),
        (
            "Swin",
            lambda: build(
                T.SwinModel,
                T.SwinConfig(
                    image_size=32,
                    patch_size=2,
                    embed_dim=8,
                    depths=[1, 1],
                    num_heads=[2, 2],
                    window_size=4,
                ),
            ),
            (torch.randn(2, 3, 32, 40),),
        ),
        (
            "SegFormer",
            lambda: build(
                T.SegformerModel,
                T.SegformerConfig(
                    hidden_sizes=[8, 8, 8, 8],
                    depths=[1, 1, 1, 1],
                    num_attention_heads=[1, 1, 2, 2],
                    decoder_hidden_size=8,
                ),
            ),
            (torch.randn(2, 3, 64, 80),),
        ),
        (
            "ResNet",
            lambda: build(
                T.ResNetModel, T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
            ),
            (torch.randn(2, 3, 50, 60),),
        ),
        (
            "ConvNext",
            lambda: build(
                T.ConvNextModel, T.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)
            ),
            (torch.randn(2, 3, 50, 60),),
        ),
        (
            "CLIP",
            lambda: (lambda m: lambda i, a, p: m(input_ids=i, attention_mask=a, pixel_values=p))(
                build(
                    T.CLIPModel,
                    T.CLIPConfig(
                        text_config=dict(small, eos_token_id=49),
                        vision_config={
                            "hidden_size": 16,
                            "intermediate_size": 32,
                            "num_hidden_layers": 1,
                            "num_attention_heads": 4,
                            "image_size": 32,
                            "patch_size": 8,
                        },
                    ),
                )
            ),
            (ids, mask, pix),
        ),
        (
            "Whisper encoder",
            lambda: (lambda m: lambda x: m.encoder(x))(
                build(
                    T.WhisperModel,
                    T.WhisperConfig(
                        d_model=16,
                        encoder_layers=1,
                        decoder_layers=1,
                        encoder_attention_heads=4,
                        decoder_attention_heads=4,
                        encoder_ffn_dim=32,
                        decoder_ffn_dim=32,
                        vocab_size=60,
                        num_mel_bins=8,
                        max_source_positions=20,
                        pad_token_id=0,
                        bos_token_id=1,
                        eos_token_id=2,
                        decoder_start_token_id=1,
                    ),
                )
            ),
            (torch.randn(2, 8, 40),),
        ),
        (
            "Wav2Vec2",
            lambda: build(
                T.Wav2Vec2Model,
                T.Wav2Vec2Config(
                    hidden_size=16,
                    intermediate_size=32,
                    num_hidden_layers=1,
                    num_attention_heads=4,
                    conv_dim=(8, 8),
                    conv_stride=(5, 2),
                    conv_kernel=(10, 3),
                    num_conv_pos_embeddings=4,
                    num_conv_pos_embedding_groups=2,
                ),
            ),
            (torch.randn(2, 400),),
        ),
    ]
    for name, make, inputs in table:
        started = time.time()
        try:
            torch.manual_seed(0)
            model = make()
        except Exception as e:
            failures[f"build {name}: {type(e).__name__}: {str(e)[:90]}"] += 1
            continue
        fake(f"transformers {name}", model, *inputs, duck=len(inputs) == 2)
        if name in ("Llama", "Bert", "Longformer", "ViT interpolate", "Swin"):
            compiled(f"transformers {name}", model, *inputs)
        print(f"  {name}: {time.time() - started:.0f} s, {len(log_rows)} rows", flush=True)


OP_DB_SECONDS = 150
OP_DB_SKIP = (
    "linalg.",
    "special.",
    "signal.",
    "masked.",
    "_refs",
    "cholesky",
    "svd",
    "pca",
    "lu",
    "ormqr",
    "triangular",
    "jiterator",
    "nn.functional.ctc",
)


def run_op_db(fake) -> None:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils import _pytree as pytree

    torch.manual_seed(0)
    deadline = time.time() + OP_DB_SECONDS
    ops = [
        op
        for op in op_db
        if torch.float32 in op.dtypes
        and op.supports_out is not None
        and not op.name.startswith(OP_DB_SKIP)
    ]
    random.Random(0).shuffle(ops)
    pointwise = {
        id(op)
        for op in ops
        if type(op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo", "ReductionOpInfo")
    }
    ops = [op for op in ops if id(op) not in pointwise] + [op for op in ops if id(op) in pointwise]
    for op in ops:
        if time.time() > deadline:
            break
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32), 24))
        except Exception:
            continue
        picks = samples if len(samples) <= 3 else [samples[i * len(samples) // 3] for i in range(3)]
        for sample in picks:
            leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
            tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
            if not tensors or any(t.numel() > 100000 or t.is_sparse for t in tensors):
                continue

            def call(*fakes, leaves=leaves, spec=spec, op=op):
                it = iter(fakes)
                new = [next(it) if isinstance(x, torch.Tensor) else x for x in leaves]
                inp, args, kwargs = pytree.tree_unflatten(new, spec)
                return op.op(inp, *args, **kwargs)

            started = time.time()
            fake(f"op_db {op.name}", call, *tensors, duck=True)
            if time.time() - started > 1:
                break


def record(path: str) -> None:
    started = time.time()
    run_programs()
    Path(path).write_text("".join(json.dumps(r) + "\n" for r in log_rows))
    print(f"{len(log_rows)} questions recorded in {time.time() - started:.0f} s -> {path}")


# --------------------------------------------------------------------------------------------------
# 4. Selection: canonical names, one of each, few of each pattern.

FAMILIES = [  # first match on "where op program" decides
    ("contiguity", r"contiguous|non_overlapping|memory_format|suggest_memory|channels_last"),
    ("conv", r"conv(?!ert)|fold"),
    ("pool", r"pool"),
    ("attention", r"attention|sdpa|split heads|KV cache|patch embed|transformers .*(mask|_attn)"),
    (
        "cat_split",
        r"\bcat\b|aten\.cat|_cat_meta|split|chunk|stack|aten\.pad|constant_pad|reflection|replication|circular|pixel_|pads|resize",
    ),
    ("slice", r"slice|narrow|unbind|select_meta|aten\.select"),
    (
        "view",
        r"infersize|aten\.(_unsafe_)?view|compute_?[sS]tride|infer_size|view_to_kwargs|view_of|view\b|flatten|unflatten|view_copy",
    ),
    ("reshape", r"reshape"),
    ("broadcast", r"broadcast|expand|infer_size_impl|elementwise|_maybe_broadcast"),
    (
        "index",
        r"index|gather|scatter|arange|take|diag|tril|triu|roll|topk|sort|embedding|one_hot|kthvalue|select",
    ),
    ("stride", r"emptytensor|stride|as_strided|storage|empty_strided|apply_perm|permutation"),
]


def family_of(row: dict) -> str:
    if re.search(r"\bu\d", row["ask"]):
        return "unbacked"
    for text in (f"{row['where']} {row['op']}", row["program"], row["origin"].lower()):
        for family, pattern in FAMILIES:
            if re.search(pattern, text):
                return family
    if re.search(r"\b(min|max)\(", row["ask"]):
        return "minmax"
    if "%" in row["ask"]:
        return "divisibility"
    if re.search(r"s\d+ \* .*s\d+", row["ask"]):
        return "products"
    return "other"


def renamed(row: dict) -> dict:
    """Symbols become s0, s1, ..., u0, ... in order of appearance in question, then facts."""
    names = dict.fromkeys(
        [*symbols_in(row["ask"]), *itertools.chain(*map(symbols_in, row["given"]))]
    )
    count = collections.Counter()
    new = {}
    for n in names:
        new[n] = f"{n[0]}{count[n[0]]}"
        count[n[0]] += 1
    sub = lambda t: re.sub(r"\b[su]\d+\b", lambda m: new[m[0]], t)  # noqa: E731
    return {
        **row,
        "ask": sub(row["ask"]),
        "given": [sub(g) for g in row["given"]],
        "symbols": {new[n]: row["symbols"][n] for n in names},
    }


class Fold(ast.NodeTransformer):
    """Folds what any engine folds when it builds a node: constants, x*1, x+0, x//1, `True and`."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        a, b = constant(node.left), constant(node.right)
        if (
            a is not None
            and b is not None
            and (b or not isinstance(node.op, (ast.FloorDiv, ast.Mod)))
        ):
            return number(
                eval(compile(ast.fix_missing_locations(ast.Expression(node)), "fold", "eval"))
            )
        if isinstance(node.op, ast.Add) and a == 0:
            return node.right
        if isinstance(node.op, ast.Mult) and a == 1:
            return node.right
        if (isinstance(node.op, (ast.Add, ast.Sub)) and b == 0) or (
            isinstance(node.op, (ast.Mult, ast.FloorDiv)) and b == 1
        ):
            return node.left
        if isinstance(node.op, (ast.Add, ast.Sub)) and b is not None:
            b = b if isinstance(node.op, ast.Add) else -b
            inner = node.left
            if (
                isinstance(inner, ast.BinOp)
                and isinstance(inner.op, (ast.Add, ast.Sub))
                and (c := constant(inner.right)) is not None
            ):
                total = b + (c if isinstance(inner.op, ast.Add) else -c)
                node = ast.BinOp(
                    inner.left, ast.Add() if total >= 0 else ast.Sub(), number(abs(total))
                )
                return node.left if total == 0 else node
            return ast.BinOp(inner, ast.Add() if b >= 0 else ast.Sub(), number(abs(b)))
        return node

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and (c := constant(node.operand)) is not None:
            return number(-c)
        return node

    def visit_Compare(self, node):
        self.generic_visit(node)
        if (
            len(node.ops) == 1
            and constant(node.left) is not None
            and constant(node.comparators[0]) is not None
        ):
            return ast.Constant(
                eval(compile(ast.fix_missing_locations(ast.Expression(node)), "fold", "eval"))
            )
        return node

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        unit = isinstance(node.op, ast.And)
        values = []
        for v in node.values:
            values += v.values if isinstance(v, ast.BoolOp) and type(v.op) is type(node.op) else [v]
        if any(isinstance(v, ast.Constant) and v.value is (not unit) for v in values):
            return ast.Constant(not unit)
        values = [v for v in values if not (isinstance(v, ast.Constant) and v.value is unit)]
        if len(values) < 2:
            return values[0] if values else ast.Constant(unit)
        return ast.BoolOp(node.op, values)


def constant(node) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and (c := constant(node.operand)) is not None
    ):
        return -c
    return None


def number(value: int) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def folded(text: str) -> str:
    for _ in range(6):
        new = ast.unparse(ast.fix_missing_locations(Fold().visit(ast.parse(text, mode="eval"))))
        if new == text:
            break
        text = new
    return text


def self_equal(text: str) -> bool:
    """Only comparisons of an expression with itself."""
    node = ast.parse(text, mode="eval").body
    parts = node.values if isinstance(node, ast.BoolOp) else [node]
    return all(
        isinstance(p, ast.Compare) and ast.dump(p.left) == ast.dump(p.comparators[0]) for p in parts
    )


def pinned(row: dict) -> bool:
    """Every symbol of the question has its value among the facts."""
    fixed = {m[1] for g in row["given"] if (m := re.fullmatch(r"([su]\d+) == \d+", g))}
    return set(symbols_in(row["ask"])) <= fixed


def skeleton(text: str) -> str:
    """The pattern of a question; constants and repeated `* x // x` do not count."""
    text = re.sub(r"( \* (s\d+) // \2)+", r" * \2 // \2", text)
    text = (
        text.replace(" != ", " == ")
        .replace(" <= ", " < ")
        .replace(" >= ", " < ")
        .replace(" > ", " < ")
    )
    return re.sub(r"(?<![\w])\d+", "N", text)


def trivial(row: dict) -> bool:
    return re.fullmatch(r"(not )?\(?[su]\d+ (==|!=|<|<=|>|>=) \d+\)?", row["ask"]) is not None


def relevant(given: list[str], ask: str) -> list[str]:
    """At most five facts, those with the fewest symbols that the question lacks first."""
    names = set(symbols_in(ask))
    facts = [
        g
        for g in dict.fromkeys(given)
        if len(g) <= 120 and g != "True" and set(symbols_in(g)) & names
    ]
    facts.sort(key=lambda g: (len(set(symbols_in(g)) - names), len(g)))
    return facts[:5]


def select(rows: list[dict], limit: int) -> list[dict]:
    pool: dict[str, list[dict]] = collections.defaultdict(list)
    seen = set()
    for row in rows:
        ask = folded(row["ask"])
        if not symbols_in(ask):
            continue
        row = renamed(
            {**row, "ask": ask, "given": relevant([folded(g) for g in row["given"]], ask)}
        )
        if (
            pinned(row)
            or len(row["symbols"]) > 7
            or len(row["ask"]) > 260
            or row["ask"] in row["given"]
        ):
            continue
        key = (row["ask"], tuple(sorted(row["given"])))
        if key in seen:
            continue
        seen.add(key)
        row["family"] = family_of(row)
        pool[row["family"]].append(row)
    chosen: list[dict] = []
    per_skeleton: collections.Counter = collections.Counter()
    per_program: collections.Counter = collections.Counter()
    small: collections.Counter = collections.Counter()
    rng = random.Random(1)
    for rows_f in pool.values():
        rng.shuffle(rows_f)
        # larger questions, and those as the shape code wrote them, first
        rows_f.sort(
            key=lambda r: min(len(r["ask"]) // 12, 6) + (r["form"] == "as written"), reverse=True
        )
    turns = collections.deque(sorted(pool))
    position = dict.fromkeys(pool, 0)
    while turns and len(chosen) < limit:
        f = turns.popleft()
        while position[f] < len(pool[f]):
            # alternate between the complex and the simple end of the family
            i = position[f]
            row = pool[f][i // 2 if i % 3 else len(pool[f]) - 1 - i // 3]
            position[f] += 1
            if row.get("taken"):
                continue
            if trivial(row) or self_equal(row["ask"]):
                if small[f] >= 3:
                    continue
                small[f] += 1
            shape = skeleton(row["ask"])
            if (
                per_skeleton[shape] >= 2
                or per_program[(f, row["program"])] >= 6
                or per_program[row["program"]] >= 24
            ):
                continue
            row["taken"] = True
            per_skeleton[shape] += 1
            per_program[(f, row["program"])] += 1
            per_program[row["program"]] += 1
            chosen.append(row)
            turns.append(f)
            break
    return chosen


# --------------------------------------------------------------------------------------------------
# 5. Truth: Python itself on small integers, and z3.


def python_function(row: dict):
    """A function of the symbols' values: (all facts hold, the question holds).


    Every subexpression is evaluated (no short circuit): a zero divisor anywhere raises.
    """

    def ceildiv(a: int, b: int) -> int:
        return -(-a // b)

    class Strict(ast.NodeTransformer):
        def visit_BoolOp(self, node):
            self.generic_visit(node)
            name = "all_of" if isinstance(node.op, ast.And) else "any_of"
            return ast.Call(ast.Name(name, ast.Load()), [ast.List(node.values, ast.Load())], [])

        def visit_Compare(self, node):
            self.generic_visit(node)
            if len(node.ops) == 1:
                return node
            items = [node.left, *node.comparators]
            parts = [
                ast.Compare(a, [o], [b])
                for a, o, b in zip(items, node.ops, items[1:], strict=False)
            ]
            return ast.Call(ast.Name("all_of", ast.Load()), [ast.List(parts, ast.Load())], [])

    def build(text: str):
        tree = ast.fix_missing_locations(
            Strict().visit(ast.parse(f"lambda {', '.join(row['symbols'])}: ({text})", mode="eval"))
        )
        return eval(
            compile(tree, "question", "eval"),
            {"ceildiv": ceildiv, "all_of": all, "any_of": any, "min": min, "max": max},
        )

    facts, ask = [build(g) for g in row["given"]], build(row["ask"])
    return lambda *values: (all(results(facts, values)), ask(*values))


def results(functions: list, values: tuple) -> list:
    return [f(*values) for f in functions]


def brute_force(row: dict, budget: int = 60000) -> tuple[bool, bool]:
    """(example found, counterexample found) on small integers and near the question's constants."""
    f = python_function(row)
    names = list(row["symbols"])
    constants = sorted(
        {int(c) for t in (row["ask"], *row["given"]) for c in re.findall(r"(?<!\w)\d+", t)}
    )
    wide = sorted({v for c in constants if c < 5000 for v in (c - 1, c, c + 1, 2 * c, 3 * c + 1)})

    def fits(n: str, v: int) -> bool:
        low, high = row["symbols"][n]
        return (low is None or v >= low) and (high is None or v <= high)

    grids = [
        [v for v in range(-3, 13) if fits(n, v)]
        or [v for v in wide if fits(n, v)]
        or [row["symbols"][n][0] or 0]
        for n in names
    ]
    total = 1
    for g in grids:
        total *= len(g)
    rng = random.Random(0)
    points = (
        itertools.product(*grids)
        if total <= budget * 8
        else (tuple(rng.choice(g) for g in grids) for _ in range(budget))
    )
    grids2 = [
        sorted({*g, *[v for v in wide if fits(n, v)]}) for n, g in zip(names, grids, strict=True)
    ]
    more = (tuple(rng.choice(g) for g in grids2) for _ in range(budget // 6))
    found = [False, False]
    for point in itertools.chain(points, more):
        try:
            holds, answer = f(*point)
        except ZeroDivisionError:
            continue
        if holds:
            found[not answer] = True
            if all(found):
                break
    return found[0], found[1]


class Encoder:
    """Text to z3, Python's // and %: a division is two fresh integers, quotient and remainder."""

    def __init__(self, symbols: dict):
        import z3

        self.z3 = z3
        self.vars = {n: z3.Int(n) for n in symbols}
        self.side: list = []
        self.memo: dict[str, tuple] = {}
        for n, (low, high) in symbols.items():
            self.side += [self.vars[n] >= low] if low is not None else []
            self.side += [self.vars[n] <= high] if high is not None else []

    def divide(self, a, b, key: str):
        if key not in self.memo:
            z3 = self.z3
            q, r = z3.Int(f"q{len(self.memo)}"), z3.Int(f"r{len(self.memo)}")
            self.memo[key] = (q, r)
            self.side += [a == b * q + r]
            if z3.is_int_value(b):
                c = b.as_long()
                self.side += [z3.BoolVal(c != 0), *([r >= 0, r < c] if c > 0 else [r <= 0, r > c])]
            else:
                self.side += [b != 0, z3.If(b > 0, z3.And(r >= 0, r < b), z3.And(r <= 0, r > b))]
        return self.memo[key]

    def __call__(self, node):
        z3 = self.z3
        if isinstance(node, str):
            return self(ast.parse(node, mode="eval").body)
        if isinstance(node, ast.Constant):
            return z3.BoolVal(node.value) if isinstance(node.value, bool) else z3.IntVal(node.value)
        if isinstance(node, ast.Name):
            return self.vars[node.id]
        if isinstance(node, ast.BoolOp):
            return (z3.And if isinstance(node.op, ast.And) else z3.Or)(*map(self, node.values))
        if isinstance(node, ast.UnaryOp):
            return (
                z3.Not(self(node.operand))
                if isinstance(node.op, ast.Not)
                else z3.simplify(-self(node.operand))
            )
        if isinstance(node, ast.Compare):
            items = [self(node.left), *map(self, node.comparators)]
            compare = {
                ast.Eq: lambda a, b: a == b,
                ast.NotEq: lambda a, b: a != b,
                ast.Lt: lambda a, b: a < b,
                ast.LtE: lambda a, b: a <= b,
                ast.Gt: lambda a, b: a > b,
                ast.GtE: lambda a, b: a >= b,
            }
            return z3.And(
                *[
                    compare[type(o)](a, b)
                    for a, o, b in zip(items, node.ops, items[1:], strict=False)
                ]
            )
        if isinstance(node, ast.BinOp):
            a, b = self(node.left), self(node.right)
            if isinstance(node.op, ast.Pow):
                assert isinstance(node.right, ast.Constant)
                assert isinstance(node.right.value, int)
                return (
                    z3.simplify(z3.Product(*[a] * node.right.value))
                    if node.right.value
                    else z3.IntVal(1)
                )
            simple = {ast.Add: lambda: a + b, ast.Sub: lambda: a - b, ast.Mult: lambda: a * b}
            if type(node.op) in simple:
                out = simple[type(node.op)]()
                return z3.simplify(out) if z3.is_int_value(a) and z3.is_int_value(b) else out
            q, r = self.divide(a, b, f"{ast.dump(node.left)} / {ast.dump(node.right)}")
            return q if isinstance(node.op, ast.FloorDiv) else r
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        if node.func.id == "ceildiv":
            negated = ast.UnaryOp(ast.USub(), node.args[0])
            return -self.divide(
                self(negated), self(node.args[1]), f"{ast.dump(negated)} / {ast.dump(node.args[1])}"
            )[0]
        args = list(map(self, node.args))
        out = args[0]
        for x in args[1:]:
            out = z3.If((x <= out) if node.func.id == "min" else (x >= out), x, out)
        return out


def satisfiable(
    encoder: Encoder, facts: list, names: list[str], seconds: float
) -> tuple[bool, ...] | list[int] | None:
    """A model's values, () where there is none, None where z3 gives up."""
    import z3

    for i, make in enumerate(
        (
            z3.Solver,
            lambda: z3.SolverFor("QF_NIA"),
            lambda: z3.Then("simplify", "solve-eqs", "smt").solver(),
        )
    ):
        solver = make()
        solver.set("timeout", int(seconds * 1000 * (0.4, 0.4, 0.2)[i]))
        solver.add(*encoder.side, *facts)
        result = solver.check()
        if result == z3.unsat:
            return ()
        if result == z3.sat:
            model = solver.model()
            return [model.eval(encoder.vars[n], model_completion=True).as_long() for n in names]
    return None


def decide(row: dict, seconds: float = 10.0) -> str:
    """The truth of a question: yes, no, contingent, undecided; or vacuous."""
    import z3

    encoder = Encoder(row["symbols"])
    names = list(row["symbols"])
    given = [encoder(g) for g in row["given"]]
    ask = encoder(row["ask"])
    example, counterexample = brute_force(row)
    f = python_function(row)
    for_it = satisfiable(encoder, [*given, ask], names, seconds if not example else seconds / 5)
    against = satisfiable(
        encoder, [*given, z3.Not(ask)], names, seconds if not counterexample else seconds / 5
    )
    for model, wanted in ((for_it, True), (against, False)):
        if isinstance(model, list):
            assert f(*model) == (True, wanted), ("z3's model fails in Python", row, model)
    assert not (example and for_it == ()), ("brute force has an example, z3 says none", row)
    assert not (counterexample and against == ()), (
        "brute force has a counterexample, z3 says none",
        row,
    )
    can, cannot = example or isinstance(for_it, list), counterexample or isinstance(against, list)
    if for_it == () and against == ():
        return "vacuous"
    if can and cannot:
        return "contingent"
    if against == () and can:
        return "yes"
    return "no" if for_it == () and cannot else "undecided"


# --------------------------------------------------------------------------------------------------
# 6. The corpus.


SECOND_VERSIONS = 70


def with_range_from(row: dict, low: int) -> dict | None:
    """The question again with the backed sizes that started at 0 starting at `low`."""
    symbols = {
        n: [low, r[1]] if n[0] == "s" and r[0] == 0 else r for n, r in row["symbols"].items()
    }
    return None if symbols == row["symbols"] else {**row, "symbols": symbols}


def build(raw: str, limit: int) -> None:
    """Writes the corpus anew: recorded questions from `raw`, hand-written ones from the old one."""
    by_hand = [row for row in corpus() if row["origin"].startswith("hand")]
    recorded = select([json.loads(line) for line in Path(raw).read_text().splitlines()], limit)
    seen = {identity(row) for row in by_hand}
    rows, second = [], 0
    for row in recorded:
        if identity(row) in seen:
            continue
        seen.add(identity(row))
        row["origin"] += f" [{row['form']}]"
        row["truth"] = decide(row)
        if row["truth"] == "vacuous":
            continue
        rows.append(row)
        other = with_range_from(row, 1)
        if row["truth"] in ("contingent", "undecided") and second < SECOND_VERSIONS and other:
            other["truth"] = decide(other)
            if other["truth"] in ("yes", "no"):
                other["origin"] += " [sizes from 1]"
                rows.append(other)
                second += 1
    for row in by_hand:
        row["truth"] = decide(row)
        assert row["truth"] != "vacuous", row
        rows.append(row)
    keys = ("family", "symbols", "given", "ask", "truth", "origin")
    with OUT.open("w") as out:
        for i, row in enumerate(rows, 1):
            out.write(json.dumps({"id": f"q{i:04d}", **{k: row[k] for k in keys}}) + "\n")
    readme()


def identity(row: dict) -> tuple:
    return row["ask"], tuple(sorted(row["given"])), json.dumps(row["symbols"])


def corpus() -> list[dict]:
    return [json.loads(line) for line in OUT.read_text().splitlines()]


def check() -> None:
    for row in corpus():
        for text in (row["ask"], *row["given"]):
            assert set(symbols_in(text)) <= set(row["symbols"]), row
        example, counterexample = brute_force(row)
        if row["truth"] in ("yes", "no"):
            assert not (counterexample if row["truth"] == "yes" else example), row
    print(f"{len(corpus())} questions: no contradiction on small integers")


def readme() -> None:
    rows = corpus()
    truths = ["yes", "no", "contingent", "undecided"]
    hand = collections.Counter(r["family"] for r in rows if r["origin"].startswith("hand"))
    print("| family | " + " | ".join(truths) + " | all | recorded | by hand |\n|---|" + "---|" * 7)
    for f in [*sorted({r["family"] for r in rows}), "all"]:
        here = [r for r in rows if f in ("all", r["family"])]
        by_hand = sum(hand.values()) if f == "all" else hand[f]
        counts = [sum(r["truth"] == t for r in here) for t in truths]
        print(
            f"| {f} | "
            + " | ".join(map(str, counts))
            + f" | {len(here)} | {len(here) - by_hand} | {by_hand} |"
        )


def main(command: str, *args: str) -> None:
    if command == "record":
        record(args[0])
    elif command == "build":
        build(args[0], int(args[1]) if len(args) > 1 else 400)
    elif command == "check":
        check()
    else:
        readme()


if __name__ == "__main__":
    main(*sys.argv[1:])
