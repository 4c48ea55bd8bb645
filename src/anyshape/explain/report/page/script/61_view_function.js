// A function: which sizes go where, over time, and what each entry made of them.

function viewFunction(key) {
  const f = functionOf(key);
  if (!f) return viewMissing("function", key);
  const sums = sumsOf(f);
  const entries = f.entries.map(entryOf);
  const stages = stagesOf(compilesOf(f).map(({ attempt }) => attempt));
  return [
    crumbs(f),
    h("h1", h("span.mono", clip(functionName(f), 80)), " ", h("small.dim", { title: f.file }, `${baseName(f.file)}:${f.line}`)),
    h("p.facts", plural(entries.length, "entry", "entries"), " · ", plural(sums.recompiles, "recompile"), " · ", plural(sums.hits, "hit"), " · ", sums.eager_calls ? `${plural(sums.eager_calls, "call")} as plain Python · ` : null, `${duration(sums.seconds)} to compile`),
    drawStanding(f),
    drawBody(f),
    section("tree", "Which sizes go where", "The path of a call: each condition is one of the program, each box at the end is a compiled entry.", drawTree(f)),
    adviceFor(f),
    section("timeline", "Sizes over time", null, drawTimeline(f)),
    section("states", "What each entry made of each size", "Green is dynamic: any value will do. Grey is static: another value needs another entry. Amber was dynamic, and a line of the program specialized it.", stateTable(f)),
    section("recompiles", "Why it was recompiled", null, recompileList(f)),
    section("entries", "Entries", null, entryTable(f)),
    stages.size ? section("stages", "Time by stage", null, stageTable(stages)) : null,
    section("operators", "Operators", null, drawOperators(f)),
    f.profile.length ? section("profile", "Profile before and after", "What was known of sizes when the run began, and what the next run will know; each ? is more than one value.", profileTable(f)) : null,
  ];
}

// All of its lines, or those of the part that it is.
function drawBody(f) {
  const part = / \(lines (\d+)-(\d+)\)$/.exec(f.name);
  const lines = part ? linesBetween(f.file, Number(part[1]), Number(part[2])) : bodyOf(f.file, f.line);
  if (!lines.length) return excerpt([f.file, f.line, ""], 2);
  const first = lines.slice(0, MOST_BODY_LINES);
  const rest = lines.slice(MOST_BODY_LINES);
  return [drawLines(f.file, f.line, "", first, null), rest.length ? fold(`${plural(rest.length, "more line")}`, () => drawLines(f.file, rest[0][0], "", rest, null)) : null];
}

const MOST_BODY_LINES = 40;

function crumbs(f, ...more) {
  const process = processOf(f.process);
  return h("nav.crumbs", { "aria-label": "where you are" }, h("a", { href: href("overview") }, "overview"), DATA.processes.length > 1 ? [" / ", processName(process)] : null, " / ", functionLink(f), more);
}

function viewMissing(what, key) {
  return [h("h1", "Not in this trace"), h("p", `There is no ${what} `, h("code", clip(key, 100)), " here. "), h("a", { href: href("overview") }, "To the overview")];
}

function stateTable(f) {
  const sources = Object.keys(f.table);
  if (!sources.length) return empty("No size or integer changed, and none is dynamic.");
  const most = 24;
  const keys = f.entries.slice(0, most);
  const rows = sources.map((source) => [h("th", { scope: "row", title: source }, h("code", clip(short(source), 44))), ...f.table[source].slice(0, most).map(stateChip)]);
  const head = ["", ...keys.map((key) => h("th", { scope: "col" }, entryLink(key)))];
  return [table(head, rows, "grid", 60), f.entries.length > most ? h("p.note", `The first ${most} of ${f.entries.length} entries; each entry has its own page.`) : null];
}

function recompileList(f) {
  const found = compilesOf(f).filter(({ attempt }) => isRecompile(attempt));
  if (!found.length) return empty("It was not: the first entry served all calls.");
  const list = h("ol.reasons");
  const more = inParts(found, ({ entry, attempt, index }) => h("li", h("div.reason-head", entryLink(entry.key, index), h("span.dim", clock(attempt.time)), attempt.recompile.every((r) => !r.is_size) ? badge("not about sizes", "plain", "neither a size nor an integer: making things dynamic will not help here") : null), reasonList(attempt)), list, 20);
  return [list, more];
}

// The reason that counts is that of the entry which came closest: the last one.
function reasonList(attempt) {
  const reasons = [...attempt.recompile].reverse();
  const last = reasons[0];
  return [
    h("p.reason", h("b", short(last.words)), last.entry || last.id ? [" – entry ", last.entry ? entryLink(last.entry) : last.id] : null),
    excerpt(placeOf(last.place)),
    reasons.length > 1 ? fold(`and ${plural(reasons.length - 1 + attempt.more_reasons, "other entry", "other entries")}`, () => h("ul", reasons.slice(1).map((r) => h("li", r.entry ? entryLink(r.entry) : r.id, " ", short(r.words), placeOf(r.place) ? [" ", placeText(placeOf(r.place))] : null)), attempt.more_reasons ? h("li.dim", `and ${attempt.more_reasons} more`) : null)) : null,
  ];
}

function entryTable(f) {
  const rows = f.entries.map(entryOf).map((entry) => () => {
    const symbols = entry.attempts.flatMap((attempt) => attempt.symbols);
    const last = entry.attempts[0].recompile.slice(-1)[0];
    return [
      h("span", h(`i.swatch.${colourOf(f, entry.key)}`), entryLink(entry.key)),
      statusBadge(entry.status),
      number(entry.hits),
      duration(entry.seconds),
      meter([...stagesOf(entry.attempts)]),
      h("div.chips", symbols.slice(0, 4).map((symbol) => h(`span.state.${symbol.fixed ? "specialised" : symbol.value === null ? "unbacked" : "dynamic"}`, symbol.name))),
      last ? h("span", { title: last.text }, clip(short(last.words), 60)) : h("span.dim", "the first"),
    ];
  });
  return table(["entry", "", "hits", "time", "stages", "symbols", "because"], rows, "list", 100);
}

function drawOperators(f) {
  const share = f.operators;
  if (!share.graphs) return empty("There is no graph.");
  const called = share.called.length + share.without.length;
  return [
    h("p", share.native ? `${number(share.native)} of ${number(share.operators)} operators are native code, in ${plural(share.foreign_calls, "native call")}.` : "No operator is native code."),
    called ? table(["torch is called for", "why", "in"], [...share.called.map(([name, why, keys]) => [h("code", name), why, keyList(keys)]), ...share.without.map(([why, keys]) => [h("i", "the whole graph"), why, keyList(keys)])], "list", 50) : h("p.note", "Nothing calls torch."),
  ];
}

function keyList(keys) {
  const unique = [...new Set(keys)];
  return h("span.keys", unique.slice(0, 8).map((key) => [entryLink(key), " "]), unique.length > 8 ? h("span.dim", `+${unique.length - 8}`) : null);
}

function profileTable(f) {
  const rows = f.profile.map(([source, before, after]) => h(before !== after && (before || after.includes("?")) ? "tr.differs" : "tr", h("td", h("code", { title: source }, clip(short(source), 60))), h("td.mono", before || h("span.dim", "not known")), h("td.mono", after || h("span.dim", "not known"))));
  return table(["source", "before", "after"], rows, "list", 60);
}
