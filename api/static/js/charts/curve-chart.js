// Curves over time: SGD as points with a band over its runs, theories as lines.
import { formatDistinct, formatName } from "../common/format.js";
import { formatCoordinates, getSymbol } from "../common/labels.js";
import { fade, getColours, getThemeColour } from "./colours.js";
import { createAxis, createLogTicks, TRANSPARENT } from "./plotly.js";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"]; // one for each theory
const BAND_OPACITY = 0.18;
const AXIS_TITLES = { risk: "excess risk R" };

/**
 * Build the chart of an answer of `/curves`.
 *
 * `colourAxis` is the axis along which curves are coloured, or null; `isLogTime` and `isLogValue` choose the
 * axes; `hasBands` shows the spread of the runs.
 */
export function buildCurveChart(answer, options = {}) {
  const { colourAxis = null, isLogTime = true, isLogValue = true, hasBands = true } = options;
  const style = createStyle(answer, colourAxis);
  const data = answer.curves.flatMap((curve) => {
    const samples = selectSamples(answer.time, curve, isLogTime, isLogValue);
    return curve.source === "sgd"
      ? createSgdTraces(curve, samples, style, hasBands, isLogValue)
      : [createTheoryTrace(curve, samples, style)];
  });
  if (!data.some((trace) => trace.x.length)) return createEmptyChart();
  return { data, layout: createLayout(answer, data, isLogTime, isLogValue) };
}

/** Collect what the traces share: colours, labels, dashes, and which names are already in the legend. */
function createStyle(answer, colourAxis) {
  const values = [...new Set(answer.curves.map((curve) => curve.at[colourAxis]))];
  const texts = formatDistinct(values);
  const colours = getColours(Math.max(1, values.length));
  const regimes = [...new Set(answer.curves.map((curve) => curve.regime).filter(Boolean))];
  const legendNames = new Set();
  const getIndex = (curve) => (colourAxis === null ? 0 : values.indexOf(curve.at[colourAxis]));
  return {
    colourAxis,
    regimes,
    hasSgd: answer.curves.some((curve) => curve.source === "sgd"),
    getColour: (curve) => colours[getIndex(curve)],
    getLabel: (curve) => (colourAxis === null ? "" : `${getSymbol(colourAxis)} = ${texts[getIndex(curve)]}`),
    getDash: (curve) => DASHES[regimes.indexOf(curve.regime) % DASHES.length],
    addToLegend(name) {
      const isNew = !legendNames.has(name);
      legendNames.add(name);
      return isNew;
    },
  };
}

/** Keep the samples that the axes can show. */
function selectSamples(times, curve, isLogTime, isLogValue) {
  const hasTime = times.map((time) => isDrawable(time, isLogTime));
  const hasValue = curve.mean.map((value) => isDrawable(value, isLogValue));
  const select = (column) => column.filter((_, index) => hasTime[index] && hasValue[index]);
  return { x: select(times), y: select(curve.mean), select };
}

function isDrawable(value, isLog) {
  return value !== null && (!isLog || value > 0);
}

function createHoverTemplate(curve) {
  const source = curve.source === "sgd" ? "SGD" : formatName(curve.regime);
  const lines = [source, formatCoordinates(curve.at), "t = %{x:.3g}: %{y:.4g}"];
  return `${lines.join("<br>")}<extra>${curve.runs} runs</extra>`;
}

function createSgdTraces(curve, { x, y, select }, style, hasBands, isLogValue) {
  const label = style.getLabel(curve);
  const colour = style.getColour(curve);
  const points = {
    x,
    y,
    mode: "markers",
    marker: { color: colour, size: 5 },
    hovertemplate: createHoverTemplate(curve),
    legendgroup: label,
    name: label ? `${label} (SGD)` : "SGD",
    showlegend: style.addToLegend(label),
  };
  if (!hasBands || curve.runs <= 1) return [points];
  const edge = {
    x,
    mode: "lines",
    line: { width: 0 },
    hoverinfo: "skip",
    showlegend: false,
    legendgroup: label,
  };
  const low = select(curve.low).map((value) => (isDrawable(value, isLogValue) ? value : null));
  return [
    { ...edge, y: low },
    { ...edge, y: select(curve.high), fill: "tonexty", fillcolor: fade(colour, BAND_OPACITY) },
    points,
  ];
}

/** Beside SGD, the points name the colours in the legend, and the lines only their theory. */
function createTheoryTrace(curve, { x, y }, style) {
  const label = style.getLabel(curve);
  const regime = formatName(curve.regime);
  const name = style.hasSgd ? regime : getStandaloneName(label, regime, style.regimes.length);
  const isOnlyColour = style.colourAxis === null && style.hasSgd;
  const colour = isOnlyColour ? getThemeColour("ink") : style.getColour(curve);
  return {
    x,
    y,
    mode: "lines",
    line: { color: colour, width: 1.8, dash: style.getDash(curve) },
    hovertemplate: createHoverTemplate(curve),
    name,
    legendgroup: style.hasSgd ? label : name,
    showlegend: style.addToLegend(style.hasSgd ? curve.regime : name),
  };
}

function getStandaloneName(label, regime, regimeCount) {
  if (!label) return regime;
  return regimeCount > 1 ? `${label}, ${regime}` : label;
}

function createEmptyChart() {
  const annotation = { text: "no results yet", showarrow: false, font: { size: 15 } };
  return {
    data: [],
    layout: { xaxis: { visible: false }, yaxis: { visible: false }, annotations: [annotation] },
  };
}

function createLayout(answer, data, isLogTime, isLogValue) {
  const times = data.flatMap((trace) => trace.x);
  const values = data.flatMap((trace) => trace.y);
  const title = AXIS_TITLES[answer.observable] ?? formatName(answer.observable);
  return {
    xaxis: createAxis("time t", isLogTime, isLogTime ? createLogTicks(times) : {}),
    yaxis: createAxis(title, isLogValue, isLogValue ? createLogTicks(values) : {}),
    legend: { orientation: "h", y: -0.16, yanchor: "top", bgcolor: TRANSPARENT },
    margin: { l: 66, r: 16, t: 12, b: 90 },
  };
}
