// Colours of curves and of values.
import { formatName } from "../common/format.js";
import { createLogTicks } from "./log-ticks.js";
import { getExtent, spansDecade } from "./scales.js";

// Okabe and Ito's palette, which colour-blind readers can tell apart; without yellow, which is hard to see.
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];
const VIRIDIS = [
  "#440154", "#482878", "#3e4a89", "#31688e", "#26828e",
  "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
];
// The parts of the scale that can be seen as lines on the background of each theme.
const LINE_SHARES = { light: [0, 0.88], dark: [0.28, 1] };

const MAX_COLOUR_BAR_LABELS = 8;

// The same as in the figures for print.
const PHASE_COLOURS = {
  perfect: "#009e73",
  plateau: "#0072b2",
  bad: "#e69f00",
  diverged: "#d55e00",
  unspecialised: "#cc79a7",
  undecided: "#999999",
  holds: "#009e73",
  off: "#d55e00",
  nonlinear: "#e69f00",
  unknown: "#999999",
};

/** Return a colour of the style sheet, as it is in the current theme. */
export function getThemeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Return the colour of a label, such as that of a phase, or undefined. */
export function getLabelColour(label) {
  return PHASE_COLOURS[label];
}

/** Return `count` colours: distinct ones if there are few, else along a scale. */
export function getColours(count) {
  if (count <= PALETTE.length) return PALETTE.slice(0, count);
  const [first, last] = LINE_SHARES[document.documentElement.dataset.theme] ?? LINE_SHARES.light;
  const getShare = (index) => first + ((last - first) * index) / (count - 1);
  return Array.from({ length: count }, (_, index) => interpolate(VIRIDIS, getShare(index)));
}

function interpolate(scale, share) {
  const position = share * (scale.length - 1);
  const index = Math.min(scale.length - 2, Math.floor(position));
  const weight = position - index;
  return mix(parseHex(scale[index]), parseHex(scale[index + 1]), weight);
}

function mix(low, high, weight) {
  const channels = low.map((value, channel) => Math.round(value * (1 - weight) + high[channel] * weight));
  return `#${channels.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** Return a colour of the scale of values, by its share from 0 to 1. */
export function getValueColour(share) {
  return interpolate(VIRIDIS, Math.max(0, Math.min(1, share)));
}

/** Return a mixture of two colours, `weight` of it the second. */
export function mixColours(first, second, weight) {
  return mix(parseHex(first), parseHex(second), weight);
}

/** Return a colour with transparency. */
export function fade(hex, opacity) {
  return `rgba(${parseHex(hex).join(",")},${opacity})`;
}

function parseHex(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

/**
 * Return the colour scale of values: `toNumber` maps a value to its place on the scale, and `trace` has the
 * properties of a Plotly trace. Words have one colour each; numbers over several decades are logarithmic.
 */
export function getColourScale(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.some((value) => typeof value === "string")) return getCategoryScale([...new Set(known)].sort());
  return spansDecade(known) ? getLogScale(known) : getLinearScale();
}

function getCategoryScale(names) {
  const defaults = getColours(names.length);
  const colours = names.map((name, index) => PHASE_COLOURS[name] ?? defaults[index]);
  const steps = colours.flatMap((colour, index) => [
    [index / names.length, colour],
    [(index + 1) / names.length, colour],
  ]);
  const colorbar = {
    title: { text: "" },
    tickvals: names.map((_, index) => index),
    ticktext: names.map(formatName),
  };
  return {
    toNumber: (value) => (value === null ? null : names.indexOf(value)),
    trace: { colorscale: steps, ...getLimits(-0.5, names.length - 0.5), colorbar },
  };
}

function getLinearScale() {
  return {
    toNumber: (value) => value,
    trace: { colorscale: "Viridis", colorbar: { ...createColourBar(), exponentformat: "power" } },
  };
}

function getLogScale(values) {
  const [low, high] = getExtent(values);
  const ticks = createLogTicks(low, high, MAX_COLOUR_BAR_LABELS);
  const colorbar = { ...createColourBar(), tickvals: ticks.values.map(Math.log10), ticktext: ticks.texts };
  return {
    toNumber: (value) => (value > 0 ? Math.log10(value) : null),
    trace: { colorscale: "Viridis", ...getLimits(Math.log10(low), Math.log10(high)), colorbar },
  };
}

/** Heat maps take their limits as zmin and zmax, markers as cmin and cmax. */
function getLimits(low, high) {
  return { cmin: low, cmax: high, zmin: low, zmax: high };
}

function createColourBar() {
  return { title: { text: "", side: "right" }, thickness: 14 };
}
