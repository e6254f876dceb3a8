// The page itself: what it shows, and what keys and buttons do.
const MAX_CHIPS = 10; // classes with a button and a key of their own

// ---- the suspect ----------------------------------------------------------------------------------------------------

const label = (name, kind) => make("strong", { class: `chip ${kind}` }, name);

function showSuspect() {
  const point = suspects[page.current];
  byId("name").textContent = `${point.rank + 1} of ${suspects.length.toLocaleString("en")}: ${titled(point)}`;
  byId("labels").replaceChildren("Labeled ", label(point.label, "same"), ...(canAccept(point)
    ? [", suggested ", label(point.suggested, "suggested"), ` (${percent(point.likely)} likely)`] : [", and no other label is more likely"]),
    `. Probability that the label is wrong: ${percent(point.wrong)}. `, make("span", { id: "decided" }, ""));
  byId("reasons").replaceChildren(...point.reasons.map((reason) => make("li", {}, reason)));
  byId("accept").replaceChildren(make("kbd", {}, "A"), canAccept(point) ? ` Accept ${point.suggested}` : " Accept");
  byId("keep").replaceChildren(make("kbd", {}, "K"), ` Keep ${point.label}`);
  showChips(point);
  showComparison(point);
}

// Labels with a key of their own: all classes if they are few, else those of the suspect and its neighbors.
function choices(point) {
  if (data.classes.length <= MAX_CHIPS) return data.classes;
  return [...new Set([point.suggested, ...point.neighbors.map((place) => data.entries[place].label)])].slice(0, MAX_CHIPS - 1);
}

// The key of the label at a place: its own digit if all labels are digits, else its number.
function keyOf(names, place) {
  return names.every((name) => /^\d$/.test(name)) ? names[place] : String((place + 1) % 10);
}

function showChips(point) {
  const names = choices(point);
  byId("chips").replaceChildren(...names.map((name, place) => {
    const button = make("button", { type: "button" }, make("kbd", {}, keyOf(names, place)), ` ${name}`);
    button.addEventListener("click", () => decide(choose(point, name)));
    return button;
  }));
  const isComplete = data.classes.length <= MAX_CHIPS;
  byId("class").hidden = isComplete;
  byId("class").value = "";
}

function showDecision() {
  const point = suspects[page.current];
  const found = page.decisions.get(point.rank);
  const decided = byId("decided");
  decided.replaceChildren(...(found ? [make("strong", {}, `You ${describe(point)}.`), " "] : []));
  if (found) {
    const clear = make("button", { type: "button", "aria-keyshortcuts": "X" }, make("kbd", {}, "X"), " Clear");
    clear.addEventListener("click", clearDecision);
    decided.append(clear);
  }
  byId("accept").disabled = !canAccept(point);
  byId("accept").setAttribute("aria-pressed", String(found?.decision === "accept"));
  byId("keep").setAttribute("aria-pressed", String(found?.decision === "keep"));
  byId("skip").setAttribute("aria-pressed", String(found?.decision === "skip"));
  byId("undo").disabled = !page.history.length;
  const names = choices(point);
  [...byId("chips").children].forEach((button, place) =>
    button.setAttribute("aria-pressed", String(Boolean(found) && found.decision !== "skip" && found.label === names[place])));
  byId("previous").disabled = neighborOf(-1) === undefined;
  byId("next").disabled = neighborOf(1) === undefined;
}

// ---- counts, cut-off and filters ------------------------------------------------------------------------------------

function showCounts() {
  const all = [...page.decisions.values()];
  const corrected = inOrder().filter(isCorrected).length;
  const above = [...page.decisions.keys()].filter((rank) => rank < page.cut).length;
  const of = (kind) => all.filter(({ decision }) => decision === kind).length;
  byId("count").textContent = `${above} of the first ${page.cut.toLocaleString("en")} decided. In all: ${corrected} corrected, ${of("keep")} kept, ${of("skip")} skipped.`;
  byId("progress").max = page.cut;
  byId("progress").value = above;
  byId("export").disabled = !all.length;
  byId("export-labels").disabled = !corrected;
  const n = acceptable().length;
  byId("accept-all").disabled = !n;
  byId("accept-all").textContent = n ? `Accept ${counted(n, "suggestion")} above the cut-off` : "Nothing left to accept above the cut-off";
}

function showCut() {
  const { cut } = page;
  const share = data.precision[cut - 1];
  byId("cut").value = byId("slide").value = String(cut);
  const wrong = Math.round(cut * share);
  byId("expected").textContent = cut === 1 ? `It has a wrong label with a probability of ${percent(share)}.`
    : `About ${wrong.toLocaleString("en")} of these ${cut.toLocaleString("en")} ${wrong === 1 ? "has a wrong label" : "have wrong labels"} (${percent(share)}).`;
  const line = byId("curve").querySelector("line");
  const x = String((100 * cut) / suspects.length);
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
}

// The proposed cut-off: up to where labels are more likely wrong than right.
function proposal() {
  const end = suspects.findIndex((point) => point.wrong < 0.5);
  return end < 0 ? suspects.length : Math.max(end, 1);
}

function drawCurve() {
  const step = Math.max(1, Math.floor(suspects.length / 200));
  const heights = data.precision.filter((_, place) => place % step === 0);
  const width = 100 / heights.length;
  const corners = heights.flatMap((share, place) => [place * width, (place + 1) * width].map((x) => `${x},${100 - 100 * share}`));
  byId("curve").querySelector("polygon").setAttribute("points", ["0,100", ...corners, "100,100"].join(" "));
}

function setCut(number) {
  page.cut = Math.min(Math.max(Math.round(number) || 1, 1), suspects.length);
  showCut();
  showCounts();
  drawOverview();
  remember();
}

function fillFilters() {
  for (const [id, key] of [["by-label", "label"], ["by-suggested", "suggested"]]) {
    const counts = new Map();
    for (const point of suspects) counts.set(point[key], (counts.get(point[key]) || 0) + 1);
    const options = data.classes.filter((name) => counts.has(name)).map((name) => make("option", { value: name }, `${name} (${counts.get(name)})`));
    byId(id).replaceChildren(make("option", { value: "" }, "all"), ...options);
  }
}

function passes(point) {
  const [given, suggested, state] = ["by-label", "by-suggested", "by-state"].map((id) => byId(id).value);
  const found = page.decisions.get(point.rank);
  const isInState = { "": true, undecided: !found, decided: Boolean(found), corrected: isCorrected(point) }[state];
  return (!given || point.label === given) && (!suggested || point.suggested === suggested) && (isInState ?? found?.decision === state);
}

function applyFilters() {
  page.shown = suspects.filter(passes);
  byId("shown").textContent = page.shown.length === suspects.length ? counted(suspects.length, "suspect")
    : `${page.shown.length.toLocaleString("en")} of ${counted(suspects.length, "suspect")}`;
}

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
    + `${page.cut.toLocaleString("en")}${isFiltered ? " that pass the filters" : ""}. About ${percent(data.precision[page.cut - 1])} of the first `
    + `${page.cut.toLocaleString("en")} have wrong labels. Undo takes all of them back.`;
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
};

function pressKey(event) {
  if (!byId("shortcuts").checked || event.ctrlKey || event.metaKey || event.altKey || byId("confirm").open) return;
  const target = event.target;
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
  on("class", "change", (event) => event.target.value && decide(choose(current(), event.target.value)));
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
    on(id, "change", () => {
      applyFilters();
      if (page.shown.length && !page.shown.some((point) => point.rank === page.current)) page.current = page.shown[0].rank;
      render();
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
  byId("class").replaceChildren(make("option", { value: "" }, "choose …"), ...data.classes.map((name) => make("option", { value: name }, name)));
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
