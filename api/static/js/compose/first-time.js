// The first sample that a new sweep begins with: shortly before anything changes.

// Nothing visible happens before this time at small learning rates; it is earlier where γ/p is large.
const FIRST_CHANGE = 0.03;
const MAX_DECADES = 5; // between the first and the last sample, as in a spec without a first time
const MIN_DECADES = 1.5;

/** Return a first time for the learning rates, widths and last time of a spec, if these are known. */
export function suggestFirstTime(spec) {
  const last = spec.time?.max;
  const gamma = getExtreme(spec, "gamma", Math.max);
  const width = getExtreme(spec, "p", Math.min);
  if (![last, gamma, width].every((value) => Number.isFinite(value) && value > 0)) return undefined;
  const first = FIRST_CHANGE * Math.min(1, width / gamma);
  const bounded = Math.min(Math.max(first, last / 10 ** MAX_DECADES), last / 10 ** MIN_DECADES);
  return Number(bounded.toPrecision(1));
}

/** Return the largest or smallest value that a spec gives to a parameter. */
function getExtreme(spec, name, choose) {
  const axis = spec.axes?.[name] ?? spec.fixed?.[name];
  const range = axis?.log ?? axis?.lin;
  const values = range ? range.slice(0, 2) : [axis].flat();
  return choose(...values.map(Number));
}
