// One value on two axes; a click shows the curves behind a cell.
import { axis, borders, decades, draw, isLog, shaded } from "./charts.js";
import { curvesOf } from "./cell.js";
import { $, exact, h, number, settled } from "./dom.js";
import { id, onNews } from "./header.js";
import { get, query, remember } from "./rest.js";
import { axisSelect, beginning, chosen, contentsOf, downloads, fill, firstValue, problemAt, select, several, spelled, symbol, titled, values, words } from "./words.js";

const REDUCTIONS = ["mean", "max", "min"].map((how) => [how, `${how} of all`]);
const form = $("#choose"), cell = $("#cell"), chart = $("#chart");
const asked = Object.fromEntries(new URLSearchParams(location.search));
const contents = await contentsOf(id);
const axes = several(contents);
const DERIVED = { delta_t: ({ d, p, gamma }) => gamma / (p * d), gamma_over_p: ({ p, gamma }) => gamma / p }; // of points
const names = [...axes.map((one) => one.name), ...(contents.points ? Object.keys(DERIVED) : [])];
const points = contents.points?.map((row) => Object.fromEntries(contents.axes.map((one, at) => [one.name, row[at]])));
const proposed = contents.suggestion.view === "phase-diagram" ? contents.suggestion.words : {};

/** Two axes on which most points have a place of their own. */
function apart() {
  const pairs = names.flatMap((y, at) => names.slice(at + 1).map((x) => ({ x, y })));
  const places = pairs.map(({ x, y }) => new Set(points.map((point) => `${at(point, x)} ${at(point, y)}`)).size);
  return pairs[places.indexOf(Math.max(...places))];
}
const at = (point, name) => exact(DERIVED[name]?.(point) ?? point[name]);

/** Of points that share a place on two axes, the value of a third to choose: that of the first, if they differ. */
function needed(name, x, y) {
  const seen = new Map();
  for (const point of points) {
    const place = `${at(point, x)} ${at(point, y)}`;
    if (seen.has(place) && seen.get(place) !== point[name]) return points[0][name];
    seen.set(place, point[name]);
  }
  return "";
}

const pair = proposed.x ? proposed : points ? apart() : { x: names.at(-1), y: names[0] };

function build() {
  const x = asked.x ?? pair.x, y = asked.y ?? (pair.y === x ? pair.x : pair.y);
  const value = asked.value ?? proposed.value ?? firstValue(contents);
  const wanted = contents.values.find((one) => one.name === value);
  const list = names.map((name) => [name, symbol(name)]);
  const first = beginning(contents, null);
  const rest = axes.filter((one) => one.name !== x && one.name !== y);
  fill(form,
    select("x", "Horizontal", list, x), select("y", "Vertical", list, y),
    select("value", "Value", values(contents), value),
    ...(contents.regimes.length && wanted?.needs_regime ? [select("regime", "Theory", contents.regimes.map((name) => [name, titled(name)]), asked.regime ?? proposed.regime)] : []),
    ...rest.map((one) => axisSelect(one, asked[one.name] ?? (points ? needed(one.name, x, y) : first[one.name]), ...(points ? [["", "any"]] : REDUCTIONS))));
  if (points) { fill(cell, select("at", "Point", points.map((point, at) => [at, words(varying(point))]), asked.at ?? 0)); return; }
  fill(cell, ...[x, y].map((name) => axes.find((one) => one.name === name)).filter(Boolean).map((one) => {
    const label = axisSelect(one, asked[`at_${one.name}`] ?? one.values[Math.floor(one.values.length / 2)]);
    $("select", label).name = `at_${one.name}`;
    return label;
  }));
}
const varying = (point) => Object.fromEntries(axes.map((one) => [one.name, point[one.name]]));

const state = () => ({ ...chosen(form), ...chosen(cell) });
const api = () => chosen(form);

let turn = 0, shown = null;
async function show() {
  const mine = (turn += 1), now = api();
  remember(state());
  try {
    const answer = await get(`/v1/sweeps/${id}/phase-diagram${query(now)}`);
    if (mine !== turn) return;
    if (answer.form === "grid") sort(answer);
    const began = performance.now();
    await draw(chart, () => (answer.form === "grid" ? grid(answer) : scatter(answer)));
    chart.dataset.milliseconds = String(Math.round(performance.now() - began));
    if (!shown) chart.on("plotly_click", clicked);
    shown = answer;
    problemAt("");
    $("#what").textContent = answer.value.long_name;
    const taken = Object.entries(answer.reduced ?? {}).map(([name, how]) => (name === "time" ? `t from ${number(how.from)} to ${number(how.to)}` : `${how} ${name}${how === 1 ? "" : "s"}`));
    $("#caption").textContent = [words(answer.at), taken.length ? `mean over ${taken.join(", ")}` : ""].filter(Boolean).join(" · ");
    downloads($("#links"), `/v1/sweeps/${id}/phase-diagram`, query(now));
  } catch (problem) {
    if (mine === turn) problemAt(problem.message);
  }
}

/** Numbers along an axis may be stored in any order; they are drawn from the least on, words as they come. */
function sort({ x, y, value }) {
  const order = (one) => one.values.map((_, at) => at).sort((a, b) => (typeof one.values[a] === "number" ? one.values[a] - one.values[b] : a - b));
  const [across, down] = [x, y].map(order);
  for (const name of ["values", "standard_error", "runs"]) if (value[name]) value[name] = down.map((row) => across.map((column) => value[name][row][column]));
  x.values = across.map((at) => x.values[at]);
  y.values = down.map((at) => y.values[at]);
}

const FEW = 9; // values that each have their tick
function ticks(given, title, named = true) {
  const values = [...new Set(given)];
  if (typeof values[0] !== "number") return axis(title, false, { tickvals: values.map((_, at) => at), ticktext: values.map(titled) });
  const log = isLog(values), each = { tickvals: values, ticktext: spelled(values), minor: {} };
  return axis(title, log, named && values.length <= FEW ? each : log ? decades(values) : {});
}
/** Where values stand: words one after the other. */
const places = (given) => { const found = [...new Set(given)]; return typeof given[0] === "number" ? given : given.map((one) => found.indexOf(one)); };

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
    mode: "markers", x: places(answer.points.map((one) => one.x)), y: places(answer.points.map((one) => one.y)),
    marker: { size: 14, line: { width: 1, color: "#fff" }, color: answer.points.map((one) => shade.number(one.value)), showscale: true, ...marker },
    text: answer.points.map((one) => `${symbol(answer.x.name)} = ${number(one.x)}, ${symbol(answer.y.name)} = ${number(one.y)}<br>${one.value === null ? "nothing there yet" : typeof one.value === "number" ? Number(one.value.toPrecision(4)) : titled(one.value)}`),
    hovertemplate: "%{text}<extra></extra>",
  };
  const [right, up] = [["x", answer.x], ["y", answer.y]].map(([name, one]) => ticks(answer.points.map((point) => point[name]), `${symbol(one.name)} · ${one.long_name}`, false)); // they may be close
  return { data: [trace], layout: { xaxis: right, yaxis: up } };
}

function showCell() {
  const now = state(), place = {};
  remember(now);
  if (points) { curvesOf(id, varying(points[now.at])); return; }
  for (const select of cell.elements) place[select.name.slice(3)] = typed(select.name.slice(3), select.value);
  const rest = Object.fromEntries(axes.filter((one) => now[one.name] !== undefined && one.values.some((value) => exact(value) === now[one.name])).map((one) => [one.name, now[one.name]]));
  curvesOf(id, place, rest);
}
const typed = (name, text) => contents.axes.find((one) => one.name === name)?.values.find((value) => exact(value) === text) ?? text;

function clicked(event) {
  const hit = event.points[0].pointIndex, now = api();
  if (points) { // those that are drawn are the chosen ones, in their order
    const kept = points.map((_, at) => at).filter((one) => axes.every(({ name }) => now[name] === undefined || exact(points[one][name]) === now[name]));
    cell.elements.at.value = kept[hit];
  } else for (const [name, value] of [[shown.x.name, shown.x.values[hit[1]]], [shown.y.name, shown.y.values[hit[0]]]]) {
    const select = cell.elements[`at_${name}`];
    if (select) select.value = exact(value);
  }
  showCell();
}

if (!contents.views.includes("phase-diagram")) {
  problemAt("A phase diagram needs two axes with several values each; ");
  $("#problem").append(h("a", { href: `/sweeps/${id}/curves` }, "the curves"), " show all of this sweep.");
  for (const one of [form, $(".columns")]) one.hidden = true;
  await new Promise(() => {});
}
build();
show().then(showCell);
form.addEventListener("change", (event) => {
  const before = state();
  for (const name of Object.keys(asked)) delete asked[name];
  Object.assign(asked, before);
  if (asked.x === asked.y) asked[event.target.name === "x" ? "y" : "x"] = names.find((name) => name !== event.target.value);
  build();
  show();
  showCell();
});
cell.addEventListener("change", showCell);
for (const one of [form, cell]) one.addEventListener("submit", (event) => event.preventDefault());
const again = settled(() => { show(); showCell(); }, 1000);
let before = null;
onNews((sweep) => { const key = JSON.stringify(sweep.counts); if (before !== null && key !== before) again(); before = key; });
