// What is reviewed, what was decided, and what is shown.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const STORE = `fwshapley-review:${data.digest}`;
const COLUMNS = ["index", "name", "label", "decision", "new_label"];

const suspects = data.points.map((point, rank) => ({ ...point, ...data.entries[point.entry], rank }));
const page = {
  current: 0, // rank of the suspect that is shown
  shown: suspects, // those that pass the filters
  cut: 1, // number of suspects to review
  decisions: new Map(), // { decision, label } by rank
  history: [], // what undo goes back to
  isKept: true, // whether the browser keeps decisions
};

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function tell(message, isBad = false) {
  byId("status").textContent = message;
  byId("status").classList.toggle("bad", isBad);
}

// A share in whole percent; not 0 or 100 unless it is.
function percent(share) {
  const rounded = Math.round(100 * share);
  if (rounded === 100 && share < 1) return "> 99 %";
  return rounded === 0 && share > 0 ? "< 1 %" : `${rounded} %`;
}


const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
// What an entry is called: a number needs a noun, such as row 8; the path of a picture does not.
const titled = (entry) => (/^\d+$/.test(entry.name) ? `${data.noun} ${entry.name}` : entry.name);
const labelOf = (point) => page.decisions.get(point.rank)?.label ?? point.label;
const isCorrected = (point) => labelOf(point) !== point.label;
const canAccept = (point) => point.suggested !== point.label;

// What giving a label to a suspect means.
const choose = (point, label) => ({
  decision: label === point.label ? "keep" : label === point.suggested ? "accept" : "other", label,
});

function describe(point) {
  const found = page.decisions.get(point.rank);
  if (!found) return "undecided";
  return { accept: `accepted ${found.label}`, keep: `kept ${point.label}`, skip: "skipped", other: `changed to ${found.label}` }[found.decision];
}

// ---- decisions ------------------------------------------------------------------------------------------------------

// Make decisions that can be undone together; null clears one.
function change(decisions) {
  page.history.push({ current: page.current, before: decisions.map(([rank]) => [rank, page.decisions.get(rank) ?? null]) });
  put(decisions);
}

function put(decisions) {
  for (const [rank, decision] of decisions) {
    if (decision) page.decisions.set(rank, decision);
    else page.decisions.delete(rank);
  }
  remember();
}

// Go back to before the last change; returns how many decisions that concerns.
function undo() {
  const { current, before } = page.history.pop();
  page.current = current;
  put(before);
  return before.length;
}

// Suspects whose suggestions a bulk decision would accept.
const acceptable = () => page.shown.filter((point) => point.rank < page.cut && canAccept(point) && !page.decisions.has(point.rank));

// ---- what the browser keeps -----------------------------------------------------------------------------------------

function remember() {
  const { current, cut, decisions } = page;
  try {
    localStorage.setItem(STORE, JSON.stringify({ current, cut, decisions: [...decisions], shortcuts: byId("shortcuts").checked }));
  } catch {
    if (page.isKept) tell("This browser does not keep decisions: export them before you close the page.", true);
    page.isKept = false;
  }
}

function recall() {
  let kept = null;
  try {
    kept = JSON.parse(localStorage.getItem(STORE));
  } catch {
    page.isKept = false;
  }
  if (!kept) return;
  Object.assign(page, { current: kept.current, cut: kept.cut, decisions: new Map(kept.decisions) });
  byId("shortcuts").checked = kept.shortcuts;
}

// ---- files ----------------------------------------------------------------------------------------------------------

const inOrder = () => suspects.filter((point) => page.decisions.has(point.rank));

function decisionRows() {
  return [COLUMNS, ...inOrder().map((point) => {
    const { decision, label } = page.decisions.get(point.rank);
    return [point.index, point.name, point.label, decision, decision === "skip" ? "" : label];
  })];
}

const correctedRows = () => [["index", "name", "label"],
  ...inOrder().filter(isCorrected).map((point) => [point.index, point.name, labelOf(point)])];

function download(name, rows) {
  const link = make("a", { href: URL.createObjectURL(new Blob([writeCsv(rows)], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Return the decisions of a file on suspects of this page, and how many are on others.
function readDecisions(text) {
  const { names, rows } = readCsv(text);
  const absent = COLUMNS.filter((name) => !names.map((one) => one.trim()).includes(name));
  if (absent.length) throw new Error(`has no column ${absent.join(", ")}`);
  const byName = new Map(suspects.map((point) => [point.name, point]));
  const known = new Set(data.classes);
  const decisions = [];
  for (const { line, name, label, decision, new_label: wanted } of rows) {
    const point = byName.get(name);
    if (!point) continue;
    if (label !== point.label) throw new Error(`line ${line}: ${name} has the label ${point.label} here, not ${label}`);
    if (!["accept", "keep", "skip", "other"].includes(decision)) throw new Error(`line ${line}: unknown decision ${decision}`);
    const isChange = decision === "accept" || decision === "other";
    if (isChange && !known.has(wanted)) throw new Error(`line ${line}: unknown label ${wanted}`);
    decisions.push([point.rank, decision === "skip" ? { decision, label } : choose(point, isChange ? wanted : label)]);
  }
  return { decisions, others: rows.length - decisions.length };
}
