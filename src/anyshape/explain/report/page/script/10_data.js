// The trace, and how its values are said.

const DATA = JSON.parse(document.getElementById("data").textContent);

const own = (object, key) => (Object.prototype.hasOwnProperty.call(object, key) ? object[key] : undefined);
const entryOf = (key) => own(DATA.entries, key);
const functionOf = (key) => own(DATA.functions, key);
const processOf = (key) => DATA.processes.find((process) => process.key === key);
const placeOf = (number) => (number === null || number === undefined ? null : DATA.places[number]);
const textOf = (number) => (number === null ? null : DATA.texts[number]);
const ALL_ENTRIES = Object.values(DATA.entries);
const ALL_FUNCTIONS = Object.values(DATA.functions);

function plural(count, one, many) {
  return `${number(count)} ${count === 1 ? one : many || `${one}s`}`;
}

function number(value) {
  return Number(value).toLocaleString("en-US");
}

function duration(seconds) {
  if (seconds >= 100) return `${Math.round(seconds)} s`;
  if (seconds >= 1) return `${seconds.toFixed(1)} s`;
  if (seconds >= 0.001) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return seconds > 0 ? `${Math.max(Math.round(seconds * 1e6), 1)} µs` : "–";
}

function clock(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(11, 23);
}

function day(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
}

// L['x'].size()[0] as people write it: x.size()[0]
function short(text) {
  return String(text).replace(/\bL\['([A-Za-z_]\w*)'\]/g, "$1");
}

function baseName(file) {
  return String(file).split(/[\\/]/).pop() || String(file);
}

function clip(text, most = 90) {
  const flat = String(text).replace(/\s+/g, " ");
  return flat.length > most ? `${flat.slice(0, most - 1)}…` : flat;
}

function processName(process) {
  const run = process.run ? `${process.run} ` : "";
  if (process.rank !== null) return `${run}rank ${process.rank}`;
  if (process.run && DATA.processes.filter((each) => each.run === process.run).length === 1) return process.run;
  return run + (DATA.processes.length > 1 ? `process ${process.pid}` : process.command || `process ${process.pid}`);
}

const functionName = (f) => f.name || `function ${f.number}`;

function compilesOf(f) {
  return f.entries.map(entryOf).flatMap((entry) => entry.attempts.map((attempt, index) => ({ entry, attempt, index })));
}

const isRecompile = (attempt) => attempt.recompile.length > 0;

const SUMS = new Map();
function sumsOf(f) {
  if (!SUMS.has(f.key)) {
    const compiles = compilesOf(f);
    const count = (test) => compiles.filter(test).length;
    SUMS.set(f.key, {
      compiles: compiles.length,
      recompiles: count(({ attempt }) => isRecompile(attempt)),
      failed: count(({ attempt }) => attempt.status === "failed"),
      eager: count(({ attempt }) => attempt.status === "eager"),
      unfinished: count(({ attempt }) => attempt.status === "unfinished"),
      hits: f.hits,
      eager_calls: f.eager_calls,
      seconds: compiles.reduce((sum, { attempt }) => sum + attempt.seconds, 0),
      graphs: f.entries.reduce((sum, key) => sum + entryOf(key).graphs.length, 0),
      breaks: compiles.reduce((sum, { attempt }) => sum + attempt.breaks.length, 0),
    });
  }
  return SUMS.get(f.key);
}

// How a function that is not simply compiled stands: it gave up, is split into parts, failed, or runs eagerly.
const STANDINGS = {
  limit: ["gave up", "bad", "It hit the recompile limit: calls that match no entry run eagerly."],
  failed: ["failed", "bad", "A compile failed, and it runs eagerly."],
  parts: ["in parts", "warn", "A part of it cannot be traced. There is a graph break: it runs as Python, and the parts between are compiled."],
  eager: ["eager", "warn", "It cannot be traced, and runs eagerly."],
};

function standingOf(f) {
  const sums = sumsOf(f);
  if (f.limit) return "limit";
  if (sums.failed) return "failed";
  if (!sums.eager) return null;
  return partsOf(f).length ? "parts" : "eager";
}

const isPart = (f) => / \(lines \d+-\d+\)$/.test(f.name);
const partsOf = (f) => ALL_FUNCTIONS.filter((other) => isPart(other) && other.process === f.process && other.file === f.file && other.name.startsWith(`${f.name} (lines `));

// What stopped the last compile that was stopped.
function stoppedOf(f) {
  const stopped = compilesOf(f).filter(({ attempt }) => attempt.stopped);
  return stopped.length ? stopped[stopped.length - 1].attempt.stopped : null;
}

function stagesOf(attempts) {
  const sums = new Map();
  for (const attempt of attempts) {
    for (const [name, seconds] of attempt.stages) sums.set(name, (sums.get(name) || 0) + seconds);
  }
  return sums;
}

const similarOf = new Map();
DATA.similar.forEach((group, index) => {
  for (const [key] of group.members) if (!similarOf.has(key)) similarOf.set(key, index);
});

const POSITIONS = new Map(ALL_FUNCTIONS.flatMap((f) => f.entries.map((key, index) => [key, index])));
