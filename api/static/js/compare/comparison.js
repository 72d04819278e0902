// The first two sweeps of the page compared at their common points.
import { buildComparisonChart, chooseLabel } from "../charts/comparison-chart.js";
import { drawChart } from "../charts/plotly.js";
import { formatQuery } from "../common/address.js";
import { $ } from "../common/dom.js";
import { formatCount, formatExact, formatName, formatResult } from "../common/format.js";
import { getSymbol } from "../common/labels.js";
import { getJson } from "../common/rest.js";
import {
  createSelect, preventSubmit, readFields, renderDownloads, replaceFields,
} from "../common/view-controls.js";

const HOW = ["ratio", "difference"];
const PREFERRED_VALUES = ["sgd_risk", "ode_risk"];
const FORMATS = ["json"];
const form = $("#ratio");
let latestRequest = 0;

/** Return a function that shows the comparison of the sweeps that `getIds()` returns. */
export function connectComparison(getIds, getContents, getName) {
  const render = () => renderComparison(getIds(), getContents, getName);
  form.addEventListener("change", render);
  preventSubmit(form);
  return () => {
    const ids = getIds();
    const section = form.closest("section");
    section.hidden = ids.length < 2;
    if (section.hidden) return;
    renderControls(ids.slice(0, 2).map(getContents));
    render();
  };
}

/** Offer the values and the theories that both sweeps have. */
function renderControls([first, second]) {
  const chosen = readFields(form);
  const values = first.values.filter(({ name }) => second.values.some((value) => value.name === name));
  const names = values.map(({ name }) => name);
  const preferred = PREFERRED_VALUES.find((name) => names.includes(name)) ?? names[0];
  const value = names.includes(chosen.value) ? chosen.value : preferred;
  const regimes = first.regimes.filter((name) => second.regimes.includes(name));
  replaceFields(form,
    createSelect("value", "Value", names.map((name) => [name, formatName(name)]), value),
    createSelect("how", "Comparison", HOW, chosen.how),
    regimes.length > 1
      && createSelect("regime", "Theory", regimes.map((name) => [name, formatName(name)]), chosen.regime));
}

/** Return the name of a parameter of which two sweeps have no value in common, or undefined. */
function findDifference([first, second]) {
  const find = (contents, name) => contents.axes.find((axis) => axis.name === name);
  const differs = (axis) => {
    const texts = find(second, axis.name)?.values.map(formatExact) ?? [];
    const isVarying = axis.values.length > 1 || texts.length > 1;
    return isVarying && texts.length && !axis.values.some((value) => texts.includes(formatExact(value)));
  };
  return first.axes.find(differs)?.name;
}

async function renderComparison(ids, getContents, getName) {
  latestRequest += 1;
  const request = latestRequest;
  const [a, b] = ids;
  const caption = $("#ratio-caption");
  $("#what").textContent = `${getName(a)} compared with ${getName(b)}`;
  const query = formatQuery({ a, b, ...readFields(form) });
  const difference = findDifference([a, b].map(getContents));
  if (difference) {
    showNothing(`These sweeps have no value of ${getSymbol(difference)} in common.`);
    return;
  }
  try {
    const answer = await getJson(`/v1/compare${query}`);
    if (request !== latestRequest) return;
    const label = chooseLabel(answer);
    $("#diagram").hidden = label === null;
    if (label !== null) await drawChart($("#diagram"), () => buildComparisonChart(answer, label));
    caption.textContent = formatCaption(answer, label);
    renderDownloads($("#links"), "/v1/compare", query, FORMATS);
  } catch (error) {
    if (request === latestRequest) showNothing(error.message);
  }
}

function showNothing(reason) {
  $("#diagram").hidden = true;
  $("#ratio-caption").textContent = reason;
  $("#links").replaceChildren();
}

function formatCaption({ points, differs, how }, label) {
  const paired = points.filter((point) => point.paired).length;
  const differences = Object.entries(differs).map(
    ([name, values]) => `${getSymbol(name)} = ${values.map(formatResult).join(" and ")}`);
  const [only] = points;
  const parts = [
    `${formatCount(points.length, "common point")}, ${paired} of them with shared starts or streams`,
    differences.length && `the sweeps differ in ${differences.join(", ")}`,
    label === null && only && `${how} ${formatResult(only[how])} ± ${formatResult(only.standard_error)}`,
  ];
  return parts.filter(Boolean).join(" · ");
}
