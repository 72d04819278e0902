// Values of a spec as the texts of form fields, and back.
import { parseList, parseScalar } from "../common/format.js";

/** Format seeds: a number is a count, a list in brackets names the seeds, so that 5 is not [5]. */
export function formatSeeds(seeds) {
  return Array.isArray(seeds) ? `[${seeds.join(", ")}]` : String(seeds ?? 1);
}

/** Parse a count of seeds, or a list of them. */
export function parseSeeds(text) {
  return /[[,]/.test(text) ? parseList(text.replace(/[[\]]/g, "")) : parseScalar(text);
}

/** Format groups of axes that vary together, such as `d, gamma; p, noise`. */
export function formatZip(groups) {
  return groups.map((names) => names.join(", ")).join("; ");
}

/** Parse groups of axes that vary together. */
export function parseZip(text) {
  const groups = text.split(";").map((group) => group.split(",").map((name) => name.trim()).filter(Boolean));
  return groups.filter((names) => names.length);
}

/** Format a list of points as a table, with the names of its columns in the first line. */
export function formatPoints(points) {
  const names = Object.keys(points[0] ?? {});
  const rows = points.map((point) => names.map((name) => point[name]).join(" "));
  return [names.join(" "), ...rows].join("\n");
}

/** Parse a table of points. A column without a name gets one that the service refuses. */
export function parsePoints(text) {
  const lines = text.split("\n").map((line) => line.trim().split(/[\s,;]+/).filter(Boolean));
  const [names, ...rows] = lines.filter((cells) => cells.length);
  const parseCell = (cell, column) => [names[column] ?? `column ${column + 1}`, parseScalar(cell)];
  return rows.map((cells) => Object.fromEntries(cells.map(parseCell)));
}

/** Return a value, a list of values, or nothing as a list. */
export function toList(value) {
  return [value ?? []].flat();
}

/** Return whether a value is an object such as `{log: [1, 10, 5]}`, not a list. */
export function isMapping(value) {
  return Boolean(value) && typeof value === "object" && !Array.isArray(value);
}

/** Return `values` in the order of `previous`, new ones last. */
export function keepOrder(values, previous) {
  return [
    ...previous.filter((value) => values.includes(value)),
    ...values.filter((value) => !previous.includes(value)),
  ];
}
