// Where a logarithmic time axis begins: at the first visible change, not at the first sample.
import { getExtent } from "./scales.js";

const VISIBLE_SHARE = 0.02; // of the height of the chart
const LEAD_SHARE = 0.15; // of the width of the chart, before the first change

/**
 * Return the first time to show, of curves as lists of `{x, y}` on a logarithmic time axis. It is one of
 * their times; earlier ones, at which nothing can be seen to change, are reached by zooming out.
 */
export function findFirstTime(curves, isLogValue) {
  const times = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  if (times.length < 2) return times[0];
  const heights = curves.map((curve) => curve.y.map((value) => (isLogValue ? Math.log(value) : value)));
  const [lowest, highest] = getExtent(heights.flat());
  const threshold = VISIBLE_SHARE * (highest - lowest);
  const changes = curves.map((curve, index) => findChange(curve.x, heights[index], threshold));
  const firstChange = Math.min(...changes);
  const last = times.at(-1);
  if (!(firstChange < last)) return times[0];
  const wanted = firstChange * (firstChange / last) ** (LEAD_SHARE / (1 - LEAD_SHARE));
  return times.find((time) => time >= wanted) ?? times[0];
}

/** Return the last time before a curve has left its first value by more than the threshold. */
function findChange(times, heights, threshold) {
  const index = heights.findIndex((height) => Math.abs(height - heights[0]) > threshold);
  return index < 1 ? Infinity : times[index - 1];
}
