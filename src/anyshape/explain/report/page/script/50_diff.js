// Two graphs side by side. Lines are matched without their sizes and numbers, so that what is the
// same but for those stands in one row, with the differing parts marked.

// Names that are let go of at the end of a line say nothing about the graph.
const withoutFrees = (line) => line.replace(/;\s+[\w\s=]+= None$/, "");
const codeLines = (text) => text.replace(/\n+$/, "").split("\n").map(withoutFrees);

const plainLine = (line) => line.replace(/,? *\w+: "Sym\([^"]*\)"/g, "").replace(/\[[^\][]*\]/g, "[]").replace(/\b(?:[su]\d+|\d+(?:\.\d+)?)\b/g, "0").trim();

// The rows of a diff: [left, right], one of them null where a line is on one side only.
function matchLines(left, right) {
  const a = left.map(plainLine);
  const b = right.map(plainLine);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const rows = [];
  for (let i = 0; i < start; i++) rows.push([left[i], right[i]]);
  const m = a.length - end - start;
  const n = b.length - end - start;
  if (m * n > 4e6) {
    for (let i = 0; i < Math.max(m, n); i++) rows.push([i < m ? left[start + i] : null, i < n ? right[start + i] : null]);
  } else rows.push(...longestCommon(left, right, a, b, start, m, n));
  for (let i = end; i > 0; i--) rows.push([left[left.length - i], right[right.length - i]]);
  return rows;
}

function longestCommon(left, right, a, b, start, m, n) {
  const width = n + 1;
  const best = new Uint32Array((m + 1) * width);
  for (let i = m - 1; i >= 0; i--) {
    for (let j = n - 1; j >= 0; j--) {
      best[i * width + j] = a[start + i] === b[start + j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const rows = [];
  let i = 0;
  let j = 0;
  while (i < m || j < n) {
    if (i < m && j < n && a[start + i] === b[start + j]) rows.push([left[start + i++], right[start + j++]]);
    else if (j >= n || (i < m && best[(i + 1) * width + j] >= best[i * width + j + 1])) rows.push([left[start + i++], null]);
    else rows.push([null, right[start + j++]]);
  }
  return rows;
}

const PARTS = /(\s+|[A-Za-z_]\w*|\d+(?:\.\d+)?|[^\sA-Za-z_\d])/g;

// The parts of a line that the other line does not have.
function markParts(mine, other) {
  const a = mine.match(PARTS) || [];
  const b = other.match(PARTS) || [];
  if (a.length * b.length > 40000) return [h("mark", mine)];
  const rows = commonParts(a, b);
  return a.map((part, index) => (rows.has(index) ? part : h("mark", part)));
}

function commonParts(a, b) {
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const common = new Set();
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) {
      common.add(i++);
      j++;
    } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
    else j++;
  }
  return common;
}

function drawDiff(left, right) {
  if (left === null || right === null) return h("p.note", "One of the graphs was left out to keep the page small.");
  const rows = matchLines(codeLines(left), codeLines(right));
  const body = h("tbody");
  let a = 0;
  let b = 0;
  const more = inParts(rows, ([mine, other]) => {
    const isSame = mine === other;
    const kind = isSame ? "same" : mine === null ? "added" : other === null ? "removed" : "changed";
    const cell = (text, against, count, side) => [h("td.n", text === null ? "" : count), h(`td.code-side.${side}`, text === null ? "" : h("code", isSame || against === null ? text : markParts(text, against)))];
    if (mine !== null) a++;
    if (other !== null) b++;
    return h(`tr.${kind}`, cell(mine, other, a, "left"), cell(other, mine, b, "right"));
  }, body, 300);
  const changed = rows.filter(([mine, other]) => mine !== other).length;
  return h("div", h("p.note", changed ? `${plural(changed, "line")} of ${rows.length} differ.` : "The graphs are the same, letter by letter: only their guards differ."), h("div.scroll", h("table.diff", body), more));
}
