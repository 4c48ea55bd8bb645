"""A sample of the enumeration, and what holds of its tables."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import anyshape
from anyshape.capture.hooks.base import PROTOCOLS as GATE
from anyshape.capture.hooks.reference import PlainHooks
from tests.boundary.places import PLACES
from tests.boundary.protocols import OF_MODELS, PROTOCOLS, STATEMENTS, left_out, models
from tests.boundary.running import Case, difference, run
from tests.boundary.selection import sample
from tests.boundary.values import ROWS

_CAPTURE = Path(inspect.getfile(anyshape)).parent / "capture"


def test_a_sample_of_all_types_protocols_and_places() -> None:
    count, wrong = run(sample(every=400))
    assert not wrong, "\n".join(wrong)
    assert count > 350


def test_rows_are_known_by_name() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) >= 250
    assert len({protocol.text for protocol in PROTOCOLS}) == len(PROTOCOLS) >= 500
    assert len({place.name for place in PLACES}) == len(PLACES) >= 20


def test_few_combinations_are_left_out_and_each_for_a_reason() -> None:
    reasons = [left_out(row, protocol) for row in ROWS for protocol in PROTOCOLS]
    assert all(reason is None or reason for reason in reasons)
    assert sum(reason is not None for reason in reasons) < 0.01 * len(reasons)


FOUND = {
    "slice": ["x[v]", "v == K", "v.start", "1 if v else 2", "[10, 20, 30, 40][v]"],
    "np.int64": ["int(v)", "range(v)", "[10, 20, 30, 40][v]", "1 if v else 2", "round(v)"],
    "np.float32": ["float(v)", "not v", "v and 1", "round(v)"],
    "np.bool": ["1 if v else 2", "not v", "int(v)"],
    "np.int64 0-d": ["int(v)", "range(v)", "1 if v else 2", "[10, 20, 30, 40][v]"],
    "Decimal": ["int(v)", "round(v)", "float(v)", "v == K", "bool(v)"],
    "keys": ['"a" in v', "K in v", "bool(v)"],
    "values and none": ["1 in v", "bool(v)", "not v"],
    "finfo": ["str(v)", "v == K", "repr(v)"],
    "bound method of list": ["v(1)"],
    "method": ["v()", "v.__self__"],
    "OrderedDict": ["str(v)", "repr(v)", 'f"{v}"'],
    "Size": ["x.new(v).shape", "x.reshape(v)"],
    "Numeric": ["v > K", "max(v, K)", "sorted([v, K])", "v in [K]", "hash(v)"],
    "code": ["v == K", "v.__doc__"],
    "memoryview that changes": ["int(v)", "bytes(v)"],
    "deque maxlen": ["v + v", "repr(v)"],
}


@pytest.mark.parametrize("name", FOUND)
def test_found_before(name: str) -> None:
    row = next(row for row in ROWS if row.name == name)
    by_text = {protocol.text: protocol for protocol in PROTOCOLS}
    with anyshape.config.patch(profile=False):
        for text in FOUND[name]:
            for in_place in (False, True) if row.turn is not None else (False,):
                case = Case(row, by_text.get(text) or type(PROTOCOLS[0])(text), in_place=in_place)
                assert difference(case) is None


# -- nothing is forgotten --------------------------------------------------------------------------

#: Every hook of watched code, with a protocol of the table that goes through it.
HOOKS = {
    "load_global": "K == v",
    "load_free": "return (lambda: v)()",
    "store_global": "global G\nG = v\nreturn G",
    "store_free": "def g(): return v\nreturn g()",
    "delete_global": None,
    "imported": "import math as m\nreturn m.floor(v)",
    "attribute": "v.a",
    "set_attribute": "v.a = 5; return v.a",
    "delete_attribute": None,
    "item": "v[0]",
    "set_item": "v[0] = 5; return v[0]",
    "delete_item": "del v[0]; return 1",
    "slice": "[10, 20, 30, 40][v:]",
    "call": "v()",
    "super": None,
    "binary": "v + 1",
    "inplace": "v += 1; return v",
    "unary": "-v",
    "compare": "v < K",
    "same": "v is K",
    "contains": "1 in v",
    "truth": "bool(v)",
    "test": "v and 1",
    "caught": None,  # tests/capture/test_absent_names.py
    "asserting": "assert v; return 1",
    "asserted": "assert v; return 1",
    "plain": "0 < v < 2",
    "iterate": "[i for i in v]",
    "unpack": "a, *b = v; return a, b",
    "members": "{*v}",
    "mapping": "{**v}",
    "key": "{v: 1}",
    "format": 'f"{v}"',
    "text": 'f"{v}"',  # joins what `format` has made
    "context": "with v as w: return w",
    "raising": "raise v",
    "match": next(text for text in STATEMENTS if text.startswith("match")),
    "making_class": "class C: n = v\nreturn C.n",
}


def test_every_hook_has_a_protocol() -> None:
    hooks = {name for name in vars(PlainHooks) if not name.startswith("_")}
    assert hooks == set(HOOKS)
    texts = {protocol.text for protocol in PROTOCOLS}
    assert {text for text in HOOKS.values() if text is not None} <= texts


def test_every_row_of_the_gate_is_asked_for() -> None:
    text = "".join(path.read_text() for path in _CAPTURE.rglob("*.py"))
    by_operator = {"neg", "pos", "invert"}
    assert {name for name in GATE if f'"{name}")' in text} | by_operator == set(GATE)


def test_models_of_numbers_are_given_values_that_are_known() -> None:
    """A function with a model reads a value of every kind right, whatever it is."""
    rows = [row for row in ROWS if row.name in OF_MODELS]
    cases = [Case(rows[index % len(rows)], each) for index, each in enumerate(models()[::5])]
    count, wrong = run(iter(cases))
    assert not wrong, "\n".join(wrong)
    assert count > 100
