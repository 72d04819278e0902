// The legend of a chart, as HTML below it: it wraps on narrow screens and never covers the chart.
// A click on an item hides or shows its curves.
import { createElement } from "../common/dom.js";
import { loadPlotly } from "./plotly-library.js";
import { createShape } from "./svg.js";

const SAMPLE_WIDTH = 30;
const SAMPLE_HEIGHT = 14;
// Lengths of strokes and gaps, as Plotly draws the dashes of these names.
const DASH_LENGTHS = { solid: "", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3", longdash: "11 4" };

const hiddenKeys = new WeakMap(); // from the element of a chart to the keys of the items that are off

/**
 * Render groups of items below a chart. A group has a `title` and `items` with a `key`, a `label`, and how
 * its curves look: `colour`, `dash`, `symbol`, `hasBand`. The keys of a trace are in its `meta.keys`.
 */
export function renderLegend(element, groups = []) {
  const container = element.nextElementSibling;
  if (!container?.classList.contains("chart-legend")) return;
  const focusedKey = container.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  container.replaceChildren(...groups.filter((group) => group.items.length).map((group) =>
    createElement("div", { role: "group", "aria-label": group.title },
      createElement("b", {}, group.title),
      group.items.map((item) => createItem(element, item)))));
  if (focusedKey) container.querySelector(`[data-key="${CSS.escape(focusedKey)}"]`)?.focus();
}

function createItem(element, item) {
  const isShown = !getHiddenKeys(element).has(item.key);
  return createElement("button", {
    type: "button",
    dataset: { key: item.key },
    "aria-pressed": String(isShown),
    title: "show or hide",
    onclick: ({ currentTarget }) => toggleItem(element, currentTarget),
  }, createSample(item), item.label);
}

function createSample({ colour, dash, symbol, hasBand }) {
  const middle = SAMPLE_HEIGHT / 2;
  const children = [];
  if (hasBand) {
    children.push(createShape("rect", {
      x: 0, y: 1, width: SAMPLE_WIDTH, height: SAMPLE_HEIGHT - 2, fill: colour, opacity: 0.22,
    }));
  }
  if (dash) {
    children.push(createShape("line", {
      x1: 0, y1: middle, x2: SAMPLE_WIDTH, y2: middle,
      stroke: colour, "stroke-width": 2, "stroke-dasharray": DASH_LENGTHS[dash],
    }));
  }
  if (symbol) children.push(createSymbol(symbol, SAMPLE_WIDTH / 2, middle, colour));
  const size = { width: SAMPLE_WIDTH, height: SAMPLE_HEIGHT };
  return createShape("svg", { ...size, "aria-hidden": "true" }, children);
}

const SYMBOL_PATHS = {
  square: "M-4,-4H4V4H-4Z",
  "triangle-up": "M0,-5L5,4H-5Z",
  diamond: "M0,-5.5L5.5,0L0,5.5L-5.5,0Z",
  "triangle-down": "M0,5L5,-4H-5Z",
  "triangle-left": "M-5,0L4,-5V5Z",
  "triangle-right": "M5,0L-4,-5V5Z",
};

function createSymbol(symbol, x, y, colour) {
  const style = { fill: "none", stroke: colour, "stroke-width": 1.5 };
  const path = SYMBOL_PATHS[symbol];
  return path
    ? createShape("path", { d: path, transform: `translate(${x},${y})`, ...style })
    : createShape("circle", { cx: x, cy: y, r: 4, ...style });
}

function getHiddenKeys(element) {
  if (!hiddenKeys.has(element)) hiddenKeys.set(element, new Set());
  return hiddenKeys.get(element);
}

async function toggleItem(element, button) {
  const { key } = button.dataset;
  const hidden = getHiddenKeys(element);
  if (!hidden.delete(key)) hidden.add(key);
  button.setAttribute("aria-pressed", String(!hidden.has(key)));
  const plotly = await loadPlotly();
  plotly.restyle(element, { visible: element.data.map((trace) => isVisible(element, trace)) });
}

/** Return whether none of the items of a trace is off. */
export function isVisible(element, trace) {
  const hidden = getHiddenKeys(element);
  return !(trace.meta?.keys ?? []).some((key) => hidden.has(key));
}
