// An entry: why it was made, what it relies on, and what it is.

function viewEntry(key) {
  const entry = entryOf(key);
  if (!entry) return viewMissing("entry", key);
  const f = functionOf(entry.function);
  const index = POSITIONS.get(key);
  const neighbour = (offset, text, rel) => {
    const other = f.entries[index + offset];
    return other ? h("a.step", { href: href("entry", other), rel }, text) : h("span.step.dim", text);
  };
  const group = similarOf.get(key);
  const isMade = entry.status === "compiled";
  return [
    crumbs(f, " / ", h("span.mono", entry.id), h("span.steps", neighbour(-1, "‹ previous", "prev"), neighbour(1, "next ›", "next"))),
    h("h1", h(`i.swatch.${colourOf(f, key)}`), h("span.mono", entry.id), " ", statusBadge(entry.status), " ", h("small.dim", clip(functionName(f), 60))),
    h("p.facts", plural(entry.hits, "hit"), " · ", `${duration(entry.seconds)} to compile`, " · ", plural(entry.graphs.length, "graph"), " · ", plural(entry.guards.length, "guard"), group !== undefined ? [" · ", h("a", { href: href("similar", String(group)) }, "similar graphs")] : null),
    entry.attempts.map((attempt, number) => drawAttempt(f, entry, attempt, number)),
    section("sizes", isMade ? "Sizes that it served" : "Sizes of the call", null, servedTable(f, entry)),
    section("symbols", "Symbols", "Where each was created, what guards it, what specialized it, and the compile that followed.", symbolStories(entry)),
    section("decisions", "Static or dynamic, and why", null, decisionTable(entry)),
    isMade ? section("guards", "Guards", null, guardTable(entry)) : null,
    isMade || entry.graphs.length ? section("graphs", "Graphs", null, graphList(entry)) : null,
    isMade ? section("code", "Generated code", null, generated(entry)) : null,
  ];
}

function drawAttempt(f, entry, attempt, number) {
  const several = entry.attempts.length > 1;
  const title = several ? `Compile ${number + 1} of ${entry.attempts.length}` : "The compile";
  const caller = attempt.stack.length ? placeOf(attempt.stack[attempt.stack.length - 1]) : null;
  const body = () => [
    isRecompile(attempt) ? h("div.why", h("h3", "Why no entry matched"), reasonList(attempt)) : number ? h("p", "The call took a branch of the program that the entry did not have yet.") : h("p", "It was the first compile of the function."),
    attempt.stopped ? h("div.notice.bad", h("b", attempt.error || "It runs eagerly: "), h("pre.wrap", attempt.stopped.reason), hintList(attempt.stopped.hints), excerpt(placeOf(attempt.stopped.place))) : null,
    attempt.collective ? collectiveNote(attempt.collective) : null,
    attempt.ignored.map(([source, reason]) => h("div.notice.warn", h("b", `The mark of ${short(source)} is not used. `), reason)),
    attempt.breaks.map((found) => h("div.notice.warn", h("b", "A graph ends: "), found.reason, excerpt(placeOf(found.place)), hintList(found.hints))),
    attempt.defects.length ? h("ul", attempt.defects.map((text) => h("li.dim", text))) : null,
    h("div.pair", h("div", h("h3", `${duration(attempt.seconds)}, by stage`), attempt.stages.length ? [meter(attempt.stages), h("div.legend", attempt.stages.map(([name, value], i) => h("span", h(`i.stage-${i % 6}`), `${name} ${duration(value)}`)))] : empty("The trace does not say.")), h("div", h("h3", "Called from"), caller ? excerpt(caller, 1) : empty("The trace does not say."), attempt.stack.length > 1 ? fold(`${attempt.stack.length} frames`, () => h("ol.stack", attempt.stack.map((p) => h("li", placeText(placeOf(p)), h("span.dim", ` in ${placeOf(p)[2]}`))))) : null)),
  ];
  if (several && number > 2) return fold(title, body);
  return section(`compile-${number + 1}`, title, clock(attempt.time), body());
}

function hintList(hints) {
  return hints.length ? h("ul.hints", hints.map((text) => h("li", text))) : null;
}

function collectiveNote(told) {
  const differing = Object.entries(told.differing);
  return h(
    `div.notice.${told.missing.length ? "bad" : differing.length ? "warn" : "plain"}`,
    h("b", `Ranks ${told.ranks.join(", ")} told each other what they have seen`),
    ` (round ${told.round}, ${duration(told.seconds)}). `,
    told.missing.length ? h("b", `Ranks ${told.missing.join(", ")} did not come. `) : null,
    differing.length ? h("ul", differing.map(([source, what]) => h("li", h("code", short(source)), ` ${what}`))) : null,
  );
}

function servedTable(f, entry) {
  if (!entry.sizes.length) return empty("The trace does not say.");
  const rows = entry.sizes.map(([sizes, count]) => [h("code", sizesText(f, sizes) || "as compiled"), number(count)]);
  return [table(["sizes", "calls"], rows, "list", 40), entry.more_sizes ? h("p.note", `and ${number(entry.more_sizes)} more`) : null];
}

function decisionTable(entry) {
  const attempt = entry.attempts.find((each) => Object.keys(each.decisions).length);
  if (!attempt) return empty("The trace does not say.");
  const f = functionOf(entry.function);
  const index = POSITIONS.get(entry.key);
  const inTable = (source) => (own(f.table, source) || [])[index];
  const rank = ([source]) => (inTable(source) ? 0 : 1);
  const because = (source, reason) => {
    const fixed = attempt.symbols.find((symbol) => symbol.source === source && symbol.fixed);
    return fixed ? [reason, h("div", h("b", "then specialized: "), fixed.fixed.reason, placeOf(fixed.fixed.place) ? [" ", placeText(placeOf(fixed.fixed.place))] : null)] : reason;
  };
  const listed = Object.entries(attempt.decisions).sort((a, b) => rank(a) - rank(b));
  const rows = listed.map(([source, [choice, reason]]) => () => [h("code", { title: source }, clip(short(source), 60)), inTable(source) ? stateChip(inTable(source)) : h("span.state.static", choice), because(source, reason)]);
  return table(["source", "", "because"], rows, "list", 25);
}

function symbolStories(entry) {
  const all = entry.attempts.flatMap((attempt, number) => attempt.symbols.map((symbol) => ({ attempt, number, symbol })));
  if (!all.length) return empty("It has none: every size is static.");
  const list = h("div.stories");
  const more = inParts(all, ({ attempt, number, symbol }) => symbolStory(entry, attempt, number, symbol), list, 12);
  return [list, more];
}

function symbolStory(entry, attempt, number, symbol) {
  const guards = symbol.guards.map((index) => attempt.assumed[index]);
  const state = symbol.fixed ? "specialised" : symbol.value === null ? "unbacked" : "dynamic";
  const left = symbol.ranges.length ? symbol.ranges[symbol.ranges.length - 1] : symbol.range;
  let shown = null;
  // A line that has just been shown is only named.
  const line = (place) => {
    const isNew = place !== shown;
    shown = place ?? shown;
    return isNew ? excerpt(placeOf(place), 1) : placeOf(place) ? [" ", placeText(placeOf(place))] : null;
  };
  const step = (kind, title, note, place) => h(`li.${kind}`, h("b", title), note ? h("span.note", ` ${note}`) : null, line(place));
  const isSame = (guard) => symbol.fixed && guard.place === symbol.fixed.place && guard.reason === symbol.fixed.reason;
  return h(
    "article.story",
    { id: `symbol-${symbol.name}` },
    h("h3", h(`span.state.${state}`, h("b", symbol.name)), " ", symbol.source ? h("code", { title: symbol.source }, short(symbol.source)) : "computed from data", " ", h("span.dim", symbol.fixed ? `= ${symbol.fixed.value}` : rangeText(left)), number ? h("span.dim", ` (${ordinal(number)})`) : null),
    h(
      "ol.steps-list",
      step("born", `Created${symbol.value === null ? ", without a value" : ` as ${symbol.value}`}`, symbol.reason, symbol.place),
      guards.slice(0, 20).map((guard) => step(isSame(guard) ? "specialized" : "guarded", guard.expr, `${guard.reason}${guard.at_run_time ? ", checked at run time" : ""}`, guard.place)),
      guards.length > 20 ? h("li", h("span.dim", `and ${guards.length - 20} more guards`)) : null,
      symbol.replaced_by ? h("li.guarded", h("b", `${symbol.name} = ${symbol.replaced_by}`), h("span.note", " from here on")) : null,
      symbol.fixed ? step("specialized", `Specialized to ${symbol.fixed.value}`, symbol.fixed.reason, symbol.fixed.place) : null,
      symbol.followed.map((next) => h("li.followed", h("b", "Recompiled: ", entryLink(next.entry, next.attempt)), h("span.note", ` ${short(next.text)}`))),
      symbol.more_followed ? h("li.followed", h("span.dim", `and ${plural(symbol.more_followed, "more recompile")}`)) : null,
      symbol.followed.length ? null : h("li.rest", h("span.dim", "No recompile followed from it.")),
    ),
  );
}

function guardTable(entry) {
  if (!entry.guards.length) return empty("It has none.");
  const all = entry.guards.map((index) => DATA.guards[index]);
  const rank = (kind) => (kind === "SHAPE_GUARD" ? 0 : kind === "TENSOR_MATCH" ? 1 : 2);
  const sorted = [...all].sort((a, b) => rank(a[0]) - rank(b[0]));
  const holder = h("div");
  const box = h("input.filter", { type: "search", placeholder: `Filter ${all.length} guards`, "aria-label": "filter guards" });
  const draw = () => {
    const wanted = box.value.toLowerCase();
    const shown = sorted.filter((guard) => !wanted || guard.slice(0, 4).some((text) => text.toLowerCase().includes(wanted)));
    const rows = shown.map(([kind, text, , reason, place]) => () => [h("span.kind", kind), h("code.wrap", short(text)), reason, placeOf(place) ? placeText(placeOf(place)) : ""]);
    holder.replaceChildren(shown.length ? table(["kind", "guard", "because", "line"], rows, "list", 25) : empty("No guard has that in it."));
  };
  box.addEventListener("input", draw);
  draw();
  return [all.length > 10 ? box : null, holder];
}

function graphList(entry) {
  if (!entry.graphs.length) return empty("There is no graph.");
  const list = h("div");
  const more = inParts(entry.graphs, (graph) => h("article.graph", entry.graphs.length > 1 ? h("h3", `Graph ${graph.number}`, graph.after !== null ? h("small.dim", ` after graph ${graph.after}, outcome ${graph.outcome}`) : null) : null, graph.backend.length ? h("ul.backend", graph.backend.map((line) => h("li", line))) : null, codeBlock(textOf(graph.code)), graph.asks ? h("p.note", "It ends here: ", graph.asks) : null), list, 4);
  return [entry.graphs.length > 1 ? h("div.tree", h("div.node", drawSegments(entry))) : null, list, more];
}

function generated(entry) {
  const schedules = entry.attempts.flatMap((attempt) => attempt.schedules);
  const code = entry.attempts.flatMap((attempt) => attempt.code);
  const kernels = entry.attempts.flatMap((attempt) => attempt.kernels);
  const recorded = entry.attempts.flatMap((attempt) => attempt.recorded);
  const lines = (title, items) => items.length ? fold(title, () => h("ul.backend", items.map((line) => h("li", line))), true) : null;
  if (!schedules.length && !code.length && !kernels.length && !recorded.length) return empty("There is none: its graphs run operator by operator, or its kernels were made before.");
  const plain = (line) => line;
  return [lines("Kernels, measured", kernels), lines("CUDA graphs", recorded), schedules.map((text, i) => fold(`Loops${schedules.length > 1 ? ` of kernel ${i + 1}` : ""}`, () => codeBlock(textOf(text), plain), i === 0)), code.map((text, i) => fold(`Machine code${code.length > 1 ? ` ${i + 1}` : ""}, as LLVM has it`, () => codeBlock(textOf(text), plain)))];
}
