// Two sweeps compared: the ratio or the difference of a value at their common points, with its errors.
import { formatExact, formatName, formatNumber } from "../common/format.js";
import { formatCoordinates, getSymbol, getTitle } from "../common/labels.js";
import { getColours, getThemeColour } from "./colours.js";
import { createAxis, createLogRange } from "./plotly.js";
import { getExtent, isLogSpaced } from "./scales.js";

const NEUTRAL = { ratio: 1, difference: 0 }; // where both sweeps agree

/** Return the label with the most different numbers, along which the points are drawn, or null. */
export function chooseLabel({ labels, points }) {
  const isNumeric = (name) => typeof points[0]?.[name] === "number";
  const count = (name) => new Set(points.map((point) => point[name])).size;
  return labels.filter(isNumeric).sort((a, b) => count(b) - count(a))[0] ?? null;
}

/** Build the chart of an answer of `/v1/compare` along one of its labels; the others have a colour each. */
export function buildComparisonChart(answer, label) {
  const { labels, how } = answer;
  const others = labels.filter((name) => name !== label);
  const groups = groupPoints(answer.points.filter((point) => point[how] !== null), others);
  const colours = getColours(Math.max(1, groups.size));
  const data = [...groups].map(([key, points], index) => createTrace(points, {
    key, label, how, colour: others.length ? colours[index] : getThemeColour("ink"),
  }));
  const items = [...groups.keys()].map((key, index) => (
    { key, label: key, colour: colours[index], symbol: "circle" }));
  return {
    data,
    layout: createLayout(answer, label),
    legend: [{ title: others.map(getSymbol).join(", "), items: others.length ? items : [] }],
  };
}

function groupPoints(points, names) {
  const groups = new Map();
  for (const point of points) {
    const key = formatCoordinates(Object.fromEntries(names.map((name) => [name, point[name]])));
    groups.set(key, [...(groups.get(key) ?? []), point]);
  }
  return groups;
}

function createTrace(points, { key, label, how, colour }) {
  const sorted = [...points].sort((a, b) => a[label] - b[label]);
  const errors = sorted.map((point) => point.standard_error ?? 0);
  return {
    mode: "lines+markers",
    name: key,
    x: sorted.map((point) => point[label]),
    y: sorted.map((point) => point[how]),
    error_y: { type: "data", array: errors, visible: errors.some(Boolean), color: colour, thickness: 1.2 },
    line: { width: 0.8, color: colour },
    marker: { size: 7, color: colour },
    text: sorted.map((point) => formatPoint(point, { key, label, how })),
    hovertemplate: "%{text}<extra></extra>",
    meta: { keys: [key] },
  };
}

function formatPoint(point, { key, label, how }) {
  const error = point.standard_error === null ? "" : ` ± ${formatNumber(point.standard_error)}`;
  const place = [`${getSymbol(label)} = ${formatExact(point[label])}`, key].filter(Boolean).join(", ");
  const runs = `${point.runs_a} and ${point.runs_b} runs${point.paired ? ", paired" : ""}`;
  return [place, `${formatName(how)} ${formatNumber(point[how])}${error}`, runs].join("<br>");
}

function createLayout({ points, how }, label) {
  const values = points.map((point) => point[label]);
  const isLog = isLogSpaced(values);
  const title = `${getSymbol(label)} · ${getTitle(label)}`;
  const line = { width: 1, dash: "dot", color: getThemeColour("faint") };
  const height = NEUTRAL[how];
  return {
    xaxis: createAxis(title, isLog, isLog ? { range: createLogRange(...getExtent(values)) } : {}),
    yaxis: createAxis(`${how} of the first to the second`, false),
    shapes: [{ type: "line", layer: "below", xref: "paper", x0: 0, x1: 1, y0: height, y1: height, line }],
  };
}
