from __future__ import annotations

import pytest

from anyshape.explain.source_names import (
    in_list,
    in_words,
    named_together,
    parameter_of,
    text_in_words,
)
from anyshape.policy.sources import names_source


@pytest.mark.parametrize(
    ("source", "words", "listed", "parameter"),
    [
        ("L['x'].size()[0]", "x.size(0)", "L['x']:0", "x"),
        ("L['n']", "n", "L['n']", "n"),
        ("G['SCALE']", "SCALE", "G['SCALE']", ""),
        ("L['self'].x", "self.x", "L['self'].x", ""),
        (
            "L['self']._modules['lin']._parameters['weight'].size()[1]",
            "self.lin.weight.size(1)",
            "L['self']._modules['lin']._parameters['weight']:1",
            "",
        ),
        ("", "", "", ""),
    ],
)
def test_names(source: str, words: str, listed: str, parameter: str):
    assert (in_words(source), in_list(source), parameter_of(source)) == (words, listed, parameter)
    if source:
        dim = int(source[-2]) if source.endswith("]") and ".size()" in source else None
        assert names_source(listed, source.partition(".size()")[0], dim)


def test_a_sentence():
    text = "L['y'].size()[0] == L['self']._modules['a'].n"
    assert text_in_words(text) == "y.size(0) == self.a.n"


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("L['cache'].layers[{}].keys.size()[2]", "cache.layers[*].keys.size(2)"),
        ("L['self']._modules['h']._modules['{}'].n", "self.h.*.n"),
    ],
)
def test_many_layers_are_named_together(form: str, words: str):
    sources = [form.format(index) for index in range(12)]
    ((said, listed),) = named_together(["L['x'].size()[0]", *sources])[1:]
    assert said == words
    for source in sources:
        tensor, _, dim = source.partition(".size()")
        assert names_source(listed, tensor, int(dim[1]) if dim else None)
    assert not names_source(listed, "L['other']", 2)
    assert len(named_together(sources[:2])) == 2
