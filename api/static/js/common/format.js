// Numbers, durations, sizes and identifiers as people read them.

const DURATION_UNITS = [["years", 31557600], ["days", 86400], ["h", 3600], ["min", 60]]; // in seconds
const SIZE_UNITS = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]; // in bytes

/** Format a number: 1,234,567 if it is whole, else with three digits, such as 0.00123 or 1.2e-7. */
export function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  const magnitude = Math.abs(value);
  if (Number.isInteger(value) && magnitude < 1e7) return value.toLocaleString("en-GB");
  if (magnitude !== 0 && (magnitude < 1e-3 || magnitude >= 1e6)) {
    return value.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e");
  }
  return String(Number(value.toPrecision(3)));
}

/** Format a parameter with all the digits that it was given, without rounding noise in the last ones. */
export function formatExact(value) {
  return typeof value === "number" ? String(Number(value.toPrecision(10))) : String(value);
}

/** Format values with few digits, or with all of them where fewer would make two values look equal. */
export function formatDistinct(values) {
  const texts = values.map(formatNumber);
  return new Set(texts).size === texts.length ? texts : values.map(formatExact);
}

/** Format a number of things with their noun, such as `1 sweep` or `1,200 sweeps`. */
export function formatCount(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Format a number of seconds in its largest unit. */
export function formatDuration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  for (const [unit, length] of DURATION_UNITS) {
    if (seconds >= length) return `${Number((seconds / length).toPrecision(2))} ${unit}`;
  }
  return seconds >= 0.01 || seconds === 0 ? `${Number(seconds.toPrecision(2))} s` : "less than 0.01 s";
}

/** Format the time left of a sweep, with its range where that is wide. */
export function formatRemaining({ eta_seconds: expected, eta_low_seconds: low, eta_high_seconds: high }) {
  const left = `${formatDuration(expected)} left`;
  return high < 1.25 * low ? left : `${left} (${formatDuration(low)} to ${formatDuration(high)})`;
}

/** Format a number of bytes in its largest unit. */
export function formatBytes(bytes) {
  for (const [unit, length] of SIZE_UNITS) {
    if (bytes >= length) return `${Number((bytes / length).toPrecision(2))} ${unit}`;
  }
  return `${bytes} bytes`;
}

/** Format an ISO timestamp of the service to the minute. */
export function formatTimestamp(timestamp) {
  return `${timestamp.slice(0, 16).replace("T", " ")} UTC`;
}

/** Format a share in percent with two digits, such as 4.1 %. */
export function formatPercent(share) {
  return `${Number((100 * share).toPrecision(2))} %`;
}

/** Format an identifier such as `high_dimensional` with spaces. */
export function formatName(identifier) {
  return identifier.replaceAll("_", " ");
}

/** Format a computed value: a number with four digits, a word as it is, null as missing. */
export function formatResult(value) {
  if (value === null) return "no value";
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : formatName(value);
}

/** Return a number if `text` spells one, else the text; the service reports what is wrong with it. */
export function parseScalar(text) {
  const trimmed = String(text).trim();
  return trimmed === "" || Number.isNaN(Number(trimmed)) ? trimmed : Number(trimmed);
}

/** Split a text at commas into numbers and words. */
export function parseList(text) {
  return text.split(",").map((item) => item.trim()).filter(Boolean).map(parseScalar);
}
