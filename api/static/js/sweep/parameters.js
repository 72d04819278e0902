// The parameters of a sweep as rows of a list: axes with their ranges, fixed values, start, seeds and time.
import { formatName, formatNumber } from "../common/format.js";
import { getLongName, getSymbol } from "../common/labels.js";

const MAX_LISTED_VALUES = 4;

/** Return names and texts of all parameters of a sweep, from its contents, its spec and the catalogue. */
export function listParameters(contents, spec, catalogue) {
  return {
    ...Object.fromEntries(contents.axes.map((axis) => [formatLabel(axis.name), formatValues(axis.values)])),
    ...listFixed(contents, spec, catalogue),
    start: formatInit(spec.init),
    theories: contents.regimes.map(formatName).join(", ") || null,
    runs: formatSeeds(contents),
    time: `0 to ${formatNumber(contents.times[1])}, ${formatNumber(spec.time.samples)} samples`,
  };
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

function formatInit({ kind, shared, ...numbers }) {
  const parts = Object.entries(numbers)
    .filter(([, value]) => typeof value !== "object")
    .map(([name, value]) => `${formatName(name)} ${formatValues([value])}`);
  if (shared) parts.push("the same for all d");
  return [formatName(kind), ...parts].join(", ");
}

function formatSeeds({ sources, seeds, repeats }) {
  const starts = `${formatNumber(seeds)} ${seeds === 1 ? "start" : "starts"}`;
  return sources.includes("sgd") ? `${starts}, SGD repeated ${formatNumber(repeats)}×` : starts;
}
