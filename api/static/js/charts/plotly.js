// Plotly, loaded with the first chart, in the colours of the page.
import { getThemeColour } from "./colours.js";
import { getExtent } from "./scales.js";

const LIBRARY = "/static/vendor/plotly.min.js";
const CONFIG = {
  responsive: true,
  displaylogo: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
};
const FONT_FAMILY = "system-ui, sans-serif";
const MAX_DECADES_WITH_MINOR_NUMBERS = 2.5;
const MAX_DECADE_TICKS = 9;

/** The background of charts and legends. */
export const TRANSPARENT = "rgba(0,0,0,0)";

let library;

function loadPlotly() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = LIBRARY;
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => reject(new Error("The plotting library could not be loaded."));
    document.head.append(script);
  });
  return library;
}

const charts = new Map(); // from an element to the function that builds its chart

/** Draw a chart, and again whenever the theme changes; `build()` returns its data and layout. */
export async function drawChart(element, build) {
  const plotly = await loadPlotly();
  charts.set(element, build);
  const { data, layout } = build();
  await plotly.react(element, data, { ...createBaseLayout(), ...layout }, CONFIG);
  element.dataset.drawn = String(Number(element.dataset.drawn ?? 0) + 1); // tests and benchmarks wait for it
}

addEventListener("theme", () => {
  for (const [element, build] of charts) drawChart(element, build);
});

function createBaseLayout() {
  return {
    paper_bgcolor: TRANSPARENT,
    plot_bgcolor: TRANSPARENT,
    font: { color: getThemeColour("ink"), family: FONT_FAMILY, size: 13 },
    margin: { l: 62, r: 16, t: 12, b: 50 },
    hovermode: "closest",
    autosize: true,
    legend: { bgcolor: TRANSPARENT },
    hoverlabel: { font: { family: FONT_FAMILY } },
  };
}

/** Return the layout of an axis. */
export function createAxis(title, isLog, properties = {}) {
  const lineColour = getThemeColour("line");
  const axis = {
    title: { text: title },
    type: isLog ? "log" : "linear",
    gridcolor: getThemeColour("soft"),
    linecolor: lineColour,
    zeroline: false,
    mirror: true,
    showline: true,
    ticks: "outside",
    ticklen: 5,
    tickcolor: lineColour,
    exponentformat: "power",
    automargin: true,
  };
  if (isLog) axis.minor = { ticks: "outside", ticklen: 3, tickcolor: lineColour, dtick: "L1" };
  return { ...axis, ...properties };
}

/** Return the ticks of a logarithmic axis: at powers of ten, or also at 2 and 5 if it spans few decades. */
export function createLogTicks(values) {
  const [low, high] = getExtent(values.filter((value) => value > 0));
  const decades = Math.log10(high / low);
  if (decades <= MAX_DECADES_WITH_MINOR_NUMBERS) return { dtick: "D2", minor: {} };
  return {
    dtick: Math.ceil(decades / MAX_DECADE_TICKS),
    minor: { ticks: "outside", ticklen: 3, tickvals: undefined },
  };
}
