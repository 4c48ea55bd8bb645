// The frame: navigation, addresses, keys, light and dark.

const VIEWS = {
  overview: viewOverview,
  advice: viewAdvice,
  compiles: viewCompiles,
  similar: viewSimilar,
  operators: viewOperators,
  profile: viewProfile,
  ranks: viewRanks,
  runs: viewRuns,
  function: viewFunction,
  entry: viewEntry,
};

const KEYS = [
  ["/", "search", () => document.getElementById("search").focus()],
  ["o", "overview", () => go("overview")],
  ["a", "advice", () => go("advice")],
  ["c", "all compiles", () => go("compiles")],
  ["s", "similar graphs", () => go("similar")],
  ["r", "ranks", () => go("ranks")],
  ["b", "runs, before and after", () => go("runs")],
  ["n", "next function or entry", () => step(1)],
  ["p", "previous function or entry", () => step(-1)],
  ["u", "up: from an entry to its function, from there to the overview", () => up()],
  ["j", "next section", () => toSection(1)],
  ["k", "previous section", () => toSection(-1)],
  ["t", "light or dark", () => switchTheme()],
  ["?", "this list", () => showKeys()],
];

const main = h("main", { id: "main", tabindex: "-1" });
const side = h("nav.side", { "aria-label": "contents" });

function go(...parts) {
  location.hash = href(...parts);
}

function route() {
  return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function anchorOf(id) {
  const [view, key] = route();
  const takesKey = view === "function" || view === "entry" || view === "similar";
  return takesKey && key !== undefined ? href(view, key, id) : href(view || "overview", id);
}

let shownRoute = "";

function show() {
  const [view = "overview", ...rest] = route();
  if (view === "main") return;
  const draw = own(VIEWS, view);
  const takesKey = view === "function" || view === "entry" || (view === "similar" && /^\d+$/.test(rest[0] || ""));
  const wanted = [view, takesKey ? rest[0] : ""].join("/");
  if (wanted !== shownRoute) {
    shownRoute = wanted;
    main.replaceChildren(...flat(draw ? (takesKey ? draw(rest[0]) : draw()) : viewMissing("page", view)));
    window.scrollTo(0, 0);
    drawSide(view, rest[0]);
    const heading = main.querySelector("h1");
    document.title = `${heading ? clip(heading.textContent, 60) : ""} · anyshape report`;
  }
  const anchor = takesKey ? rest[1] : rest[0];
  const target = anchor && document.getElementById(anchor);
  if (target && main.contains(target)) target.scrollIntoView();
}

function flat(nodes) {
  const holder = document.createDocumentFragment();
  put(holder, [nodes]);
  return [...holder.childNodes];
}

// -- contents ----------------------------------------------------------------------------------

function drawSide(view, key) {
  const isFunction = (f) => (view === "function" && f.key === key) || (view === "entry" && entryOf(key) && entryOf(key).function === f.key);
  const link = (name, text, count) => h("a", { href: href(name), "aria-current": view === name ? "page" : null }, text, count ? h("span.count", number(count)) : null);
  const ranked = DATA.ranks.some((launch) => launch.processes.length > 1);
  const scrolled = side.scrollTop;
  side.replaceChildren(
    h("div.links", link("overview", "Overview"), DATA.advised ? link("advice", "Advice", DATA.advice.length) : null, link("compiles", "All compiles", ALL_FUNCTIONS.reduce((sum, f) => sum + sumsOf(f).compiles, 0)), link("similar", "Similar graphs", DATA.similar.length), link("operators", "Operators"), link("profile", "Profile"), ranked ? link("ranks", "Ranks") : null, DATA.runs ? link("runs", "Runs", DATA.runs.sides.length) : null),
    h("h2", "Functions"),
    ...flat(functionLinks(isFunction)),
  );
  side.scrollTop = scrolled;
}

const MOST_IN_SIDE = 150;

function functionLinks(isCurrent) {
  const sorted = sortedFunctions();
  const several = DATA.processes.length > 1;
  const shown = sorted.filter((f, index) => index < MOST_IN_SIDE || isCurrent(f));
  const list = h("div.links.functions", shown.map((f) => [
    h("a", { href: href("function", f.key), "aria-current": isCurrent(f) ? "page" : null, title: `${f.file}:${f.line}` }, h("span.mono", clip(functionName(f), 26)), several ? h("small.dim", processName(processOf(f.process))) : null, h("span.count", number(f.entries.length))),
  ]));
  return [list, sorted.length > shown.length ? h("p.note", `and ${sorted.length - shown.length} more: search for them`) : null];
}

let SORTED = null;
function sortedFunctions() {
  SORTED = SORTED || [...ALL_FUNCTIONS].sort((a, b) => sumsOf(b).seconds - sumsOf(a).seconds);
  return SORTED;
}

// -- keys --------------------------------------------------------------------------------------

function step(offset) {
  const [view, key] = route();
  if (view === "entry" && entryOf(key)) {
    const entries = functionOf(entryOf(key).function).entries;
    const next = entries[entries.indexOf(key) + offset];
    if (next) go("entry", next);
    return;
  }
  const sorted = sortedFunctions();
  const at = view === "function" ? sorted.findIndex((f) => f.key === key) : -1;
  const next = sorted[view === "function" ? at + offset : 0];
  if (next) go("function", next.key);
}

function up() {
  const [view, key] = route();
  if (view === "entry" && entryOf(key)) go("function", entryOf(key).function);
  else go("overview");
}

function toSection(offset) {
  const sections = [...main.querySelectorAll("section[id]")];
  const bar = 70;
  const tops = sections.map((each) => each.getBoundingClientRect().top - bar);
  const next = offset > 0 ? sections[tops.findIndex((top) => top > 5)] : sections[tops.findLastIndex((top) => top < -5)];
  if (next) next.scrollIntoView();
  else if (offset < 0) window.scrollTo(0, 0);
}

const help = h("dialog", { id: "keys", "aria-label": "keys" }, h("h2", "Keys"), h("dl", KEYS.map(([key, text]) => [h("dt", h("kbd", key)), h("dd", text)])), h("form", { method: "dialog" }, h("button", "Close")));

function showKeys() {
  if (help.open) help.close();
  else help.showModal();
}

document.addEventListener("keydown", (event) => {
  const inField = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName || "");
  if (inField || event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const found = KEYS.find(([key]) => key === event.key);
  if (found) {
    event.preventDefault();
    found[2]();
  }
});

// -- light and dark ------------------------------------------------------------------------------

const systemDark = window.matchMedia("(prefers-color-scheme: dark)");

function themeNow() {
  return document.documentElement.dataset.theme || (systemDark.matches ? "dark" : "light");
}

function switchTheme() {
  const theme = themeNow() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("anyshape-theme", theme);
  } catch {
    // A page from disk may have no storage: then it is for this once.
  }
}

try {
  const kept = localStorage.getItem("anyshape-theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
} catch {
  // As above.
}

// -- begin ---------------------------------------------------------------------------------------

const app = document.getElementById("app");
app.replaceChildren(
  h("header.top", h("a.brand", { href: href("overview") }, h("b", "anyshape"), " report"), searchBox(), h("button.icon", { type: "button", title: "light or dark (t)", "aria-label": "light or dark", on: { click: switchTheme } }, "◐"), h("button.icon", { type: "button", title: "keys (?)", "aria-label": "keys", on: { click: showKeys } }, "?")),
  h("div.frame", side, main),
  help,
);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);
show();
