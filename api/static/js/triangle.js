// The triangle of limits: each point by how far it is towards the high-dimensional, the mean-field and the
// classical corner; its symbol is the theory that auto would choose.
import { curvesOf } from "./cell.js";
import { draw, ends, shaded } from "./charts.js";
import { $, exact, number, settled } from "./dom.js";
import { id, onNews } from "./header.js";
import { get, query, remember } from "./rest.js";
import { axisSelect, chosen, contentsOf, downloads, fill, firstValue, problemAt, select, several, symbol, titled, values, words } from "./words.js";

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon"];
const CORE = ["d", "p", "gamma"];
const form = $("#choose"), cell = $("#cell"), chart = $("#chart");
const asked = Object.fromEntries(new URLSearchParams(location.search));
const contents = await contentsOf(id);
const others = several(contents).filter((axis) => !CORE.includes(axis.name)); // beside the triangle
const proposed = contents.suggestion.view === "triangle" ? contents.suggestion.words : {};
let points = [];

function build() {
  const value = asked.value ?? proposed.value ?? firstValue(contents);
  const wanted = contents.values.find((one) => one.name === value);
  fill(form,
    select("value", "Value", values(contents), value),
    ...(contents.regimes.length && wanted?.needs_regime ? [select("regime", "Theory", contents.regimes.map((name) => [name, titled(name)]), asked.regime ?? proposed.regime)] : []),
    ...others.map((axis) => axisSelect(axis, asked[axis.name] ?? axis.values[0])));
}

const name = (point) => CORE.map((one) => `${symbol(one)} = ${number(point[one])}`).join(", ");

let turn = 0;
async function show() {
  const mine = (turn += 1), now = chosen(form);
  remember({ ...now, ...chosen(cell) });
  try {
    const answer = await get(`/v1/sweeps/${id}/figures/triangle${query(now)}`);
    if (mine !== turn) return;
    await draw(chart, () => ternary(answer));
    problemAt("");
    $("#what").textContent = answer.value.long_name;
    $("#caption").textContent = `${words(answer.at)}${others.length ? " · " : ""}δt = γ/(pd) = ${number(answer.delta_t)} everywhere · dotted: lines of equal γ/p · symbols: the theory that auto chooses`;
    downloads($("#links"), `/v1/sweeps/${id}/figures/triangle`, query(now));
    if (!points.length) chart.on("plotly_click", clicked);
    points = answer.points;
    const before = cell.elements.point?.value ?? asked.point ?? 0;
    fill(cell, select("point", "Point", points.map((point, at) => [at, name(point)]), before));
  } catch (problem) {
    if (mine === turn) problemAt(problem.message);
  }
}

function ternary(answer) {
  const shade = shaded(answer.points.map((one) => one.value), ""), regimes = [...new Set(answer.points.map((one) => one.auto_regime))];
  const { zmin, zmax, ...colours } = shade.trace;
  const [cmin, cmax] = ends(answer.points.map((one) => shade.number(one.value)).filter((one) => one !== null));
  const range = { cmin: colours.cmin ?? cmin, cmax: colours.cmax ?? cmax };
  const data = regimes.map((regime, at) => {
    const mine = answer.points.map((one, index) => ({ ...one, index })).filter((one) => one.auto_regime === regime);
    return {
      type: "scatterternary", mode: "markers", name: titled(regime), showlegend: regimes.length > 1,
      a: mine.map((one) => one.u_d), b: mine.map((one) => one.u_p), c: mine.map((one) => one.u_gamma), customdata: mine.map((one) => one.index),
      marker: { symbol: SYMBOLS[at % SYMBOLS.length], size: 15, line: { width: 1, color: "#fff" }, color: mine.map((one) => shade.number(one.value)), showscale: at === 0, ...colours, ...range, colorbar: { ...colours.colorbar, x: 1.12, len: 0.8 } },
      text: mine.map((one) => `${name(one)}<br>${one.value === null ? "nothing there yet" : typeof one.value === "number" ? Number(one.value.toPrecision(4)) : titled(one.value)}<br>auto: ${titled(regime)}`),
      hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
    };
  });
  const side = () => ({ title: { text: "" }, ticks: "", showticklabels: false, showgrid: false, linewidth: 1, linecolor: "#8a94a0" });
  return {
    data: [...levels(answer), CORNERS, ...data],
    layout: {
      ternary: { aaxis: side(), baxis: side(), caxis: side(), bgcolor: "rgba(0,0,0,0)" },
      margin: { l: 50, r: 110, t: 50, b: 70 }, legend: { orientation: "h", y: -0.12, bgcolor: "rgba(0,0,0,0)" },
    },
  };
}

const CORNERS = {
  type: "scatterternary", mode: "text", a: [1, 0, 0], b: [0, 1, 0], c: [0, 0, 1], hoverinfo: "skip", showlegend: false, cliponaxis: false,
  text: ["high-dimensional: d → ∞<br> ", " <br>mean field<br>p → ∞", " <br>classical<br>γ → 0"], textposition: ["top center", "bottom center", "bottom center"],
};

/** At one step δt, γ/p = δt d: equal values lie on lines of equal d, one for each power of ten. */
function levels(answer) {
  const sorted = [...answer.points].sort((a, b) => a.d - b.d), [low, high] = [sorted[0], sorted.at(-1)];
  if (low.d === high.d) return [];
  const slope = (high.u_d - low.u_d) / Math.log(high.d / low.d), share = (d) => low.u_d + slope * Math.log(d / low.d);
  const found = [];
  for (let power = Math.ceil(Math.log10(low.d * answer.delta_t)); 10 ** power <= high.d * answer.delta_t * 1.001; power += 1) {
    const u = share(10 ** power / answer.delta_t);
    if (u <= 0.01 || u >= 0.99) continue;
    found.push({
      type: "scatterternary", mode: "lines+text", a: [u, u], b: [1 - u, 0], c: [0, 1 - u], text: ["", `    γ/p = 10<sup>${power}</sup>`], textposition: "middle right",
      line: { dash: "dot", width: 1, color: "#8a94a0" }, hoverinfo: "skip", showlegend: false, cliponaxis: false, textfont: { size: 11 },
    });
  }
  return found;
}

function showCell() {
  const at = cell.elements.point?.value;
  remember({ ...chosen(form), ...chosen(cell) });
  if (!points[at]) return;
  const now = chosen(form), rest = others.map((axis) => [axis.name, now[axis.name]]);
  curvesOf(id, Object.fromEntries(CORE.map((one) => [one, points[at][one]])), Object.fromEntries(rest));
}

function clicked(event) {
  if (event.points[0].customdata === undefined) return;
  cell.elements.point.value = exact(event.points[0].customdata);
  showCell();
}

build();
show().then(showCell);
form.addEventListener("change", () => { Object.assign(asked, chosen(form)); build(); show().then(showCell); });
cell.addEventListener("change", showCell);
for (const one of [form, cell]) one.addEventListener("submit", (event) => event.preventDefault());
const again = settled(() => show().then(showCell), 1000);
let before = null;
onNews((sweep) => { const key = JSON.stringify(sweep.counts); if (before !== null && key !== before) again(); before = key; });
