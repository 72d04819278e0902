// The question before an extension: more values of axes, seeds, times and observables, and the price.
import { openDialog } from "../common/dialog.js";
import { createElement } from "../common/dom.js";
import {
  formatBytes, formatDistinct, formatDuration, formatName, formatNumber, parseList,
} from "../common/format.js";
import { getLongName, getSymbol } from "../common/labels.js";
import { formatErrors, getJson, post } from "../common/rest.js";
import { debounce } from "../common/timing.js";

const PRICE_MILLISECONDS = 300;
const MAX_VALUES_SHOWN = 8;
const DERIVED_BY_DESIGN = { scaling: ["p", "gamma"], triangle: ["d", "p", "gamma"] };

/** Resolve to a change as the API takes it, or to null. */
export async function askForExtension(sweep) {
  const path = `/v1/sweeps/${sweep.id}`;
  const [spec, contents, catalogue] = await Promise.all([
    getJson(`${path}/spec`), getJson(`${path}/contents`), getJson("/v1/catalogue"),
  ]);
  const price = createElement("div", { className: "price", role: "status" });
  const content = createContent(sweep, spec, contents, catalogue, price);
  const update = () => updatePrice(content, price, `${path}/extend?dry_run=true`, spec);
  content.addEventListener("input", debounce(update, PRICE_MILLISECONDS));
  const answer = openDialog(`Extend ${sweep.name || sweep.id}`, content, {
    confirmLabel: "Run extension",
    readResult: () => readChange(content, spec),
  });
  update();
  return answer;
}

// ---- the form

function createContent(sweep, spec, contents, catalogue, price) {
  const name = `${sweep.name || sweep.id} extended`;
  const { varied, others } = listParameters(contents, catalogue);
  return createElement("div", { className: "extension" },
    createElement("p", { className: "sub" },
      "Creates a new sweep with more values, which reuses the results of this one."),
    createElement("label", {}, "Name",
      createElement("input", { name: "name", value: name, maxLength: 200, autocomplete: "off" })),
    varied.length > 0 && createValueTable(varied, catalogue),
    others.length > 0 && createElement("details", {},
      createElement("summary", {}, "Parameters with one value"), createValueTable(others, catalogue)),
    createElement("div", { className: "fields" },
      createElement("label", {}, "Initial conditions", createCountInput("init", spec.seeds.init)),
      spec.simulate
        && createElement("label", {}, "SGD repeats of each", createCountInput("repeat", spec.seeds.repeat)),
      createTimeField("until", "Until t =", formatNumber(contents.times[1]), "any"),
      createTimeField("samples", "Samples of the later times", "as many per decade as now", "1")),
    createElement("details", {},
      createElement("summary", {}, "Observables"), createObservableList(spec, catalogue)),
    price);
}

/** List what can be extended with its current values: axes and regimes, and parameters with one value. */
function listParameters({ design, axes, fixed, regimes }, catalogue) {
  const regimeRow = { name: "regime", values: regimes };
  if (design === "points") return { varied: [regimeRow], others: [] };
  const derived = DERIVED_BY_DESIGN[design] ?? [];
  const isExtensible = ({ name }) => !derived.includes(name);
  const names = new Set(catalogue.parameters);
  const rows = Object.entries(fixed).map(([name, value]) => ({ name, values: [value] }));
  const single = axes.filter(({ values }) => values.length === 1);
  return {
    varied: [...axes.filter(({ values }) => values.length > 1).filter(isExtensible), regimeRow],
    others: [...single.filter(isExtensible), ...rows.filter(({ name }) => names.has(name))],
  };
}

function createValueTable(rows, catalogue) {
  return createElement("table", { className: "values" },
    createElement("thead", {}, createElement("tr", {},
      ...["Axis", "Values", "Add"].map((title) => createElement("th", { scope: "col" }, title)))),
    createElement("tbody", {}, ...rows.map((row) => createValueRow(row, catalogue))));
}

function createValueRow({ name, values }, catalogue) {
  const input = createElement("input", {
    dataset: { axis: name }, autocomplete: "off", "aria-label": `Add to ${name}`,
    placeholder: suggestValues(name, values, catalogue),
  });
  return createElement("tr", {},
    createElement("th", { scope: "row", title: getLongName(name) }, getSymbol(name)),
    createElement("td", {}, formatValues(values)),
    createElement("td", {}, input));
}

/** Suggest numbers, or names that the axis does not have yet. */
function suggestValues(name, values, { regimes, parameter_details: parameters }) {
  const choices = name === "regime"
    ? regimes.map((regime) => regime.name)
    : parameters.find((parameter) => parameter.name === name)?.choices ?? [];
  return choices.filter((choice) => !values.includes(choice)).join(", ") || "2, 4, 8";
}

function formatValues(values) {
  const texts = formatDistinct(values);
  if (texts.length <= MAX_VALUES_SHOWN) return texts.join(", ") || "none";
  return `${texts.length} values: ${texts.slice(0, 3).join(", ")}, …, ${texts.at(-1)}`;
}

function createCountInput(name, seeds) {
  return createElement("input", { name, type: "number", min: seeds.length, value: seeds.length });
}

function createTimeField(name, label, placeholder, step) {
  return createElement("label", {}, label,
    createElement("input", { name, type: "number", min: 0, step, placeholder, autocomplete: "off" }));
}

/** Observables that the sweep stores are ticked and stay so. */
function createObservableList(spec, { observables }) {
  const isStored = ({ name, default: isDefault }) => (
    spec.observables ? name === "risk" || spec.observables.includes(name) : isDefault);
  const overlaps = { name: "overlaps", about: "M and Q (or q)", default: false };
  const boxes = [...observables, overlaps].map((observable) => createElement("label",
    { className: "choice", title: observable.about },
    createElement("input", {
      type: "checkbox", value: observable.name, checked: isStored(observable), disabled: isStored(observable),
      dataset: { observable: observable.name },
    }),
    formatName(observable.name)));
  return createElement("div", {}, createElement("div", { className: "choices" }, ...boxes),
    createElement("p", { className: "sub" }, "For a new observable, all runs are computed again."));
}

// ---- the change

function readChange(content, spec) {
  const read = (name) => content.querySelector(`[name="${name}"]`)?.value ?? "";
  const change = { name: read("name"), seeds: {
    init: extendSeeds(spec.seeds.init, Number(read("init"))),
    repeat: extendSeeds(spec.seeds.repeat, Number(read("repeat"))),
  } };
  const inputs = [...content.querySelectorAll("[data-axis]")].filter((input) => input.value.trim());
  if (inputs.length > 0) {
    change.axes = Object.fromEntries(inputs.map((input) => [input.dataset.axis, parseList(input.value)]));
  }
  if (read("until")) {
    const samples = read("samples");
    change.time = { max: Number(read("until")), ...(samples && { samples: Number(samples) }) };
  }
  const observables = [...content.querySelectorAll("[data-observable]:checked:enabled")];
  if (observables.length > 0) change.observables = observables.map((box) => box.value);
  return change;
}

/** Append the smallest unused seeds until there are `count`. */
function extendSeeds(seeds, count) {
  const extended = [...seeds];
  for (let seed = 0; extended.length < count; seed += 1) {
    if (!seeds.includes(seed)) extended.push(seed);
  }
  return extended;
}

// ---- the price

/** Show what the extension would cost; it can be submitted if the service would accept it. */
async function updatePrice(content, price, path, spec) {
  const button = content.closest("dialog")?.querySelector('button[type="submit"]');
  const body = JSON.stringify(readChange(content, spec));
  content.dataset.body = body;
  price.setAttribute("aria-busy", "true");
  let lines;
  let isAccepted = false;
  try {
    const estimate = await post(path, body);
    isAccepted = !estimate.refused;
    lines = formatEstimate(estimate);
  } catch (error) {
    lines = formatErrors(error).split("\n");
  }
  if (content.dataset.body !== body) return; // a later change is being priced
  price.replaceChildren(...lines.map((line) => createElement("p", {}, line)));
  price.classList.toggle("error", !isAccepted);
  price.removeAttribute("aria-busy");
  if (button) button.disabled = !isAccepted;
}

function formatEstimate(estimate) {
  const { runs, reused, copies, continued, warnings, notes, refused } = estimate;
  const computed = formatNumber(runs - reused - copies);
  const counts = `${formatNumber(runs)} runs: ${computed} to compute`
    + `${continued ? `, of which ${formatNumber(continued)} continue stored ones` : ""}, `
    + `${formatNumber(reused)} already stored${copies ? `, ${formatNumber(copies)} duplicates` : ""}`;
  const size = formatBytes(estimate.bytes + estimate.state_bytes);
  const cost = `${formatDuration(estimate.core_seconds)} of core time, ${size} at most`;
  return [counts, cost, ...warnings, ...notes, ...(refused ? [`This would be refused: ${refused}`] : [])];
}
