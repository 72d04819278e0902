// A spec as YAML: one name per line, and what is inside it in flow style, as people write it. The service
// reads YAML back, so there is only one parser.

const PLAIN_TEXT = /^[A-Za-z_][\w.* -]*$/;
const RESERVED_WORDS = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
const MAX_FLOW_LENGTH = 64;

/** Format a spec as YAML. */
export function formatYaml(spec) {
  return Object.entries(spec).map(([name, value]) => formatEntry(name, value)).join("");
}

function formatEntry(name, value) {
  const line = `${name}: ${formatFlow(value)}`;
  const isScalar = value === null || typeof value !== "object";
  if (isScalar || Object.keys(value).length === 0) return `${line}\n`;
  if (line.length <= MAX_FLOW_LENGTH && name !== "axes") return `${line}\n`;
  const items = Array.isArray(value)
    ? value.map((item) => `  - ${formatFlow(item)}\n`)
    : Object.entries(value).map(([key, item]) => `  ${formatText(key)}: ${formatFlow(item)}\n`);
  return `${name}:\n${items.join("")}`;
}

/** Format a value in flow style, such as `[1, 2]` or `{log: [1, 10, 5]}`. */
export function formatFlow(value) {
  if (Array.isArray(value)) return `[${value.map(formatFlow).join(", ")}]`;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).map(([name, item]) => `${formatText(name)}: ${formatFlow(item)}`);
    return `{${entries.join(", ")}}`;
  }
  return typeof value === "string" ? formatText(value) : JSON.stringify(value);
}

function formatText(text) {
  const isReserved = RESERVED_WORDS.includes(text.toLowerCase());
  const isPlain = PLAIN_TEXT.test(text) && !text.endsWith(" ") && !isReserved;
  return isPlain ? text : JSON.stringify(text);
}
