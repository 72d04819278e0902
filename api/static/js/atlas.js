// The atlas: facets of all runs, a diagram of the points under a selection, and the curves of one of them.
import { getFacetTitle, renderFacets } from "./atlas/facets.js";
import { connectPanel, fillRegion, showRegionFields } from "./atlas/missing-panel.js";
import { createRegionFields, findMissingPoints, readMarkedArea } from "./atlas/missing-points.js";
import { findClickedIndex, getPointNames, listPoints, pick } from "./atlas/points.js";
import { loadNames, showPointRuns } from "./atlas/point-runs.js";
import {
  chooseAxes, findVarying, getMostFrequent, getValuesOnly, listAxes, REDUCTIONS, splitQuery,
} from "./atlas/selection.js";
import { buildHeatmap, buildScatter, sortGrid } from "./charts/phase-diagram-chart.js";
import { drawChart } from "./charts/plotly.js";
import { buildTriangleChart } from "./charts/triangle-chart.js";
import { formatQuery, readQuery, replaceQuery } from "./common/address.js";
import { TRIANGLE_PARAMETERS } from "./common/contents.js";
import { $ } from "./common/dom.js";
import { formatCount, formatDistinct, formatExact, formatName, parseScalar } from "./common/format.js";
import { formatCoordinates, getSymbol } from "./common/labels.js";
import { getJson } from "./common/rest.js";
import {
  createSelect, preventSubmit, renderDownloads, replaceFields, showProblem,
} from "./common/view-controls.js";

const VIEWS = { diagram: "/v1/atlas/phase-diagram", triangle: "/v1/atlas/triangle" };
const VALUES = {
  sgd: [
    "sgd_risk", "sgd_final_slope", "sgd_initial_risk", "sgd_diverged", "sgd_bound", "sgd_order_parameter",
  ],
  ode: ["ode_risk", "ode_final_slope", "ode_initial_risk", "ode_bound", "ode_order_parameter"],
};
const VALUES_OF_BOTH = ["discrepancy", "relative_discrepancy"];
const NO_RUNS = "There are no runs yet. Compose a sweep first.";
const WITHOUT_SELECT = ["sweep", "kind"]; // which facets select
const MAX_CHOICES = 16; // of parameters that are selected because they vary
const MAX_LISTED_POINTS = 300;

const form = $("#choose");
const pointForm = $("#cell");
const chart = $("#chart");
const panel = $("#missing");
const { view, selection } = splitQuery(readQuery());
let facets = null;
let axes = [];
let shown = {}; // the axes of the diagram: those of the view while they vary, else others
let drawn = null; // the answer that the chart shows
let latestRequest = 0;

/** Show everything for the current selection; what varies and is not shown is selected first. */
async function refresh() {
  latestRequest += 1;
  const request = latestRequest;
  try {
    for (let choices = 0; choices <= MAX_CHOICES; choices += 1) {
      const answer = await getJson(`/v1/atlas${formatQuery(getValuesOnly(selection))}`);
      if (request !== latestRequest) return;
      facets = answer.parameters;
      axes = listAxes(facets);
      shown = view.view === "triangle" ? {} : chooseAxes(view, axes);
      const names = await loadNames((findFacet("sweep")?.values ?? []).map(({ value }) => value));
      renderFacets(answer, getValuesOnly(selection), names, handleFacet);
      renderSummary(answer);
      if (!answer.runs) throw new Error(NO_RUNS);
      chooseValue();
      const varying = findVarying(facets, getShown(), selection, view.value) ?? await renderView(request);
      if (varying === null) return;
      selection[varying.name] = getMostFrequent(varying);
    }
  } catch (error) {
    if (request === latestRequest) showProblem(error.message);
  }
}

/** Return the names of the parameters that the diagram shows. */
function getShown() {
  const names = view.view === "triangle" ? [...TRIANGLE_PARAMETERS, "delta_t"] : [shown.x, shown.y];
  return names.filter(Boolean);
}

function findFacet(name) {
  return facets.find((facet) => facet.name === name);
}

function renderSummary({ runs, points, sweeps }) {
  const counts = { run: runs, point: points, sweep: sweeps };
  const parts = Object.entries(counts).map(([noun, count]) => formatCount(count, noun));
  $("#summary").textContent = parts.join(" · ");
  $("#clear").hidden = !Object.keys(selection).length;
}

function renderControls() {
  const axisOptions = axes.map((facet) => [facet.name, getFacetTitle(facet)]);
  const isTriangle = view.view === "triangle";
  const values = listValues();
  replaceFields(form,
    createSelect("view", "View", [["diagram", "diagram"], ["triangle", "triangle of limits"]], view.view),
    !isTriangle && createSelect("x", "Horizontal", axisOptions, shown.x),
    !isTriangle && createSelect("y", "Vertical", axisOptions, shown.y),
    createSelect("value", "Value", values.map((name) => [name, formatName(name)]), view.value),
    ...Object.keys(selection).map(createChoice).filter(Boolean));
}

function chooseValue() {
  const values = listValues();
  view.value = values.includes(view.value) ? view.value : values[0];
}

/** Return the values that the kinds of the selected runs have. */
function listValues() {
  const present = (findFacet("kind")?.values ?? []).map(({ value }) => value);
  const kinds = Object.keys(VALUES).filter((kind) => present.includes(kind));
  const values = kinds.flatMap((kind) => VALUES[kind]);
  const regimes = findFacet("regime")?.distinct ?? 0;
  return kinds.length > 1 && regimes >= 1 ? [...values, ...VALUES_OF_BOTH] : values;
}

/** Create a select for a parameter that is selected, or over which the value is reduced. */
function createChoice(name) {
  const facet = findFacet(name);
  const isElsewhere = [shown.x, shown.y, ...WITHOUT_SELECT].includes(name);
  if (!facet?.values || isElsewhere || selection[name].includes(",")) return null;
  const texts = formatDistinct(facet.values.map(({ value }) => value));
  const options = facet.values.map(({ value }, index) => [formatExact(value), texts[index]]);
  const reductions = REDUCTIONS.map((reduction) => [reduction, `${reduction} of all`]);
  return createSelect(name, getFacetTitle(facet), [...options, ...reductions], selection[name]);
}

/** Draw the view. If the service needs one value of a parameter, return its facet, else null. */
async function renderView(request) {
  const isTriangle = view.view === "triangle";
  renderControls(); // only now, so that what is below moves once
  if (!isTriangle && !(shown.x && shown.y)) {
    throw new Error("A diagram needs two parameters with several values each. Select less, or compute more.");
  }
  const parameters = { ...shown, value: view.value, ...selection };
  storeAddress();
  const path = isTriangle ? VIEWS.triangle : VIEWS.diagram;
  let answer;
  try {
    answer = await getJson(`${path}${formatQuery(parameters)}`);
  } catch (error) {
    const facet = error.field in selection ? undefined : findFacet(error.field);
    if (!facet?.values || facet.distinct < 2) throw error;
    return facet;
  }
  if (request !== latestRequest) return null;
  await drawView(answer);
  showProblem("");
  $("#what").textContent = answer.value.long_name;
  $("#caption").textContent = formatCaption(answer);
  renderDownloads($("#links"), path, formatQuery(parameters));
  renderPointSelect();
  renderRegion();
  renderPoint();
  return null;
}

async function drawView(answer) {
  const isFirst = drawn === null;
  drawn = answer;
  await drawChart(chart, () => {
    const built = buildView(answer);
    return panel.open ? { ...built, layout: { ...built.layout, dragmode: "select" } } : built;
  });
  if (!isFirst) return;
  chart.on("plotly_click", handleClick);
  chart.on("plotly_selected", handleMark);
}

function buildView(answer) {
  if (answer.form === "triangle") {
    const regimes = [...new Set(answer.points.map((point) => point.auto_regime))];
    return buildTriangleChart(answer, regimes, chart.clientWidth);
  }
  if (answer.form !== "grid") return buildScatter(answer);
  sortGrid(answer);
  return buildHeatmap(answer);
}

function formatCaption(answer) {
  const sweeps = findFacet("sweep")?.distinct ?? 0;
  const reductions = Object.entries(selection).filter(([, text]) => REDUCTIONS.includes(text));
  const parts = [
    formatCoordinates(readSelectedValues()),
    ...reductions.map(([name, reduction]) => `${reduction} over ${getSymbol(name)}`),
    `${formatCount(listPoints(answer).length, "point")} of ${formatCount(sweeps, "sweep")}`,
  ];
  return parts.filter(Boolean).join(" · ");
}

function readSelectedValues() {
  const entries = Object.entries(getValuesOnly(selection)).filter(([name]) => name !== "sweep");
  return Object.fromEntries(entries.map(([name, text]) => [name, parseScalar(text)]));
}

function storeAddress() {
  replaceQuery({ ...view, ...shown, ...selection });
}

// ---- The curves of a point.

function renderPointSelect() {
  const points = listPoints(drawn).slice(0, MAX_LISTED_POINTS);
  const names = getPointNames(drawn);
  const options = points.map((point, index) => [index, formatCoordinates(pick(point, names))]);
  replaceFields(pointForm, createSelect("point", "Point", options, findPointIndex(points, names)));
}

/** Return the index of the point in the address, else that of the middle one. */
function findPointIndex(points, [x, y]) {
  const index = points.findIndex(
    (point) => formatExact(point[x]) === view.at_x && formatExact(point[y]) === view.at_y);
  return index >= 0 ? index : Math.floor(points.length / 2);
}

function renderPoint() {
  const point = listPoints(drawn)[Number(pointForm.elements.point?.value)];
  if (!point) return;
  const names = getPointNames(drawn);
  [view.at_x, view.at_y] = names.map((name) => formatExact(point[name]));
  storeAddress();
  showPointRuns(getValuesOnly(selection), pick(point, names));
}

function handleClick(event) {
  const index = findClickedIndex(drawn, event.points[0]);
  if (index === undefined) return; // a label or a line
  if (![...pointForm.elements.point.options].some(({ value }) => value === String(index))) {
    const point = pick(listPoints(drawn)[index], getPointNames(drawn));
    pointForm.elements.point.add(new Option(formatCoordinates(point), String(index)));
  }
  pointForm.elements.point.value = String(index);
  renderPoint();
}

// ---- What is missing.

let regionOf = ""; // the parameters whose fields the panel shows

function renderRegion() {
  const names = getPointNames(drawn).join();
  if (regionOf !== names) {
    regionOf = names;
    showRegionFields(...createRegionFields(drawn));
  }
  updateMissing();
}

function handleMark(event) {
  if (event?.range) fillRegion(readMarkedArea(drawn, event.range));
}

function findMissing() {
  return findMissingPoints(drawn, {
    values: readSelectedValues(),
    regimes: selection.regime?.split(","),
    sweepIds: (findFacet("sweep")?.values ?? []).map(({ value }) => value),
  });
}

// ---- Changes.

function handleFacet(name, text) {
  if (text) selection[name] = text;
  else delete selection[name];
  refresh();
}

function handleChange({ target }) {
  if (target.name in selection) {
    selection[target.name] = target.value;
  } else {
    view[target.name] = target.value;
    if (["x", "y"].includes(target.name)) {
      const other = target.name === "x" ? "y" : "x";
      view[other] = shown[other] === target.value ? undefined : shown[other];
    }
  }
  refresh();
}

const updateMissing = connectPanel(findMissing);
panel.addEventListener("toggle", () => drawn && drawView(drawn));
form.addEventListener("change", handleChange);
pointForm.addEventListener("change", renderPoint);
preventSubmit(form);
preventSubmit(pointForm);
$("#clear").addEventListener("click", () => {
  for (const name of Object.keys(selection)) delete selection[name];
  refresh();
});
refresh();
