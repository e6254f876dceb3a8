// Counts, the cut-off up to which suspects are reviewed, and filters.
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

// How many of the suspects above the cut-off have wrong labels, in words.
function expectation() {
  const share = data.precision[page.cut - 1];
  const wrong = Math.round(page.cut * share);
  if (page.cut === 1) return `The first has a wrong label with a probability of ${percent(share)}.`;
  const verb = wrong === 1 ? "has a wrong label" : "have wrong labels";
  return `About ${wrong.toLocaleString("en")} of the first ${page.cut.toLocaleString("en")} ${verb} (${percent(share)}).`;
}

function showCut() {
  const { cut } = page;
  byId("cut").value = byId("slide").value = String(cut);
  byId("expected").textContent = expectation();
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
