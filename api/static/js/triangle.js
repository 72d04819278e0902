// The page of the triangle of limits: one value at each point; a click shows the curves of a point.
import { drawChart } from "./charts/plotly.js";
import { showPointCurves } from "./charts/point-curves.js";
import { buildTriangleChart, formatTrianglePoint } from "./charts/triangle-chart.js";
import { formatQuery, readQuery, replaceQuery } from "./common/address.js";
import {
  getDefaultValue, getValueOptions, getVaryingAxes, loadContents, TRIANGLE_PARAMETERS,
} from "./common/contents.js";
import { $ } from "./common/dom.js";
import { formatNumber } from "./common/format.js";
import { formatCoordinates } from "./common/labels.js";
import { getJson } from "./common/rest.js";
import { debounce } from "./common/timing.js";
import {
  createAxisSelect, createSelect, createTheorySelect, preventSubmit, readFields, renderDownloads,
  replaceFields, showProblem,
} from "./common/view-controls.js";
import { onCountsChange, sweepId } from "./sweep/header.js";

const RELOAD_MILLISECONDS = 1000;

const form = $("#choose");
const pointForm = $("#cell");
const chart = $("#chart");
const requested = readQuery();
const [contents, { regimes }] = await Promise.all([loadContents(sweepId), getJson("/v1/catalogue")]);
const regimeOrder = regimes.map(({ name }) => name);
const otherAxes = getVaryingAxes(contents).filter((axis) => !TRIANGLE_PARAMETERS.includes(axis.name));
const suggestion = contents.suggestion.view === "triangle" ? contents.suggestion.words : {};
let points = [];

function renderControls() {
  const value = requested.value ?? suggestion.value ?? getDefaultValue(contents);
  replaceFields(form,
    createSelect("value", "Value", getValueOptions(contents), value),
    createTheorySelect(contents, value, requested.regime ?? suggestion.regime),
    ...otherAxes.map((axis) => createAxisSelect(axis, requested[axis.name] ?? axis.values[0])));
}

let latestRequest = 0;

async function renderTriangle() {
  latestRequest += 1;
  const request = latestRequest;
  const query = formatQuery(readFields(form));
  storeSelection();
  try {
    const answer = await getJson(`/v1/sweeps/${sweepId}/figures/triangle${query}`);
    if (request !== latestRequest) return;
    await drawChart(chart, () => buildTriangleChart(answer, regimeOrder, chart.clientWidth));
    showProblem("");
    $("#what").textContent = answer.value.long_name;
    $("#caption").textContent = formatCaption(answer);
    renderDownloads($("#links"), `/v1/sweeps/${sweepId}/figures/triangle`, query);
    if (!points.length) chart.on("plotly_click", handleClick); // which exists once something is drawn
    points = answer.points;
    renderPointSelect();
  } catch (error) {
    if (request === latestRequest) showProblem(error.message);
  }
}

function storeSelection() {
  replaceQuery({ ...readFields(form), ...readFields(pointForm) });
}

function formatCaption(answer) {
  const parts = [
    formatCoordinates(answer.at),
    `step δt = γ/(pd) = ${formatNumber(answer.delta_t)} at every point`,
    "dashed: equal γ/p",
  ];
  return parts.filter(Boolean).join(" · ");
}

function renderPointSelect() {
  const selected = pointForm.elements.point?.value ?? requested.point ?? 0;
  const options = points.map((point, index) => [index, formatTrianglePoint(point)]);
  replaceFields(pointForm, createSelect("point", "Point", options, selected));
}

function renderPoint() {
  const point = points[pointForm.elements.point?.value];
  storeSelection();
  if (!point) return;
  const selection = readFields(form);
  const coordinates = Object.fromEntries(TRIANGLE_PARAMETERS.map((name) => [name, point[name]]));
  const otherValues = Object.fromEntries(otherAxes.map(({ name }) => [name, selection[name]]));
  showPointCurves(sweepId, coordinates, otherValues);
}

function renderView() {
  return renderTriangle().then(renderPoint);
}

function handleClick(event) {
  const pointIndex = event.points[0].customdata;
  if (pointIndex === undefined) return; // a label or a line
  pointForm.elements.point.value = String(pointIndex);
  renderPoint();
}

renderControls();
renderView();
form.addEventListener("change", () => {
  Object.assign(requested, readFields(form));
  renderControls();
  renderView();
});
pointForm.addEventListener("change", renderPoint);
preventSubmit(form);
preventSubmit(pointForm);
onCountsChange(debounce(renderView, RELOAD_MILLISECONDS));
