"""The page of `anyshape report` in a real browser: clicks, keys, search, light and dark, hostile
texts, and many compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from anyshape.explain.report import write_report
from tests import forks
from tests.events.trace.test_sink import TEXTS, every_event
from tests.report.made import many, written
from tests.report.recordings import FOLDER, NAMES
from tests.slow.browser import SIZES, Browser, start_browser

ADVICE = [
    {
        "kind": "static_first",
        "title": "f: static at first",
        "cause": "The first compile takes <b>every</b> size for fixed.",
        "file": "/program/automatic.py",
        "line": 6,
        "excerpt": {"6": "    return torch.relu(x)"},
        "remedy": "Mark it.",
        "patch": "--- a\n+++ b\n-old\n+new\n",
        "environment": {"ANYSHAPE_DYNAMIC_SOURCES": "L['x']:0"},
        "saves": 1,
        "function": "f",
        "compile_ids": ["0/1"],
    }
]

Page = Callable[[str], Path]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from start_browser(tmp_path_factory.mktemp("chromium"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("pages")

    def made(name: str) -> Path:
        path = folder / f"{name}.html"
        return path if path.exists() else write_report(FOLDER / name, path, ADVICE)

    return made


# -- every view ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(browser: Browser, page: Page, name: str):
    browser.open(page(name))
    waiting, seen = ["#/overview"], set[str]()
    while waiting:
        address = waiting.pop()
        if address in seen:
            continue
        seen.add(address)
        browser.go(address[1:])
        text = browser.text()
        assert browser.all("main h1"), address
        assert "Not in this trace" not in text, address
        for word in ("undefined", "NaN", "[object"):
            assert word not in text, (address, word)
        # What is folded is drawn when it is opened.
        browser.run("document.querySelectorAll('details').forEach((each) => each.open = true)")
        waiting += browser.run(
            "return [...document.querySelectorAll('a[href^=\"#/\"]')].map("
            "(each) => each.getAttribute('href'))"
        )
    assert len(seen) > 8
    assert browser.complaints() == []


def test_which_sizes_go_where(browser: Browser, page: Page):
    browser.open(page("specialised"), "/function/p0-f0")
    assert [each.text for each in browser.all(".tree .answer")] == ["yes", "no", "yes", "no"]
    assert [each.text for each in browser.all(".tree .leaf .entry-id")] == ["0/0", "0/1", "0/2"]
    assert [each.text for each in browser.all(".served")] == [
        "went here:\n10",
        "went here:\n20\n30",
        "went here:\n40\n50",
    ]
    assert "if x.size()[0] == 10:" in browser.text(".tree .question")


def test_the_graphs_of_an_entry_are_in_the_tree(browser: Browser, page: Page):
    browser.open(page("branches_on_data"), "/function/p0-f0")
    assert [each.text for each in browser.all(".segments .answer")] == ["True", "False", "True"]


def test_the_story_of_a_symbol(browser: Browser, page: Page):
    browser.open(page("specialised"), "/entry/p0-e0-0")
    steps = [each.text.split("\n")[0] for each in browser.all(".steps-list > li")]
    assert steps[0].startswith("Created as 10")
    assert steps[1].startswith("Eq(s0, 10)")
    assert steps[2].startswith("Specialized to 10")
    assert steps[3].startswith("Recompiled: 0/1")
    assert "if x.size()[0] == 10:" in browser.text(".steps-list .excerpt .here")
    browser.click(".steps-list .followed a")
    browser.until(lambda: browser.address == "#/entry/p0-e0-1")


def test_sizes_over_time(browser: Browser, page: Page):
    browser.open(page("automatic"), "/function/p0-f0")
    assert len(browser.all(".timeline .made")) == 2
    assert len(browser.all(".timeline .hit")) == 2
    browser.click(".choice button:nth-child(2)")
    assert browser.one(".choice button:nth-child(2)").get_attribute("aria-pressed") == "true"
    assert len(browser.all(".timeline .hit")) == 2


def test_similar_graphs_side_by_side(browser: Browser, page: Page):
    browser.open(page("specialised"), "/similar/0")
    assert "x.size()[0] == 10, actual 40" in browser.text(".compare")
    changed = [each.text for each in browser.all(".diff mark")]
    assert {"10", "s0"} <= set(changed)
    browser.click("select[aria-label='right graph'] option:nth-child(2)")
    browser.until(lambda: "actual 20" in browser.text(".compare"))
    assert "200" in browser.text(".diff")


def test_ranks_that_diverged_come_first(browser: Browser, page: Page):
    browser.open(page("ranks"))
    browser.click(".notice.warn a")
    browser.until(lambda: browser.address == "#/ranks")
    first, second = browser.all("#steps > details > summary")
    assert "step" in first.text
    assert "diverges at compile 1" in first.text
    assert "the same on all ranks" in second.text


def test_advice(browser: Browser, page: Page):
    browser.open(page("automatic"), "/advice")
    assert "takes <b>every</b> size" in browser.text()
    assert [each.text for each in browser.all(".patch .plus")] == ["+++ b", "+new"]
    browser.click(".advice .entry-id")
    browser.until(lambda: browser.address == "#/entry/p0-e0-1")


def test_a_damaged_trace_says_so(browser: Browser, tmp_path: Path):
    (whole,) = (FOLDER / "automatic").glob("*.jsonl")
    (tmp_path / whole.name).write_bytes(whole.read_bytes()[:-20])
    browser.open(write_report(tmp_path, tmp_path / "page.html"))
    assert "ends in the middle of line" in browser.text("[role=alert]")
    assert browser.complaints() == []


# -- getting about ---------------------------------------------------------------------------------


def test_search_by_keyboard(browser: Browser, page: Page):
    browser.open(page("module"))
    browser.press("/")
    browser.press("s0")
    browser.until(lambda: browser.all(".results [role=option]"))
    assert browser.one(".results [aria-selected=true] .kind").text == "symbol"
    first = browser.one(".results [aria-selected=true] a").get_attribute("href")
    browser.press(Keys.ARROW_DOWN)
    second = browser.one(".results [aria-selected=true] a").get_attribute("href")
    assert first != second
    browser.press(Keys.ENTER)
    browser.until(lambda: second is not None and second.endswith(browser.address))
    assert not browser.one(".results").is_displayed()


def test_search_by_mouse_and_for_nothing(browser: Browser, page: Page):
    browser.open(page("specialised"))
    browser.one("#search").send_keys("no such thing at all")
    browser.until(lambda: "Nothing has that" in browser.text(".results"))
    browser.press(Keys.ESCAPE)
    assert not browser.one(".results").is_displayed()
    browser.one("#search").clear()
    browser.one("#search").send_keys("specialised.py:9")
    browser.until(lambda: browser.all(".results [role=option]"))
    browser.click(".results [role=option] a")
    browser.until(lambda: browser.address.startswith("#/entry/"))


def test_keys(browser: Browser, page: Page):
    browser.open(page("specialised"))
    steps = [
        ("n", "#/function/p0-f0"),
        ("u", "#/overview"),
        ("c", "#/compiles"),
        ("s", "#/similar"),
        ("a", "#/advice"),
        ("r", "#/ranks"),
        ("o", "#/overview"),
    ]
    for key, address in steps:
        browser.press(key)
        browser.until(lambda address=address: browser.address == address)
    browser.go("/entry/p0-e0-0")
    browser.press("n")
    browser.until(lambda: browser.address == "#/entry/p0-e0-1")
    browser.press("p")
    browser.until(lambda: browser.address == "#/entry/p0-e0-0")
    browser.press("?")
    assert browser.one("dialog").is_displayed()
    browser.press(Keys.ESCAPE)
    browser.until(lambda: not browser.one("dialog").is_displayed())
    browser.press("j")
    browser.until(lambda: browser.run("return window.scrollY") > 0)
    browser.press("u")
    browser.until(lambda: browser.address == "#/function/p0-f0")
    assert browser.complaints() == []


def test_everything_can_be_reached_with_the_tab_key(browser: Browser, page: Page):
    browser.open(page("automatic"), "/function/p0-f0")
    reached = set[str]()
    for _ in range(40):
        browser.press(Keys.TAB)
        reached.add(browser.run("return document.activeElement.getAttribute('href') || ''"))
    assert {"#/overview", "#/similar", "#/entry/p0-e0-0"} <= reached


def test_addresses_lead_to_sections(browser: Browser, page: Page):
    browser.open(page("module"), "/entry/p0-e0-1/graphs")
    top = browser.run("return document.getElementById('graphs').getBoundingClientRect().top")
    assert 0 <= top < 500
    assert browser.run("return window.scrollY") > 200
    browser.open(page("module"), "/entry/nowhere")
    assert "Not in this trace" in browser.text()
    browser.open(page("module"), "/constructor/%E0%A4%A")
    assert "Not in this trace" in browser.text()
    assert browser.complaints() == []


def test_back_and_forward(browser: Browser, page: Page):
    browser.open(page("automatic"))
    browser.click("main .list a")
    browser.until(lambda: browser.address == "#/function/p0-f0")
    browser.driver.back()
    browser.until(lambda: "What was compiled" in browser.text("h1"))


def test_folds_filters_and_more(browser: Browser, tmp_path: Path):
    folder = many(tmp_path / "trace", 1, 3)
    browser.open(write_report(folder, tmp_path / "page.html"), "/entry/p0-e0-2")
    assert len(browser.all("#guards tbody tr")) == 25
    browser.click("#guards .more")
    assert len(browser.all("#guards tbody tr")) == 41
    browser.click("#guards .filter")
    browser.press("g[17]")
    browser.until(lambda: len(browser.all("#guards tbody tr")) == 1)
    assert not browser.all("#compile-1 .fold-body li")
    browser.click("#compile-1 details summary")
    browser.until(lambda: browser.all("#compile-1 .fold-body li"))


# -- light and dark --------------------------------------------------------------------------------


def brightness(browser: Browser) -> int:
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in colour.strip("rgb()").split(",")[:3])
    return (red + green + blue) // 3


def test_light_and_dark(browser: Browser, page: Page):
    browser.prefer("light")
    browser.open(page("automatic"))
    assert brightness(browser) > 200
    browser.prefer("dark")
    assert brightness(browser) < 60
    browser.press("t")
    assert brightness(browser) > 200
    browser.prefer("light")
    browser.click("button[aria-label='light or dark']")
    assert brightness(browser) < 60
    browser.run("localStorage.clear()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground(browser: Browser, page: Page, scheme: str):
    """The contrast that the web's rules ask for (4.5 to 1), for all colours of text."""
    browser.prefer(scheme)
    browser.open(page("module"), "/function/p0-f0")
    low = browser.run(CONTRAST)
    browser.prefer("light")
    assert low == []


#: Texts that are too pale: the colour of each element against the nearest ground behind it.
CONTRAST = """
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const one = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const [x, y, z] = [r, g, b].map((c) => one(c / 255));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const ground = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const low = [];
for (const node of document.querySelectorAll("main *, .side *")) {
  const isText = (child) => child.nodeType === 3 && child.textContent.trim();
  if (![...node.childNodes].some(isText) || node.closest("svg")) continue;
  if (!node.getClientRects().length) continue;
  if (getComputedStyle(node).opacity !== "1") continue;
  const [a, b] = [light(parts(getComputedStyle(node).color)), light(ground(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const said = node.textContent.slice(0, 30);
  if (ratio < 4.5) low.push(`${node.className} ${said} ${ratio.toFixed(2)}`);
}
return low;
"""


def test_a_laptop_screen_has_room(browser: Browser, page: Page):
    for name, address in (("module", "/function/p0-f0"), ("module", "/entry/p0-e0-1")):
        browser.open(page(name), address)
        width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert browser.run(f"return {width}") <= 0


# -- hostile texts ---------------------------------------------------------------------------------

WATCH = "window.ran = 0; window.alert = () => window.ran++;"


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_a_trace_are_never_markup(browser: Browser, tmp_path: Path, name: str):
    folder = written(tmp_path / "trace", every_event(TEXTS[name]))
    browser.open(write_report(folder, tmp_path / "page.html"))
    browser.run(WATCH)
    views = ["overview", "compiles", "similar", "operators", "profile", "ranks", "advice"]
    for kind, held in (("entry", "entries"), ("function", "functions")):
        keys = browser.run(
            "const data = JSON.parse(document.getElementById('data').textContent);"
            "return Object.keys(data[arguments[0]])",
            held,
        )
        views += [f"{kind}/{key}" for key in keys]
    for view in views:
        browser.go(f"/{view}")
        browser.run("document.querySelectorAll('details').forEach((each) => each.open = true)")
        assert browser.run("return document.scripts.length") == 2, view
        assert browser.run("return document.images.length") == 0, view
    assert browser.run("return window.ran") == 0
    assert browser.complaints() == []


def test_nothing_but_the_own_script_may_run(browser: Browser, page: Page):
    """Were a text ever taken for markup, the policy of the page would still be in the way."""
    browser.open(page("hostile_names"))
    browser.run(
        "const script = document.createElement('script');"
        "script.textContent = 'window.ran = 1'; document.body.append(script);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 2\">');"
    )
    assert browser.run("return window.ran") is None
    complaints = browser.complaints()
    assert len(complaints) >= 2
    assert all("Content Security Policy" in each for each in complaints)


# -- many compiles ---------------------------------------------------------------------------------

#: Goes to an address, and tells how many milliseconds later it is on the screen.
TIMED = """
const [address, done] = arguments;
const before = performance.now();
addEventListener("hashchange", () => requestAnimationFrame(() => requestAnimationFrame(
  () => done(performance.now() - before))), {once: true});
location.hash = address;
"""


@pytest.mark.parametrize(("functions", "entries"), [(50, 10), (1, 500)])
def test_five_hundred_compiles(browser: Browser, tmp_path: Path, functions: int, entries: int):
    page = write_report(many(tmp_path / "trace", functions, entries), tmp_path / "page.html")
    browser.open(page)
    views = ["/compiles", "/function/p0-f0", f"/entry/p0-e0-{entries - 1}", "/similar/0"]
    for view in [*views, "/overview"]:
        taken = min(_timed(browser, view) for _ in range(3))
        # A tenth of a second on a free machine; CI has other things to do.
        assert taken < 1000, (view, taken)
        assert browser.run("return document.querySelectorAll('*').length") < 12_000, view
    browser.go("/function/p0-f0")
    if entries > 100:
        before = len(browser.all(".tree .leaf"))
        browser.click(".tree .more")
        browser.until(lambda: len(browser.all(".tree .leaf")) == before + 50)
    browser.press("/")
    browser.press("layer_0")
    browser.until(lambda: browser.all(".results [role=option]"))
    assert browser.complaints() == []


def _timed(browser: Browser, view: str) -> float:
    browser.go("/advice")
    return browser.driver.execute_async_script(TIMED, f"#{view}")


# -- sizes of screens ------------------------------------------------------------------------------

LADDER = """
import torch
import anyshape


@anyshape.compile(dynamic=True)
def ladder(
    x,
    most=9,
):
    for step in range(most):
        if x.size(0) < 4 * step:
            return x + step

    return x * 2


for n in range(1, 46, 4):
    ladder(torch.ones(n, 4))
"""

IN_PARTS = """
import numpy
import torch
import anyshape


@anyshape.compile(dynamic=True)
def split(x):
    y = x.relu() + 1
    limit = float(numpy.percentile(y.numpy(), 90))
    return y.clamp(max=limit) * 2


for n in (10, 20, 30):
    split(torch.randn(n))
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The report of a program."""
    folder = tmp_path_factory.mktemp("traced")

    def made(text: str) -> Path:
        place = folder / str(len(text))
        if not place.exists():
            place.mkdir()
            (place / "program.py").write_text(text, encoding="utf-8")
            ran = forks.run(["program.py"], place, {"ANYSHAPE_TRACE": str(place / "trace")})
            assert ran.returncode == 0, ran.stderr
            write_report(place / "trace", place / "report.html")
        return place / "report.html"

    return made


@pytest.fixture
def sized(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Browser]:
    browser.resize(*SIZES[request.param])
    yield browser
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


EVERY_SIZE = pytest.mark.parametrize("sized", SIZES, indirect=True)


@EVERY_SIZE
def test_the_tree_fits_its_box(sized: Browser, traced: Page):
    sized.open(traced(LADDER), "/function/p0-f0/tree")
    fits = (
        "const tree = document.querySelector('.tree'); return tree.scrollWidth <= tree.clientWidth"
    )
    sized.until(lambda: sized.run(fits))
    assert len(sized.all(".tree .leaf")) == 9


@EVERY_SIZE
@pytest.mark.parametrize("name", ["specialised", "branches_on_data", "hostile_names"])
def test_no_page_is_wider_than_the_screen(sized: Browser, page: Page, name: str):
    for address in ("/overview", "/function/p0-f0", "/entry/p0-e0-0", "/advice"):
        sized.open(page(name), address)
        assert sized.run("return document.documentElement.scrollWidth <= innerWidth"), address


def test_questions_are_folded_and_the_tree_is_zoomed(browser: Browser, traced: Page):
    browser.open(traced(LADDER), "/function/p0-f0/tree")
    shown = (
        "return [...document.querySelectorAll('.tree .leaf')].filter((e) => e.offsetParent).length"
    )
    before = browser.run(shown)
    assert browser.all(".fold-node[aria-expanded=false]"), "deep questions are folded at first"
    browser.click(".fold-node[aria-expanded=false]")
    assert browser.run(shown) > before
    browser.click(".fold-node")
    assert browser.run(shown) < before
    width = "return document.querySelector('.tree .root').getBoundingClientRect().width"
    whole = browser.run(width)
    browser.click(".zoom button")
    assert browser.run(width) < whole


def test_a_function_is_shown_whole(browser: Browser, traced: Page):
    browser.open(traced(LADDER), "/function/p0-f0")
    lines = browser.run("return document.querySelector('main > .excerpt pre').innerText").split(
        "\n"
    )
    text = [line for line in lines if line.strip()]
    assert "@anyshape.compile(dynamic=True)" in text[0] + text[1]
    assert "return x * 2" in text[-1]


def test_what_is_not_compiled_whole_is_counted_and_explained(browser: Browser, traced: Page):
    browser.open(traced(IN_PARTS), "/overview")
    tiles = [each.text for each in browser.all(".tile")]
    assert any("not compiled whole" in each and "1 in parts" in each for each in tiles)
    said = browser.text("#not-compiled")
    assert "numpy.percentile" in said
    assert "split (lines" in said


def test_settings_are_quoted_for_a_shell(browser: Browser, page: Page):
    browser.open(page("automatic"), "/advice")
    assert """ANYSHAPE_DYNAMIC_SOURCES="L['x']:0\"""" in browser.text()
