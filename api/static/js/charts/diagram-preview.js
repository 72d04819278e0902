// A small picture of a diagram, drawn without the plotting library: cells of a grid, or points of a triangle.
import { formatNumber, formatName, formatResult } from "../common/format.js";
import { getSymbol } from "../common/labels.js";
import { getColours, getThemeColour, getValueColour } from "./colours.js";
import { sortGrid } from "./phase-diagram-chart.js";
import { getExtent, spansDecade } from "./scales.js";
import { createShape, formatPoints } from "./svg.js";

const HEIGHT = 230;
const MARGIN = { left: 56, right: 74, top: 8, bottom: 38 };
const BAR_WIDTH = 12;
const BAR_STEPS = 24;
const WORD_HEIGHT = 18;
const LABEL_WIDTH = 52;
const LABEL_HEIGHT = 22;
const TRIANGLE_MARGIN = 30;

/** Draw an answer of `/phase-diagram` or `/figures/triangle` into an element. */
export function drawDiagramPreview(element, answer) {
  const width = element.clientWidth;
  const shapes = answer.form === "triangle" ? createTriangle(answer, width) : createGrid(answer, width);
  element.replaceChildren(createShape("svg", { width, height: HEIGHT, "aria-hidden": "true" }, shapes));
}

/** Return a function from a value to its colour, and the ends of the scale, or the colours of words. */
function createColours(values) {
  const known = values.filter((value) => value !== null);
  const missing = getThemeColour("soft");
  if (known.some((value) => typeof value === "string")) {
    const words = [...new Set(known)].sort();
    const colours = getColours(words.length);
    const getColour = (value) => (value === null ? missing : colours[words.indexOf(value)]);
    return { getColour, items: words.map((word) => [formatName(word), getColour(word)]) };
  }
  const toNumber = spansDecade(known) ? Math.log : (value) => value;
  const [low, high] = getExtent(known);
  const getShare = (value) => (toNumber(value) - toNumber(low)) / (toNumber(high) - toNumber(low) || 1);
  return { low, high, getColour: (value) => (value === null ? missing : getValueColour(getShare(value))) };
}

function createGrid(answer, width) {
  sortGrid(answer);
  const { x, y, value } = answer;
  const colours = createColours(value.values.flat());
  const cellWidth = (width - MARGIN.left - MARGIN.right) / x.values.length;
  const cellHeight = (HEIGHT - MARGIN.top - MARGIN.bottom) / y.values.length;
  const getTop = (row) => HEIGHT - MARGIN.bottom - (row + 1) * cellHeight;
  const cells = value.values.flatMap((row, rowIndex) => row.map((result, column) => createShape("rect", {
    x: MARGIN.left + column * cellWidth,
    y: getTop(rowIndex),
    width: Math.max(1, cellWidth - 0.7),
    height: Math.max(1, cellHeight - 0.7),
    fill: colours.getColour(result),
  })));
  return [
    ...cells,
    ...createColumnLabels(x, cellWidth),
    ...createRowLabels(y, cellHeight, getTop),
    ...createKey(colours, width - MARGIN.right + 10),
  ];
}

function createText(x, y, text, anchor = "middle") {
  return createShape("text", { x, y, "text-anchor": anchor, fill: getThemeColour("faint") }, text);
}

function formatValue(value) {
  return typeof value === "number" ? formatNumber(value) : formatName(value);
}

function createColumnLabels({ name, values }, cellWidth) {
  const step = Math.ceil(LABEL_WIDTH / cellWidth);
  const labels = values
    .map((value, column) => [value, column])
    .filter(([, column]) => column % step === 0)
    .map(([value, column]) => createText(
      MARGIN.left + (column + 0.5) * cellWidth, HEIGHT - MARGIN.bottom + 15, formatValue(value)));
  const middle = MARGIN.left + (values.length * cellWidth) / 2;
  return [...labels, createText(middle, HEIGHT - 4, getSymbol(name))];
}

function createRowLabels({ name, values }, cellHeight, getTop) {
  const step = Math.ceil(LABEL_HEIGHT / cellHeight);
  const labels = values
    .map((value, row) => [value, row])
    .filter(([, row]) => row % step === 0)
    .map(([value, row]) => createText(
      MARGIN.left - 6, getTop(row) + cellHeight / 2 + 4, formatValue(value), "end"));
  return [...labels, createText(6, HEIGHT / 2 - 12, getSymbol(name), "start")];
}

/** Create the bar of colours with its ends, or the list of words. */
function createKey({ getColour, items, low, high }, x) {
  if (items) {
    return items.flatMap(([word, fill], index) => {
      const y = MARGIN.top + WORD_HEIGHT * index;
      const sample = createShape("rect", { x, y, width: BAR_WIDTH, height: BAR_WIDTH, fill });
      return [sample, createText(x + BAR_WIDTH + 4, y + 10, word, "start")];
    });
  }
  if (!Number.isFinite(low)) return [];
  const height = HEIGHT - MARGIN.top - MARGIN.bottom;
  const isLog = spansDecade([low, high]);
  const getValue = (share) => (isLog ? low * (high / low) ** share : low + (high - low) * share);
  const steps = Array.from({ length: BAR_STEPS }, (_, index) => createShape("rect", {
    x,
    y: MARGIN.top + height * (1 - (index + 1) / BAR_STEPS),
    width: BAR_WIDTH,
    height: height / BAR_STEPS + 0.5,
    fill: getColour(getValue(index / (BAR_STEPS - 1))),
  }));
  return [
    ...steps,
    createText(x + BAR_WIDTH + 4, MARGIN.top + 10, formatResult(Number(high.toPrecision(2))), "start"),
    createText(x + BAR_WIDTH + 4, MARGIN.top + height, formatResult(Number(low.toPrecision(2))), "start"),
  ];
}

function createTriangle({ points }, width) {
  const colours = createColours(points.map((point) => point.value));
  const side = Math.min((HEIGHT - 2 * TRIANGLE_MARGIN) / Math.sqrt(0.75), width - MARGIN.right - 80);
  const centre = (width - MARGIN.right) / 2;
  const bottom = HEIGHT - TRIANGLE_MARGIN;
  const corners = {
    d: [centre, bottom - side * Math.sqrt(0.75)],
    p: [centre - side / 2, bottom],
    gamma: [centre + side / 2, bottom],
  };
  const getPlace = (point) => [0, 1].map((index) => Object.keys(corners).reduce(
    (sum, name) => sum + point[`u_${name}`] * corners[name][index], 0));
  const dots = points.map((point) => {
    const [cx, cy] = getPlace(point);
    return createShape("circle", { cx, cy, r: 5, fill: colours.getColour(point.value) });
  });
  return [
    createShape("polygon", {
      points: formatPoints(Object.values(corners)), fill: "none", stroke: getThemeColour("faint"),
    }),
    ...dots,
    createText(corners.d[0], corners.d[1] - 12, "d → ∞"),
    createText(corners.p[0], bottom + 20, "p → ∞"),
    createText(corners.gamma[0], bottom + 20, "γ → 0"),
    ...createKey(colours, width - MARGIN.right + 10),
  ];
}
