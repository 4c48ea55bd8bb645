// Elements out of plain values. Texts become text nodes: nothing in a trace is ever markup.

const SVG = "http://www.w3.org/2000/svg";

function put(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) put(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "css") {
      for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    } else node.setAttribute(name, value === true ? "" : String(value));
  }
  return node;
}

// h("p.note", {title: "…"}, "text", node, [more])
function h(kind, ...rest) {
  const [tag, ...classes] = kind.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  const first = rest[0];
  const isAttributes = first && typeof first === "object" && !(first instanceof Node) && !Array.isArray(first);
  if (isAttributes) setAll(node, rest.shift());
  return put(node, rest);
}

function s(kind, attributes, ...children) {
  const [tag, ...classes] = kind.split(".");
  const node = document.createElementNS(SVG, tag);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  return put(setAll(node, attributes || {}), children);
}

// What is folded is drawn when it is opened.
function fold(title, draw, isOpen) {
  const details = h("details.fold", h("summary", title));
  let drawn = false;
  const open = () => {
    if (!drawn && details.open) {
      drawn = true;
      put(details, [h("div.fold-body", draw())]);
    }
  };
  details.addEventListener("toggle", open);
  if (isOpen) {
    details.open = true;
    open();
  }
  return details;
}

// Many things, a part at a time.
function inParts(items, draw, into, first = 100, then = Math.max(first, 50)) {
  let drawn = 0;
  let size = first;
  const more = h("button.more", { type: "button" });
  const next = () => {
    const part = items.slice(drawn, drawn + size);
    drawn += part.length;
    size = then;
    put(into, part.map(draw));
    const left = items.length - drawn;
    more.textContent = `Show ${Math.min(size, left)} more of ${left}`;
    more.hidden = left <= 0;
  };
  more.addEventListener("click", next);
  next();
  return more;
}

// A row is a list of cells, an element, or a function that makes one of them when it is shown.
function table(head, rows, kind = "table", size = 200) {
  const body = h("tbody");
  const row = (given) => {
    const cells = typeof given === "function" ? given() : given;
    const isRow = cells instanceof Node;
    return isRow ? cells : h("tr", cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : h("td", cell))));
  };
  const more = inParts(rows, row, body, size);
  const heading = h("thead", h("tr", head.map((text) => (text instanceof Node ? text : h("th", { scope: "col" }, text)))));
  return h("div.scroll", h(kind.includes(".") ? kind : `table.${kind}`, heading, body), more);
}
