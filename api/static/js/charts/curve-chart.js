// Curves over time, as in the figures for print: SGD as circles with a band over its runs, theories as lines,
// and as dots the band that a theory predicts for the runs.
import { formatDistinct, formatName } from "../common/format.js";
import { formatCoordinates, getSymbol } from "../common/labels.js";
import { fade, getColours, getThemeColour, mixColours } from "./colours.js";
import { findFirstTime } from "./first-change.js";
import { createAxis, createLogRange } from "./plotly.js";
import { getExtent } from "./scales.js";
import { createStripLayout, createStripTraces, listMarkedCurves, listStripItems } from "./validity-strip.js";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"]; // one for each theory
const BAND_OPACITY = 0.18;
const MAX_CIRCLES = 24; // along one curve
const INK_WEIGHT = 0.3; // in the colour of a theory, so that it stands out against its circles
const AXIS_TITLES = { risk: "excess risk R", z_score: "z-score z" };
const DEFAULT_TITLES = { sgd: "SGD", band: "SGD, 16 to 84 % of its runs" };
const PREDICTED = { key: "predicted", label: "predicted mean and 95 % of the runs", dash: "dot" };

/**
 * Build the chart of an answer of `/curves`.
 *
 * `colourAxis` is the axis along which curves are coloured, or null; `isLogTime` and `isLogValue` choose the
 * axes; `hasBands` shows the spread of the runs. `titles` replace those of the value axis and of SGD, and
 * `levels` are values at which horizontal lines are drawn. An answer with a `band` of its own, which says
 * where most values are expected, has values of both signs: its axis is linear. Curves of several sweeps have
 * their own `time` each.
 */
export function buildCurveChart(answer, options = {}) {
  const { colourAxis = null, isLogTime = true, hasBands = true, titles = {}, levels = [] } = options;
  const isLogValue = (options.isLogValue ?? true) && !answer.band;
  const style = createStyle(answer, colourAxis);
  const curves = answer.curves.map((curve) => ({
    curve,
    ...selectSamples(curve.time ?? answer.time, curve, isLogTime, isLogValue),
  }));
  const drawn = curves.filter(({ x }) => x.length);
  if (!drawn.length) return createEmptyChart();
  const data = drawn.flatMap(({ curve, ...samples }) => (curve.source === "sgd"
    ? createSgdTraces(curve, samples, style, hasBands, isLogValue)
    : createTheoryTraces(curve, samples, style, hasBands, isLogValue)));
  // Theories last, above the circles.
  data.sort((a, b) => Number(a.meta.isTheory) - Number(b.meta.isTheory));
  const marked = listMarkedCurves(drawn);
  const lines = [...(answer.band ?? []), ...levels];
  const legend = createLegend(answer, style, hasBands, { ...DEFAULT_TITLES, ...titles });
  return {
    data: [...data, ...createStripTraces(marked, style)],
    layout: createLayout({ ...answer, titles }, drawn, { isLogTime, isLogValue, lines, marked }),
    legend: [...legend, { title: "validity", items: listStripItems(marked) }],
  };
}

/** Collect what the traces and the legend share: colours, labels and dashes. */
function createStyle(answer, colourAxis) {
  const allValues = colourAxis === null ? [] : answer.curves.map((curve) => curve.at[colourAxis]);
  const values = [...new Set(allValues)];
  const texts = formatDistinct(values);
  const regimes = [...new Set(answer.curves.map((curve) => curve.regime).filter(Boolean))];
  const ink = getThemeColour("ink");
  const colours = getColours(Math.max(1, values.length));
  const regimeColours = getColours(Math.max(1, regimes.length));
  const getIndex = (curve) => values.indexOf(curve.at[colourAxis]);
  const getRegimeColour = (regime) => regimeColours[regimes.indexOf(regime)];
  const getOwnColour = (curve) => (curve.regime ? getRegimeColour(curve.regime) : ink);
  const getValueKeys = (curve) => (colourAxis === null ? [] : [texts[getIndex(curve)]]);
  return {
    colourAxis,
    values,
    texts,
    regimes,
    colours,
    ink,
    getColour: (curve) => (colourAxis === null ? getOwnColour(curve) : colours[getIndex(curve)]),
    getDash: (regime) => DASHES[regimes.indexOf(regime) % DASHES.length],
    getRegimeColour: (regime) => (colourAxis === null ? getRegimeColour(regime) : ink),
    getKeys: (curve) => [curve.regime ?? curve.source, ...getValueKeys(curve)],
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
  const colour = style.getColour(curve);
  const meta = { keys: style.getKeys(curve), isTheory: false };
  const mean = {
    x,
    y,
    mode: "lines+markers",
    line: { width: 0.8, color: fade(colour, 0.6) },
    marker: { color: colour, size: 6, symbol: "circle-open", maxdisplayed: MAX_CIRCLES },
    hovertemplate: createHoverTemplate(curve),
    name: "SGD",
    meta,
  };
  if (!hasBands || curve.runs <= 1) return [mean];
  const edge = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", meta };
  const low = select(curve.low).map((value) => (isDrawable(value, isLogValue) ? value : null));
  return [
    { ...edge, y: low },
    { ...edge, y: select(curve.high), fill: "tonexty", fillcolor: fade(colour, BAND_OPACITY) },
    mean,
  ];
}

function createTheoryTraces(curve, { x, y, select }, style, hasBands, isLogValue) {
  const colour = style.getColour(curve);
  const line = {
    x,
    y,
    mode: "lines",
    line: {
      color: style.colourAxis === null ? colour : mixColours(colour, style.ink, INK_WEIGHT),
      width: 2,
      dash: style.getDash(curve.regime),
    },
    hovertemplate: createHoverTemplate(curve),
    name: formatName(curve.regime),
    meta: { keys: style.getKeys(curve), isTheory: true },
  };
  if (!hasBands || !curve.predicted) return [line];
  const meta = { keys: [...style.getKeys(curve), PREDICTED.key], isTheory: true };
  const dots = { color: colour, width: 1, dash: PREDICTED.dash };
  const predictions = ["low", "mean", "high"].map((name) => ({
    x,
    mode: "lines",
    line: dots,
    hoverinfo: "skip",
    meta,
    y: select(curve.predicted[name]).map((value) => (isDrawable(value, isLogValue) ? value : null)),
  }));
  return [...predictions, line];
}

/** Return one group for the sources, by circle and dash, and one for the values, by colour. */
function createLegend(answer, style, hasBands, titles) {
  const sgdCurves = answer.curves.filter((curve) => curve.source === "sgd");
  const hasBand = hasBands && sgdCurves.some((curve) => curve.runs > 1);
  const sgdItem = {
    key: "sgd", label: hasBand ? titles.band : titles.sgd, colour: style.ink, symbol: "circle", hasBand,
  };
  const theoryItems = style.regimes.map((regime) => ({
    key: regime,
    label: titles.theory ?? formatName(regime),
    colour: style.getRegimeColour(regime),
    dash: style.getDash(regime),
  }));
  const valueItems = style.texts.map((text, index) => (
    { key: text, label: text, colour: style.colours[index], dash: "solid" }));
  const hasPredicted = hasBands && answer.curves.some((curve) => curve.predicted);
  const predictedItems = hasPredicted ? [{ ...PREDICTED, colour: style.ink }] : [];
  const sources = [...(sgdCurves.length ? [sgdItem] : []), ...theoryItems, ...predictedItems];
  return [
    { title: getSourcesTitle(sgdCurves.length, theoryItems.length), items: sources },
    { title: style.colourAxis === null ? "" : `${getSymbol(style.colourAxis)} =`, items: valueItems },
  ];
}

function getSourcesTitle(hasSgd, hasTheory) {
  return [hasSgd && "SGD", hasTheory && "theory"].filter(Boolean).join(" and ");
}

function createEmptyChart() {
  const annotation = { text: "no results yet", showarrow: false, font: { size: 15 } };
  return {
    data: [],
    layout: { xaxis: { visible: false }, yaxis: { visible: false }, annotations: [annotation] },
  };
}

function createLayout(answer, curves, { isLogTime, isLogValue, lines, marked }) {
  const title = answer.titles.value ?? AXIS_TITLES[answer.observable] ?? formatName(answer.observable);
  const { upperDomain, ...strip } = createStripLayout(marked);
  const lastTime = Math.max(...curves.map(({ x }) => x.at(-1)));
  const timeRange = isLogTime ? { range: createLogRange(findFirstTime(curves, isLogValue), lastTime) } : {};
  const heights = isLogValue ? [...listHeights(curves), ...lines] : [];
  const valueRange = isLogValue ? { range: createLogRange(...getExtent(heights)) } : {};
  const domain = upperDomain ? { domain: upperDomain } : {};
  return {
    ...strip,
    xaxis: createAxis("time t", isLogTime, { ...timeRange, ...(upperDomain && { anchor: "y2" }) }),
    yaxis: createAxis(title, isLogValue, { ...valueRange, ...domain }),
    shapes: lines.map(createLine),
  };
}

function createLine(height) {
  const line = { width: 1, dash: "dot", color: getThemeColour("faint") };
  return { type: "line", layer: "below", xref: "paper", x0: 0, x1: 1, y0: height, y1: height, line };
}

/** Return all values that a logarithmic axis shows, with those of the bands. */
function listHeights(curves) {
  return curves.flatMap(({ curve, y, select }) => {
    const ends = curve.source === "sgd" ? curve : curve.predicted;
    const band = ends ? [...select(ends.low), ...select(ends.high)] : [];
    return [...y, ...band.filter((value) => isDrawable(value, true))];
  });
}
