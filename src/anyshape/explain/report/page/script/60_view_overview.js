// The first page: what happened, in numbers and in one picture.

function viewOverview() {
  const functions = ALL_FUNCTIONS;
  const standing = functions.filter(standingOf);
  const sum = (name) => functions.reduce((total, f) => total + sumsOf(f)[name], 0);
  const hits = sum("hits");
  const compiles = sum("compiles");
  const eager = sum("eager_calls");
  const calls = compiles + hits + eager;
  const saves = DATA.advice.reduce((total, each) => total + (each.saves || 0), 0);
  const tiles = [
    [compiles, "compiles", `${number(sum("recompiles"))} because no entry fitted`, sum("recompiles") ? "warn" : "good"],
    [hits, "calls served", calls ? `${((100 * hits) / calls).toFixed(hits && (calls - hits) / hits < 0.01 ? 2 : 0)}% of all calls seen` : "", ""],
    ...(eager ? [[eager, "eager calls", "ran as plain Python", "warn"]] : []),
    [duration(sum("seconds")), "spent compiling", plural(sum("graphs"), "graph"), ""],
    [sum("breaks"), "graph breaks", "data-dependent branches", sum("breaks") ? "warn" : ""],
    [standing.length, "not compiled whole", standing.length ? Object.entries(STANDINGS).map(([kind, [text]]) => [standing.filter((f) => standingOf(f) === kind).length, text]).filter(([count]) => count).map(([count, text]) => `${number(count)} ${text}`).join(", ") : "every function is", standing.length ? "warn" : "good"],
  ];
  if (DATA.advice.length) tiles.splice(1, 0, [saves, "could be spared", plural(DATA.advice.length, "piece of advice", "pieces of advice"), saves ? "warn" : "good"]);
  const stages = stagesOf(functions.flatMap(compilesOf).map(({ attempt }) => attempt));
  return [
    h("h1", "What was compiled, and why"),
    drawProcesses(),
    drawProblems(),
    h("div.tiles", tiles.map(([value, name, note, tone]) => h(`div.tile.${tone || "plain"}`, h("b", typeof value === "number" ? number(value) : value), h("span", name), h("small", note)))),
    drawDivergence(),
    DATA.advice.length ? section("advice", "What to change first", null, DATA.advice.slice(0, 3).map(drawAdviceCard), h("p", h("a", { href: href("advice") }, "All advice"))) : null,
    standing.length ? section("not-compiled", "Not compiled as a whole", "What stands in the way of each function, with the line.", drawStandings(standing)) : null,
    section("compiles", "Compiles over time", "One row a function, those that took longest first; each bar is a compile, and leads to it.", drawCompiles(functions) || empty("Nothing was compiled.")),
    stages.size ? section("stages", "Time by stage", null, stageTable(stages)) : null,
    section("functions", "Functions", "Those that took longest to compile first.", functionTable(functions)),
  ];
}

function drawStandings(functions) {
  const list = h("div.standings");
  const more = inParts(functions, (f) => h("div.standing", h("h3", functionLink(f), " ", h("span.dim", `${baseName(f.file)}:${f.line}`)), drawStanding(f)), list, 10);
  return [list, more];
}

function drawStanding(f) {
  const kind = standingOf(f);
  if (!kind) return null;
  const [text, tone, meaning] = STANDINGS[kind];
  const stopped = stoppedOf(f);
  const parts = partsOf(f);
  return h(
    `div.notice.${tone}`,
    h("p", badge(text, tone), " ", f.limit ? `It was compiled ${f.limit[0]} times, the recompile limit: calls that match no entry run eagerly. Last reason: ${f.limit[1]}` : meaning),
    stopped ? [h("p", h("b", stopped.reason)), excerpt(placeOf(stopped.place)), hintList(stopped.hints)] : null,
    parts.length ? h("p", "Parts: ", parts.slice(0, 12).map((part) => [functionLink(part), " "]), parts.length > 12 ? h("span.dim", `+${parts.length - 12}`) : null) : null,
  );
}

function stageTable(stages) {
  const parts = [...stages];
  const total = parts.reduce((sum, [, value]) => sum + value, 0);
  return h("div", meter(parts), h("div.legend", parts.map(([name, value], index) => h("span", h(`i.stage-${index % 6}`), `${name} ${duration(value)} (${Math.round((100 * value) / (total || 1))}%)`))));
}

function drawProcesses() {
  const shown = DATA.processes.slice(0, 16);
  const rows = shown.map((p) => h("span.process", { title: `${p.file}\n${p.folder}` }, h("b", processName(p)), DATA.processes.length > 1 ? h("code", clip(p.command, 50)) : null, h("span.dim", `${day(p.started)} · torch ${p.versions.torch} · Python ${p.versions.python} · ${p.host}`)));
  return h("div.processes", rows, DATA.processes.length > shown.length ? h("span.dim", `and ${DATA.processes.length - shown.length} more`) : null, DATA.runs ? h("p.note", `The traces are of ${DATA.runs.sides.length} runs. `, h("a", { href: href("runs") }, "Compare the runs")) : null);
}

function drawProblems() {
  const defects = DATA.processes.flatMap((p) => p.defects);
  return [
    DATA.problems.length ? h("div.notice.bad", { role: "alert" }, h("b", "The trace is not complete. "), h("ul", DATA.problems.map((text) => h("li", text)))) : null,
    defects.length ? fold(`${plural(defects.length, "note")} of the compiler about itself`, () => h("ul", defects.map((text) => h("li", text)))) : null,
  ];
}

function drawDivergence() {
  const diverged = DATA.ranks.flatMap((launch) => launch.functions).filter((f) => f.first_divergence !== null);
  if (!diverged.length) return null;
  return h("div.notice.warn", h("b", `${plural(diverged.length, "function")} went different ways on different ranks. `), h("a", { href: href("ranks") }, "Compare the ranks"));
}

function functionTable(functions) {
  if (!functions.length) return empty("There is no function in this trace.");
  const sorted = [...functions].sort((a, b) => sumsOf(b).seconds - sumsOf(a).seconds);
  const several = DATA.processes.length > 1;
  const rows = sorted.map((f) => () => {
    const sums = sumsOf(f);
    const changing = Object.keys(f.table);
    return [
      [functionLink(f), h("div.dim", `${baseName(f.file)}:${f.line}`)],
      several ? processName(processOf(f.process)) : null,
      number(f.entries.length),
      sums.recompiles ? badge(number(sums.recompiles), "warn") : "0",
      number(sums.hits),
      duration(sums.seconds),
      h("div.chips", changing.slice(0, 3).map((source) => h("code.chip", { title: source }, clip(short(source), 28))), changing.length > 3 ? h("span.dim", `+${changing.length - 3}`) : null),
      [standingOf(f) ? badge(...STANDINGS[standingOf(f)]) : null, sums.breaks ? badge(plural(sums.breaks, "graph break"), "warn") : null],
    ].filter((cell) => cell !== null);
  });
  const head = ["function", several ? "process" : null, "entries", "recompiles", "hits", "time", "sizes that change", ""].filter((text) => text !== null);
  return table(head, rows, "list", 60);
}
