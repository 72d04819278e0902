// The triangle of limits, as in the figure for print: each point by how close it is to the high-dimensional,
// the mean-field and the classical corner. Its symbol is the theory that `auto` chooses.
import { TRIANGLE_PARAMETERS } from "../common/contents.js";
import { formatName, formatNumber, formatResult } from "../common/format.js";
import { getSymbol, getTitle } from "../common/labels.js";
import { getColourScale, getThemeColour } from "./colours.js";
import { formatScientific } from "./log-ticks.js";
import { getExtent } from "./scales.js";

const HEIGHT = Math.sqrt(0.75);
const CORNERS = { d: [0.5, HEIGHT], p: [0, 0], gamma: [1, 0] };
const CORNER_TEXTS = {
  d: "high-dimensional<br>d → ∞",
  p: "mean field<br>p → ∞",
  gamma: "classical<br>γ → 0",
};
// The values of each parameter are written along the side that ends in its corner: the corner where the side
// begins, the angle of the title, and the directions of ticks and of the title.
const SIDES = {
  d: { start: "gamma", angle: 60, tick: [1, 0], outward: [HEIGHT, 0.5] },
  p: { start: "d", angle: -60, tick: [-0.5, HEIGHT], outward: [-HEIGHT, 0.5] },
  gamma: { start: "p", angle: 0, tick: [-0.5, -HEIGHT], outward: [0, -1] },
};
// In the order of the theories in the registry, as in print.
const SYMBOLS = [
  "circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-left", "triangle-right",
];
const TICK_LENGTH = 0.02;
const TICK_LABEL_DISTANCE = 0.06;
const MARKER_SIZE = 13;
// On a chart narrower than this many pixels.
const NARROW_WIDTH = 420;
const NARROW_TICK_LABEL_DISTANCE = 0.085;
const NARROW_MARKER_SIZE = 9;
const TITLE_DISTANCE = 0.17;
const MIN_CORNER_DISTANCE = 0.02; // lines closer to a corner are left out
const MAX_LINE_SHARE = 0.93;
const SKIPPED = { hoverinfo: "skip", meta: { withoutAxes: true } };

/** Format the coordinates of a point of the triangle. */
export function formatTrianglePoint(point) {
  return TRIANGLE_PARAMETERS.map((name) => `${getSymbol(name)} = ${formatNumber(point[name])}`).join(", ");
}

/**
 * Build the chart of an answer of `/figures/triangle`; `regimeOrder` has the names of all theories, and
 * `width` is that of the chart in pixels.
 */
export function buildTriangleChart(answer, regimeOrder, width) {
  const isNarrow = width < NARROW_WIDTH;
  const present = new Set(answer.points.map((point) => point.auto_regime));
  const regimes = regimeOrder.filter((name) => present.has(name));
  const lines = createRatioLines(answer.points, answer.delta_t);
  return {
    data: [createFrame(answer.points), ...lines.map(({ trace }) => trace),
      ...createPointTraces(answer.points, regimes, isNarrow ? NARROW_MARKER_SIZE : MARKER_SIZE)],
    layout: createLayout(answer, lines, isNarrow ? NARROW_TICK_LABEL_DISTANCE : TICK_LABEL_DISTANCE),
    legend: [{ title: "chosen by auto", items: regimes.map(createLegendItem) }],
  };
}

function createLegendItem(regime, index) {
  return { key: regime, label: formatName(regime), colour: getThemeColour("ink"), symbol: SYMBOLS[index] };
}

function createLayout({ points, delta_t: deltaT }, lines, labelDistance) {
  const hidden = { visible: false, fixedrange: true };
  return {
    xaxis: { ...hidden, range: [-0.22, 1.22] },
    yaxis: { ...hidden, range: [-0.26, HEIGHT + 0.2], scaleanchor: "x" },
    margin: { l: 0, r: 0, t: 0, b: 62 },
    dragmode: false,
    annotations: [
      ...TRIANGLE_PARAMETERS.map(createCornerText),
      ...TRIANGLE_PARAMETERS.map(createSideTitle),
      ...TRIANGLE_PARAMETERS.flatMap((name) => createTickTexts(points, name, labelDistance)),
      ...lines.map(({ text }) => text),
      createText([-0.2, HEIGHT + 0.14], `δt = ${formatScientific(deltaT)}`, { xanchor: "left" }),
    ],
  };
}

function createText([x, y], text, properties = {}) {
  return { x, y, text, showarrow: false, font: { size: 12 }, ...properties };
}

function createCornerText(name) {
  const [x, y] = CORNERS[name];
  const isTop = y > 0;
  const place = isTop ? { yanchor: "bottom" } : { yanchor: "top" };
  return createText([x, isTop ? y + 0.03 : y - 0.1], CORNER_TEXTS[name], place);
}

function createSideTitle(name) {
  const { start, angle, outward } = SIDES[name];
  const middle = addScaled(interpolateCorners(name, start, 0.5), outward, TITLE_DISTANCE);
  return createText(middle, `${getTitle(name)} ${getSymbol(name)}`, { textangle: angle });
}

/** Return the place on a side at a share of its length, measured from `start`. */
function interpolateCorners(end, start, share) {
  return CORNERS[end].map((value, index) => share * value + (1 - share) * CORNERS[start][index]);
}

function addScaled(place, direction, length) {
  return place.map((value, index) => value + length * direction[index]);
}

/** Return the ticks of a parameter: powers of ten, with the share of the side at which each is. */
function listTicks(points, name) {
  const line = fitLogLine(points, name);
  if (!line) return [];
  const [low, high] = getExtent([line.intercept, line.intercept + line.slope]);
  const ticks = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += 1) {
    ticks.push({ value: Number(`1e${power}`), share: (power - line.intercept) / line.slope });
  }
  return ticks;
}

/** Fit log10 of a parameter, which is linear in its share; null if it does not vary. */
function fitLogLine(points, name) {
  const sorted = [...points].sort((a, b) => a[`u_${name}`] - b[`u_${name}`]);
  const [first, last] = [sorted[0], sorted.at(-1)];
  const width = last[`u_${name}`] - first[`u_${name}`];
  if (!width || first[name] === last[name]) return null;
  const slope = Math.log10(last[name] / first[name]) / width;
  return { slope, intercept: Math.log10(first[name]) - slope * first[`u_${name}`] };
}

function createTickTexts(points, name, labelDistance) {
  const { start, tick } = SIDES[name];
  return listTicks(points, name).map(({ value, share }) => {
    const place = addScaled(interpolateCorners(name, start, share), tick, labelDistance);
    return createText(place, formatTick(value), { font: { size: 11 } });
  });
}

function formatTick(value) {
  return value >= 1e-3 && value < 1e4 ? formatNumber(value) : formatScientific(value);
}

/** Create the sides and their ticks. */
function createFrame(points) {
  const outline = [CORNERS.d, CORNERS.p, CORNERS.gamma, CORNERS.d];
  const ticks = TRIANGLE_PARAMETERS.flatMap((name) => listTicks(points, name).flatMap(({ share }) => {
    const base = interpolateCorners(name, SIDES[name].start, share);
    return [[null, null], base, addScaled(base, SIDES[name].tick, TICK_LENGTH)];
  }));
  const path = [...outline, ...ticks];
  return {
    ...SKIPPED,
    mode: "lines",
    x: path.map(([x]) => x),
    y: path.map(([, y]) => y),
    line: { width: 1.2, color: getThemeColour("ink") },
  };
}

/** Create a line for each power of ten of γ/p = δt d, which is a line of equal d, and its label. */
function createRatioLines(points, deltaT) {
  const line = fitLogLine(points, "d");
  if (!line) return [];
  const lines = [];
  for (let power = -12; power <= 12; power += 1) {
    const share = (power - Math.log10(deltaT) - line.intercept) / line.slope;
    const isInside = share > MIN_CORNER_DISTANCE && share < MAX_LINE_SHARE;
    if (isInside) lines.push(createRatioLine(share, power, points));
  }
  return lines;
}

function createRatioLine(share, power, points) {
  const left = interpolateCorners("d", "p", share);
  const right = interpolateCorners("d", "gamma", share);
  const colour = getThemeColour("faint");
  const trace = {
    ...SKIPPED,
    mode: "lines",
    x: [left[0], right[0]],
    y: [left[1], right[1]],
    line: { dash: "dash", width: 1, color: colour },
  };
  const text = createText(findFreePlace(left, right, points), `γ/p = ${formatTick(Number(`1e${power}`))}`, {
    font: { size: 11, color: colour },
  });
  return { trace, text };
}

/** Return a place above or below a line that covers few points, as near to its middle as possible. */
function findFreePlace(left, right, points) {
  const places = points.map(getPlace);
  const getFreedom = ([x, y]) => Math.min(1, ...places.map(
    ([pointX, pointY]) => Math.max(Math.abs(x - pointX) / 0.12, Math.abs(y - pointY) / 0.045)));
  let best = null;
  for (let step = 5; step <= 15; step += 1) {
    const x = left[0] + ((right[0] - left[0]) * step) / 20;
    for (const offset of [0.03, -0.03]) {
      const place = [x, left[1] + offset];
      const score = getFreedom(place) - 0.5 * Math.abs(x - 0.5);
      if (!best || score > best.score) best = { place, score };
    }
  }
  return best.place;
}

/**
 * Return how close a rectangle of the chart comes to each corner at least, as a share: the largest part of
 * the triangle that lies within the sides through the rectangle's lower left, lower right and upper ends.
 */
export function getShares(xRange, yRange) {
  const corners = xRange.flatMap((x) => yRange.map((y) => getBarycentric(x, y)));
  const least = (name) => Math.max(0, Math.min(...corners.map((shares) => shares[name])));
  return Object.fromEntries(TRIANGLE_PARAMETERS.map((name) => [`u_${name}`, least(name)]));
}

function getBarycentric(x, y) {
  const d = y / HEIGHT;
  const gamma = x - d / 2;
  return { d, gamma, p: 1 - d - gamma };
}

function getPlace(point) {
  return [0, 1].map((index) => TRIANGLE_PARAMETERS.reduce(
    (sum, name) => sum + point[`u_${name}`] * CORNERS[name][index], 0));
}

/** Create a trace for each theory; all of them share one colour scale, whose bar the first one shows. */
function createPointTraces(points, regimes, size) {
  const { toNumber, trace } = getColourScale(points.map((point) => point.value));
  const { zmin, zmax, ...colours } = trace; // limits of heat maps
  const numbers = points.map((point) => toNumber(point.value)).filter((number) => number !== null);
  const [cmin, cmax] = getExtent(numbers);
  const colorbar = {
    ...colours.colorbar, orientation: "h", x: 0.5, y: 0, yref: "container", yanchor: "bottom", len: 0.8,
  };
  const line = { width: 1, color: getThemeColour("ink") };
  const marker = { size, line, cmin, cmax, ...colours, colorbar };
  return regimes.map((regime, index) => createPointTrace(points, regime, {
    ...marker,
    symbol: SYMBOLS[index % SYMBOLS.length],
    showscale: index === 0,
  }, toNumber));
}

function createPointTrace(points, regime, marker, toNumber) {
  const members = points
    .map((point, pointIndex) => ({ ...point, pointIndex }))
    .filter((point) => point.auto_regime === regime);
  const places = members.map(getPlace);
  return {
    mode: "markers",
    name: formatName(regime),
    x: places.map(([x]) => x),
    y: places.map(([, y]) => y),
    customdata: members.map((point) => point.pointIndex),
    marker: { ...marker, color: members.map((point) => toNumber(point.value)) },
    text: members.map(formatHoverText),
    hovertemplate: "%{text}<extra></extra>",
    cliponaxis: false,
    meta: { withoutAxes: true, keys: [regime] },
  };
}

function formatHoverText(point) {
  const regime = `auto: ${formatName(point.auto_regime)}`;
  return [formatTrianglePoint(point), formatResult(point.value), regime].join("<br>");
}
