// Phase diagrams: a heat map of a grid, or markers for a list of points.
import { formatDistinct, formatName, formatNumber, formatResult } from "../common/format.js";
import { getSymbol, getTitle } from "../common/labels.js";
import { getColourScale } from "./colours.js";
import { createAxis, createLogRange } from "./plotly.js";
import { getCellEdges, getExtent, isLogSpaced } from "./scales.js";

const MAX_LABELLED_VALUES = 9;
const MAX_CELLS_WITH_GAP = 40; // along one axis
const HOVER_TEMPLATE = "%{text}<extra></extra>";

/** Sort the numbers along both axes of a grid in place, as they may be stored in any order; words stay. */
export function sortGrid({ x, y, value }) {
  const columns = getSortedOrder(x.values);
  const rows = getSortedOrder(y.values);
  for (const name of ["values", "standard_error", "runs"]) {
    if (value[name]) value[name] = rows.map((row) => columns.map((column) => value[name][row][column]));
  }
  x.values = columns.map((column) => x.values[column]);
  y.values = rows.map((row) => y.values[row]);
}

function getSortedOrder(values) {
  const compare = (a, b) => (typeof values[a] === "number" ? values[a] - values[b] : a - b);
  return values.map((_, index) => index).sort(compare);
}

/** Build the heat map of a grid. */
export function buildHeatmap({ x, y, value }) {
  const scale = getColourScale(value.values.flat());
  const { cmin, cmax, ...colours } = scale.trace; // limits of markers
  const trace = {
    type: "heatmap",
    x: getAxisEdges(x.values),
    y: getAxisEdges(y.values),
    z: value.values.map((row) => row.map(scale.toNumber)),
    text: createCellTexts(x, y, value),
    hovertemplate: HOVER_TEMPLATE,
    ...colours,
    xgap: x.values.length < MAX_CELLS_WITH_GAP ? 1 : 0,
    ygap: y.values.length < MAX_CELLS_WITH_GAP ? 1 : 0,
  };
  const xaxis = createValueAxis(x, x.values, MAX_LABELLED_VALUES);
  const yaxis = createValueAxis(y, y.values, MAX_LABELLED_VALUES);
  const layout = { xaxis: { ...xaxis, showgrid: false }, yaxis: { ...yaxis, showgrid: false } };
  return { data: [trace], layout };
}

/** Build the markers of a list of points. */
export function buildScatter({ x, y, points }) {
  const scale = getColourScale(points.map((point) => point.value));
  const { zmin, zmax, ...colours } = scale.trace; // limits of heat maps
  const xValues = points.map((point) => point.x);
  const yValues = points.map((point) => point.y);
  const trace = {
    mode: "markers",
    x: getPositions(xValues),
    y: getPositions(yValues),
    marker: {
      size: 14,
      line: { width: 1, color: "#fff" },
      color: points.map((point) => scale.toNumber(point.value)),
      showscale: true,
      ...colours,
    },
    text: points.map((point) => `${formatPair(x, point.x, y, point.y)}<br>${formatResult(point.value)}`),
    hovertemplate: HOVER_TEMPLATE,
  };
  // Values of points may be too close to each other for a tick each.
  const layout = { xaxis: createValueAxis(x, xValues, 0), yaxis: createValueAxis(y, yValues, 0) };
  return { data: [trace], layout };
}

function createCellTexts(x, y, value) {
  return value.values.map((results, row) => results.map((result, column) => {
    const error = value.standard_error?.[row][column];
    const errorText = result !== null && error ? ` ± ${formatNumber(error)}` : "";
    const lines = [formatPair(x, x.values[column], y, y.values[row]), `${formatResult(result)}${errorText}`];
    if (value.runs) lines.push(`${value.runs[row][column]} runs`);
    return lines.join("<br>");
  }));
}

function formatPair(x, xValue, y, yValue) {
  return `${getSymbol(x.name)} = ${formatNumber(xValue)}, ${getSymbol(y.name)} = ${formatNumber(yValue)}`;
}

/** Return numbers as they are, and words as their place in the order of their first appearance. */
function getPositions(values) {
  if (typeof values[0] === "number") return values;
  const words = [...new Set(values)];
  return values.map((value) => words.indexOf(value));
}

function getAxisEdges(values) {
  const isLog = typeof values[0] === "number" && isLogSpaced(values);
  return getCellEdges(getPositions(values), isLog);
}

/** Return the layout of an axis; up to `maxLabelled` values have a tick each. */
function createValueAxis(axis, allValues, maxLabelled) {
  const title = `${getSymbol(axis.name)} · ${getTitle(axis.name)}`;
  const values = [...new Set(allValues)];
  if (typeof values[0] !== "number") {
    const ticks = { tickvals: values.map((_, index) => index), ticktext: values.map(formatName) };
    return createAxis(title, false, ticks);
  }
  const isLog = isLogSpaced(values);
  if (values.length <= maxLabelled) {
    return createAxis(title, isLog, { tickvals: values, ticktext: formatDistinct(values), minor: {} });
  }
  return createAxis(title, isLog, isLog ? { range: createLogRange(...getExtent(values)) } : {});
}
