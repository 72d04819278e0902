// Where each theory holds within its error bars: rows of squares below a chart, one for each curve.
import { formatName } from "../common/format.js";
import { formatCoordinates } from "../common/labels.js";
import { getLabelColour, getThemeColour } from "./colours.js";

const MAX_ROWS = 6; // with more, the chart would be too small
const ROW_SHARE = 0.08; // of the height of the chart
const GAP_SHARE = 0.02;
const LABEL_HEIGHT = 0.8; // above the squares, in rows
const STATUSES = {
  holds: "within the error bars",
  off: "off by more than the error bars",
  nonlinear: "error bars do not apply",
};

/** Return the curves for which the strip has a row: of theories, if they are few. */
export function listMarkedCurves(curves) {
  const marked = curves.filter(({ curve }) => curve.validity?.some((status) => status in STATUSES));
  return marked.length <= MAX_ROWS ? marked : [];
}

/** Return the traces of the strip, for curves with the samples that are shown. */
export function createStripTraces(marked, style) {
  const formatCurve = createCurveFormat(marked);
  return marked.flatMap(({ curve, x, select }, row) => {
    const statuses = select(curve.validity);
    return Object.keys(STATUSES).map((status) => ({
      x: x.filter((_, index) => statuses[index] === status),
      y: x.filter((_, index) => statuses[index] === status).map(() => row),
      yaxis: "y2",
      mode: "markers",
      marker: { symbol: "square", size: 7, color: getLabelColour(status) },
      hovertemplate: `${formatCurve(curve)}<br>t = %{x:.3g}: ${STATUSES[status]}<extra></extra>`,
      name: status,
      meta: { keys: [...style.getKeys(curve), status], isTheory: true },
    }));
  });
}

/** Return the layout that makes room for the strip. */
export function createStripLayout(marked) {
  if (!marked.length) return {};
  const formatCurve = createCurveFormat(marked);
  const share = ROW_SHARE * marked.length;
  const style = { showarrow: false, xref: "paper", yref: "y2", xanchor: "left", yanchor: "middle", x: 0.005 };
  return {
    upperDomain: [share + GAP_SHARE, 1],
    yaxis2: {
      domain: [0, share], range: [marked.length - 0.5 + LABEL_HEIGHT / 2, -0.5 - LABEL_HEIGHT / 2],
      visible: false, fixedrange: true,
    },
    annotations: marked.map(({ curve }, row) => ({
      ...style,
      y: row - LABEL_HEIGHT / 2,
      text: `${formatCurve(curve)}: ${curve.overall}`,
      font: { size: 11, color: getThemeColour("faint") },
    })),
  };
}

/** Return the items of the legend: the statuses that occur. */
export function listStripItems(marked) {
  const statuses = new Set(marked.flatMap(({ curve }) => curve.validity));
  return Object.entries(STATUSES).filter(([status]) => statuses.has(status)).map(([status, label]) => (
    { key: status, label, colour: getLabelColour(status), symbol: "square" }));
}

/** Return a function that names a curve by its theory and by the coordinates that differ. */
function createCurveFormat(marked) {
  const differs = (name, value) => marked.some(({ curve }) => curve.at[name] !== value);
  return (curve) => {
    const entries = Object.entries(curve.at).filter(([name, value]) => differs(name, value));
    const coordinates = formatCoordinates(Object.fromEntries(entries));
    return [formatName(curve.regime), coordinates].filter(Boolean).join(", ");
  };
}
