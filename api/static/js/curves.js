// The page of curves: risk, or another observable, against time.
import { buildCurveChart } from "./charts/curve-chart.js";
import { drawChart } from "./charts/plotly.js";
import { formatQuery, readQuery, replaceQuery } from "./common/address.js";
import { getDefaultSelection, getMiddleValue, getVaryingAxes, loadContents } from "./common/contents.js";
import { $, createElement } from "./common/dom.js";
import { formatExact, formatName, formatNumber, parseScalar } from "./common/format.js";
import { formatCoordinates, getSymbol } from "./common/labels.js";
import { getJson } from "./common/rest.js";
import { debounce } from "./common/timing.js";
import {
  createAxisSelect, createSelect, preventSubmit, readFields, renderDownloads, replaceFields, showProblem,
} from "./common/view-controls.js";
import { hasEnded } from "./sweep/events.js";
import { onSweepUpdate, sweepId } from "./sweep/header.js";

const MAX_COLOURED_VALUES = 12;
const NO_AXIS = "none";
const PAGE_PARAMETERS = ["by", "hide", "linear", "band"]; // in the address, but not in the request
const RELOAD_MILLISECONDS = 300;

const form = $("#choose");
let requested = readQuery();
const contents = await loadContents(sweepId);
const axes = getVaryingAxes(contents);
const hasSgd = contents.sources.includes("sgd");

function renderControls() {
  const colourAxis = requested.by ?? getDefaultColourAxis();
  const observables = contents.observables.map(({ name }) => [name, formatName(name)]);
  const colourOptions = [[NO_AXIS, "nothing"], ...axes.map(({ name }) => [name, getSymbol(name)])];
  replaceFields(form,
    createSelect("observable", "Observable", observables, requested.observable ?? "risk"),
    axes.length > 0 && createSelect("by", "Colour by", colourOptions, colourAxis),
    ...createAxisSelects(colourAxis),
    createDisplayOptions());
}

function getDefaultColourAxis() {
  if (contents.design === "triangle") return NO_AXIS;
  const freeAxis = axes.find((axis) => !(axis.name in requested));
  return freeAxis?.name ?? NO_AXIS;
}

function createAxisSelects(colourAxis) {
  const hasRequest = "by" in requested || axes.some((axis) => axis.name in requested);
  const defaults = hasRequest ? {} : getDefaultSelection(contents, colourAxis);
  const extraOptions = contents.points ? [["", "any"]] : [];
  return axes.map((axis) => {
    const fallback = contents.points ? "" : getMiddleValue(axis);
    const value = requested[axis.name] ?? defaults[axis.name] ?? fallback;
    const label = createAxisSelect(axis, value, ...extraOptions);
    if (axis.name === colourAxis) {
      label.hidden = true;
      $("select", label).disabled = true;
    }
    return label;
  });
}

function createDisplayOptions() {
  const hidden = splitList(requested.hide);
  const linear = splitList(requested.linear);
  const createSourceCheckbox = (source, title) =>
    createCheckbox("_show", source, title, !hidden.includes(source));
  const hasSeveralSources = hasSgd && contents.regimes.length > 0;
  return createElement("fieldset", {},
    createElement("legend", { className: "unseen" }, "Shown"),
    hasSeveralSources && createSourceCheckbox("sgd", "SGD"),
    ...contents.regimes.map((name) => createSourceCheckbox(name, formatName(name))),
    createCheckbox("_log", "x", "log t", !linear.includes("x")),
    createCheckbox("_log", "y", "log y", !linear.includes("y")),
    createCheckbox("_band", "band", "band over runs", requested.band !== "no"));
}

function createCheckbox(name, value, title, checked) {
  const input = createElement("input", { type: "checkbox", name, value, checked });
  return createElement("label", {}, input, title);
}

function splitList(value) {
  return String(value ?? "").split(",");
}

/** Return what the controls select; what is switched off is listed, so that a new theory is shown. */
function readSelection() {
  return {
    ...readFields(form),
    hide: listUnchecked("_show"),
    linear: listUnchecked("_log"),
    band: listUnchecked("_band").length ? "no" : "",
  };
}

function listUnchecked(name) {
  const boxes = [...form.querySelectorAll(`[name="${name}"]`)];
  return boxes.filter((box) => !box.checked).map((box) => box.value);
}

function getRequestParameters(selection, colourAxis) {
  const entries = Object.entries(selection).filter(([name]) => !PAGE_PARAMETERS.includes(name));
  const parameters = Object.fromEntries(entries);
  if (colourAxis) parameters[colourAxis.name] = sampleValues(colourAxis.values).map(formatExact);
  return parameters;
}

/** Return evenly chosen values, few enough to tell their colours apart. */
function sampleValues(values) {
  if (values.length <= MAX_COLOURED_VALUES) return values;
  const last = values.length - 1;
  const indices = Array.from({ length: MAX_COLOURED_VALUES }, (_, index) => index);
  return indices.map((index) => values[Math.round((index * last) / (MAX_COLOURED_VALUES - 1))]);
}

let latestRequest = 0;
let cached = { path: null };

/** Draw what is selected; the last answer is used again unless `isStale`. */
async function renderChart(isStale = false) {
  latestRequest += 1;
  const request = latestRequest;
  const selection = readSelection();
  const colourAxis = contents.axes.find((axis) => axis.name === selection.by);
  const parameters = getRequestParameters(selection, colourAxis);
  replaceQuery(selection);
  const path = `/v1/sweeps/${sweepId}/curves${formatQuery(parameters)}`;
  try {
    const answer = !isStale && cached.path === path ? cached.answer : await getJson(path);
    if (request !== latestRequest) return;
    cached = { path, answer };
    const curves = answer.curves.filter((curve) => !selection.hide.includes(curve.regime ?? curve.source));
    const options = {
      colourAxis: colourAxis?.name ?? null,
      isLogTime: !selection.linear.includes("x"),
      isLogValue: !selection.linear.includes("y"),
      hasBands: selection.band !== "no",
    };
    await drawChart($("#chart"), () => buildCurveChart({ ...answer, curves }, options));
    $('[name="_log"][value="y"]', form).disabled = Boolean(answer.band); // its values have both signs
    showProblem(curves.some((curve) => curve.runs) ? "" : "None of these runs has finished yet.");
    $("#caption").textContent = formatCaption(answer, parameters, colourAxis, options.isLogTime);
    renderDownloads($("#links"), `/v1/sweeps/${sweepId}/curves`, formatQuery(parameters));
  } catch (error) {
    if (request === latestRequest) showProblem(error.message);
  }
}

function formatCaption(answer, parameters, colourAxis, isLogTime) {
  const coordinates = {};
  for (const { name } of axes) {
    const isSelected = name !== colourAxis?.name && parameters[name] !== undefined;
    if (isSelected) coordinates[name] = parseScalar(parameters[name]);
  }
  const parts = [answer.long_name, formatCoordinates(coordinates)];
  if (colourAxis?.values.length > MAX_COLOURED_VALUES) {
    const symbol = getSymbol(colourAxis.name);
    parts.push(`${MAX_COLOURED_VALUES} of ${colourAxis.values.length} values of ${symbol}`);
  }
  if (answer.band) parts.push("95 % of the runs are expected between the dotted lines");
  if (isLogTime) parts.push(describeFirstTime(answer.time));
  return parts.filter(Boolean).join(" · ");
}

/** Say where the time axis begins if the chart leaves out earlier samples. */
function describeFirstTime(times) {
  const firstTime = times.find((time) => time > 0);
  const axis = $("#chart").layout?.xaxis;
  const shownFrom = axis?.range ? 10 ** axis.range[0] : 0;
  if (!(shownFrom > firstTime)) return "";
  const time = formatNumber(Number(shownFrom.toPrecision(2)));
  return `nothing visible changes before t = ${time}; double-click the chart to see it`;
}

form.addEventListener("change", (event) => {
  if (event.target.name === "by") {
    requested = readSelection();
    renderControls();
  }
  renderChart();
});
preventSubmit(form);
renderControls();

const reloadChart = debounce(() => renderChart(true), RELOAD_MILLISECONDS);
let latestCounts = null;
onSweepUpdate((sweep) => {
  const counts = JSON.stringify(sweep.counts);
  if (counts !== latestCounts || hasEnded(sweep.state)) reloadChart();
  latestCounts = counts;
});
