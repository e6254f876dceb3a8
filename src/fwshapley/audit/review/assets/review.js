// The page itself: moving, deciding, and what keys and buttons do.

// ---- moving and deciding --------------------------------------------------------------------------------------------

// Rank of the next suspect in a direction among those shown; undefined at the end.
function neighborOf(direction) {
  const place = direction > 0 ? page.shown.find((point) => point.rank > page.current)
    : page.shown.findLast((point) => point.rank < page.current);
  return place?.rank;
}

function render() {
  applyFilters();
  showSuspect();
  showDecision();
  showCounts();
  revealCurrent();
  drawOverview();
}

function go(rank) {
  if (rank === undefined) return;
  page.current = rank;
  remember();
  render();
}

function showFiltered() {
  applyFilters();
  if (page.shown.length && !page.shown.some((point) => point.rank === page.current)) page.current = page.shown[0].rank;
  render();
  tell(page.shown.length ? "" : "No suspect passes these filters.");
}

function open(rank) {
  setGrid(false);
  go(rank);
}

function decide(decision) {
  const point = suspects[page.current];
  change([[point.rank, decision]]);
  const told = `${titled(point)}: ${describe(point)}.`;
  applyFilters();
  const left = page.shown.filter(({ rank }) => !page.decisions.has(rank));
  const next = left.find(({ rank }) => rank > page.current) ?? left[0];
  if (next) page.current = next.rank;
  remember();
  render();
  tell(next ? `${told} Next: ${titled(next)}, labeled ${next.label}, suggested ${next.suggested}.` : `${told} All suspects shown are decided.`);
}

// Give the label that was typed, if it is one.
function chooseOther(event) {
  event.preventDefault();
  const field = byId("class");
  const name = field.value.trim();
  if (!data.classes.includes(name)) {
    tell(name ? `There is no label ${name}: choose one of the list.` : "Type a label, or choose one of the list.", true);
    return;
  }
  field.blur(); // so that keys are shortcuts again
  decide(choose(suspects[page.current], name));
}

function clearDecision() {
  const point = suspects[page.current];
  if (!page.decisions.has(point.rank)) return;
  change([[point.rank, null]]);
  render();
  tell(`${titled(point)}: decision cleared.`);
}

function goBack() {
  if (!page.history.length) return;
  const number = undo();
  render();
  tell(`Undone: ${counted(number, "decision")}.`);
}

function askToAcceptAll() {
  const chosen = acceptable();
  const isFiltered = page.shown.length < suspects.length;
  byId("question").textContent = `Accept ${counted(chosen.length, "suggestion")}? These are the undecided suspects among the first `
    + `${page.cut.toLocaleString("en")}${isFiltered ? " that pass the filters" : ""}. ${expectation()} Undo takes all of them back.`;
  byId("confirm").returnValue = "";
  byId("confirm").showModal();
}

function acceptAll() {
  const chosen = acceptable();
  change(chosen.map((point) => [point.rank, choose(point, point.suggested)]));
  render();
  tell(`${counted(chosen.length, "suggestion")} accepted.`);
}

async function importFile(event) {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  try {
    const { decisions, others } = readDecisions(await file.text());
    if (!decisions.length) throw new Error("has no decisions on the suspects of this page");
    change(decisions);
    render();
    tell(`${counted(decisions.length, "decision")} imported from ${file.name}.${others ? ` ${counted(others, "line")} left out: not suspects of this page.` : ""}`);
  } catch (error) {
    tell(`${file.name}: ${error.message}. Nothing was imported.`, true);
  }
}

// ---- keys and start -------------------------------------------------------------------------------------------------

const KEYS = {
  a: () => byId("accept").click(), k: () => byId("keep").click(), s: () => byId("skip").click(), u: goBack, x: clearDecision,
  j: () => go(neighborOf(1)), arrowright: () => go(neighborOf(1)), arrowleft: () => go(neighborOf(-1)), g: () => setGrid(!isGrid()),
  o: () => byId("class").focus(),
};

function pressKey(event) {
  if (!byId("shortcuts").checked || event.ctrlKey || event.metaKey || event.altKey || byId("confirm").open) return;
  const target = event.target;
  if (target.id === "cut" && event.key === "Enter") target.blur();
  if (target.matches("select, input:not([type=checkbox], [type=range])")) return;
  const key = event.key.toLowerCase();
  if (target.matches("[type=range]") && key.startsWith("arrow")) return;
  if (target.id === "overview" && moveInList(event)) return;
  const names = choices(suspects[page.current]);
  const place = names.findIndex((_, number) => keyOf(names, number) === event.key);
  if (place >= 0) byId("chips").children[place].click();
  else if (Object.hasOwn(KEYS, key)) KEYS[key]();
  else return;
  event.preventDefault();
}

// Keys of the list that has the focus; whether it was one.
function moveInList(event) {
  const { columns } = layout();
  const place = page.shown.findIndex((point) => point.rank === page.current);
  const step = { ArrowDown: columns, ArrowUp: -columns, Home: -place, End: page.shown.length - 1 - place }[event.key];
  if (event.key === "Enter" && isGrid()) open(page.current);
  else if (step === undefined) return false;
  else go(page.shown[Math.min(Math.max(place + step, 0), page.shown.length - 1)]?.rank);
  event.preventDefault();
  return true;
}

function connect() {
  const on = (id, kind, action) => byId(id).addEventListener(kind, action);
  const current = () => suspects[page.current];
  on("accept", "click", () => decide(choose(current(), current().suggested)));
  on("keep", "click", () => decide(choose(current(), current().label)));
  on("skip", "click", () => decide({ decision: "skip", label: current().label }));
  on("other", "submit", chooseOther);
  on("undo", "click", goBack);
  on("previous", "click", () => go(neighborOf(-1)));
  on("next", "click", () => go(neighborOf(1)));
  on("grid", "click", () => setGrid(!isGrid()));
  on("cut", "change", (event) => setCut(Number(event.target.value)));
  on("slide", "input", (event) => setCut(Number(event.target.value)));
  on("propose", "click", () => setCut(proposal()));
  on("accept-all", "click", askToAcceptAll);
  on("confirm", "close", (event) => event.target.returnValue === "yes" && acceptAll());
  on("export", "click", () => download("decisions.csv", decisionRows()));
  on("export-labels", "click", () => download("corrected_labels.csv", correctedRows()));
  on("import", "change", importFile);
  on("shortcuts", "change", remember);
  for (const id of ["by-label", "by-suggested", "by-state"]) {
    let isPointed = false;
    on(id, "pointerdown", () => { isPointed = true; });
    on(id, "keydown", () => { isPointed = false; });
    on(id, "change", (event) => {
      if (isPointed) event.target.blur(); // so that keys are shortcuts again
      showFiltered();
    });
  }
  on("overview", "scroll", drawOverview);
  addEventListener("resize", drawOverview);
  addEventListener("keydown", pressKey);
  addEventListener("storage", (event) => {
    if (event.key !== STORE) return; // another tab has decided
    recall();
    showCut();
    render();
  });
}

function start() {
  byId("overview").classList.toggle("pictured", suspects.some((point) => point.picture));
  byId("cut").max = byId("slide").max = String(suspects.length);
  byId("propose").textContent = `Proposed: ${proposal().toLocaleString("en")}`;
  byId("propose").title = "Up to here, each label is more likely wrong than right";
  byId("classes").replaceChildren(...data.classes.map((name) => make("option", { value: name })));
  byId("other").hidden = data.classes.length <= MAX_CHIPS;
  byId("notes").hidden = byId("notes").childElementCount < 2;
  page.cut = proposal();
  fillFilters();
  drawCurve();
  recall();
  connect();
  showCut();
  render();
}

start();
