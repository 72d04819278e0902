// What is selected in the atlas: values of parameters, reductions over others, and the axes of the diagram.
import { formatExact } from "../common/format.js";

/** The query parameters of the page that are no selection. */
export const VIEW_PARAMETERS = ["view", "x", "y", "value", "at_x", "at_y"];
/** How a value can be reduced over a parameter that is neither shown nor selected. */
export const REDUCTIONS = ["mean", "median", "max", "min"];
/** Numbers of a run that are no parameters of its point. */
const NO_AXES = ["sweep", "kind", "seed", "repeat", "t_max", "samples", "version", "number"];
// Labels that may vary among the runs of a diagram.
const NO_CONDITIONS = [
  "sweep", "kind", "seed", "repeat", "samples", "times", "observables", "status", "engine", "version",
  "package", "delta_t", "gamma_over_p", "kappa", "delta",
];
const CONDITIONS_OF_THEORY = ["regime", "regime_options"];
const PREFERRED_AXES = ["gamma", "p", "d", "noise", "k"];
const DERIVED_AXES = ["delta_t", "gamma_over_p", "kappa", "delta"]; // which follow from others

/** Split the query of the address into the view and the selection. */
export function splitQuery(query) {
  const view = {};
  const selection = {};
  for (const [name, value] of Object.entries(query)) {
    if (VIEW_PARAMETERS.includes(name)) view[name] = value;
    else selection[name] = value;
  }
  return { view, selection };
}

/** Return the selection without reductions, which only diagrams know. */
export function getValuesOnly(selection) {
  return Object.fromEntries(Object.entries(selection).filter(([, text]) => !REDUCTIONS.includes(text)));
}

/** Return the facets that can be an axis of the diagram, those with more values first. */
export function listAxes(facets) {
  const axes = facets.filter(({ name, type, distinct }) =>
    type === "number" && distinct > 1 && !NO_AXES.includes(name));
  const getRank = ({ name }) => (PREFERRED_AXES.indexOf(name) + 1 || PREFERRED_AXES.length + 1);
  return axes.sort((a, b) => getRank(a) - getRank(b));
}

/** Return the axes to show: those of the view while they vary, else the ones with the most values. */
export function chooseAxes(view, axes) {
  const names = axes.map(({ name }) => name);
  const getSize = ({ name, distinct }) => (DERIVED_AXES.includes(name) ? 0 : distinct);
  const bySize = [...axes].sort((a, b) => getSize(b) - getSize(a)).map(({ name }) => name);
  const free = bySize.filter((name) => name !== view.x && name !== view.y);
  const x = names.includes(view.x) ? view.x : free.shift();
  const y = names.includes(view.y) && view.y !== x ? view.y : free.find((name) => name !== x);
  return { x, y };
}

/**
 * Return a parameter that a diagram needs one value of: it varies, and is neither shown nor selected. The one
 * with the fewest values is the first. Undefined if there is none.
 */
export function findVarying(facets, shown, selection, value) {
  const ignored = value.startsWith("sgd_") ? [...NO_CONDITIONS, ...CONDITIONS_OF_THEORY] : NO_CONDITIONS;
  // What is shown follows from these, so they may vary with it.
  const following = shown.some((name) => DERIVED_AXES.includes(name)) ? ["d", "p", "gamma"] : [];
  const varying = facets.filter(({ name, distinct, values }) =>
    values && distinct > 1 && !(name in selection) && ![...ignored, ...shown, ...following].includes(name));
  return varying.sort((a, b) => a.distinct - b.distinct)[0];
}

/** Return the value that most runs have, as text, or null if the facet lists no values. */
export function getMostFrequent({ values }) {
  if (!values?.length) return null;
  return formatExact(values.reduce((best, entry) => (entry.runs > best.runs ? entry : best)).value);
}
