// The page: a model explains an input once, and sliders re-weigh the answer here.
"use strict";

const byId = (id) => document.getElementById(id);
const PRESETS = [[1, 1, "Shapley"], [16, 1, "Beta(16, 1)"], [4, 1, "Beta(4, 1)"], [1, 4, "Beta(1, 4)"], [1, 16, "Beta(1, 16)"]];
const MAX_BARS = 30;
const page = {
  model: null, instance: null, answer: null, output: 0, order: [], answers: null, token: "", asked: 0,
  refined: null, refining: null,
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

const spell = (value) => (Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential(2)
  : String(+value.toPrecision(3)));
const signed = (value) => (value > 0 ? "+" : "") + spell(value);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- requests -------------------------------------------------------------------------------------------------------

async function send(path, body, signal) {
  const headers = page.token ? { Authorization: `Bearer ${page.token}` } : {};
  const options = body === undefined ? { headers }
    : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer.");
  }
  if (response.ok) return response;
  const content = await response.json().catch(() => ({ error: `The server answered with status ${response.status}.` }));
  if (response.status === 401) byId("login").hidden = false;
  throw new Error(content.error);
}

const ask = async (path, body) => (await send(path, body)).json();

async function explainInstance(instance) {
  const model = page.model;
  const known = model.samples.indexOf(instance);
  if (page.answers) return unpackAnswer(page.answers[known]);
  const parameters = { outputs: "all", coefficients: true };
  if (model.errors.length) Object.assign(parameters, { errors: true, weights: model.errors, total: model.error_total });
  const { explanations } = await ask(`v1/models/${model.name}:explain`, { instances: [instance], parameters });
  const [{ coefficients, predictions, expected_error: errors }] = explanations;
  return { coefficients, predictions, errors: errors || [] };
}

function unpackAnswer(packed) {
  const unpack = ({ shape, data }) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    let place = 0;
    const numbers = new Float64Array(bytes.buffer);
    const nest = (axes) => (axes.length === 0 ? numbers[place++] : Array.from({ length: axes[0] }, () => nest(axes.slice(1))));
    return nest(shape);
  };
  return {
    coefficients: unpack(packed.coefficients),
    predictions: unpack(packed.predictions),
    errors: packed.expected_error ? unpack(packed.expected_error) : [],
  };
}

async function show(instance) {
  const number = ++page.asked; // only the last input that was asked for is shown
  tell("Explaining …");
  try {
    const answer = await explainInstance(instance);
    if (number !== page.asked) return;
    page.refining?.abort();
    Object.assign(page, { instance, answer, refined: null });
    if (page.model.has_classes) page.output = answer.predictions.indexOf(Math.max(...answer.predictions));
    showInput();
    showOutputs();
    sortPlayers();
    render();
    tell("");
  } catch (error) {
    if (number === page.asked) tell(error.message, true);
  }
}

// ---- the input ------------------------------------------------------------------------------------------------------

const isImage = () => page.model.columns === null;
const entriesOf = (instance) => (Array.isArray(instance) ? instance : page.model.columns.map((column) => instance[column.name]));

// Draw an image (channels, height, width); the smallest number is black.
function drawImage(canvas, image) {
  const [channels, height, width] = page.model.shape;
  const [low, high] = range(image.flat(2));
  canvas.width = width;
  canvas.height = height;
  const pixels = new ImageData(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      for (let c = 0; c < 3; c++) {
        const value = image[channels === 3 ? c : 0][y][x];
        pixels.data[4 * (y * width + x) + c] = (255 * (value - low)) / (high - low || 1);
      }
      pixels.data[4 * (y * width + x) + 3] = 255;
    }
  }
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

function range(numbers) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of numbers) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}

function showSamples() {
  const buttons = page.model.samples.map((sample, number) => {
    const button = make("button", { type: "button", "aria-label": `Sample ${number + 1}` });
    if (isImage()) {
      const canvas = make("canvas", { "aria-hidden": "true" });
      drawImage(canvas, sample);
      button.append(canvas);
    } else {
      button.append(String(number + 1));
    }
    button.addEventListener("click", () => show(sample));
    return button;
  });
  byId("samples").replaceChildren(...buttons);
}

function showInput() {
  [...byId("samples").children].forEach((button, number) =>
    button.setAttribute("aria-pressed", String(page.model.samples[number] === page.instance)));
  byId("picture").hidden = !isImage();
  byId("form-box").hidden = isImage() || page.answers !== null;
  if (isImage()) drawImage(byId("picture"), page.instance);
  else fillForm();
}

function makeForm() {
  const fields = (page.model.columns || []).map((column) => {
    let field = make("input", { name: column.name, type: column.kind === "number" ? "number" : "text", step: "any" });
    if (column.categories.length) {
      const options = column.categories.map((category, number) => make("option", { value: String(number) }, String(category)));
      field = make("select", { name: column.name }, make("option", { value: "" }, "(missing)"), ...options);
    }
    return make("label", {}, column.name, field);
  });
  byId("form").replaceChildren(...fields, make("button", {}, "Explain this row"));
}

function fillForm() {
  entriesOf(page.instance).forEach((entry, place) => {
    const { categories } = page.model.columns[place];
    const field = byId("form").elements[place];
    field.value = categories.length ? String(categories.indexOf(entry)) : entry ?? "";
    if (categories.length && categories.indexOf(entry) < 0) field.value = "";
  });
}

function readForm(event) {
  event.preventDefault();
  const entries = page.model.columns.map((column, place) => {
    const text = byId("form").elements[place].value;
    if (text === "") return null;
    if (column.categories.length) return column.categories[Number(text)];
    return column.kind === "number" ? Number(text) : text;
  });
  show(asInstance(entries));
}

const asInstance = (entries) => (page.model.is_frame
  ? Object.fromEntries(page.model.columns.map((column, place) => [column.name, entries[place]])) : entries);

async function upload(event) {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  try {
    await show(isImage() ? await readImage(file) : await readRow(file));
  } catch (error) {
    tell(error.message, true);
  }
}

async function readImage(file) {
  const [channels, height, width] = page.model.shape;
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} is not a picture: choose a PNG, JPEG, GIF or WebP file.`);
  });
  const canvas = make("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const at = (c, y, x) => data[4 * (y * width + x) + c];
  const gray = (y, x) => 0.299 * at(0, y, x) + 0.587 * at(1, y, x) + 0.114 * at(2, y, x);
  const convert = pixelConversion();
  return Array.from({ length: channels }, (_, c) => Array.from({ length: height }, (_, y) => Array.from({ length: width },
    (_, x) => convert(channels === 3 ? at(c, y, x) : gray(y, x), c))));
}

// How bytes become the numbers of the model: as when it was fitted, else in the range of the samples.
function pixelConversion() {
  const { pixels, samples } = page.model;
  if (pixels) {
    return (byte, c) => ((pixels.scaled ? byte / 255 : byte) - (pixels.mean ? pixels.mean[c] : 0)) / (pixels.std ? pixels.std[c] : 1);
  }
  const [low, high] = samples.length ? range(samples.flat(3)) : [0, 1];
  return (byte) => low + ((high - low) * byte) / 255;
}

async function readRow(file) {
  const text = await file.text();
  const { columns } = page.model;
  const wrong = (why) => new Error(`${file.name} ${why}: choose a .csv file with the columns ${columns.slice(0, 4).map((c) => c.name).join(", ")}`
    + `${columns.length > 4 ? ", …" : ""} and a row below their names, or a .json file with one row.`);
  if (text.trim().startsWith("{") || text.trim().startsWith("[")) {
    try {
      const content = JSON.parse(text);
      const rows = content.instances || content;
      return Array.isArray(rows) && typeof rows[0] === "object" ? rows[0] : rows;
    } catch {
      throw wrong("is not JSON");
    }
  }
  const [head, first] = text.split(/\r?\n/).filter((line) => line.trim()).map(splitCsv);
  if (!first || head.length !== first.length) throw wrong("contains no table");
  const entries = columns.map((column) => {
    const place = head.indexOf(column.name);
    if (place < 0) throw wrong(`has no column ${column.name}`);
    const entry = first[place];
    if (entry === "") return null;
    if (column.categories.length) return column.categories.find((category) => String(category) === entry) ?? entry;
    if (column.kind !== "number") return entry;
    if (Number.isNaN(Number(entry))) throw wrong(`has ${entry} in the column ${column.name}, which contains numbers`);
    return Number(entry);
  });
  return asInstance(entries);
}

function splitCsv(line) {
  const cells = [];
  for (const [, quoted, plain] of line.matchAll(/(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/g)) {
    cells.push(quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"'));
  }
  return cells.slice(0, line.endsWith(",") ? undefined : -1);
}

// ---- the explanation ------------------------------------------------------------------------------------------------

const weightOf = (id) => Math.round(100 * 2 ** Number(byId(id).value)) / 100;
const weighting = () => ({ alpha: weightOf("alpha"), beta: weightOf("beta") });
const total = () => (byId("efficient").checked ? "efficient" : "raw");

function computeValues(isEfficient = byId("efficient").checked) {
  const { alpha, beta } = weighting();
  const { coefficients, predictions } = page.answer;
  const values = refinedNow()?.values ?? contract(coefficients, mixture(page.model.basis, alpha, beta));
  return isEfficient ? makeEfficient(values, predictions, page.model.base_values) : values;
}

// What was refined, if it was under this weighting; else null.
function refinedNow() {
  const { alpha, beta } = weighting();
  const { refined, model } = page;
  return refined && (model.basis.kind === "fixed" || (refined.alpha === alpha && refined.beta === beta)) ? refined : null;
}

// The error of each player's value for an output: standard errors if it was refined, else the expected error; or null.
function errorsOf(output) {
  const refined = refinedNow();
  if (refined) return refined.stderr.map((row) => row[output]);
  const errors = expectedErrors();
  return errors ? page.model.players.names.map(() => errors[output]) : null;
}

// The expected error of each output under this weighting and total; null if it is not known.
function expectedErrors() {
  const { alpha, beta } = weighting();
  const { errors, error_total: known } = page.model;
  const place = errors.findIndex((one) => one.semivalue === "Beta" && one.alpha === alpha && one.beta === beta);
  return place < 0 || known !== total() ? null : page.answer.errors[place];
}

function showOutputs() {
  const { outputs } = page.model;
  const { predictions } = page.answer;
  const largest = Math.max(...predictions.map(Math.abs)) || 1;
  const rows = outputs.map((name, number) => {
    const radio = make("input", { type: "radio", name: "output", checked: number === page.output });
    radio.addEventListener("change", () => {
      page.output = number;
      sortPlayers();
      render();
    });
    const fill = make("div", { class: "fill" });
    fill.style.width = `${(100 * Math.abs(predictions[number])) / largest}%`;
    return make("label", {}, radio, make("span", {}, name), make("div", { class: "track", "aria-hidden": "true" }, fill),
      make("span", { class: "number" }, spell(predictions[number])));
  });
  byId("outputs").replaceChildren(...rows);
}

function sortPlayers() {
  const values = computeValues();
  page.order = values.map((_, player) => player).sort((a, b) => Math.abs(values[b][page.output]) - Math.abs(values[a][page.output]));
}

function render() {
  if (!page.answer) return;
  const values = computeValues();
  const { alpha, beta } = weighting();
  byId("alpha-value").value = String(alpha);
  byId("beta-value").value = String(beta);
  [...byId("presets").children].forEach((button, number) =>
    button.setAttribute("aria-pressed", String(PRESETS[number][0] === alpha && PRESETS[number][1] === beta)));
  const shown = byId("all").checked ? page.model.outputs.map((_, output) => output) : [page.output];
  byId("view").className = shown.length > 1 ? "many" : "";
  byId("view").replaceChildren(...(isImage() ? heatMaps(values, shown) : shown.map((output) => bars(values, output, shown.length > 1))));
  showNumbers(values);
  byId("python").textContent = pythonCode();
  document.body.dataset.model = page.model.name;
  document.body.dataset.values = JSON.stringify(values.map((row) => row[page.output])); // for whoever checks the page
}

function showNumbers(values) {
  const { model, output } = page;
  const sum = values.reduce((total, row) => total + row[output], 0);
  const [base, prediction] = [model.base_values[output], page.answer.predictions[output]];
  byId("sum").textContent = `${model.outputs[output]}: base value ${spell(base)}, sum of the values ${signed(sum)}, `
    + `prediction ${spell(prediction)}. Values are of ${model.scale}.`;
  const errors = expectedErrors();
  const known = model.errors.map((one) => (one.alpha === 1 && one.beta === 1 ? "Shapley" : `Beta(${one.alpha}, ${one.beta})`));
  const refined = refinedNow();
  byId("errors").textContent = refined ? describeRefined(refined) : errors ? `Whiskers and ±: expected error ${spell(errors[output])} of a value.`
    : model.kind === "exact" ? "These values are exact." : known.length ? `Expected errors are known for ${model.error_total} values: ${known.join(", ")}.` : "";
  const head = make("tr", {}, make("th", { scope: "col" }, "player"), ...model.outputs.map((name) => make("th", { scope: "col" }, name)));
  const rows = page.order.map((player) => make("tr", {}, make("th", { scope: "row" }, model.players.names[player]),
    ...values[player].map((value) => make("td", {}, signed(value)))));
  byId("table").replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function bars(values, output, isOneOfMany) {
  const { names } = page.model.players;
  const errors = errorsOf(output);
  const errorOf = (player) => (errors ? errors[player] : 0);
  const sizes = values.map((row, player) => (isOneOfMany ? Math.max(...row.map(Math.abs)) : Math.abs(row[output])) + errorOf(player));
  const largest = Math.max(...sizes) || 1;
  const entries = isImage() || page.model.columns.length !== names.length ? [] : entriesOf(page.instance);
  const items = page.order.slice(0, MAX_BARS).map((player) => {
    const value = values[player][output];
    const half = (50 * Math.abs(value)) / largest;
    const bar = make("span", { class: `bar ${value < 0 ? "against" : "for"}` });
    bar.style.left = `${value < 0 ? 50 - half : 50}%`;
    bar.style.width = `${half}%`;
    const axis = make("span", { class: "axis", "aria-hidden": "true" }, bar);
    if (errors) {
      const whisker = make("span", { class: "whisker" });
      whisker.style.left = `${50 + (50 * (value - errorOf(player))) / largest}%`;
      whisker.style.width = `${(100 * errorOf(player)) / largest}%`;
      axis.append(whisker);
    }
    const entry = player in entries ? make("span", { class: "entry" }, ` = ${entries[player] ?? "missing"}`) : "";
    return make("li", {}, make("span", { class: "name" }, names[player], entry), axis,
      make("span", { class: "number" }, signed(value)));
  });
  const list = make("ol", { class: "bars", "aria-label": `Values for ${page.model.outputs[output]}` }, ...items);
  const rest = names.length > MAX_BARS ? ` (${MAX_BARS} of ${names.length} players)` : "";
  return isOneOfMany || rest ? make("figure", { class: "chart" }, make("figcaption", {}, page.model.outputs[output] + rest), list) : list;
}

function heatMaps(values, shown) {
  const largest = Math.max(...shown.map((output) => Math.max(...values.map((row) => Math.abs(row[output]))))) || 1;
  const maps = shown.map((output) => {
    const canvas = make("canvas", { role: "img", "aria-label": describeMap(values, output) });
    drawMap(canvas, values.map((row) => row[output] / largest));
    return make("figure", {}, canvas, make("figcaption", {}, page.model.outputs[output]));
  });
  const scale = make("canvas", { "aria-hidden": "true" });
  scale.width = 101;
  scale.height = 1;
  const context = scale.getContext("2d");
  for (let x = 0; x <= 100; x++) {
    context.fillStyle = blend(x / 50 - 1);
    context.fillRect(x, 0, 1, 1);
  }
  return [...maps, make("div", { class: "legend" }, `against ${spell(-largest)}`, scale, `${signed(largest)} for`)];
}

function describeMap(values, output) {
  const best = page.order.slice(0, 3).map((player) => `${page.model.players.names[player]} ${signed(values[player][output])}`);
  return `Heat map of the values for ${page.model.outputs[output]}; the largest: ${best.join(", ")}`;
}

// Draw a number from -1 to 1 for each player on the pixels of the image.
function drawMap(canvas, numbers) {
  const { assignment } = page.model.players;
  canvas.width = assignment[0].length;
  canvas.height = assignment.length;
  const context = canvas.getContext("2d");
  const colors = numbers.map(blend);
  assignment.forEach((row, y) => row.forEach((player, x) => {
    context.fillStyle = colors[player];
    context.fillRect(x, y, 1, 1);
  }));
}

function blend(number) {
  const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [from, to] = [parse(color("--paper")), parse(color(number < 0 ? "--against" : "--for"))];
  const share = Math.min(Math.abs(number), 1);
  return `rgb(${from.map((part, c) => Math.round(part + share * (to[c] - part))).join(",")})`;
}

// ---- refinement -----------------------------------------------------------------------------------------------------

const ROUNDS = 8;

function describeRefined({ calls, stderr }) {
  const squares = stderr.map((row) => row[page.output] ** 2);
  const error = Math.sqrt(squares.reduce((sum, square) => sum + square, 0) / squares.length);
  if (error === 0) return "Refined: these values of the surrogate are exact.";
  return `Refined with ${calls} sampled coalitions: the standard error is ${spell(error)} on average${isImage() ? "" : " (whiskers)"}.`;
}

// Show the lines of the answer as they come; a second click, or another input, stops it.
async function refine() {
  if (page.refining) {
    page.refining.abort();
    return;
  }
  const stop = new AbortController();
  const { alpha, beta } = weighting();
  const { model, instance } = page;
  const parameters = { rounds: ROUNDS, ...(model.basis.kind === "fixed" ? {} : { alpha, beta }) };
  page.refining = stop;
  byId("refine").textContent = "Stop";
  Object.assign(byId("refine-progress"), { hidden: false, value: 0 });
  tell("Refining …");
  try {
    const response = await send(`v1/models/${model.name}:refine`, { instances: [instance], parameters }, stop.signal);
    for await (const line of readLines(response)) {
      if (stop.signal.aborted) break;
      page.refined = { alpha, beta, ...line };
      byId("refine-progress").value = line.share;
      render();
      if (line.done) tell(refinedNow() ? describeRefined(page.refined) : "The values of the weighting before are refined.");
    }
    if (stop.signal.aborted) tell("The refinement was stopped.");
  } catch (error) {
    tell(stop.signal.aborted ? "The refinement was stopped." : error.message, !stop.signal.aborted);
  } finally {
    page.refining = null;
    byId("refine").textContent = "Refine";
    byId("refine-progress").hidden = true;
  }
}

async function* readLines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield* lines.map((line) => JSON.parse(line));
  }
}

// ---- downloads ------------------------------------------------------------------------------------------------------

function save(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function explanation() {
  const { model, answer } = page;
  return {
    model: model.name, version: model.version, ...weighting(), total: total(), outputs: model.outputs, players: model.players.names,
    values: computeValues(), base_values: model.base_values, predictions: answer.predictions, instance: page.instance,
    standard_errors: refinedNow()?.stderr ?? null, sampled_coalitions: refinedNow()?.calls ?? 0,
  };
}

function drawPicture() {
  const canvas = make("canvas");
  const context = canvas.getContext("2d");
  const values = computeValues().map((row) => row[page.output]);
  const largest = Math.max(...values.map(Math.abs)) || 1;
  const shown = page.order.slice(0, MAX_BARS);
  const title = `${page.model.name}: ${page.model.outputs[page.output]}, Beta(${weightOf("alpha")}, ${weightOf("beta")}), ${total()}`;
  [canvas.width, canvas.height] = isImage() ? [640, 700] : [900, 70 + 30 * shown.length];
  context.fillStyle = color("--paper");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = color("--ink");
  context.font = "18px system-ui, sans-serif";
  context.fillText(title, 20, 34);
  if (isImage()) {
    const map = make("canvas");
    drawMap(map, values.map((value) => value / largest));
    context.imageSmoothingEnabled = false;
    const side = Math.min(600 / map.width, 620 / map.height);
    context.drawImage(map, 20, 60, side * map.width, side * map.height);
    return canvas;
  }
  context.font = "15px system-ui, sans-serif";
  shown.forEach((player, row) => {
    const y = 60 + 30 * row;
    const length = (260 * values[player]) / largest;
    context.fillStyle = color(length < 0 ? "--against" : "--for");
    context.fillRect(Math.min(540, 540 + length), y, Math.abs(length), 20);
    context.fillStyle = color("--ink");
    context.fillText(page.model.players.names[player], 20, y + 15, 240);
    context.fillText(signed(values[player]), 820, y + 15, 70);
  });
  return canvas;
}

function pythonCode() {
  const { model, output } = page;
  const { alpha, beta } = weighting();
  const row = 'json.load(open("explanation.json"))["instance"]';
  const weights = model.basis.kind === "fixed" ? "" : `weights=fw.Beta(${alpha}, ${beta}), `;
  const lines = [
    `import json, fwshapley as fw, ${model.is_frame ? "pandas as pd" : "numpy as np"}`,
    model.code,
    `x = ${model.is_frame ? `pd.DataFrame([${row}])` : `np.array([${row}])`}  # of Download JSON`,
  ];
  const refined = refinedNow();
  if (refined && total() === "raw") {
    lines.push(`rounds = [explainer.refine(x, ${weights}outputs=[${output}], seed=seed) for seed in range(${refined.round})]`);
    lines.push("sum(one.values for one in rounds) / len(rounds)");
  } else {
    lines.push(`explainer.explain(x, ${weights}outputs=[${output}], total="${total()}").values`);
  }
  return lines.join("\n");
}

// ---- start ----------------------------------------------------------------------------------------------------------

function start(model) {
  page.refining?.abort();
  Object.assign(page, { model, instance: null, answer: null, output: 0, refined: null });
  byId("main").hidden = false;
  byId("fidelity").textContent = model.fidelity;
  byId("about").textContent = `${model.name}: ${model.kind} explainer of ${model.players.names.length} players, ${model.runtime}; fwshapley ${model.version}.`;
  byId("upload-kind").textContent = isImage() ? "a picture" : "a row (.csv, .json)";
  byId("upload").accept = isImage() ? "image/*" : ".csv,.json,text/csv,application/json";
  byId("upload-row").hidden = page.answers !== null;
  byId("weighting").disabled = model.basis.kind === "fixed";
  byId("efficient").checked = model.basis.kind === "fixed";
  byId("efficient").disabled = model.basis.kind === "fixed";
  byId("all").parentElement.hidden = model.outputs.length < 2;
  byId("refine-row").hidden = !model.can_refine || page.answers !== null;
  showSamples();
  makeForm();
  if (model.samples.length) show(model.samples[0]);
  else if (isImage()) tell("Upload a picture to explain it.");
  else {
    byId("form-box").hidden = false;
    byId("form-box").open = true;
    tell("Fill in a row, or upload one.");
  }
}

async function openModel(name) {
  const number = ++page.asked;
  try {
    const model = await ask(`page/models/${name}`);
    if (number === page.asked) start(model);
  } catch (error) {
    tell(error.message, true);
  }
}

async function openServer() {
  try {
    const { models } = await ask("v1/models");
    byId("login").hidden = true;
    byId("model").replaceChildren(...models.map((name) => make("option", {}, name)));
    await openModel(models[0]);
  } catch (error) {
    tell(error.message, true);
  }
}

function connect() {
  for (const id of ["alpha", "beta"]) {
    byId(id).addEventListener("input", render);
    byId(id).addEventListener("change", () => {
      if (page.answer) sortPlayers();
      render();
    });
  }
  const buttons = PRESETS.map(([alpha, beta, name]) => {
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => {
      byId("alpha").value = String(Math.log2(alpha));
      byId("beta").value = String(Math.log2(beta));
      if (page.answer) sortPlayers();
      render();
    });
    return button;
  });
  byId("presets").replaceChildren(...buttons);
  for (const id of ["efficient", "all"]) byId(id).addEventListener("change", render);
  byId("refine").addEventListener("click", refine);
  byId("form").addEventListener("submit", readForm);
  byId("upload").addEventListener("change", upload);
  byId("model").addEventListener("change", (event) => openModel(event.target.value));
  byId("save-json").addEventListener("click", () => save("explanation.json", new Blob([JSON.stringify(explanation())], { type: "application/json" })));
  byId("save-png").addEventListener("click", () => drawPicture().toBlob((blob) => save("explanation.png", blob)));
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    page.token = byId("token").value;
    openServer();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
}

connect();
const embedded = byId("embedded").textContent.trim();
if (embedded) {
  const { model, answers } = JSON.parse(embedded);
  page.answers = answers;
  byId("model").replaceChildren(make("option", {}, model.name));
  start(model);
} else {
  openServer();
}
