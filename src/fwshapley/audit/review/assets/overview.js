// The list of suspects, or a grid of them: only what is in view is part of the page, so that thousands stay fast.
const OVERSCAN = 2; // lines beyond the visible ones
const MARKS = { accept: "✓", other: "✎", keep: "=", skip: "?" };
const items = new Map(); // elements in view by rank

function layout() {
  const box = byId("overview");
  const style = getComputedStyle(box);
  const [width, height] = ["--item-width", "--item-height"].map((name) => parseFloat(style.getPropertyValue(name)));
  const columns = width ? Math.max(1, Math.floor(box.clientWidth / width)) : 1;
  return { box, height, columns };
}

function drawOverview() {
  const { box, height, columns } = layout();
  const first = columns * Math.max(0, Math.floor(box.scrollTop / height) - OVERSCAN);
  const last = Math.min(page.shown.length, columns * (Math.ceil((box.scrollTop + box.clientHeight) / height) + OVERSCAN));
  const inView = page.shown.slice(first, last);
  const ranks = new Set(inView.map((point) => point.rank));
  for (const [rank, item] of items) {
    if (ranks.has(rank)) continue;
    item.remove();
    items.delete(rank);
  }
  const canvas = byId("canvas");
  canvas.style.height = `${Math.ceil(page.shown.length / columns) * height}px`;
  let next = canvas.firstChild;
  inView.forEach((point, offset) => {
    if (!items.has(point.rank)) items.set(point.rank, makeItem(point));
    const item = items.get(point.rank);
    if (item === next) next = next.nextSibling;
    else canvas.insertBefore(item, next);
    const place = first + offset;
    item.style.top = `${Math.floor(place / columns) * height}px`;
    item.style.left = `${(100 * (place % columns)) / columns}%`;
    item.style.width = `${100 / columns}%`;
    updateItem(item, point, place);
  });
  if (items.has(page.current)) box.setAttribute("aria-activedescendant", `suspect-${page.current}`);
  else box.removeAttribute("aria-activedescendant");
}

function makeItem(point) {
  const item = make("div", { id: `suspect-${point.rank}`, role: "option" },
    ...(point.picture ? [picture(point, "")] : []),
    make("span", { class: "title" }, `${point.rank + 1}. ${titled(point)}`),
    make("span", { class: "change" }, make("span", {}, point.label), " → ", make("span", {}, "")),
    make("span", { class: "reason" }, point.reasons[0] ?? ""),
    make("span", { class: "wrong" }, percent(point.wrong)),
    make("span", { class: "mark", "aria-hidden": "true" }, ""));
  item.addEventListener("click", () => open(point.rank));
  return item;
}

function updateItem(item, point, place) {
  const found = page.decisions.get(point.rank);
  const before = page.shown[place - 1];
  item.className = `item ${found ? found.decision : "undecided"}`;
  item.classList.toggle("below", point.rank >= page.cut);
  item.classList.toggle("first-below", point.rank >= page.cut && (!before || before.rank < page.cut));
  item.querySelector(".change").lastChild.textContent = found?.decision === "keep" ? point.label : isCorrected(point) ? found.label : point.suggested;
  item.querySelector(".mark").textContent = found ? MARKS[found.decision] : "";
  item.setAttribute("aria-selected", String(point.rank === page.current));
  item.setAttribute("aria-posinset", String(place + 1));
  item.setAttribute("aria-setsize", String(page.shown.length));
  item.title = `${point.rank + 1}. ${titled(point)}: ${point.label}, suggested ${point.suggested}, wrong with ${percent(point.wrong)}, ${describe(point)}`;
  item.setAttribute("aria-label", item.title);
}

// Scroll so that the current suspect is in view.
function revealCurrent() {
  const { box, height, columns } = layout();
  const place = page.shown.findIndex((point) => point.rank === page.current);
  if (place < 0) return;
  const top = Math.floor(place / columns) * height;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
}

const isGrid = () => byId("grid").getAttribute("aria-pressed") === "true";

function setGrid(isOn) {
  byId("grid").setAttribute("aria-pressed", String(isOn));
  document.body.classList.toggle("grid", isOn);
  revealCurrent();
  drawOverview();
}
