// How the points of a sweep are laid out, and what changes in a spec when another design is chosen.
import { getSymbol } from "../common/labels.js";
import { isMapping, toList } from "./field-values.js";

const ALWAYS_SHOWN = ["k", "noise"];
const DEFAULT_COUNT = 5; // values of a spaced axis
const P_MULTIPLE = { name: "p_multiple_of", title: "p multiple of" };
const SETTINGS_OF_OTHER_DESIGNS = ["triangle", "scaling", "points", "zip"];
const DESIGN_AXES = ["d", "p", "gamma", "kappa", "delta"];

/**
 * The designs by name. `settings` are the numbers that a design has beside its axes, `axes` the parameters
 * that always have a row, `excluded` those that cannot be added; `createStart` makes a first spec from the
 * axes of the design before.
 */
export const DESIGNS = {
  product: {
    title: "product of axes",
    settings: [],
    axes: ["d", "p", "gamma"],
    excluded: ["kappa", "delta"],
    createStart: ({ d, p, gamma }) => ({
      axes: { d: orDefault(d, 50), p: orDefault(p, 8), gamma: orDefault(gamma, { log: [0.1, 10, 5] }) },
    }),
  },
  scaling: {
    title: "scaling: p = p0 d^κ, γ = γ0 d^−δ",
    settings: [
      { name: "p0", title: `${getSymbol("p")}0`, start: 8 },
      { name: "gamma0", title: `${getSymbol("gamma")}0`, start: 8 },
      P_MULTIPLE,
    ],
    axes: ["d", "kappa", "delta"],
    excluded: ["p", "gamma"],
    createStart: ({ kappa, delta }) => ({
      axes: { d: [30, 100, 300], kappa: orDefault(kappa, 0), delta: orDefault(delta, [0, 0.25, 0.5]) },
    }),
  },
  triangle: {
    title: "triangle: all limits at one step γ/(pd)",
    settings: [
      { name: "delta_t", title: getSymbol("delta_t"), start: 1e-3 },
      { name: "resolution", title: "resolution", start: 6 },
      { name: "d_min", title: `smallest ${getSymbol("d")}` },
      { name: "p_min", title: `smallest ${getSymbol("p")}` },
      { name: "gamma_max", title: `largest ${getSymbol("gamma")}` },
      P_MULTIPLE,
    ],
    axes: [],
    excluded: ["d", "p", "gamma", "kappa", "delta"],
    createStart: () => ({ axes: {} }),
  },
  points: {
    title: "list of points",
    settings: [],
    axes: [],
    excluded: ["p", "gamma", "kappa", "delta"],
    createStart: () => ({
      axes: {},
      points: [{ d: 20, p: 4, gamma: 0.1 }, { d: 50, p: 8, gamma: 0.5 }],
    }),
  },
};

function orDefault(axis, defaultAxis) {
  return axis === undefined || axis === "" ? defaultAxis : axis;
}

/** Return the name of the design of a spec. */
export function getDesign(spec) {
  return ["triangle", "scaling", "points"].find((name) => spec[name]) ?? "product";
}

/** Return the parameters that have a row: those of the design, then k and noise, then what the spec names. */
export function listParameters(spec, design) {
  const named = [...Object.keys(spec.axes ?? {}), ...Object.keys(spec.fixed ?? {})];
  const columns = design === "points" ? Object.keys(spec.points[0] ?? {}) : [];
  const hasOtherField = (name) => name === "regime" || columns.includes(name);
  const names = new Set([...DESIGNS[design].axes, ...ALWAYS_SHOWN, ...named]);
  return [...names].filter((name) => !hasOtherField(name));
}

/** Change the design of a spec in place; axes that no design owns are kept. */
export function changeDesign(spec, design) {
  const previousAxes = spec.axes ?? {};
  const { settings, createStart } = DESIGNS[design];
  for (const name of SETTINGS_OF_OTHER_DESIGNS) delete spec[name];
  const { axes, ...parts } = createStart(previousAxes);
  const otherAxes = Object.entries(previousAxes).filter(([name]) => !DESIGN_AXES.includes(name));
  Object.assign(spec, parts, { axes: { ...axes, ...Object.fromEntries(otherAxes) } });
  if (settings.length) spec[design] = getStartSettings(settings);
  for (const name of ["d", "p", "gamma"]) delete spec.fixed?.[name];
}

function getStartSettings(settings) {
  const started = settings.filter(({ start }) => start !== undefined);
  return Object.fromEntries(started.map(({ name, start }) => [name, start]));
}

/** Write an axis of a spec in another way, in place: as a `list`, or spaced as `log` or `lin`. */
export function changeSpacing(spec, name, spacing) {
  const axis = spec.axes?.[name] ?? spec.fixed?.[name] ?? "";
  const numbers = isMapping(axis) ? Object.values(axis)[0] : null;
  const values = numbers ? numbers.slice(0, 2) : toList(axis);
  const count = numbers ? numbers[2] : Math.max(values.length, DEFAULT_COUNT);
  const first = values[0] === "" ? 1 : values[0];
  const last = values.length > 1 ? values.at(-1) : first;
  delete spec.fixed?.[name];
  spec.axes = { ...spec.axes, [name]: spacing === "list" ? values : { [spacing]: [first, last, count] } };
}
