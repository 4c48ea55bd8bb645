// The calls of a function from left to right: a lane for each size that changes.

const LANE = 92;
const LEFT = 190;
const RIGHT = 24;
const WIDTH = 1000;
const MOST_LANES = 4;
const MOST_LINES = 40;
const MOST_LARGE = 250;

function drawTimeline(f) {
  const { sources, points, left_out } = f.timeline;
  if (!points.length) return empty("No call of it is in the trace.");
  const holder = h("div.timeline");
  let byTime = false;
  let lanes = MOST_LANES;
  const draw = () => {
    const shown = sources.slice(0, lanes);
    holder.replaceChildren(timelinePicture(f, shown, points, byTime));
  };
  const button = (text, isTime) =>
    h("button", { type: "button", "aria-pressed": String(byTime === isTime), on: { click: (event) => {
      byTime = isTime;
      for (const other of event.target.parentNode.children) other.setAttribute("aria-pressed", String(other === event.target));
      draw();
    } } }, text);
  draw();
  const bar = h("div.toolbar", h("div.choice", { role: "group", "aria-label": "horizontal axis" }, button("call by call", false), button("by time", true)));
  if (sources.length > lanes) {
    const more = h("button", { type: "button" }, `all ${sources.length} sizes`);
    more.addEventListener("click", () => {
      lanes = sources.length;
      more.remove();
      draw();
    });
    put(bar, [more]);
  }
  const notes = [h("span.key", h("i.dot"), "served by an entry"), h("span.key", h("i.diamond"), "compiled"), h("span.key", h("i.diamond.bad"), "failed, or ran eagerly")];
  put(bar, [h("div.legend", notes)]);
  return h("div", bar, holder, left_out > 0 ? h("p.note", `${number(left_out)} more calls were served and are not drawn.`) : null);
}

function timelinePicture(f, sources, points, byTime) {
  const times = points.map((point) => point[0]);
  const low = Math.min(...times);
  const span = Math.max(...times) - low || 1;
  const x = (index) => LEFT + ((WIDTH - LEFT - RIGHT) * (byTime ? (times[index] - low) / span : points.length > 1 ? index / (points.length - 1) : 0.5));
  const lanes = Math.max(sources.length, 1);
  const height = lanes * LANE + 44;
  const svg = s("svg.chart", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `sizes of ${functionName(f)} over its calls` });
  // Where compiles stand close together, not each has room for its name, nor for a whole line.
  const marks = points.map((point, index) => index).filter((index) => points[index][2] !== "hit");
  const isDense = marks.length > MOST_LINES || points.length > MOST_LARGE;
  if (isDense) svg.classList.add("dense");
  let free = 0;
  for (const index of marks) {
    const name = entryOf(points[index][3]).id;
    const isNamed = x(index) - name.length * 4 >= free;
    if (isNamed) free = x(index) + name.length * 4 + 4;
    put(svg, [compileMark(f, points[index], x(index), isDense ? 26 : height - 24, isNamed)]);
  }
  sources.forEach((source, lane) => put(svg, [drawLane(f, source, lane, points, x)]));
  if (!sources.length) put(svg, [s("text.label", { x: 0, y: 50 }, "no sizes were told")]);
  put(svg, [s("text.tick", { x: LEFT, y: height - 6 }, byTime ? clock(low) : "first call"), s("text.tick.end", { x: WIDTH - RIGHT, y: height - 6 }, byTime ? `+${duration(span)}` : "last call")]);
  return svg;
}

function compileMark(f, point, x, end, isNamed) {
  const [time, , what, key, attempt] = point;
  const entry = entryOf(key);
  const tone = what === "compiled" ? "" : ".bad";
  return s(
    "a",
    { href: href("entry", key), "aria-label": `compile ${entry.id}` },
    s("title", {}, `${entry.id} ${attempt ? ordinal(attempt) + " " : ""}${what} at ${clock(time)}, ${duration(entry.attempts[attempt].seconds)}`),
    s(`line.compile${tone}`, { x1: x, x2: x, y1: 18, y2: end }),
    isNamed ? s(`text.compile-id${tone}`, { x, y: 12 }, entry.id) : null,
  );
}

function drawLane(f, source, lane, points, x) {
  const top = 24 + lane * LANE;
  const index = f.timeline.sources.indexOf(source);
  const values = points.map((point) => point[5][index]);
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known);
  const high = Math.max(...known);
  const log = low > 0 && high / low > 40;
  const place = (value) => (log ? Math.log(value / low) / Math.log(high / low) : high > low ? (value - low) / (high - low) : 0.5);
  const y = (value) => top + LANE - 22 - place(value) * (LANE - 40);
  const group = s("g", {}, s("line.axis", { x1: LEFT, x2: WIDTH - RIGHT, y1: top + LANE - 12, y2: top + LANE - 12 }));
  put(group, [s("text.label", { x: 0, y: top + 20 }, s("title", {}, source), clip(short(source), 20))]);
  if (log) put(group, [s("text.tick", { x: 0, y: top + 36 }, "logarithmic")]);
  for (const value of new Set([low, high])) {
    if (Number.isFinite(value)) put(group, [s("text.tick.end", { x: LEFT - 12, y: y(value) + 4 }, number(value)), s("line.grid", { x1: LEFT - 6, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) })]);
  }
  const path = [];
  points.forEach((point, i) => {
    if (values[i] !== null) path.push(`${path.length ? "L" : "M"}${x(i).toFixed(1)} ${y(values[i]).toFixed(1)}`);
  });
  put(group, [s("path.trend", { d: path.join("") })]);
  points.forEach((point, i) => {
    if (values[i] !== null) put(group, [pointMark(f, point, values[i], x(i), y(values[i]), source, points.length > MOST_LARGE ? 0.6 : 1)]);
  });
  return group;
}

function pointMark(f, point, value, x, y, source, scale) {
  const [time, calls, what, key] = point;
  const title = s("title", {}, `${short(source)} = ${value}${calls > 1 ? `, ${calls} calls in a row` : ""} · ${what === "hit" ? "served by" : what} ${entryOf(key).id} · ${clock(time)}`);
  const colour = colourOf(f, key);
  if (what === "hit") return s(`circle.hit.${colour}`, { cx: x, cy: y, r: scale * Math.min(4 + Math.log2(calls) / 2, 8) }, title);
  const tone = what === "compiled" ? colour : "bad";
  const r = 7 * scale;
  return s("a", { href: href("entry", key) }, s(`path.made.${tone}`, { d: `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z` }, title));
}

// All compiles of all functions over time.
function drawCompiles(functions) {
  const shown = [...functions].sort((a, b) => sumsOf(b).seconds - sumsOf(a).seconds).slice(0, 12);
  const all = shown.flatMap((f) => compilesOf(f).map((compile) => ({ f, ...compile })));
  if (!all.length) return null;
  const low = Math.min(...all.map(({ attempt }) => attempt.time));
  const high = Math.max(...all.map(({ attempt }) => attempt.time + attempt.seconds));
  const span = high - low || 1;
  const row = 24;
  const height = shown.length * row + 26;
  const x = (time) => LEFT + ((WIDTH - LEFT - RIGHT) * (time - low)) / span;
  const svg = s("svg.chart", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": "compiles over time" });
  shown.forEach((f, lane) => {
    const y = lane * row + 4;
    put(svg, [s("a", { href: href("function", f.key) }, s("text.label", { x: 0, y: y + 14 }, s("title", {}, `${f.file}:${f.line}`), clip(functionName(f), 24))), s("line.grid", { x1: LEFT, x2: WIDTH - RIGHT, y1: y + 20, y2: y + 20 })]);
    for (const { entry, attempt, index } of compilesOf(f)) {
      const width = Math.max(x(attempt.time + attempt.seconds) - x(attempt.time), 3);
      const tone = attempt.status === "compiled" ? colourOf(f, entry.key) : "bad";
      put(svg, [s("a", { href: href("entry", entry.key) }, s(`rect.bar.${tone}`, { x: x(attempt.time), y: y + 2, width, height: 15, rx: 2 }, s("title", {}, `${entry.id} ${index ? ordinal(index) + " " : ""}${attempt.status}, ${duration(attempt.seconds)} at ${clock(attempt.time)}`)))]);
    }
  });
  put(svg, [s("text.tick", { x: LEFT, y: height - 6 }, clock(low)), s("text.tick.end", { x: WIDTH - RIGHT, y: height - 6 }, `+${duration(span)}`)]);
  return svg;
}
