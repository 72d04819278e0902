// The plotting library, loaded when the first chart is wanted, in the colours of the page.
import { number } from "./dom.js";
import { spelled, symbol, titled, words } from "./words.js";

let library;
export function plotly() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/vendor/plotly.min.js";
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => reject(new Error("The plotting library could not be loaded."));
    document.head.append(script);
  });
  return library;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
// Okabe and Ito's, told apart by colour-blind readers; yellow is left out, which paper does not show.
const APART = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];

/** So many colours, in the order of what they stand for. */
export function sequence(count) {
  if (count <= APART.length) return APART.slice(0, count);
  return Array.from({ length: count }, (_, at) => mixed(VIRIDIS, (0.92 * at) / (count - 1)));
}

function mixed(scale, share) {
  const at = Math.min(scale.length - 2, Math.floor(share * (scale.length - 1))), part = share * (scale.length - 1) - at;
  const channel = (text, from) => parseInt(text.slice(from, from + 2), 16);
  return `#${[1, 3, 5].map((from) => Math.round(channel(scale[at], from) * (1 - part) + channel(scale[at + 1], from) * part).toString(16).padStart(2, "0")).join("")}`;
}

const faded = (hex, share) => `rgba(${[1, 3, 5].map((from) => parseInt(hex.slice(from, from + 2), 16)).join(",")},${share})`;

const CONFIG = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
/** An axis; on a logarithmic one of many decades only those have numbers. */
export function axis(title, log, extra = {}) {
  return {
    title: { text: title }, type: log ? "log" : "linear", gridcolor: colour("soft"), linecolor: colour("line"), zeroline: false, mirror: true, showline: true,
    ticks: "outside", ticklen: 5, tickcolor: colour("line"), exponentformat: "power", automargin: true,
    ...(log ? { minor: { ticks: "outside", ticklen: 3, tickcolor: colour("line"), dtick: "L1" } } : {}), ...extra,
  };
}

/** Ticks of a logarithmic axis over these values: at decades, or at 1, 2 and 5 where there are few. */
export function decades(values) {
  const [low, high] = ends(values.filter((value) => value > 0)), span = Math.log10(high / low);
  return span > 2.5 ? { dtick: Math.ceil(span / 9), minor: { ticks: "outside", ticklen: 3, tickvals: undefined } } : { dtick: "D2", minor: {} };
}

/** The least and the largest; there may be more than a call takes arguments. */
export const ends = (values) => values.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);

const charts = new Map(); // element -> how to draw it again
/** Draw, and again when light turns to dark. */
export async function draw(element, make) {
  const found = await plotly();
  charts.set(element, make);
  const { data, layout } = make();
  const base = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("ink"), family: "system-ui, sans-serif", size: 13 },
    margin: { l: 62, r: 16, t: 12, b: 50 }, hovermode: "closest", autosize: true,
    legend: { bgcolor: "rgba(0,0,0,0)" }, hoverlabel: { font: { family: "system-ui, sans-serif" } },
  };
  await found.react(element, data, { ...base, ...layout }, CONFIG);
  element.dataset.drawn = String(Number(element.dataset.drawn ?? 0) + 1); // for whoever waits for it
}
addEventListener("theme", () => { for (const [element, make] of charts) draw(element, make); });

const NAMES = { risk: "excess risk R" };

/** Traces of `/curves`: SGD as points with a band over its runs, theories as lines; coloured along one axis. */
export function curveTraces(answer, { by = null, logX = true, logY = true, bands = true } = {}) {
  const values = [...new Set(answer.curves.map((curve) => curve.at[by]))], texts = spelled(values);
  const colours = sequence(Math.max(1, values.length));
  const regimes = [...new Set(answer.curves.filter((curve) => curve.regime).map((curve) => curve.regime))];
  const data = [], named = new Set();
  const fits = (value, log) => value !== null && (!log || value > 0);
  for (const curve of answer.curves) {
    const place = by === null ? 0 : values.indexOf(curve.at[by]), hue = colours[place];
    const label = by === null ? "" : `${symbol(by)} = ${texts[place]}`;
    const keep = answer.time.map((time, at) => fits(time, logX) && fits(curve.mean[at], logY));
    const picked = (column) => column.filter((_, at) => keep[at]);
    const x = picked(answer.time), y = picked(curve.mean);
    const about = `${curve.source === "sgd" ? "SGD" : titled(curve.regime)}<br>${words(curve.at)}<br>t = %{x:.3g}: %{y:.4g}<extra>${curve.runs} runs</extra>`;
    if (curve.source === "sgd") {
      if (bands && curve.runs > 1) {
        const low = picked(curve.low).map((value) => (fits(value, logY) ? value : null)), high = picked(curve.high);
        const band = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: label };
        data.push({ ...band, y: low }, { ...band, y: high, fill: "tonexty", fillcolor: faded(hue, 0.18) });
      }
      data.push({ x, y, mode: "markers", marker: { color: hue, size: 5 }, hovertemplate: about, legendgroup: label, name: label ? `${label} (SGD)` : "SGD", showlegend: !named.has(label) });
      named.add(label);
    } else {
      const dash = DASHES[regimes.indexOf(curve.regime) % DASHES.length], hasOwn = answer.curves.some((one) => one.source === "sgd");
      const name = hasOwn ? titled(curve.regime) : [label, regimes.length > 1 || !label ? titled(curve.regime) : ""].filter(Boolean).join(", ");
      data.push({ x, y, mode: "lines", line: { color: by === null && hasOwn ? colour("ink") : hue, width: 1.8, dash }, hovertemplate: about, name, legendgroup: hasOwn ? label : name, showlegend: hasOwn ? !named.has(curve.regime) : !named.has(name) });
      named.add(hasOwn ? curve.regime : name);
    }
  }
  if (!data.some((trace) => trace.x.length)) return { data: [], layout: { xaxis: { visible: false }, yaxis: { visible: false }, annotations: [{ text: "nothing there yet", showarrow: false, font: { size: 15 } }] } };
  const all = data.flatMap((trace) => trace.y), times = data.flatMap((trace) => trace.x);
  const layout = {
    xaxis: axis("time t", logX, logX ? decades(times) : {}), yaxis: axis(NAMES[answer.observable] ?? titled(answer.observable), logY, logY ? decades(all) : {}),
    legend: { orientation: "h", y: -0.16, yanchor: "top", bgcolor: "rgba(0,0,0,0)" }, margin: { l: 66, r: 16, t: 12, b: 90 },
  };
  return { data, layout };
}

/** Borders of cells around values, half-way by ratio or by difference. */
export function borders(values, log) {
  if (values.length === 1) return log ? [values[0] / 1.5, values[0] * 1.5] : [values[0] - 0.5, values[0] + 0.5];
  const inside = values.slice(1).map((value, at) => (log ? Math.sqrt(value * values[at]) : (value + values[at]) / 2));
  const end = (first, next) => (log ? (first * first) / next : 2 * first - next);
  return [end(values[0], inside[0]), ...inside, end(values.at(-1), inside.at(-1))];
}

/** Positive, and over more than a factor ten. */
function isWide(values) {
  const [low, high] = ends(values);
  return low > 0 && high / low > 10;
}

/** Are these values of an axis spaced by ratios rather than by differences? */
export function isLog(given) {
  const values = [...new Set(given)].sort((a, b) => a - b);
  if (values.length < 2 || !(values[0] > 0)) return false;
  if (values.length === 2) return values[1] / values[0] > 5;
  const unequal = (steps) => Math.max(...steps) / Math.min(...steps);
  const next = values.slice(1);
  return unequal(next.map((value, at) => Math.log(value / values[at]))) < unequal(next.map((value, at) => value - values[at]));
}

// As in the figures for print.
const PHASES = { perfect: "#009e73", plateau: "#0072b2", bad: "#e69f00", diverged: "#d55e00", unspecialised: "#cc79a7", undecided: "#999999" };

/** Colours for numbers or for words: what a trace needs, and how each value becomes a number. */
export function shaded(values, title) {
  const known = values.filter((value) => value !== null && value !== undefined);
  if (known.some((value) => typeof value === "string")) {
    const names = [...new Set(known)].sort(), apart = sequence(names.length), hues = names.map((name, at) => PHASES[name] ?? apart[at]);
    const steps = names.flatMap((_, at) => [[at / names.length, hues[at]], [(at + 1) / names.length, hues[at]]]);
    return {
      number: (value) => (value === null ? null : names.indexOf(value)),
      trace: { colorscale: steps, ...{ cmin: -0.5, cmax: names.length - 0.5, zmin: -0.5, zmax: names.length - 0.5 }, colorbar: { title: { text: "" }, tickvals: names.map((_, at) => at), ticktext: names.map(titled) } },
    };
  }
  const bar = { title: { text: title, side: "right" }, thickness: 14 };
  if (!isWide(known)) return { number: (value) => value, trace: { colorscale: "Viridis", colorbar: { ...bar, exponentformat: "power" } } };
  const [low, high] = ends(known).map(Math.log10);
  const ticks = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += 1) ticks.push(power);
  const some = ticks.length >= 2 ? ticks : [low, (low + high) / 2, high];
  return {
    number: (value) => (value > 0 ? Math.log10(value) : null),
    trace: { colorscale: "Viridis", zmin: low, zmax: high, cmin: low, cmax: high, colorbar: { ...bar, tickvals: some, ticktext: some.map((power) => (Number.isInteger(power) ? `10<sup>${power}</sup>` : number(10 ** power))) } },
  };
}
