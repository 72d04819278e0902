// The spec of the points that are missing: like the sweeps of the selection, at other points.
import { getJson, post } from "../common/rest.js";

const DESIGNS = ["zip", "scaling", "triangle", "points"];
const CORE = ["d", "p", "gamma", "k"];

/** Get the spec of a sweep in its shortest form. */
export async function loadTemplate(sweepId) {
  const { spec } = await post("/v1/spec", await getJson(`/v1/sweeps/${sweepId}/spec`));
  return spec;
}

/**
 * Return a spec of some points. `points` have the same names each; `constants` are the parameters that all
 * points share, and what neither has is as in the template. A complete rectangle becomes a product of axes.
 */
export function composeSpec(template, points, constants, regimes) {
  const varying = Object.keys(points[0]);
  const spec = structuredClone(template);
  for (const design of DESIGNS) delete spec[design];
  const stored = { ...spec.fixed, ...spec.axes };
  const regime = regimes ?? stored.regime;
  const names = [...new Set([...CORE, ...Object.keys(stored)])].filter(
    (name) => name !== "regime" && !varying.includes(name));
  spec.fixed = {};
  for (const name of names) {
    const value = constants[name] ?? stored[name];
    if (value !== undefined) spec.fixed[name] = value;
  }
  const axes = getProductAxes(points, varying);
  spec.axes = { ...axes, ...(regime === undefined ? {} : { regime }) };
  if (!axes) spec.points = points;
  for (const name of varying) removeNumber(spec, name);
  return { ...spec, name: "missing points of the atlas" };
}

/** Return the axes of a complete rectangle, or null if points are missing in it. */
function getProductAxes(points, names) {
  const values = names.map((name) => [...new Set(points.map((point) => point[name]))]);
  const size = values.reduce((product, column) => product * column.length, 1);
  if (size !== points.length) return null;
  return Object.fromEntries(names.map((name, index) => (
    [name, values[index].length === 1 ? values[index][0] : values[index]])));
}

/** Remove a number of a structure, such as `init.scale`, which is given at each point. */
function removeNumber(spec, name) {
  const [structure, ...path] = name.split(".");
  const last = path.pop();
  const parent = path.reduce((value, key) => value?.[key], spec[structure]);
  if (last && parent && typeof parent === "object") delete parent[last];
}
