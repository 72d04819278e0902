// Charts of Plotly, in the colours of the page.
import { getThemeColour } from "./colours.js";
import { isVisible, renderLegend } from "./legend.js";
import { createLogTicks } from "./log-ticks.js";
import { loadPlotly } from "./plotly-library.js";

const TOOL_BAR_HEIGHT = 30; // reserved above the chart, so that the bar covers nothing
const FONT_FAMILY = "system-ui, sans-serif";
const LABEL_WIDTH = 62;
const LABEL_HEIGHT = 36;
const AXES = { xaxis: ["clientWidth", LABEL_WIDTH], yaxis: ["clientHeight", LABEL_HEIGHT] };
const MARGIN = { l: 62, r: 16, t: TOOL_BAR_HEIGHT, b: 50 };
const MARGIN_WITHOUT_TOOL_BAR = { ...MARGIN, t: 10 };

/** The background of charts. */
export const TRANSPARENT = "rgba(0,0,0,0)";

const charts = new Map(); // from an element to the function that builds its chart
const automaticAxes = new WeakMap(); // from an element to the names of the axes whose ticks are chosen here
const touchScreen = matchMedia("(hover: none)");

/** Draw a chart, and again whenever the theme changes; `build()` returns its data, layout and legend. */
export async function drawChart(element, build) {
  const plotly = await loadPlotly();
  const isNew = !charts.has(element);
  charts.set(element, build);
  const { data, layout, legend } = build();
  for (const trace of data) trace.visible = isVisible(element, trace);
  const fullLayout = { ...createBaseLayout(), ...layout };
  automaticAxes.set(element, Object.keys(AXES).filter((name) => isAutomatic(layout[name])));
  Object.assign(fullLayout, createTicks(element, fullLayout));
  await plotly.react(element, data, fullLayout, createConfig(data));
  renderLegend(element, legend);
  if (isNew) element.on("plotly_relayout", () => updateTicks(element, plotly));
  element.dataset.drawn = String(Number(element.dataset.drawn ?? 0) + 1); // tests and benchmarks wait for it
}

addEventListener("theme", () => {
  for (const [element, build] of charts) drawChart(element, build);
});

/** A touch screen has no tool bar: it would cover the chart, and fingers scroll the page. */
function createConfig(data) {
  const hasAxes = data.every((trace) => !trace.meta?.withoutAxes);
  return {
    responsive: true,
    displaylogo: false,
    displayModeBar: hasAxes && !touchScreen.matches ? "hover" : false,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
}

function createBaseLayout() {
  return {
    paper_bgcolor: TRANSPARENT,
    plot_bgcolor: TRANSPARENT,
    font: { color: getThemeColour("ink"), family: FONT_FAMILY, size: 13 },
    margin: touchScreen.matches ? MARGIN_WITHOUT_TOOL_BAR : MARGIN,
    modebar: {
      bgcolor: TRANSPARENT, color: getThemeColour("faint"), activecolor: getThemeColour("accent"),
    },
    dragmode: touchScreen.matches ? false : "zoom",
    hovermode: "closest",
    autosize: true,
    showlegend: false,
    hoverlabel: { font: { family: FONT_FAMILY } },
  };
}

/** Return the layout of an axis; a logarithmic one with a range and no `tickvals` gets ticks when drawn. */
export function createAxis(title, isLog, properties = {}) {
  const lineColour = getThemeColour("line");
  return {
    title: { text: title, standoff: 8 },
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
    ...properties,
  };
}

/** Return the range of a logarithmic axis, in powers of ten, with a small margin around the values. */
export function createLogRange(low, high) {
  const [first, last] = [Math.log10(low), Math.log10(high)];
  const margin = Math.max(0.02 * (last - first), 0.03);
  return [first - margin, last + margin];
}

function isAutomatic(axis) {
  return axis?.type === "log" && Boolean(axis.range) && !axis.tickvals;
}

/** Return the logarithmic axes of a layout with ticks for their ranges and the size of the chart. */
function createTicks(element, layout) {
  const axes = {};
  for (const name of automaticAxes.get(element)) {
    const axis = layout[name];
    const [dimension, labelLength] = AXES[name];
    const [low, high] = axis.range.map((power) => 10 ** power);
    const { values, texts, minor } = createLogTicks(low, high, Math.floor(element[dimension] / labelLength));
    axes[name] = {
      ...axis,
      tickvals: values,
      ticktext: texts,
      minor: { ticks: "outside", ticklen: 3, tickcolor: axis.tickcolor, tickvals: minor },
    };
  }
  return axes;
}

/** Give logarithmic axes new ticks after a zoom. */
function updateTicks(element, plotly) {
  const update = {};
  for (const [name, axis] of Object.entries(createTicks(element, element.layout))) {
    if (String(axis.tickvals) === String(element.layout[name].tickvals)) continue;
    update[`${name}.tickvals`] = axis.tickvals;
    update[`${name}.ticktext`] = axis.ticktext;
    update[`${name}.minor.tickvals`] = axis.minor.tickvals;
  }
  if (Object.keys(update).length) plotly.relayout(element, update);
}
