// What is missing in a region of the drawn diagram: its fields, its candidates, and the spec of those that
// are not stored.
import { getExtent, isLogSpaced } from "../charts/scales.js";
import { getShares } from "../charts/triangle-chart.js";
import { TRIANGLE_PARAMETERS } from "../common/contents.js";
import { getSymbol } from "../common/labels.js";
import { findMissing, listRectangle, listTriangle } from "./lattice.js";
import { createRectangleFields, createTriangleFields, readNumber, readSide } from "./missing-panel.js";
import { composeSpec, loadTemplate } from "./missing-spec.js";
import { getPointNames, listPoints, pick } from "./points.js";

const INTEGERS = ["d", "p", "k", "batch"];
const DERIVED = ["delta_t", "gamma_over_p", "kappa", "delta"]; // which no point of a spec can name
const NO_DIAGRAM = "Show a diagram of one or more sweeps first.";
const NO_RECTANGLE = "Enter the ends of the rectangle, the smaller ones first, and the values.";
const NO_TRIANGLE = "Select a sweep over a triangle, and a resolution of 1 or more.";
const ROUNDING = 1e-9;

/** Create the fields of a region of an answer. */
export function createRegionFields(answer) {
  if (answer.form === "triangle") return createTriangleFields(TRIANGLE_PARAMETERS);
  return createRectangleFields(getPointNames(answer).map((name, index) => {
    const values = listPoints(answer).map((point) => point[name]);
    const [low, high] = getExtent(values);
    return { key: "xy"[index], name, low, high, isLog: isLogSpaced(values) };
  }));
}

/** Return the fields for an area that was marked in the chart. */
export function readMarkedArea(answer, range) {
  if (answer.form === "triangle") return getShares(range.x, range.y);
  const [x, y] = [range.x, range.y].map((ends) => [...ends].sort((a, b) => a - b));
  return { x_low: x[0], x_high: x[1], y_low: y[0], y_high: y[1] };
}

/**
 * Find the points of the region that are not stored, and their spec; resolves to a text if that makes no
 * sense. `values` are the selected values, and `sweepIds` the sweeps that the diagram is made of.
 */
export async function findMissingPoints(answer, { values, regimes, sweepIds }) {
  if (answer === null || !sweepIds.length) return NO_DIAGRAM;
  const template = await loadTemplate([...sweepIds].sort().at(-1));
  const listPart = answer.form === "triangle" ? listTrianglePart : listRectanglePart;
  const candidates = listPart(answer, template);
  if (typeof candidates === "string") return candidates;
  const names = getPointNames(answer);
  const points = findMissing(candidates, listPoints(answer), names).map((point) => pick(point, names));
  const constants = { ...answer.fixed, ...values };
  const spec = points.length ? composeSpec(template, points, constants, regimes) : null;
  return { candidates: candidates.length, points, spec };
}

function listRectanglePart(answer) {
  const names = getPointNames(answer);
  const derived = names.find((name) => DERIVED.includes(name));
  if (derived) return `${getSymbol(derived)} follows from other parameters: draw the diagram over those.`;
  const [x, y] = names.map((name, index) => readSide("xy"[index], name, INTEGERS.includes(name)));
  return x && y ? listRectangle(x, y) : NO_RECTANGLE;
}

function listTrianglePart(answer, template) {
  const resolution = readNumber("resolution");
  if (!template.triangle || !Number.isInteger(resolution) || resolution < 1) return NO_TRIANGLE;
  const { triangle } = template;
  const k = answer.fixed?.k ?? template.fixed?.k ?? template.axes?.k;
  const multiple = triangle.p_multiple_of ?? "k"; // as in the design
  const step = multiple === "k" ? k : multiple;
  const limits = {
    deltaT: answer.delta_t,
    gammaMax: triangle.gamma_max ?? 1,
    dMin: triangle.d_min ?? k + 1,
    pMin: Math.ceil((triangle.p_min ?? k) / step) * step,
    step,
  };
  const least = TRIANGLE_PARAMETERS.map((name) => [`u_${name}`, readNumber(`u_${name}`) || 0]);
  const isInside = (point) => least.every(([name, share]) => point[name] >= share - ROUNDING);
  return listTriangle(limits, resolution).filter(isInside);
}
