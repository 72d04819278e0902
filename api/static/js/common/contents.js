// What a sweep contains, and what a view shows of it unless the address says otherwise.
import { formatName } from "./format.js";
import { getJson } from "./rest.js";
import { showProblem } from "./view-controls.js";

const MAX_POINTS_SHOWN_AT_ONCE = 12;
const PREFERRED_VALUES = ["sgd_risk", "ode_risk"];
// Parameters that a design computes from its axes.
const DEPENDENT_PARAMETERS = { scaling: ["p", "gamma"] };
/** The parameters of the corners of a triangle. */
export const TRIANGLE_PARAMETERS = ["d", "p", "gamma"];

/** Get the contents of a sweep. If that fails, the reason is shown and the promise stays pending. */
export async function loadContents(sweepId) {
  try {
    return await getJson(`/v1/sweeps/${sweepId}/contents`);
  } catch (error) {
    showProblem(error.message);
    return new Promise(() => {});
  }
}

/** Return the axes with more than one value. */
export function getVaryingAxes(contents) {
  return contents.axes.filter((axis) => axis.values.length > 1);
}

/** Return the values that can be drawn as options of a select. */
export function getValueOptions(contents) {
  return contents.values.map(({ name }) => [name, formatName(name)]);
}

/** Return the name of the value that is drawn first. */
export function getDefaultValue(contents) {
  const names = contents.values.map(({ name }) => name);
  return PREFERRED_VALUES.find((name) => names.includes(name)) ?? names[0];
}

/** Return the value in the middle of an axis. */
export function getMiddleValue(axis) {
  return axis.values[Math.floor((axis.values.length - 1) / 2)];
}

/**
 * Return the value of each axis, except `freeAxis`, to begin with: the middle one, or for a list of points
 * the coordinates of the first. Few points are shown all at once.
 */
export function getDefaultSelection(contents, freeAxis) {
  const axes = getVaryingAxes(contents).filter((axis) => axis.name !== freeAxis);
  if (!contents.points) return Object.fromEntries(axes.map((axis) => [axis.name, getMiddleValue(axis)]));
  if (contents.points.length <= MAX_POINTS_SHOWN_AT_ONCE) return {};
  const dependent = DEPENDENT_PARAMETERS[contents.design] ?? [];
  const selection = {};
  for (const axis of axes) {
    if (dependent.includes(axis.name)) continue;
    selection[axis.name] = contents.points[0][contents.axes.indexOf(axis)];
  }
  return selection;
}
