// Ranks of one run, and runs, side by side.

// field of a tally, name, how it is said, whether less is better
const MEASURED = [
  ["compiles", "compiles", number, true],
  ["recompiles", "recompiles", number, true],
  ["graphs", "graphs", number, false],
  ["breaks", "graph breaks", number, true],
  ["stopped", "not compiled", number, true],
  ["seconds", "compile time", duration, true],
  ["hits", "calls served", number, false],
];

function viewRuns() {
  const runs = DATA.runs;
  if (!runs) return [h("h1", "Runs"), empty("The page is of one run. Give several folders to compare them: anyshape report before after")];
  const counts = new Set(runs.sides.map(([, keys]) => keys.length));
  return [
    h("h1", "Runs compared"),
    h("p.note", "Functions are the same where their name and file are; lines and folders may have changed. Numbers are sums over the processes of a run."),
    counts.size > 1 ? h("div.notice.warn", h("b", "The runs have different numbers of processes: "), runs.sides.map(([name, keys]) => `${name} ${keys.length}`).join(", "), ". Their sums differ for that reason alone.") : null,
    drawComparison(runs, "on the other side", true),
  ];
}

function viewRanks() {
  const launches = DATA.ranks.filter((launch) => launch.processes.length > 1);
  return [
    h("h1", "Ranks"),
    launches.length ? launches.map((launch) => [launches.length > 1 ? h("h2", launchName(launch)) : null, drawLaunch(launch)]) : empty("The trace is of one process, or of processes without ranks."),
  ];
}

function launchName(launch) {
  const first = processOf(launch.processes[0]);
  const [program, ...given] = first.command.split(" ");
  return `${first.run || `Run ${launch.number + 1}`}: ${clip([baseName(program), ...given].join(" "), 60)}`;
}

function drawLaunch(launch) {
  return [
    drawComparison(launch.compared, "on other ranks", false),
    section("steps", "Compile by compile", "The n-th compile of each function on each rank. Functions whose ranks differ come first; what differs is marked.", launch.functions.slice(0, 200).map(drawCompared)),
  ];
}

function drawComparison(compared, elsewhere, isChange) {
  const differing = compared.functions.filter((f) => f.differing.length);
  const same = compared.functions.filter((f) => !f.differing.length);
  const names = compared.sides.map(([name]) => name);
  const list = h("div");
  const more = inParts(differing, (f) => drawDifference(f, names, isChange), list, 30);
  return [
    section("totals", "In numbers", compared.left_out ? `The first ${names.length}; ${compared.left_out} more are left out.` : null, tallyTable(names, compared.totals, isChange)),
    section("differences", differing.length ? plural(differing.length, "function differs", "functions differ") : "No function differs", differing.length ? "What is marked is not the same everywhere. Times count where one is half as long again as another." : `Each has as many compiles, graphs and graph breaks as ${elsewhere}, for the same reasons.`, list, more),
    same.length ? fold(`${plural(same.length, "function")} the same`, () => h("div.keys", same.map((f) => [sideLinks(f), " "]))) : null,
  ];
}

function sideLinks(f) {
  const keys = f.keys.flat();
  return functionLink(functionOf(keys[keys.length - 1]));
}

// "8 → 1"; of many, from the least to the most.
function valuesText(values, said, isChange) {
  if (isChange || values.length <= 2) return values.map((value) => (value === null ? "–" : said(value))).join(isChange ? " → " : " / ");
  const present = values.filter((value) => value !== null);
  return `${said(Math.min(...present))} to ${said(Math.max(...present))}`;
}

function toneOf(values, lessIsBetter, isChange) {
  if (!isChange) return "warn";
  if (!lessIsBetter || values.length !== 2) return "plain";
  return values[1] < values[0] ? "good" : "warn";
}

function presenceBadge(f, names, isChange) {
  if (!f.differing.includes("absent")) return null;
  if (isChange && names.length === 2) return f.tallies[0] ? badge("no longer compiled", "plain") : badge("new", "warn");
  const missing = names.filter((_, side) => !f.tallies[side]);
  return badge(`not on ${missing.slice(0, 4).join(", ")}${missing.length > 4 ? ` +${missing.length - 4}` : ""}`, "warn");
}

function drawDifference(f, names, isChange) {
  const values = (field) => f.tallies.map((tally) => (tally ? tally[field] : null));
  const changed = MEASURED.filter(([field]) => f.differing.includes(field));
  const absent = f.differing.includes("absent");
  const badges = absent && names.length === 2 ? [] : changed.map(([field, name, said, less]) => badge(`${name} ${valuesText(values(field), said, isChange)}`, toneOf(values(field), less, isChange)));
  if (!badges.length && f.differing.includes("causes")) badges.push(badge("other reasons", "warn"));
  return fold(
    h("span", h("b.mono", clip(f.name, 60)), h("span.dim", ` ${baseName(f.file)}:${f.line} `), h("span.chips", presenceBadge(f, names, isChange), badges)),
    () => h("div.beside", tallyTable(names, f.tallies, isChange, f), causeTable(f, names)),
    true,
  );
}

// Sides as columns; where they are many, as rows.
function tallyTable(names, tallies, isChange, f = null) {
  const label = (side) => {
    const key = f && f.keys[side][0];
    return key ? h("a", { href: href("function", key) }, names[side]) : names[side];
  };
  const cell = (tally, [field, , said], isMarked) => h("td", isMarked ? { class: "marked" } : {}, tally ? said(tally[field]) : h("span.dim", "–"));
  // Of two runs the last column says what changed.
  const twoRuns = isChange && names.length === 2;
  const differs = ([field]) => !twoRuns && new Set(tallies.map((tally) => (tally ? tally[field] : null))).size > 1 && (f ? f.differing.includes(field) : field !== "hits" && field !== "seconds");
  if (names.length > 4) {
    return table(["", ...MEASURED.map(([, name]) => name)], tallies.map((tally, side) => () => [h("th", { scope: "row" }, label(side)), ...MEASURED.map((measured) => cell(tally, measured, differs(measured)))]), "table.grid.numbers", 64);
  }
  const rows = MEASURED.filter(([field]) => !f || tallies.some((tally) => tally && tally[field])).map((measured) => [h("th", { scope: "row" }, measured[1]), ...tallies.map((tally) => cell(tally, measured, differs(measured))), twoRuns ? h("td", changeText(tallies, measured)) : null].filter((each) => each !== null));
  return table(["", ...names.map((_, side) => h("th", { scope: "col" }, label(side))), ...(twoRuns ? ["change"] : [])], rows, "table.grid.numbers");
}

function changeText([before, after], [field, , said, less]) {
  if (!before || !after || before[field] === after[field]) return h("span.dim", before && after ? "the same" : "–");
  const by = after[field] - before[field];
  const share = before[field] ? h("small.share", ` ${by > 0 ? "+" : "−"}${Math.round((100 * Math.abs(by)) / before[field])}%`) : null;
  return h(less && field !== "hits" ? (by < 0 ? "span.better" : "span.worse") : "span", `${by > 0 ? "+" : "−"}${said(Math.abs(by))}`, share);
}

function causeTable(f, names) {
  if (!f.causes.length) return null;
  const rows = f.causes.map((cause) => () => {
    const counts = new Set(cause.counts);
    const where = names.length > 4 ? [h("td", valuesText(cause.counts, number, false))] : cause.counts.map((count) => h("td", count ? number(count) : h("span.dim", "–")));
    return h(counts.size > 1 ? "tr.differs" : "tr", h("td", badge(cause.kind, cause.kind === "recompile" ? "plain" : "warn"), " ", h("span.wrap", short(cause.words)), placeOf(cause.place) ? h("div", placeText(placeOf(cause.place))) : null), where);
  });
  return h("div", table(["why", ...(names.length > 4 ? ["times"] : names)], rows, "table.list.causes", 30), f.more_causes ? h("p.note", `and ${f.more_causes} more`) : null);
}

function drawCompared(f) {
  const diverged = f.first_divergence !== null;
  const draw = () => {
    const rows = f.steps.map((step) => h(step.differing.length ? "tr.differs" : "tr", h("th", { scope: "row" }, `compile ${step.number + 1}`, h("div", step.differing.map((what) => badge(what, "warn")))), step.cells.map((cell) => h("td", cell ? rankCell(cell, step) : h("span.badge.bad", "none")))));
    const told = f.steps.flatMap((step) => step.collectives.filter((each) => each)).slice(0, 1);
    return [table(["", ...f.ranks.map((rank) => `rank ${rank}`)], rows, "grid", 40), told.map(collectiveNote)];
  };
  return fold(h("span", h("b.mono", clip(f.name, 60)), h("span.dim", ` ${baseName(f.file)}:${f.line} `), diverged ? badge(`diverges at compile ${f.first_divergence + 1}`, "bad") : badge("the same on all ranks", "good")), draw, diverged);
}

function rankCell(cell, step) {
  const mark = (what, text) => (text ? h(step.differing.includes(what) ? "div.marked" : "div", short(text)) : null);
  return [entryLink(cell.entry, cell.attempt), " ", statusBadge(cell.status), mark("sizes", cell.sizes), mark("decisions", cell.decided), cell.own_guards.length && step.differing.includes("guards") ? fold(plural(cell.own_guards.length, "guard of its own", "guards of its own"), () => h("ul", cell.own_guards.map((text) => h("li", h("code.wrap", short(text)))))) : null];
}
