// The points of a region at a resolution, and those of them that are not stored.

const SAME = 1e-9; // relative difference up to which two numbers are the same point

/** Return `count` values between two ends, by equal ratios or differences; whole ones without repetition. */
export function spaceValues({ low, high, count, isLog, isInteger }) {
  const share = (index) => (count === 1 ? 0 : index / (count - 1));
  const interpolate = (index) => (isLog
    ? low * (high / low) ** share(index)
    : low + (high - low) * share(index));
  const values = Array.from({ length: count }, (_, index) => interpolate(index));
  if (count > 1) values[count - 1] = high;
  const rounded = isInteger ? values.map(Math.round) : values.map((value) => Number(value.toPrecision(12)));
  return [...new Set(rounded)];
}

/** Return the points of a rectangle. */
export function listRectangle(x, y) {
  const createPoint = (yValue) => (xValue) => ({ [x.name]: xValue, [y.name]: yValue });
  return spaceValues(y).flatMap((yValue) => spaceValues(x).map(createPoint(yValue)));
}

/** Return the candidates that none of the stored points equals in all of `names`. */
export function findMissing(candidates, stored, names) {
  const remaining = stored.map((point) => names.map((name) => point[name]));
  return candidates.filter((candidate) => !remaining.some((point) =>
    point.every((value, index) => isSame(value, candidate[names[index]]))));
}

function isSame(a, b) {
  if (typeof a !== "number" || typeof b !== "number") return a === b;
  return Math.abs(a - b) <= SAME * Math.max(Math.abs(a), Math.abs(b));
}

/**
 * Return the lattice of a triangle of limits with the coordinates of each point, as the design `triangle`
 * makes it: `d` and `p` are rounded, the smaller one first, and the step is the same at every point.
 */
export function listTriangle({ deltaT, gammaMax, dMin, pMin, step }, resolution) {
  const maxProduct = (gammaMax / deltaT) * (1 + 1e-12);
  const extent = Math.log(maxProduct / (dMin * pMin));
  const points = new Map();
  for (let a = 0; a <= resolution; a += 1) {
    for (let b = 0; a + b <= resolution; b += 1) {
      const exactD = dMin * Math.exp((extent * a) / resolution);
      const exactP = pMin * Math.exp((extent * b) / resolution);
      const { d, p } = roundSizes(exactD, exactP, { dMin, maxProduct, step });
      if (d < dMin || p < pMin) continue;
      const gamma = deltaT * p * d;
      points.set(`${d} ${p}`, {
        d, p, gamma,
        u_d: Math.log(d / dMin) / extent,
        u_p: Math.log(p / pMin) / extent,
        u_gamma: Math.log(gammaMax / gamma) / extent,
      });
    }
  }
  return [...points.values()];
}

function roundSizes(exactD, exactP, { dMin, maxProduct, step }) {
  const roundedP = Math.max(1, Math.round(exactP / step)) * step;
  if (exactD > exactP) {
    return { d: Math.min(Math.round(exactD), Math.floor(maxProduct / roundedP)), p: roundedP };
  }
  const d = Math.max(dMin, Math.round(exactD));
  return { d, p: Math.min(roundedP, Math.floor(maxProduct / d / step) * step) };
}
