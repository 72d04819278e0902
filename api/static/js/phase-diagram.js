// The page of a phase diagram: one value on two axes; a click shows the curves of a cell.
import { buildHeatmap, buildScatter, sortGrid } from "./charts/phase-diagram-chart.js";
import { drawChart } from "./charts/plotly.js";
import { showPointCurves } from "./charts/point-curves.js";
import { formatQuery, readQuery, replaceQuery } from "./common/address.js";
import {
  getDefaultSelection, getDefaultValue, getValueOptions, getVaryingAxes, loadContents,
} from "./common/contents.js";
import { $, createElement } from "./common/dom.js";
import { formatExact, formatNumber } from "./common/format.js";
import { formatCoordinates, getSymbol } from "./common/labels.js";
import { getJson } from "./common/rest.js";
import { debounce } from "./common/timing.js";
import {
  createAxisSelect, createSelect, createTheorySelect, preventSubmit, readFields, renderDownloads,
  replaceFields, showProblem,
} from "./common/view-controls.js";
import { onCountsChange, sweepId } from "./sweep/header.js";

const RELOAD_MILLISECONDS = 1000;
const CELL_PREFIX = "at_"; // of the controls that select a cell
const REDUCTIONS = ["mean", "max", "min"].map((name) => [name, `${name} of all`]);
// What a list of points can be drawn against, beside its own columns.
const DERIVED_AXES = {
  delta_t: ({ d, p, gamma }) => gamma / (p * d),
  gamma_over_p: ({ p, gamma }) => gamma / p,
};

const form = $("#choose");
const cellForm = $("#cell");
const chart = $("#chart");
let requested = readQuery();
const contents = await loadContents(sweepId);
if (!contents.views.includes("phase-diagram")) {
  explainMissingDiagram();
  await new Promise(() => {}); // nothing else on this page can work
}

const axes = getVaryingAxes(contents);
const points = contents.points?.map((row) =>
  Object.fromEntries(contents.axes.map((axis, column) => [axis.name, row[column]])));
const axisNames = [...axes.map((axis) => axis.name), ...(points ? Object.keys(DERIVED_AXES) : [])];
const suggestion = contents.suggestion.view === "phase-diagram" ? contents.suggestion.words : {};
const defaultPair = getDefaultPair();

function explainMissingDiagram() {
  showProblem("A phase diagram needs two axes with several values each. See ");
  const link = createElement("a", { href: `/sweeps/${sweepId}/curves` }, "the curves");
  $("#problem").append(link, " instead.");
  form.hidden = true;
  $(".columns").hidden = true;
}

function getDefaultPair() {
  if (suggestion.x) return suggestion;
  return points ? findSeparatingPair() : { x: axisNames.at(-1), y: axisNames[0] };
}

/** Find two axes on which the fewest points coincide. */
function findSeparatingPair() {
  const pairs = axisNames.flatMap((y, index) => axisNames.slice(index + 1).map((x) => ({ x, y })));
  const counts = pairs.map(({ x, y }) => new Set(points.map((point) => getPosition(point, x, y))).size);
  return pairs[counts.indexOf(Math.max(...counts))];
}

function getPosition(point, x, y) {
  return `${formatAxisValue(point, x)} ${formatAxisValue(point, y)}`;
}

function formatAxisValue(point, name) {
  return formatExact(DERIVED_AXES[name]?.(point) ?? point[name]);
}

/** If points that coincide on two axes differ in a third, return its value at the first point, else "". */
function getSeparatingValue(name, x, y) {
  const values = new Map();
  for (const point of points) {
    const position = getPosition(point, x, y);
    if (values.has(position) && values.get(position) !== point[name]) return points[0][name];
    values.set(position, point[name]);
  }
  return "";
}

function renderControls() {
  const x = requested.x ?? defaultPair.x;
  const y = requested.y ?? (defaultPair.y === x ? defaultPair.x : defaultPair.y);
  const value = requested.value ?? suggestion.value ?? getDefaultValue(contents);
  const axisOptions = axisNames.map((name) => [name, getSymbol(name)]);
  replaceFields(form,
    createSelect("x", "Horizontal", axisOptions, x),
    createSelect("y", "Vertical", axisOptions, y),
    createSelect("value", "Value", getValueOptions(contents), value),
    createTheorySelect(contents, value, requested.regime ?? suggestion.regime),
    ...createAxisSelects(x, y));
  replaceFields(cellForm, ...(points ? [createPointSelect()] : createCellSelects(x, y)));
}

/** Create a select for each axis that is not drawn. */
function createAxisSelects(x, y) {
  const defaults = getDefaultSelection(contents, null);
  const extraOptions = points ? [["", "any"]] : REDUCTIONS;
  const otherAxes = axes.filter(({ name }) => name !== x && name !== y);
  return otherAxes.map((axis) => {
    const fallback = points ? getSeparatingValue(axis.name, x, y) : defaults[axis.name];
    return createAxisSelect(axis, requested[axis.name] ?? fallback, ...extraOptions);
  });
}

function createPointSelect() {
  const options = points.map((point, index) => [index, formatCoordinates(getVaryingCoordinates(point))]);
  return createSelect("at", "Point", options, requested.at ?? 0);
}

function createCellSelects(x, y) {
  const drawnAxes = [x, y].map((name) => axes.find((axis) => axis.name === name)).filter(Boolean);
  return drawnAxes.map((axis) => {
    const middle = axis.values[Math.floor(axis.values.length / 2)];
    const label = createAxisSelect(axis, requested[`${CELL_PREFIX}${axis.name}`] ?? middle);
    $("select", label).name = `${CELL_PREFIX}${axis.name}`;
    return label;
  });
}

function getVaryingCoordinates(point) {
  return Object.fromEntries(axes.map(({ name }) => [name, point[name]]));
}

function readSelection() {
  return { ...readFields(form), ...readFields(cellForm) };
}

let latestRequest = 0;
let shownAnswer = null;

async function renderDiagram() {
  latestRequest += 1;
  const request = latestRequest;
  const query = formatQuery(readFields(form));
  replaceQuery(readSelection());
  try {
    const answer = await getJson(`/v1/sweeps/${sweepId}/phase-diagram${query}`);
    if (request !== latestRequest) return;
    await drawDiagram(answer);
    if (!shownAnswer) chart.on("plotly_click", handleClick); // which exists once something is drawn
    shownAnswer = answer;
    showProblem("");
    $("#what").textContent = answer.value.long_name;
    $("#caption").textContent = formatCaption(answer);
    renderDownloads($("#links"), `/v1/sweeps/${sweepId}/phase-diagram`, query);
  } catch (error) {
    if (request === latestRequest) showProblem(error.message);
  }
}

async function drawDiagram(answer) {
  const isGrid = answer.form === "grid";
  if (isGrid) sortGrid(answer);
  const start = performance.now();
  await drawChart(chart, () => (isGrid ? buildHeatmap(answer) : buildScatter(answer)));
  chart.dataset.milliseconds = String(Math.round(performance.now() - start)); // read by the benchmark
}

function formatCaption(answer) {
  const reductions = Object.entries(answer.reduced ?? {}).map(formatReduction);
  const parts = [formatCoordinates(answer.at)];
  if (reductions.length) parts.push(`mean over ${reductions.join(", ")}`);
  return parts.filter(Boolean).join(" · ");
}

/** Format what a mean was taken over: a range of time, or a number of seeds or repeats. */
function formatReduction([name, extent]) {
  if (name === "time") return `t from ${formatNumber(extent.from)} to ${formatNumber(extent.to)}`;
  return `${extent} ${name}${extent === 1 ? "" : "s"}`;
}

function renderCell() {
  const selection = readSelection();
  replaceQuery(selection);
  if (points) {
    showPointCurves(sweepId, getVaryingCoordinates(points[selection.at]));
    return;
  }
  const coordinates = {};
  for (const select of cellForm.elements) {
    const name = select.name.slice(CELL_PREFIX.length);
    coordinates[name] = parseAxisValue(name, select.value);
  }
  showPointCurves(sweepId, coordinates, getFixedValues(selection));
}

/** Return the value of an axis that is written as `text`. */
function parseAxisValue(name, text) {
  const axis = contents.axes.find((candidate) => candidate.name === name);
  return axis?.values.find((value) => formatExact(value) === text) ?? text;
}

/** Return the selected values of axes that are not drawn, without reductions such as `mean`. */
function getFixedValues(selection) {
  const fixed = {};
  for (const { name, values } of axes) {
    if (values.some((value) => formatExact(value) === selection[name])) fixed[name] = selection[name];
  }
  return fixed;
}

function handleClick(event) {
  const { pointIndex } = event.points[0];
  if (points) cellForm.elements.at.value = getDrawnPoints()[pointIndex];
  else selectCell(pointIndex);
  renderCell();
}

/** Return the indices of the points that match the selection, in the order in which they are drawn. */
function getDrawnPoints() {
  const selection = readFields(form);
  const isSelected = (point) => axes.every(
    ({ name }) => selection[name] === undefined || formatExact(point[name]) === selection[name]);
  return points.map((_, index) => index).filter((index) => isSelected(points[index]));
}

function selectCell([row, column]) {
  const { x, y } = shownAnswer;
  for (const [name, value] of [[x.name, x.values[column]], [y.name, y.values[row]]]) {
    const select = cellForm.elements[`${CELL_PREFIX}${name}`];
    if (select) select.value = formatExact(value);
  }
}

function handleChange({ target }) {
  requested = readSelection();
  if (requested.x === requested.y) {
    const otherAxis = target.name === "x" ? "y" : "x";
    requested[otherAxis] = axisNames.find((name) => name !== target.value);
  }
  renderControls();
  renderDiagram();
  renderCell();
}

renderControls();
renderDiagram().then(renderCell);
form.addEventListener("change", handleChange);
cellForm.addEventListener("change", renderCell);
preventSubmit(form);
preventSubmit(cellForm);
onCountsChange(debounce(() => {
  renderDiagram();
  renderCell();
}, RELOAD_MILLISECONDS));
