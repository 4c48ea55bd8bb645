"""The page as a text: it loads nothing, runs one script, and holds the data as text only."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest

from anyshape.explain.report.page.html import data_text, page_text
from tests.report.recordings import NAMES, data_of

PARTS = Path(page_text.__code__.co_filename).parent

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>",
    "&lt;b&gt; &amp;",
    "\u2028\u2029\x00\x1b\x7f\ufeff",
    "\ud800 half",
    "{{ title }} {% raw %}",
    "'\"`\\",
]


def data_in(page: str) -> object:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_come_back_as_they_were(text: str):
    data = {text: [text, {"x": text}]}
    page = page_text(text, data)
    assert data_in(page) == data
    assert "<script>alert" not in page
    assert page.count("<script") == 2
    assert page.count("</script") == 2


def test_data_has_no_character_that_means_anything_in_markup():
    text = data_text({"a": "".join(map(chr, range(300))) + "\ud800"})
    assert text.isascii()
    assert not set(text) & set("<>&")


def test_numbers_that_json_does_not_have_are_refused():
    with pytest.raises(ValueError, match="Out of range"):
        data_text({"a": float("nan")})


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_recorded_traces(name: str):
    data = data_of(name)
    page = page_text(name, data)
    assert data_in(page) == json.loads(json.dumps(data))
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page)
    assert "@import" not in page
    assert "url(" not in page


def test_the_policy_allows_this_script_and_this_style_alone():
    page = page_text("title", {})
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    policy = policy.replace("&#39;", "'")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for kind, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_script_makes_elements_of_texts_in_no_other_way():
    for part in sorted((PARTS / "script").glob("*.js")):
        text = part.read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, (part.name, word)
        assert "new Function" not in text
        assert "</script" not in text
        assert len(text.splitlines()) < 350, part.name
    template = (PARTS / "page.html.jinja").read_text(encoding="utf-8")
    assert not re.search(r"\son\w+=", template)
