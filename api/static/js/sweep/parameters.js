// The parameters of a sweep as rows of a list: axes with their ranges, fixed values, start, seeds and time.
import { formatName, formatNumber } from "../common/format.js";
import { getLongName, getSymbol } from "../common/labels.js";
import { formatFlow } from "../common/yaml.js";

const MAX_LISTED_VALUES = 4;

/** Return names and texts of all parameters of a sweep, from its contents, its spec and the catalogue. */
export function listParameters(contents, spec, catalogue) {
  return {
    ...Object.fromEntries(contents.axes.map((axis) => [formatLabel(axis.name), formatValues(axis.values)])),
    ...listFixed(contents, spec, catalogue),
    start: formatInit(spec.init),
    ...listStructures(spec, catalogue),
    theories: contents.regimes.map(formatName).join(", ") || null,
    runs: formatSeeds(contents),
    time: `0 to ${formatNumber(contents.times[1])}, ${formatNumber(countSamples(spec.time))} samples`,
  };
}

function countSamples({ samples, then = [] }) {
  return then.reduce((sum, later) => sum + later.samples, samples);
}

/** Return the symbol and the long name of a parameter, or one of them if that says it all. */
function formatLabel(name) {
  const symbol = getSymbol(name);
  const longName = getLongName(name);
  if (!longName) return formatName(symbol);
  const isRepeated = symbol === name && name.length > 1;
  return isRepeated || longName.split(" ").includes(symbol) ? longName : `${symbol}, ${longName}`;
}

function formatValues(values) {
  const texts = values.map((value) => (typeof value === "number" ? formatNumber(value) : formatName(value)));
  if (texts.length <= MAX_LISTED_VALUES) return texts.join(", ");
  return `${texts[0]} to ${texts.at(-1)}, ${texts.length} values`;
}

/** List the parameters that have one value, those with their default value as well. */
function listFixed(contents, spec, catalogue) {
  const axisNames = contents.axes.map((axis) => axis.name);
  const rows = {};
  for (const { name, default: defaultValue } of catalogue.parameter_details) {
    const value = spec.fixed[name] ?? defaultValue;
    const isKnown = value !== null && value !== undefined;
    if (isKnown && !axisNames.includes(name)) rows[formatLabel(name)] = formatValues([value]);
  }
  return rows;
}

/** List the structured parameters beside the start, such as `power t0 10`; an empty one has no row. */
function listStructures(spec, catalogue) {
  const isShown = (name) => name !== "init" && name in spec;
  const names = catalogue.structures.map(({ name }) => name).filter(isShown);
  return Object.fromEntries(names.map((name) => [formatName(name), formatEntries(spec[name]) || null]));
}

function formatInit({ kind, shared, ...numbers }) {
  const isShort = ([, value]) => typeof value !== "object";
  const parts = [formatEntries(Object.fromEntries(Object.entries(numbers).filter(isShort)))];
  if (shared) parts.push("the same for all d");
  return [formatName(kind), ...parts].filter(Boolean).join(", ");
}

/** Format a value of a structured parameter: a name, or what is in a mapping. */
function formatEntries(value) {
  if (typeof value !== "object") return formatValues([value]);
  return Object.entries(value).map(([name, entry]) => {
    if (Array.isArray(entry)) return `${formatName(name)} ${formatFlow(entry)}`;
    return `${formatName(name)} ${formatEntries(entry)}`.trim();
  }).join(", ");
}

function formatSeeds({ sources, seeds, repeats }) {
  const starts = `${formatNumber(seeds)} ${seeds === 1 ? "start" : "starts"}`;
  return sources.includes("sgd") ? `${starts}, SGD repeated ${formatNumber(repeats)}×` : starts;
}
