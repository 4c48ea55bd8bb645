// Which sizes go where: questions, answers, entries, and the graphs of each.

const MOST_BRANCHES = 8;
// Questions this deep are folded at first.
const DEEPEST = 6;

function drawTree(f) {
  if (!f.tree) return empty("Nothing of this function was compiled.");
  const root = h("div.box.root", h("span.mono.strong", clip(functionName(f), 24)), h("span.dim", plural(sumsOf(f).hits + sumsOf(f).compiles, "call")));
  const tree = h("div.tree", { role: "group", "aria-label": "which sizes go where" }, h("div.node", root, h("div.children", drawBranch(f, "", f.tree, 0))));
  return [zoomButtons(tree), fitted(tree)];
}

// From left to right where there is room, else one below the other.
function fitted(tree) {
  let width = 0;
  new ResizeObserver(() => {
    if (tree.clientWidth === width) return;
    width = tree.clientWidth;
    tree.classList.remove("stacked");
    if (tree.scrollWidth > width + 1) tree.classList.add("stacked");
  }).observe(tree);
  return tree;
}

function zoomButtons(tree) {
  let scale = 1;
  const button = (text, title, factor) => {
    const made = h("button", { type: "button", title }, text);
    made.addEventListener("click", () => {
      scale = factor ? Math.min(2, Math.max(0.3, scale * factor)) : 1;
      for (const node of tree.children) node.style.zoom = scale;
    });
    return made;
  };
  return h("div.zoom", { role: "group", "aria-label": "size of the tree" }, button("−", "Smaller", 1 / 1.25), button("1:1", "As it was"), button("+", "Larger", 1.25));
}

function drawBranch(f, answer, node, depth) {
  const tone = own({ yes: "yes", no: "no" }, answer) || "other";
  return h("div.branch", answer ? h(`span.answer.${tone}`, short(answer)) : null, node.entry ? drawLeaf(f, node) : drawQuestion(f, node, depth));
}

const leavesBelow = (node) => (node.entry ? 1 : node.branches.reduce((sum, [, to]) => sum + leavesBelow(to), 0));

function drawQuestion(f, node, depth) {
  const place = placeOf(node.place);
  const line = place ? (own(own(DATA.sources, place[0]) || {}, String(place[1])) || "").trim() : "";
  const box = h(
    "div.box.question",
    { title: node.question },
    h("span.mono.strong", node.question ? clip(short(node.question), 60) : "tried in this order"),
    place && line ? h("code.where", clip(line, 44)) : null,
    place ? placeText(place) : null,
  );
  const children = h("div.children");
  const more = inParts(node.branches, ([answer, to]) => drawBranch(f, answer, to, depth + 1), children, MOST_BRANCHES);
  more.classList.add("in-tree");
  const whole = h("div.node", box, h("div.children-column", children, more));
  put(box, [foldButton(whole, leavesBelow(node), depth >= DEEPEST)]);
  return whole;
}

function foldButton(node, leaves, isFolded) {
  const button = h("button.fold-node", { type: "button" });
  const show = (folded) => {
    node.classList.toggle("folded", folded);
    button.textContent = folded ? `+ ${plural(leaves, "entry", "entries")}` : "− fold";
    button.setAttribute("aria-expanded", String(!folded));
  };
  button.addEventListener("click", () => show(!node.classList.contains("folded")));
  show(isFolded);
  return button;
}

function drawLeaf(f, node) {
  const entry = entryOf(node.entry);
  const states = Object.entries(f.table)
    .map(([source, cells]) => [source, cells[POSITIONS.get(node.entry)]])
    .filter(([, state]) => state && state[0]);
  const conditions = node.conditions.filter(([question]) => !states.some(([source, state]) => question === `${source} == ${state[1]}`));
  const box = h(
    `div.box.leaf.${colourOf(f, node.entry)}`,
    h("div.leaf-head", entryLink(node.entry), h("span.dim", plural(entry.hits, "hit"), " · ", duration(entry.seconds))),
    states.slice(0, 4).map(([source, state]) => h("div.leaf-line", h("span.mono.dim", { title: source }, clip(short(source), 28)), " ", stateChip(state))),
    states.length > 4 ? h("div.dim", `and ${states.length - 4} more sizes`) : null,
    conditions.slice(0, 3).map(([question, answer, place]) => h("div.leaf-line.mono", { title: question }, answer ? "" : "not ", clip(short(question), 44), placeOf(place) ? h("span.dim", ` ${baseName(placeOf(place)[0])}:${placeOf(place)[1]}`) : null)),
    conditions.length > 3 ? h("div.dim", `and ${plural(conditions.length - 3, "more condition")}`) : null,
    drawServed(f, entry),
  );
  const segments = drawSegments(entry);
  return h("div.node", box, segments);
}

// The sizes that went here, as often as they did.
function drawServed(f, entry) {
  const texts = entry.sizes.map(([sizes, count]) => [servedText(f, sizes), count]).filter(([text]) => text);
  if (!texts.length) return null;
  const shown = texts.slice(0, 6);
  const left = texts.length - shown.length + entry.more_sizes;
  return h("div.served", h("span.dim", "went here: "), shown.map(([text, count]) => h("span.size", { title: `${plural(count, "call")}` }, text, count > 1 ? h("small", ` ×${count}`) : null)), left > 0 ? h("span.dim", `+${left}`) : null);
}

function servedText(f, sizes) {
  const values = Object.keys(f.table).map((source) => own(sizes, source)).filter((value) => value !== undefined);
  return values.slice(0, 5).join(" × ");
}

// Graphs of an entry whose way depends on data.
function drawSegments(entry) {
  if (entry.graphs.length < 2) return null;
  const roots = entry.graphs.filter((graph) => graph.after === null);
  const seen = new Set();
  const draw = (graph, answer) => {
    seen.add(graph);
    const place = placeOf(graph.place);
    const box = h(
      "a.box.segment",
      { href: href("entry", entry.key, "graphs") },
      h("span.mono", `graph ${graph.number}`),
      h("span.dim", plural(graph.operators.length, "operator")),
      graph.asks ? h("span.where", { title: graph.asks }, clip(graph.asks, 60)) : null,
      place ? placeText(place) : null,
    );
    const below = entry.graphs.filter((other) => other.after === graph.number && other !== graph && !seen.has(other));
    return h("div.branch", answer ? h("span.answer.other", clip(answer, 20)) : null, h("div.node", box, below.length ? h("div.children", below.slice(0, 20).map((other) => draw(other, other.outcome))) : null));
  };
  return h("div.children.segments", roots.slice(0, 8).map((graph) => draw(graph, "")));
}
