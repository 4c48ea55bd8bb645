// Advice, similar graphs, operators, profile, all compiles.

function viewAdvice() {
  const saves = DATA.advice.reduce((total, each) => total + (each.saves || 0), 0);
  return [
    h("h1", "What to change"),
    DATA.advice.length ? h("p.facts", plural(DATA.advice.length, "piece of advice", "pieces of advice"), " · ", saves ? `${plural(saves, "compile")} could be spared` : "") : empty(DATA.advised ? "There is nothing to advise: no compile was avoidable, as far as the trace tells." : "No advice was made for this page."),
    DATA.advice.map(drawAdviceCard),
  ];
}

function drawAdviceCard(advice) {
  const lines = Object.entries(advice.excerpt || {}).map(([n, text]) => [Number(n), String(text)]);
  const settings = Object.entries(advice.environment || advice.settings || {});
  const isMeant = (f) => (!advice.function || f.name === advice.function) && (advice.run === undefined || processOf(f.process).run === advice.run);
  const about = (advice.compile_ids || []).map((id) => ALL_ENTRIES.find((entry) => entry.id === id && isMeant(functionOf(entry.function))) || id);
  return h(
    "article.advice",
    h("h3", h("span.saves", { title: "compiles that this would spare" }, advice.saves ? `−${advice.saves}` : "·"), String(advice.title || ""), " ", advice.run ? badge(advice.run) : null, h("span.kind", String(advice.kind || ""))),
    h("p", String(advice.cause || "")),
    advice.file ? (lines.length ? h("figure.excerpt", h("div.excerpt-head", { title: advice.file }, h("span.mono", `${baseName(advice.file)}:${advice.line}`)), h("pre", lines.map(([n, text]) => h(n === advice.line ? "div.line.here" : "div.line", h("span.n", n), h("code", python(text)))))) : excerpt([advice.file, advice.line, ""])) : null,
    h("p.remedy", h("b", "Do: "), String(advice.remedy || "")),
    advice.patch ? h("div.code-frame", copyButton(advice.patch), h("pre.code.patch", String(advice.patch).trimEnd().split("\n").map((line) => h(`div.line.${line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "context"}`, h("code", line))))) : null,
    settings.length ? h("div.code-frame", copyButton(settings.map(asShell).join(" ")), h("pre.code", settings.map((each) => h("div.line", h("code", asShell(each)))))) : null,
    about.length ? h("p.dim", "About ", about.slice(0, 12).map((entry) => [typeof entry === "string" ? entry : entryLink(entry.key), " "]), about.length > 12 ? `+${about.length - 12}` : null) : null,
  );
}

// Ready to be put before a command.
function asShell([name, value]) {
  const text = String(value);
  return `${name}=${/^[A-Za-z0-9]+$/.test(text) ? text : `"${text.replace(/[\\"$`]/g, "\\$&")}"`}`;
}

function adviceFor(f) {
  const found = DATA.advice.filter((each) => each.function === f.name && (!each.file || each.file === f.file || (each.compile_ids || []).some((id) => id.startsWith(`${f.number}/`))));
  return found.length ? section("advice", "What to change", null, found.map(drawAdviceCard)) : null;
}

function viewSimilar(which) {
  if (which !== undefined) return viewSimilarGroup(which);
  const rows = DATA.similar.map((group, index) => () => {
    const entries = [...new Set(group.members.map(([key]) => key))];
    return [h("a", { href: href("similar", String(index)) }, plural(entries.length, "entry", "entries")), functionLink(functionOf(entryOf(entries[0]).function)), keyList(entries), h("code.wrap", clip(group.operators.join(" → "), 120))];
  });
  return [
    h("h1", "Similar graphs"),
    h("p.note", "Graphs with the same operators in the same order on the same tensors. They differ in sizes and integers only, so that one dynamic graph could be all of them: each of these groups is a chance to compile less."),
    rows.length ? table(["group", "function", "entries", "operators"], rows, "list", 100) : empty("No two entries have similar graphs: there is nothing to unite."),
  ];
}

function viewSimilarGroup(which) {
  const group = own(DATA.similar, which);
  if (!group) return viewMissing("group of similar graphs", which);
  const members = group.members;
  const label = ([key, graph]) => `${entryOf(key).id}${entryOf(key).graphs.length > 1 ? `, graph ${graph}` : ""}`;
  const select = (chosen, name) => h("select", { "aria-label": name }, members.slice(0, 500).map((member, index) => h("option", { value: index, selected: index === chosen }, label(member))));
  const left = select(0, "left graph");
  const right = select(members.length - 1, "right graph");
  const holder = h("div.compare");
  const draw = () => {
    const [a, b] = [members[left.value], members[right.value]];
    const code = ([key, graph]) => textOf(entryOf(key).graphs[graph].code);
    const reasons = entryOf(b[0]).attempts.flatMap((attempt) => attempt.recompile).filter((reason) => reason.entry === a[0]);
    holder.replaceChildren(
      h("div.pair", sizesCard(a), sizesCard(b)),
      reasons.length ? h("div.notice.plain", h("b", "Why the left one did not serve the right call: "), short(reasons[0].words), excerpt(placeOf(reasons[0].place), 1)) : h("p.note", "The trace has no reason between these two."),
      h("section", drawDiff(code(a), code(b))),
      guardDifference(entryOf(a[0]), entryOf(b[0])),
    );
  };
  left.addEventListener("change", draw);
  right.addEventListener("change", draw);
  draw();
  return [h("nav.crumbs", h("a", { href: href("similar") }, "similar graphs"), ` / group ${Number(which) + 1}`), h("h1", `${plural(members.length, "similar graph")}`), h("p.note", h("code.wrap", clip(group.operators.join(" → "), 300))), h("div.toolbar", left, h("span", "against"), right), holder];
}

function sizesCard([key]) {
  const entry = entryOf(key);
  const f = functionOf(entry.function);
  const index = POSITIONS.get(key);
  const states = Object.entries(f.table).map(([source, cells]) => [source, cells[index]]).filter(([, state]) => state && state[0]);
  return h("div.card", h("h3", entryLink(key), h("small.dim", ` ${plural(entry.hits, "hit")}`)), states.slice(0, 8).map(([source, state]) => h("div.leaf-line", h("code", clip(short(source), 40)), " ", stateChip(state))));
}

function guardDifference(a, b) {
  const texts = (entry) => new Map(entry.guards.map((index) => [DATA.guards[index][1], DATA.guards[index]]));
  const [mine, others] = [texts(a), texts(b)];
  const only = (x, y) => [...x.values()].filter((guard) => !y.has(guard[1]));
  const [left, right] = [only(mine, others), only(others, mine)];
  const list = (guards) => h("ul.guards", guards.slice(0, 40).map(([kind, text]) => h("li", h("span.kind", kind), " ", h("code.wrap", short(text)))), guards.length > 40 ? h("li.dim", `+${guards.length - 40}`) : null);
  if (!left.length && !right.length) return h("p.note", "Their guards are the same.");
  return fold(`Guards that one of them has alone: ${left.length} and ${right.length}`, () => h("div.pair", h("div", list(left)), h("div", list(right))));
}

function viewOperators() {
  const rows = ALL_FUNCTIONS.filter((f) => f.operators.graphs);
  return [h("h1", "Native and called operators"), h("p.note", "What became machine code, and for what torch is called, with the reason."), rows.length ? rows.slice(0, 100).map((f) => h("section", h("h2", functionLink(f)), drawOperators(f))) : empty("There is no graph in this trace.")];
}

function viewProfile() {
  const shown = ALL_FUNCTIONS.filter((f) => f.profile.length);
  return [h("h1", "Profile before and after"), h("p.note", "What was known of sizes when the run began, and what the next run will know. Each ? is more than one value: it will be dynamic from the first compile on."), shown.length ? shown.slice(0, 100).map((f) => h("section", h("h2", functionLink(f)), profileTable(f))) : empty("No profile was read or written: config.profile is off, or nothing was compiled.")];
}

function viewCompiles() {
  const all = ALL_FUNCTIONS.flatMap((f) => compilesOf(f).map((compile) => ({ f, ...compile }))).sort((a, b) => a.attempt.time - b.attempt.time);
  const rows = all.map(({ f, entry, attempt, index }) => () => {
    const last = attempt.recompile.slice(-1)[0];
    return [h("span.dim", clock(attempt.time)), entryLink(entry.key, index), functionLink(f), statusBadge(attempt.status), duration(attempt.seconds), meter(attempt.stages), last ? h("span", { title: last.text }, clip(short(last.words), 70)) : h("span.dim", index ? "it grew" : "the first")];
  });
  return [h("h1", "All compiles"), h("p.facts", plural(all.length, "compile"), ", in the order in which they happened"), rows.length ? table(["time", "entry", "function", "", "took", "stages", "because"], rows, "list", 150) : empty("Nothing was compiled.")];
}
