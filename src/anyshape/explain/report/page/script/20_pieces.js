// Small things that all views are made of.

const STATUS = {
  compiled: ["compiled", "good"],
  eager: ["runs eagerly", "warn"],
  failed: ["failed", "bad"],
  unfinished: ["not finished", "warn"],
};

function badge(text, tone, title) {
  return h(`span.badge.${tone || "plain"}`, { title }, text);
}

function statusBadge(status) {
  const [text, tone] = own(STATUS, status) || [status, "plain"];
  return badge(text, tone);
}

const href = (...parts) => `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;

function entryLink(key, attempt) {
  const entry = entryOf(key);
  if (!entry) return h("span.mono", String(key));
  const more = attempt ? ` (${ordinal(attempt)})` : "";
  return h("a.entry-id", { href: href("entry", key), title: functionName(functionOf(entry.function)) }, `${entry.id}${more}`);
}

function ordinal(attempt) {
  return `attempt ${attempt + 1}`;
}

function functionLink(f) {
  return h("a.mono", { href: href("function", f.key), title: `${f.file}:${f.line}` }, clip(functionName(f), 60));
}

function placeText(place) {
  return h("span.place", { title: `${place[0]}:${place[1]} in ${place[2]}` }, `${baseName(place[0])}:${place[1]}`);
}

// A line of the program with its neighbours, as far as the trace has them.
function excerpt(place, around = 2) {
  if (!place) return null;
  const [file, line, name] = place;
  const lines = own(DATA.sources, file) || {};
  const shown = [];
  for (let n = line - around; n <= line + around; n++) {
    const text = own(lines, String(n));
    if (text !== undefined) shown.push([n, text]);
  }
  return drawLines(file, line, name, shown);
}

function linesBetween(file, first, last) {
  const lines = own(DATA.sources, file) || {};
  const found = [];
  for (let n = first; n <= last && own(lines, String(n)) !== undefined; n++) found.push([n, own(lines, String(n))]);
  return found;
}

// The function that begins at a line, with its decorators: up to where something else begins.
function bodyOf(file, line) {
  const lines = linesBetween(file, line, Infinity);
  const indentOf = (text) => text.length - text.trimStart().length;
  const start = lines.findIndex(([, text]) => /^\s*(async\s+)?def\b/.test(text));
  if (start < 0 || lines.slice(0, start).some(([, text]) => indentOf(text) === indentOf(lines[0][1]) && !/^\s*[@)\]}#]/.test(text))) return [];
  let end = start + 1;
  while (end < lines.length && (!lines[end][1].trim() || indentOf(lines[end][1]) > indentOf(lines[start][1]) || /^\s*[)\]}]/.test(lines[end][1]))) end++;
  while (!lines[end - 1][1].trim()) end--;
  return lines.slice(0, end);
}

function drawLines(file, line, name, shown, here = line) {
  const head = h("div.excerpt-head", { title: file }, h("span.mono", `${baseName(file)}:${line}`), name ? ` in ${name}` : "");
  if (!shown.length) return h("figure.excerpt", head);
  const indent = Math.min(...shown.filter(([, t]) => t.trim()).map(([, t]) => t.length - t.trimStart().length), 40);
  const code = h("pre", shown.map(([n, text]) => h(n === here ? "div.line.here" : "div.line", h("span.n", n), h("code", python(text.slice(indent))))));
  return h("figure.excerpt", head, code);
}

const TOKEN = /(#.*)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(def|class|return|if|elif|else|for|in|not|and|or|is|with|as|import|from|lambda|while|None|True|False|try|except|raise|yield|pass|break|continue)\b|\b([su]\d+)\b|\b(\d+(?:\.\d+)?)\b/g;
const TOKEN_CLASS = ["", "t-comment", "t-string", "t-key", "t-symbol", "t-number"];

function python(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, found.index));
    const kind = [1, 2, 3, 4, 5].find((group) => found[group] !== undefined);
    // A string in a graph is a type: its symbols matter more than its quotes.
    const inner = kind === 2 && /^"\(?(\w+\[|Sym\()/.test(found[0]) ? symbols(found[0]) : found[0];
    parts.push(h(`span.${TOKEN_CLASS[kind]}`, inner));
    end = found.index + found[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

function symbols(text) {
  return text.split(/\b([su]\d+)\b/).map((part, index) => (index % 2 ? h("span.t-symbol", part) : part));
}

function codeBlock(text, highlight = python) {
  if (text === null) return h("p.note", "Left out to keep the page small; tlparse shows it.");
  const pre = h("pre.code");
  const more = inParts(text.replace(/\n+$/, "").split("\n"), (line) => h("div.line", h("code", highlight(line))), pre, 400);
  return h("div.code-frame", copyButton(text), pre, more);
}

function copyButton(text) {
  const button = h("button.copy", { type: "button", title: "Copy" }, "copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      button.textContent = "not allowed";
    }
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
  return button;
}

function section(id, title, note, ...body) {
  return h("section", { id, "aria-label": title }, h("h2", h("a.anchor", { href: anchorOf(id), "aria-hidden": "true", tabindex: "-1" }, "#"), title), note ? h("p.note", note) : null, body);
}

const STATE = {
  static: "static",
  dynamic: "dynamic",
  specialised: "specialised",
  unbacked: "unbacked",
};

function stateChip([state, value, symbol, range, reason]) {
  if (!state) return h("span.dim", "–");
  const kind = own(STATE, state) || "static";
  const shown = state === "dynamic" || state === "unbacked" ? symbol || "any" : value ?? "?";
  const more = state === "dynamic" && range && rangeText(range) !== "any" ? ` ${rangeText(range)}` : "";
  return h(`span.state.${kind}`, { title: `${state}: ${reason || ""}` }, h("b", shown), more);
}

function rangeText(range) {
  const found = /^\[(-?\w+), (-?\w+)\]$/.exec(range);
  if (!found) return range;
  const [, low, high] = found;
  if (low === high) return `= ${low}`;
  if (high === "int_oo") return low === "0" || low === "-int_oo" ? "any" : `≥ ${low}`;
  return low === "0" || low === "-int_oo" ? `≤ ${high}` : `${low}…${high}`;
}

const COLOURS = 10;
const colourOf = (f, key) => `c${POSITIONS.get(key) % COLOURS}`;

// "x.size()[0] = 10" with the sources that matter for the function.
function sizesText(f, sizes) {
  const sources = Object.keys(f.table);
  const shown = sources.filter((source) => own(sizes, source) !== undefined);
  const listed = shown.length ? shown : Object.keys(sizes).filter((source) => /^L\['\w+'\](\.size|$)/.test(source)).slice(0, 4);
  return listed.map((source) => `${short(source)} = ${sizes[source]}`).join(", ");
}

function meter(parts) {
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  if (!total) return h("span.dim", "–");
  return h(
    "div.meter",
    { role: "img", "aria-label": parts.map(([name, value]) => `${name} ${duration(value)}`).join(", ") },
    parts.map(([name, value], index) => h(`span.stage-${index % 6}`, { css: { flex: `${value / total} 0 0` }, title: `${name}: ${duration(value)}` })),
  );
}

function legend(names) {
  return h("div.legend", names.map((name, index) => h("span", h(`i.stage-${index % 6}`), name)));
}

function empty(text) {
  return h("p.empty", text);
}
