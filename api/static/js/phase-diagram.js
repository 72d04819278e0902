// One value on two axes; a click shows the curves behind a cell.
import { axis, borders, decades, draw, isLog, shaded } from "./charts.js";
import { curvesOf } from "./cell.js";
import { $, exact, number, settled } from "./dom.js";
import { id, onNews } from "./header.js";
import { get, query, remember } from "./rest.js";
import { axisSelect, beginning, chosen, downloads, problemAt, select, several, symbol, titled, words } from "./words.js";

const REDUCTIONS = ["mean", "max", "min"].map((how) => [how, `${how} of all`]);
const form = $("#choose"), cell = $("#cell"), chart = $("#chart");
const asked = Object.fromEntries(new URLSearchParams(location.search));
const contents = await get(`/v1/sweeps/${id}/contents`);
const axes = several(contents), POINTS = ["delta_t", "gamma_over_p"];
const names = [...axes.map((one) => one.name), ...(contents.points ? POINTS : [])];
const proposed = contents.suggestion.view === "phase-diagram" ? contents.suggestion.words : {};

function build() {
  const x = asked.x ?? proposed.x ?? names.at(-1), y = asked.y ?? proposed.y ?? names.find((name) => name !== x);
  const value = asked.value ?? proposed.value ?? contents.values[0]?.name;
  const wanted = contents.values.find((one) => one.name === value);
  const list = names.map((name) => [name, symbol(name)]);
  const first = beginning(contents, null);
  const rest = axes.filter((one) => one.name !== x && one.name !== y);
  form.replaceChildren(
    select("x", "Horizontal", list, x), select("y", "Vertical", list, y),
    select("value", "Value", contents.values.map((one) => [one.name, titled(one.name)]), value),
    ...(contents.regimes.length && wanted?.needs_regime ? [select("regime", "Theory", contents.regimes.map((name) => [name, titled(name)]), asked.regime ?? proposed.regime)] : []),
    ...rest.map((one) => axisSelect(one, asked[one.name] ?? (contents.points ? "" : first[one.name]), ...(contents.points ? [["", "any"]] : REDUCTIONS))));
  const middle = (one) => (contents.points ? "" : one.values[Math.floor(one.values.length / 2)]);
  cell.replaceChildren(...[x, y].map((name) => axes.find((one) => one.name === name)).filter(Boolean).map((one) => {
    const label = axisSelect(one, asked[`at_${one.name}`] ?? middle(one), ["", "–"]);
    $("select", label).name = `at_${one.name}`;
    return label;
  }));
}

const state = () => ({ ...chosen(form), ...chosen(cell) });
const api = () => chosen(form);

let turn = 0;
async function show() {
  const mine = (turn += 1), now = api();
  remember(state());
  try {
    const answer = await get(`/v1/sweeps/${id}/phase-diagram${query(now)}`);
    if (mine !== turn) return;
    const began = performance.now();
    await draw(chart, () => (answer.form === "grid" ? grid(answer) : scatter(answer)));
    chart.dataset.milliseconds = String(Math.round(performance.now() - began));
    problemAt("");
    $("#what").textContent = answer.value.long_name;
    const taken = Object.entries(answer.reduced ?? {}).map(([name, how]) => (name === "time" ? `t from ${number(how.from)} to ${number(how.to)}` : `${how} ${name}${how === 1 ? "" : "s"}`));
    $("#caption").textContent = [words(answer.at), taken.length ? `mean over ${taken.join(", ")}` : ""].filter(Boolean).join(" · ");
    downloads($("#links"), `/v1/sweeps/${id}/phase-diagram`, query(now));
  } catch (problem) {
    if (mine === turn) problemAt(problem.message);
  }
}

const FEW = 9; // values that each have their tick
function ticks(given, title) {
  const values = [...new Set(given)];
  if (typeof values[0] !== "number") return axis(title, false, { tickvals: values.map((_, at) => at), ticktext: values.map(titled) });
  const log = isLog(values), each = { tickvals: values, ticktext: values.map(number), minor: {} };
  return axis(title, log, values.length <= FEW ? each : log ? decades(values) : {});
}
const places = (values) => (typeof values[0] === "number" ? values : values.map((_, at) => at));

function grid(answer) {
  const { x, y, value } = answer;
  const shade = shaded(value.values.flat(), "");
  const told = value.values.map((row, at) => row.map((one, column) => [
    `${symbol(x.name)} = ${number(x.values[column])}, ${symbol(y.name)} = ${number(y.values[at])}`,
    one === null ? "nothing there yet" : `${typeof one === "number" ? Number(one.toPrecision(4)) : titled(one)}${value.standard_error?.[at][column] ? ` ± ${number(value.standard_error[at][column])}` : ""}`,
    value.runs ? `${value.runs[at][column]} runs` : ""].filter(Boolean).join("<br>")));
  const edges = (one) => borders(places(one.values), typeof one.values[0] === "number" && isLog(one.values));
  const trace = {
    type: "heatmap", x: edges(x), y: edges(y), z: value.values.map((row) => row.map(shade.number)), text: told,
    hovertemplate: "%{text}<extra></extra>", ...shade.trace, xgap: x.values.length < 40 ? 1 : 0, ygap: y.values.length < 40 ? 1 : 0,
  };
  delete trace.cmin;
  delete trace.cmax;
  const [right, up] = [x, y].map((one) => ticks(one.values, `${symbol(one.name)} · ${one.long_name}`));
  return { data: [trace], layout: { xaxis: { ...right, showgrid: false }, yaxis: { ...up, showgrid: false } } };
}

function scatter(answer) {
  const shade = shaded(answer.points.map((one) => one.value), "");
  const { zmin, zmax, ...marker } = shade.trace;
  const trace = {
    mode: "markers", x: answer.points.map((one) => one.x), y: answer.points.map((one) => one.y),
    marker: { size: 14, line: { width: 1, color: "#fff" }, color: answer.points.map((one) => shade.number(one.value)), showscale: true, ...marker },
    text: answer.points.map((one) => `${symbol(answer.x.name)} = ${number(one.x)}, ${symbol(answer.y.name)} = ${number(one.y)}<br>${one.value === null ? "nothing there yet" : typeof one.value === "number" ? Number(one.value.toPrecision(4)) : titled(one.value)}`),
    hovertemplate: "%{text}<extra></extra>",
  };
  const [right, up] = [["x", answer.x], ["y", answer.y]].map(([name, one]) => ticks(answer.points.map((point) => point[name]), `${symbol(one.name)} · ${one.long_name}`));
  return { data: [trace], layout: { xaxis: right, yaxis: up } };
}

function showCell() {
  const now = state(), place = {};
  for (const select of cell.elements) if (select.value !== "") place[select.name.slice(3)] = typed(select.name.slice(3), select.value);
  remember(now);
  if (!Object.keys(place).length || Object.keys(place).length < cell.elements.length) return;
  const rest = Object.fromEntries(axes.filter((one) => now[one.name] !== undefined && one.values.some((value) => exact(value) === now[one.name])).map((one) => [one.name, now[one.name]]));
  curvesOf(id, place, rest);
}
const typed = (name, text) => contents.axes.find((one) => one.name === name)?.values.find((value) => exact(value) === text) ?? text;

build();
await show();
showCell();
chart.on?.("plotly_click", (event) => {
  const hit = event.points[0], now = api();
  const at = Array.isArray(hit.pointIndex) ? hit.pointIndex : null; // row and column of a cell; points know themselves
  for (const [name, place] of [[now.x, at ? at[1] : hit.x], [now.y, at ? at[0] : hit.y]]) {
    const select = cell.elements[`at_${name}`];
    if (select) select.value = at ? select.options[place + 1].value : exact(place);
  }
  showCell();
});
form.addEventListener("change", (event) => {
  for (const name of Object.keys(asked)) delete asked[name];
  Object.assign(asked, chosen(form));
  if (asked.x === asked.y) asked[event.target.name === "x" ? "y" : "x"] = names.find((name) => name !== event.target.value);
  build();
  show();
  showCell();
});
cell.addEventListener("change", showCell);
for (const one of [form, cell]) one.addEventListener("submit", (event) => event.preventDefault());
const again = settled(show, 1000);
let before = null;
onNews((sweep) => { const key = JSON.stringify(sweep.counts); if (before !== null && key !== before) again(); before = key; });
