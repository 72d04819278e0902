// A spec as YAML: names below each other, and what is inside them in one line, as people write it. It is read
// back by the service, so there is one reader of YAML.

const PLAIN = /^[A-Za-z_][\w.* -]*$/, WORDS = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

function text(value) {
  return PLAIN.test(value) && !value.endsWith(" ") && !WORDS.includes(value.toLowerCase()) ? value : JSON.stringify(value);
}

function flow(value) {
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  if (value !== null && typeof value === "object") return `{${Object.entries(value).map(([name, one]) => `${text(name)}: ${flow(one)}`).join(", ")}}`;
  return typeof value === "string" ? text(value) : JSON.stringify(value);
}

const LONGEST = 64;
export function yaml(spec) {
  return Object.entries(spec).map(([name, value]) => {
    const short = `${name}: ${flow(value)}`;
    if (value === null || typeof value !== "object" || !Object.keys(value).length || (short.length <= LONGEST && name !== "axes")) return `${short}\n`;
    if (Array.isArray(value)) return `${name}:\n${value.map((one) => `  - ${flow(one)}\n`).join("")}`;
    return `${name}:\n${Object.entries(value).map(([inner, one]) => `  ${text(inner)}: ${flow(one)}\n`).join("")}`;
  }).join("");
}
