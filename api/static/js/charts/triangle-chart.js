// The triangle of limits: each point by how close it is to the high-dimensional, the mean-field and the
// classical corner. Its symbol is the theory that `auto` chooses.
import { formatName, formatNumber, formatResult } from "../common/format.js";
import { getSymbol } from "../common/labels.js";
import { getColourScale } from "./colours.js";
import { TRANSPARENT } from "./plotly.js";
import { getExtent } from "./scales.js";

const MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon"];
const LINE_COLOUR = "#8a94a0";
const MIN_CORNER_DISTANCE = 0.01; // lines closer to a corner are left out
const UNLABELLED = { type: "scatterternary", hoverinfo: "skip", showlegend: false, cliponaxis: false };

/** The parameters that span the triangle. */
export const TRIANGLE_PARAMETERS = ["d", "p", "gamma"];

const CORNERS = {
  ...UNLABELLED,
  mode: "text",
  a: [1, 0, 0],
  b: [0, 1, 0],
  c: [0, 0, 1],
  text: ["high-dimensional: d → ∞<br> ", " <br>mean field<br>p → ∞", " <br>classical<br>γ → 0"],
  textposition: ["top center", "bottom center", "bottom center"],
};

/** Format the coordinates of a point of the triangle. */
export function formatTrianglePoint(point) {
  return TRIANGLE_PARAMETERS.map((name) => `${getSymbol(name)} = ${formatNumber(point[name])}`).join(", ");
}

/** Build the chart of an answer of `/figures/triangle`. */
export function buildTriangleChart(answer) {
  return {
    data: [...createLevelLines(answer), CORNERS, ...createPointTraces(answer.points)],
    layout: {
      ternary: { aaxis: createSide(), baxis: createSide(), caxis: createSide(), bgcolor: TRANSPARENT },
      margin: { l: 50, r: 110, t: 50, b: 70 },
      legend: { orientation: "h", y: -0.12, bgcolor: TRANSPARENT },
    },
  };
}

function createSide() {
  return {
    title: { text: "" },
    ticks: "",
    showticklabels: false,
    showgrid: false,
    linewidth: 1,
    linecolor: LINE_COLOUR,
  };
}

/** Create a trace for each theory; all of them share one colour scale, whose bar the first one shows. */
function createPointTraces(points) {
  const { toNumber, trace } = getColourScale(points.map((point) => point.value));
  const { zmin, zmax, ...colours } = trace; // limits of heat maps
  const numbers = points.map((point) => toNumber(point.value)).filter((number) => number !== null);
  const [cmin, cmax] = getExtent(numbers);
  const marker = {
    size: 15,
    line: { width: 1, color: "#fff" },
    cmin,
    cmax,
    ...colours,
    colorbar: { ...colours.colorbar, x: 1.12, len: 0.8 },
  };
  const regimes = [...new Set(points.map((point) => point.auto_regime))];
  return regimes.map((regime, index) => {
    const members = points
      .map((point, pointIndex) => ({ ...point, pointIndex }))
      .filter((point) => point.auto_regime === regime);
    return {
      type: "scatterternary",
      mode: "markers",
      name: formatName(regime),
      showlegend: regimes.length > 1,
      a: members.map((point) => point.u_d),
      b: members.map((point) => point.u_p),
      c: members.map((point) => point.u_gamma),
      customdata: members.map((point) => point.pointIndex),
      marker: {
        ...marker,
        symbol: MARKERS[index % MARKERS.length],
        color: members.map((point) => toNumber(point.value)),
        showscale: index === 0,
      },
      text: members.map(formatHoverText),
      hovertemplate: "%{text}<extra></extra>",
      cliponaxis: false,
    };
  });
}

function formatHoverText(point) {
  const regime = `auto: ${formatName(point.auto_regime)}`;
  return [formatTrianglePoint(point), formatResult(point.value), regime].join("<br>");
}

/** Create a line for each power of ten of γ/p; as γ/p = δt d, it is a line of equal d. */
function createLevelLines({ points, delta_t: deltaT }) {
  const sorted = [...points].sort((a, b) => a.d - b.d);
  const first = sorted[0];
  const last = sorted.at(-1);
  if (first.d === last.d) return [];
  const slope = (last.u_d - first.u_d) / Math.log(last.d / first.d);
  const lines = [];
  const maxRatio = last.d * deltaT * 1.001;
  for (let power = Math.ceil(Math.log10(first.d * deltaT)); 10 ** power <= maxRatio; power += 1) {
    const d = 10 ** power / deltaT;
    const share = first.u_d + slope * Math.log(d / first.d);
    const isAtCorner = share <= MIN_CORNER_DISTANCE || share >= 1 - MIN_CORNER_DISTANCE;
    if (!isAtCorner) lines.push(createLevelLine(share, power));
  }
  return lines;
}

function createLevelLine(share, power) {
  return {
    ...UNLABELLED,
    mode: "lines+text",
    a: [share, share],
    b: [1 - share, 0],
    c: [0, 1 - share],
    text: ["", `    γ/p = 10<sup>${power}</sup>`],
    textposition: "middle right",
    line: { dash: "dot", width: 1, color: LINE_COLOUR },
    textfont: { size: 11 },
  };
}
