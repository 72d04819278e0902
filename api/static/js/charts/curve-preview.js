// A small picture of curves, drawn without the plotting library.
import { fade, getColours, getThemeColour } from "./colours.js";
import { findFirstTime } from "./first-change.js";
import { createLogTicks } from "./log-ticks.js";
import { getExtent } from "./scales.js";
import { createShape, formatPoints } from "./svg.js";

const HEIGHT = 230;
const MARGIN = { left: 52, right: 12, top: 8, bottom: 38 };
const LABEL_WIDTH = 60;
const LABEL_HEIGHT = 34;
const DASHES = ["", "6 4", "2 3", "6 3 2 3", "10 4"]; // one for each theory
const TICK_LENGTH = 4;

/** Draw the curves of an answer of `/curves` into an element; both axes are logarithmic. */
export function drawCurvePreview(element, answer, colourAxis) {
  const curves = answer.curves.map((curve) => ({ curve, ...selectPositive(answer.time, curve.mean) }));
  const drawn = curves.filter(({ x }) => x.length > 1);
  if (!drawn.length) {
    element.replaceChildren("no results yet");
    return;
  }
  const scales = createScales(element.clientWidth, drawn);
  const size = { width: element.clientWidth, height: HEIGHT };
  element.replaceChildren(createShape("svg", { ...size, "aria-hidden": "true" },
    createAxes(scales),
    createCurves(answer, drawn, scales, colourAxis)));
}

function selectPositive(times, values) {
  const isDrawn = (index) => times[index] > 0 && values[index] > 0;
  const indices = times.map((_, index) => index).filter(isDrawn);
  return { x: indices.map((index) => times[index]), y: indices.map((index) => values[index]) };
}

/** Return the scales of both axes: ranges of numbers and of pixels, and the map from one to the other. */
function createScales(width, curves) {
  const lastTime = Math.max(...curves.map(({ x }) => x.at(-1)));
  const firstTime = findFirstTime(curves, true);
  const [low, high] = getExtent(curves.flatMap(({ y }) => y));
  const margin = Math.max((high / low) ** 0.04, 1.02);
  return {
    x: createScale([firstTime, lastTime], [MARGIN.left, width - MARGIN.right], LABEL_WIDTH),
    y: createScale([low / margin, high * margin], [HEIGHT - MARGIN.bottom, MARGIN.top], LABEL_HEIGHT),
  };
}

function createScale([low, high], [start, end], labelLength) {
  const length = Math.log(high / low) || 1;
  const map = (value) => start + ((end - start) * Math.log(value / low)) / length;
  const ticks = createLogTicks(low, high, Math.abs(end - start) / labelLength);
  return { start, end, map, ticks };
}

function createAxes({ x, y }) {
  const colours = { line: getThemeColour("line"), text: getThemeColour("faint") };
  const frame = createShape("rect", {
    x: x.start, y: y.end, width: x.end - x.start, height: y.start - y.end, fill: "none", stroke: colours.line,
  });
  const timeTicks = x.ticks.values.map((value, index) => createTick(
    [x.map(value), y.start], [0, TICK_LENGTH], x.ticks.texts[index], colours));
  const valueTicks = y.ticks.values.map((value, index) => createTick(
    [x.start, y.map(value)], [-TICK_LENGTH, 0], y.ticks.texts[index], colours));
  const title = createShape("text", {
    x: (x.start + x.end) / 2, y: HEIGHT - 4, "text-anchor": "middle", fill: colours.text,
  }, "time t");
  return [frame, ...timeTicks.flat(), ...valueTicks.flat(), title];
}

function createTick([x, y], [stepX, stepY], text, colours) {
  const line = { x1: x, y1: y, x2: x + stepX, y2: y + stepY, stroke: colours.line };
  const label = stepX
    ? { x: x + stepX - 3, y: y + 4, "text-anchor": "end" }
    : { x, y: y + stepY + 12, "text-anchor": "middle" };
  return [createShape("line", line), createShape("text", { ...label, fill: colours.text }, text)];
}

function createCurves(answer, curves, scales, colourAxis) {
  const values = [...new Set(answer.curves.map((curve) => curve.at[colourAxis]))];
  const regimes = [...new Set(answer.curves.map((curve) => curve.regime).filter(Boolean))];
  const colours = getColours(Math.max(1, values.length));
  const isSgd = ({ curve }) => curve.source === "sgd";
  const sorted = [...curves.filter(isSgd), ...curves.filter((entry) => !isSgd(entry))]; // theories on top
  return sorted.map(({ curve, x, y }) => {
    const places = x.map((time, index) => [scales.x.map(time), scales.y.map(y[index])]);
    const visible = places.filter(([left]) => left >= scales.x.start - 1);
    const colour = colours[values.indexOf(curve.at[colourAxis])];
    const dash = DASHES[regimes.indexOf(curve.regime) % DASHES.length];
    const style = curve.source === "sgd"
      ? { stroke: fade(colour, 0.35), "stroke-width": 6 }
      : { stroke: colour, "stroke-width": 1.6, "stroke-dasharray": dash };
    return createShape("polyline", { points: formatPoints(visible), fill: "none", ...style });
  });
}
