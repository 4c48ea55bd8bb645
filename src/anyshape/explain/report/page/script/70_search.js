// Search: functions, entries, symbols, sizes, guards, reasons, files.

let INDEX = null;

// Made when somebody searches for the first time.
function searchIndex() {
  if (INDEX) return INDEX;
  INDEX = [];
  const add = (kind, text, more, to) => INDEX.push({ kind, text: String(text), more: String(more || ""), to, low: `${text} ${more || ""}`.toLowerCase() });
  for (const f of ALL_FUNCTIONS) {
    add("function", functionName(f), `${f.file}:${f.line}`, href("function", f.key));
    for (const source of Object.keys(f.table)) add("size", short(source), functionName(f), href("function", f.key, "states"));
    for (const [name, why] of f.operators.called) add("operator", name, why, href("function", f.key, "operators"));
  }
  for (const entry of ALL_ENTRIES) {
    const name = functionName(functionOf(entry.function));
    add("entry", entry.id, name, href("entry", entry.key));
    entry.attempts.forEach((attempt) => {
      for (const symbol of attempt.symbols) add("symbol", symbol.name, `${short(symbol.source)} in ${entry.id} ${symbol.reason}`, href("entry", entry.key, `symbol-${symbol.name}`));
      for (const guard of attempt.assumed) add("guard", short(guard.text), `${entry.id} ${guard.expr} ${guard.reason} ${placeName(guard.place)}`, href("entry", entry.key, "symbols"));
      for (const reason of attempt.recompile) add("recompile", short(reason.words), `${entry.id} ${placeName(reason.place)}`, href("entry", entry.key));
      for (const found of attempt.breaks) add("graph break", found.reason, `${entry.id} ${placeName(found.place)}`, href("entry", entry.key));
      if (attempt.stopped) add("not compiled", clip(attempt.stopped.reason), entry.id, href("entry", entry.key));
    });
    for (const graph of entry.graphs) add("graph", clip(graph.operators.join(" "), 200), entry.id, href("entry", entry.key, "graphs"));
  }
  DATA.advice.forEach((each) => add("advice", each.title, `${each.file}:${each.line}`, href("advice")));
  return INDEX;
}

function placeName(number) {
  const place = placeOf(number);
  return place ? `${baseName(place[0])}:${place[1]}` : "";
}

function search(text, most = 40) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const item of searchIndex()) {
    if (!words.every((word) => item.low.includes(word))) continue;
    const low = item.text.toLowerCase();
    found.push([low === text.toLowerCase() ? 0 : low.startsWith(words[0]) ? 1 : low.includes(words[0]) ? 2 : 3, item]);
  }
  found.sort((a, b) => a[0] - b[0]);
  return found.slice(0, most).map(([, item]) => item);
}

function searchBox() {
  const results = h("ul.results", { role: "listbox", id: "results", hidden: true });
  const input = h("input", { type: "search", id: "search", placeholder: "Search functions, sizes, symbols, guards…", "aria-label": "search", role: "combobox", "aria-expanded": "false", "aria-controls": "results", autocomplete: "off", spellcheck: "false" });
  let chosen = 0;
  const close = () => {
    results.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const choose = (index) => {
    const items = results.querySelectorAll("[role=option]");
    if (!items.length) return;
    chosen = (index + items.length) % items.length;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === chosen)));
    items[chosen].scrollIntoView({ block: "nearest" });
  };
  const draw = () => {
    const found = search(input.value);
    results.replaceChildren(...(found.length ? found.map((item) => h("li", { role: "option", "aria-selected": "false" }, h("a", { href: item.to, tabindex: "-1" }, h("span.kind", item.kind), h("span.mono", clip(item.text, 60)), h("span.dim", clip(item.more, 70))))) : [h("li.none", "Nothing has that in it.")]));
    results.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!results.hidden));
    choose(0);
  };
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(draw, 60);
  });
  input.addEventListener("focus", () => input.value.trim() && draw());
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      clearTimeout(waiting);
      if (results.hidden) draw();
      const link = results.querySelectorAll("[role=option] a")[chosen];
      if (link) {
        location.hash = link.getAttribute("href");
        close();
        input.blur();
      }
    } else if (event.key === "Escape") {
      close();
      input.blur();
    }
  });
  results.addEventListener("click", close);
  document.addEventListener("click", (event) => {
    if (!results.contains(event.target) && event.target !== input) close();
  });
  return h("div.search", input, results);
}
