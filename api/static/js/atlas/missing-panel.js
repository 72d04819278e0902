// The panel "Compute what is missing": a region of the diagram, a resolution, and the price of its points.
import { $, createElement } from "../common/dom.js";
import { formatDuration, formatNumber } from "../common/format.js";
import { getSymbol } from "../common/labels.js";
import { post } from "../common/rest.js";
import { debounce } from "../common/timing.js";
import { createSelect, preventSubmit, replaceFields } from "../common/view-controls.js";

const PRICE_MILLISECONDS = 300;
const MAX_COUNT = 200; // of values along one side
const panel = $("#missing");
const form = $("#region");
const answerLine = $("#missing-answer");
const button = $("#open-composer");
const SPACINGS = [["log", "equal ratios"], ["lin", "equal steps"]];

/** Create the fields of a rectangle: ends, number of values and spacing of both axes. */
export function createRectangleFields(axes) {
  return axes.map(({ key, name, low, high, isLog }) => createElement("fieldset", {},
    createElement("legend", { className: "unseen" }, getSymbol(name)),
    createNumber(`${key}_low`, `${getSymbol(name)} from`, low),
    createNumber(`${key}_high`, "to", high),
    createNumber(`${key}_count`, "values", 5, { min: 1, max: MAX_COUNT, step: 1 }),
    createSelect(`${key}_spacing`, "spaced by", SPACINGS, isLog ? "log" : "lin")));
}

/** Create the fields of a part of the triangle: the least share of each corner, and the resolution. */
export function createTriangleFields(names) {
  return [
    ...names.map((name) =>
      createNumber(`u_${name}`, `towards ${getSymbol(name)} ≥`, 0, { min: 0, max: 1 })),
    createNumber("resolution", "resolution", 6, { min: 1, max: MAX_COUNT, step: 1 }),
  ];
}

function createNumber(name, title, value, properties = {}) {
  const shown = value === null ? "" : Number(Number(value).toPrecision(4));
  return createElement("label", {}, title, createElement("input", {
    type: "number", step: "any", name, value: shown, inputMode: "decimal", ...properties,
  }));
}

/** Show fields and forget the last answer. */
export function showRegionFields(...fields) {
  replaceFields(form, ...fields);
  showAnswer("");
}

/** Put the ends of a marked area into the fields of a rectangle or of a part of the triangle. */
export function fillRegion(values) {
  for (const [name, value] of Object.entries(values)) {
    if (form.elements[name]) form.elements[name].value = String(Number(value.toPrecision(4)));
  }
  panel.open = true;
  form.dispatchEvent(new Event("input"));
}

/** Return a number of the form, or NaN. */
export function readNumber(name) {
  const text = form.elements[name]?.value ?? "";
  return text === "" ? NaN : Number(text);
}

/** Return a side of the rectangle, or null if it is not complete. */
export function readSide(key, name, isInteger) {
  const [low, high, count] = ["low", "high", "count"].map((part) => readNumber(`${key}_${part}`));
  const isLog = form.elements[`${key}_spacing`].value === "log";
  const isValid = low <= high && (!isLog || low > 0) && Number.isInteger(count) && count >= 1;
  return isValid && count <= MAX_COUNT ? { name, low, high, count, isLog, isInteger } : null;
}

let latest = 0;
let currentSpec = null;

/**
 * Connect the panel. `findSpec()` resolves to the number of candidates, the missing points and their spec, or
 * to a text that says why there are none.
 */
export function connectPanel(findSpec) {
  const update = debounce(() => updateAnswer(findSpec), PRICE_MILLISECONDS);
  form.addEventListener("input", update);
  preventSubmit(form);
  panel.addEventListener("toggle", () => panel.open && update());
  button.addEventListener("click", () => {
    location.assign(`/compose#spec=${encodeURIComponent(JSON.stringify(currentSpec))}`);
  });
  return () => panel.open && update();
}

async function updateAnswer(findSpec) {
  latest += 1;
  const request = latest;
  try {
    const found = await findSpec();
    if (request !== latest) return;
    if (typeof found === "string") {
      showAnswer(found);
      return;
    }
    const { candidates, points, spec } = found;
    const stored = candidates - points.length;
    const counts = `${formatNumber(points.length)} of ${formatNumber(candidates)} points are not stored`;
    if (!points.length) {
      showAnswer(`All ${formatNumber(stored)} points are stored.`);
      return;
    }
    const estimate = await post("/v1/estimate", spec);
    if (request !== latest) return;
    const { runs, core_seconds: coreSeconds, refused } = estimate;
    const price = `${formatNumber(runs)} runs, ${formatDuration(coreSeconds)} of core time`;
    showAnswer(`${counts}: ${price}${refused ? `. It would be refused: ${refused}` : ""}`, spec);
  } catch (error) {
    if (request === latest) showAnswer(error.message);
  }
}

function showAnswer(text, spec = null) {
  answerLine.textContent = text || "\u00a0";
  currentSpec = spec;
  button.disabled = spec === null;
}
