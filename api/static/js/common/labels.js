// Symbols and long names of parameters, which the service writes into every page from its registry.
import { $ } from "./dom.js";
import { formatName, formatNumber } from "./format.js";

const LABELS = JSON.parse($("#labels").textContent);

/** Return the symbol of a parameter or an axis, or its name if it has none. */
export function getSymbol(name) {
  return LABELS[name]?.symbol ?? name;
}

/** Return the long name of a parameter or an axis, or an empty text. */
export function getLongName(name) {
  return LABELS[name]?.long_name ?? "";
}

/** Return the title of a parameter at an axis, as in the figures for print. */
export function getTitle(name) {
  return LABELS[name]?.title ?? name;
}

/** Format coordinates as `d = 5, γ = 0.1`; a list of values is shown by its first and its last. */
export function formatCoordinates(coordinates) {
  return Object.entries(coordinates)
    .map(([name, value]) => `${getSymbol(name)} = ${formatCoordinate(value)}`)
    .join(", ");
}

function formatCoordinate(value) {
  const ends = Array.isArray(value) ? [value[0], value.at(-1)] : [value];
  return ends.map((end) => (typeof end === "number" ? formatNumber(end) : formatName(end))).join(" … ");
}
