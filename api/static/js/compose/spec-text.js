// A spec as text: YAML, JSON, a curl command, Python code.
import { formatYaml } from "../common/yaml.js";

const PYTHON_CONSTANTS = { true: "True", false: "False", null: "None" };
const JSON_STRING_OR_CONSTANT = /"(?:[^"\\]|\\.)*"|true|false|null/g;

/** Media types of the formats that can be edited; the service reads them. */
export const EDITABLE_FORMATS = { yaml: "application/yaml", json: "application/json" };

const FORMATTERS = {
  yaml: formatYaml,
  json: (spec) => JSON.stringify(spec, null, 2),
  curl: formatCurl,
  python: formatPython,
};

/** Format a spec as `yaml`, `json`, `curl` or `python`. */
export function formatSpec(spec, format) {
  return FORMATTERS[format](spec);
}

function formatCurl(spec) {
  return [
    `curl -X POST ${location.origin}/v1/sweeps \\`,
    "  -H 'Content-Type: application/yaml' --data-binary @- <<'YAML'",
    `${formatYaml(spec)}YAML`,
  ].join("\n");
}

function formatPython(spec) {
  return [
    "import sweep_service as ss",
    "",
    `client = ss.Client("${location.origin}")`,
    `sweep = client.submit(${formatPythonLiteral(spec)})`,
    'client.wait(sweep["id"])',
    'ds = client.open(sweep["id"])',
  ].join("\n");
}

/** JSON is Python but for its constants; strings are matched too, so that constants within them stay. */
function formatPythonLiteral(value) {
  const json = JSON.stringify(value, null, 4);
  return json.replace(JSON_STRING_OR_CONSTANT, (match) => PYTHON_CONSTANTS[match] ?? match);
}
