// Ranges and spacing of numbers along an axis.

const MIN_LOG_RATIO_OF_PAIR = 5; // two values further apart than this are shown on a logarithmic axis
const MIN_WIDE_RATIO = 10;

/** Return the smallest and the largest value, of more values than a call takes as arguments. */
export function getExtent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

/** Return whether values are positive and span more than a factor of ten. */
export function spansDecade(values) {
  const [low, high] = getExtent(values);
  return low > 0 && high / low > MIN_WIDE_RATIO;
}

/** Return whether values are spaced by equal ratios rather than by equal differences. */
export function isLogSpaced(values) {
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  if (sorted.length < 2 || !(sorted[0] > 0)) return false;
  if (sorted.length === 2) return sorted[1] / sorted[0] > MIN_LOG_RATIO_OF_PAIR;
  const getUnevenness = (steps) => Math.max(...steps) / Math.min(...steps);
  const ratios = sorted.slice(1).map((value, index) => Math.log(value / sorted[index]));
  const differences = sorted.slice(1).map((value, index) => value - sorted[index]);
  return getUnevenness(ratios) < getUnevenness(differences);
}

/** Return the edges of cells around values, half-way between neighbours by ratio or by difference. */
export function getCellEdges(values, isLog) {
  if (values.length === 1) return getEdgesAround(values[0], isLog);
  const inner = values.slice(1).map((value, index) => getMidpoint(value, values[index], isLog));
  const extrapolate = (value, edge) => (isLog ? (value * value) / edge : 2 * value - edge);
  return [extrapolate(values[0], inner[0]), ...inner, extrapolate(values.at(-1), inner.at(-1))];
}

function getEdgesAround(value, isLog) {
  return isLog ? [value / 1.5, value * 1.5] : [value - 0.5, value + 0.5];
}

function getMidpoint(a, b, isLog) {
  return isLog ? Math.sqrt(a * b) : (a + b) / 2;
}
