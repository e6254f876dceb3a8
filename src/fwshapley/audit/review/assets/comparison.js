// A suspect beside its nearest neighbors: pictures, rows with what differs, or labels alone.
const LARGE = 0.5; // standard deviations of a column from which on two numbers differ markedly
const LONG = 40; // letters of a text from which on its words are compared
const ALIKE = 0.5; // share of words in common from which on those that are not are marked
let differingOnly = data.columns.length > 30;

function showComparison(point) {
  const neighbors = point.neighbors.map((place) => data.entries[place]);
  const parts = [];
  if (point.picture) parts.push(pictures(point, neighbors));
  if (point.row) parts.push(...table(point, neighbors));
  if (!parts.length && neighbors.length) {
    parts.push(make("ol", {}, ...neighbors.map((neighbor) => make("li", {}, `${titled(neighbor)}: `, labelChip(neighbor, point)))));
  }
  byId("comparison").replaceChildren(...(neighbors.length ? [make("h3", {}, summarize(neighbors))] : []), ...parts);
}

// How many neighbors have which label, the most frequent first.
function summarize(neighbors) {
  const counts = new Map();
  for (const { label } of neighbors) counts.set(label, (counts.get(label) || 0) + 1);
  const listed = [...counts].sort((a, b) => b[1] - a[1]).map(([label, count]) => `${count} × ${label}`).join(", ");
  return `${neighbors.length === 1 ? "Nearest neighbor" : `${neighbors.length} nearest neighbors`}: ${listed}`;
}

const relation = (neighbor, point) => (neighbor.label === point.label ? "same" : neighbor.label === point.suggested ? "suggested" : "other");

function labelChip(neighbor, point) {
  const kind = relation(neighbor, point);
  const told = { same: "same label", suggested: "suggested label", other: "another label" }[kind];
  return make("span", { class: `chip ${kind}` }, neighbor.label, make("span", { class: "visually-hidden" }, ` (${told})`));
}

// A picture; one that is enlarged shows its pixels.
function picture(entry, alt = entry.name) {
  const image = make("img", { src: entry.picture, alt, title: entry.name });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < image.clientWidth));
  return image;
}

function pictures(point, neighbors) {
  const chip = make("span", { class: "chip same" }, point.label);
  const suspect = make("figure", { class: "large" }, picture(point), make("figcaption", {}, chip, " the suspect"));
  const others = neighbors.filter((neighbor) => neighbor.picture).map((neighbor) =>
    make("figure", { class: relation(neighbor, point) }, picture(neighbor), make("figcaption", {}, labelChip(neighbor, point))));
  return make("div", { class: "pictures" }, suspect, make("div", { class: "neighbors" }, ...others));
}

// Whether two cells differ: texts that are not the same, or numbers that are far apart for their column.
function differs(cell, other, spread) {
  if (cell === other) return false;
  if (spread === null || !cell.trim() || !other.trim()) return true;
  return Math.abs(Number(cell) - Number(other)) > LARGE * spread;
}

// A cell with what differs from the suspect marked: the cell, or words of a long text that is much like the suspect's.
function compareCell(cell, other, spread) {
  const isLong = Math.max(cell.length, other.length) > LONG;
  if (!differs(cell, other, spread)) return make("td", isLong ? { class: "long" } : {}, cell);
  if (!isLong) return make("td", { class: "differs" }, make("mark", {}, cell || "(empty)"));
  const known = new Set(other.split(/\s+/));
  const words = cell.split(/(\s+)/);
  const isKnown = (word) => !word.trim() || known.has(word);
  const isAlike = words.filter((word) => word.trim() && known.has(word)).length >= (ALIKE * words.length) / 2;
  return make("td", { class: "long differs" }, ...words.map((word) => (!isAlike || isKnown(word) ? word : make("mark", {}, word))));
}

function table(point, neighbors) {
  const others = neighbors.filter((neighbor) => neighbor.row);
  const head = make("tr", {}, make("th", { scope: "col" }, ""), make("th", { scope: "col", class: "own" }, titled(point)),
    ...others.map((neighbor) => make("th", { scope: "col" }, titled(neighbor))));
  const labels = make("tr", { class: "labels" }, make("th", { scope: "row" }, "label"),
    make("td", { class: "own" }, make("span", { class: "chip same" }, point.label)),
    ...others.map((neighbor) => make("td", {}, labelChip(neighbor, point))));
  const rows = data.columns.map((column, place) => {
    const own = point.row[place];
    const cells = others.map((neighbor) => compareCell(neighbor.row[place], own, data.spreads[place]));
    const isEqual = !cells.some((cell) => cell.matches(".differs"));
    const row = make("tr", {}, make("th", { scope: "row" }, column), make("td", { class: own.length > LONG ? "own long" : "own" }, own), ...cells);
    row.hidden = differingOnly && isEqual && others.length > 0;
    row.dataset.equal = String(isEqual);
    return row;
  });
  const only = make("input", { type: "checkbox", checked: differingOnly });
  only.addEventListener("change", () => {
    differingOnly = only.checked;
    for (const row of rows) row.hidden = differingOnly && row.dataset.equal === "true";
  });
  const region = make("div", { class: "rows", tabindex: "0", role: "region", "aria-label": "The row and its neighbors" },
    make("table", {}, make("thead", {}, head, labels), make("tbody", {}, ...rows)));
  const legend = make("p", { class: "soft" }, make("mark", {}, "Marked"), " cells differ from the suspect: other texts, words of long texts that are alike, or numbers more than half a standard deviation away. ",
    make("label", { class: "only" }, only, " only columns that differ"));
  return others.length ? [legend, region] : [region];
}
