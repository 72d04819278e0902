// Several sweeps on one figure: their curves at the same parameters, and two of them compared point by point.
import { connectComparison } from "./compare/comparison.js";
import { buildCurveChart } from "./charts/curve-chart.js";
import { drawChart } from "./charts/plotly.js";
import { formatQuery, readQuery, replaceQuery } from "./common/address.js";
import { getMiddleValue } from "./common/contents.js";
import { $, createElement } from "./common/dom.js";
import { formatExact, formatName, parseScalar } from "./common/format.js";
import { formatCoordinates } from "./common/labels.js";
import { getJson } from "./common/rest.js";
import {
  createAxisSelect, createSelect, preventSubmit, readFields, replaceFields, showProblem,
} from "./common/view-controls.js";

const MAX_SWEEPS = 8; // whose colours can be told apart
const MAX_LISTED = 200;
const COLOUR_AXIS = "sweep";

const form = $("#choose");
const addForm = $("#add");
const requested = readQuery();
const ids = [...new Set((requested.sweeps ?? "").split(",").filter(Boolean))].slice(0, MAX_SWEEPS);
delete requested.sweeps;
const { sweeps: listed } = await getJson(`/v1/sweeps?limit=${MAX_LISTED}`);
const names = new Map(listed.map(({ id, name }) => [id, name || id]));
const loaded = new Map(); // contents by id

/** Load what the sweeps contain; one that cannot be shown is named and left out. */
async function loadAll() {
  for (const id of [...ids]) {
    try {
      if (!loaded.has(id)) loaded.set(id, await getJson(`/v1/sweeps/${id}/contents`));
    } catch (error) {
      ids.splice(ids.indexOf(id), 1);
      showProblem(`${id}: ${error.message}`);
    }
  }
}

function renderSweeps() {
  $("#sweeps").replaceChildren(...ids.map((id) => createElement("li", {},
    createElement("a", { href: `/sweeps/${id}/curves` }, getName(id)), " ",
    createElement("button", {
      type: "button", className: "quiet", "aria-label": `remove ${getName(id)}`,
      onclick: () => changeSweeps(() => ids.splice(ids.indexOf(id), 1)),
    }, "×"))));
  const others = listed.filter(({ id }) => !ids.includes(id)).map(({ id }) => [id, `${getName(id)} (${id})`]);
  replaceFields(addForm, createSelect("add", "Add a sweep", [["", "choose…"], ...others], ""));
}

/** Return the name of a sweep, with its id where another one on the page has the same name. */
function getName(id) {
  const name = names.get(id) ?? id;
  const isAmbiguous = ids.some((other) => other !== id && names.get(other) === name);
  return isAmbiguous ? `${name} (${id})` : name;
}

/** Return the axes on which some sweep has several values, with the values that all of these sweeps have. */
function listAxes() {
  const all = ids.flatMap((id) => loaded.get(id).axes);
  const varying = new Set(all.filter(({ values }) => values.length > 1).map(({ name }) => name));
  return [...varying].map((name) => {
    const columns = all.filter((axis) => axis.name === name);
    const texts = columns.map(({ values }) => new Set(values.map(formatExact)));
    const common = columns[0].values.filter((value) => texts.every((set) => set.has(formatExact(value))));
    return { ...columns[0], values: common };
  });
}

function renderControls() {
  const observables = [...new Set(ids.flatMap((id) => loaded.get(id).observables.map(({ name }) => name)))];
  const axes = listAxes().filter(({ values }) => values.length);
  replaceFields(form,
    createSelect("observable", "Observable", observables.map((name) => [name, formatName(name)]),
      requested.observable ?? "risk"),
    ...axes.map((axis) => createAxisSelect(axis, requested[axis.name] ?? getMiddleValue(axis))));
}

let latestRequest = 0;

async function renderCurves() {
  latestRequest += 1;
  const request = latestRequest;
  const selection = readFields(form);
  replaceQuery({ sweeps: ids, ...selection });
  try {
    const answers = await Promise.all(ids.map((id) => loadCurves(id, selection)));
    if (request !== latestRequest || !answers.length) return;
    const curves = answers.flatMap((answer, index) => answer.curves.map((curve) => ({
      ...curve, time: answer.time, at: { ...curve.at, [COLOUR_AXIS]: getName(ids[index]) },
    })));
    const options = { colourAxis: COLOUR_AXIS };
    await drawChart($("#chart"), () => buildCurveChart({ ...answers[0], curves }, options));
    showProblem("");
    const { observable, ...coordinates } = selection;
    const values = Object.entries(coordinates).map(([name, text]) => [name, parseScalar(text)]);
    $("#caption").textContent = formatCoordinates(Object.fromEntries(values)) || formatName(observable);
  } catch (error) {
    if (request === latestRequest) showProblem(error.message);
  }
}

/** Get the curves of a sweep at the selected values of the axes that it has. */
function loadCurves(id, selection) {
  const own = loaded.get(id).axes.filter(({ values }) => values.length > 1).map(({ name }) => name);
  const entries = Object.entries(selection).filter(([name]) => name === "observable" || own.includes(name));
  return getJson(`/v1/sweeps/${id}/curves${formatQuery(Object.fromEntries(entries))}`);
}

async function changeSweeps(change) {
  Object.assign(requested, readFields(form));
  change();
  await render();
}

async function render() {
  await loadAll();
  renderSweeps();
  renderControls();
  renderComparison();
  await renderCurves();
}

const renderComparison = connectComparison(() => ids, (id) => loaded.get(id), getName);
addForm.addEventListener("change", ({ target }) => {
  if (target.value && ids.length < MAX_SWEEPS) changeSweeps(() => ids.push(target.value));
});
form.addEventListener("change", renderCurves);
preventSubmit(form);
preventSubmit(addForm);
await render();
if (!ids.length) showProblem("Add two or more sweeps.");
