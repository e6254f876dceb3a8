// The suspect that is shown: its labels, the reasons, and what was decided.
const MAX_CHIPS = 10; // classes with a button and a key of their own

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
