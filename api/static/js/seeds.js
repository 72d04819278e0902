// The page of seeds: how many of them make a mean as accurate as is wanted, at one point over time.
import { buildCurveChart } from "./charts/curve-chart.js";
import { drawChart } from "./charts/plotly.js";
import { formatQuery, readQuery, replaceQuery } from "./common/address.js";
import { getDefaultSelection, getMiddleValue, getVaryingAxes, loadContents } from "./common/contents.js";
import { $, createElement } from "./common/dom.js";
import { formatName, formatNumber, formatPercent } from "./common/format.js";
import { getJson } from "./common/rest.js";
import { debounce } from "./common/timing.js";
import {
  createAxisSelect, createSelect, preventSubmit, readFields, renderDownloads, replaceFields, showProblem,
} from "./common/view-controls.js";
import { hasEnded } from "./sweep/events.js";
import { onSweepUpdate, sweepId } from "./sweep/header.js";

const DEFAULT_ERROR = 0.05;
const RELOAD_MILLISECONDS = 300;
const MIN_LOG_RANGE = 5; // largest over smallest number: below it, a linear axis is easier to read

const form = $("#choose");
const requested = readQuery();
const contents = await loadContents(sweepId);
const axes = getVaryingAxes(contents);

function renderControls() {
  const values = contents.forms.seeds.controls.find(({ word }) => word === "value").options
    .filter(({ value }) => value !== "final_risk") // which has no curve
    .map(({ value, title }) => [value, title]);
  const defaults = getDefaultSelection(contents, null);
  replaceFields(form,
    createSelect("value", "Mean of", values, requested.value ?? "risk"),
    createErrorField(),
    ...axes.map((axis) => {
      const fallback = defaults[axis.name] ?? contents.points?.[0][contents.axes.indexOf(axis)];
      return createAxisSelect(axis, requested[axis.name] ?? fallback ?? getMiddleValue(axis));
    }));
}

function createErrorField() {
  const percent = 100 * Number(requested.relative_error ?? DEFAULT_ERROR);
  const properties = { type: "number", name: "_percent", min: 0.01, max: 100, step: "any", value: percent };
  return createElement("label", {}, "Error in %", createElement("input", properties));
}

function readSelection() {
  const percent = Number($('[name="_percent"]', form).value);
  const relativeError = percent > 0 ? Number((percent / 100).toPrecision(6)) : DEFAULT_ERROR;
  return { ...readFields(form), relative_error: relativeError };
}

let latestRequest = 0;

async function renderChart() {
  latestRequest += 1;
  const request = latestRequest;
  const selection = readSelection();
  replaceQuery(selection);
  const query = formatQuery(selection);
  try {
    const answer = await getJson(`/v1/sweeps/${sweepId}/seeds${query}`);
    if (request !== latestRequest) return;
    const curves = answer.curves.filter((curve) => curve.mean.some((number) => number !== null));
    const options = createOptions(answer, curves);
    await drawChart($("#chart"), () => buildCurveChart({ ...answer, curves }, options));
    $("#answer").textContent = formatAnswer(answer, curves);
    $("#caption").textContent = formatCaption(answer, curves);
    showProblem("");
    renderDownloads($("#links"), `/v1/sweeps/${sweepId}/seeds`, query);
  } catch (error) {
    if (request === latestRequest) showProblem(error.message);
  }
}

function createOptions(answer, curves) {
  const draws = curves[0]?.draws;
  const levels = draws ? [draws] : [];
  const numbers = [...curves.flatMap((curve) => curve.mean), ...levels].filter((number) => number > 0);
  const noun = answer.draws_are;
  return {
    levels,
    isLogValue: Math.max(...numbers) >= MIN_LOG_RANGE * Math.min(...numbers),
    titles: {
      value: `${noun} for an error of ${formatPercent(answer.relative_error)}`,
      sgd: "measured",
      band: "measured, 95 % interval",
      theory: "predicted",
    },
  };
}

/** Say what the last time needs, and what the sweep has. */
function formatAnswer(answer, curves) {
  const noun = answer.draws_are;
  const numbers = curves.map((curve, index) => (
    `${formatNumber(curve.mean.at(-1))} ${index ? "" : `${noun} `}${getSourceTitle(curve)}`));
  if (!numbers.length) return "";
  const time = formatNumber(answer.time.at(-1));
  const error = formatPercent(answer.relative_error);
  const needed = `At t = ${time} an error of ${error} needs ${numbers.join(", ")}`;
  const known = curves.find((curve) => curve.error?.at(-1) !== null && curve.draws);
  if (!known) return `${needed}.`;
  return `${needed}. The ${known.draws} ${noun} of this sweep give ${formatPercent(known.error.at(-1))}.`;
}

const getSourceTitle = ({ source }) => (source === "sgd" ? "(measured)" : "(predicted)");

function formatCaption(answer, curves) {
  const meaning = answer.draws_are === "seeds"
    ? "the error of a mean over seeds comes from the scatter between starts and between runs"
    : "with one seed, the error of a mean over repeats is that after this start";
  const parts = [`Mean ${formatName(answer.value)}`, meaning];
  const sources = curves.map(({ source }) => source);
  if (curves.some(({ draws }) => draws)) parts.push(`dotted: the ${answer.draws_are} of this sweep`);
  if (!sources.includes("sgd")) parts.push("measured with at least 5 of them");
  if (!sources.includes("ode") && answer.value === "risk") {
    parts.push("predicted with the regime high_dimensional and fluctuations: true in the spec");
  }
  return parts.join(" · ");
}

preventSubmit(form);

if ("seeds" in contents.forms) {
  renderControls();
  form.addEventListener("input", debounce(renderChart, RELOAD_MILLISECONDS));
  renderChart();
  let latestCounts = null;
  onSweepUpdate((sweep) => {
    const counts = JSON.stringify(sweep.counts);
    const isNew = latestCounts !== null && (counts !== latestCounts || hasEnded(sweep.state));
    latestCounts = counts;
    if (isNew) renderChart();
  });
} else {
  showProblem("The scatter of SGD is unknown: it is measured with at least 5 seeds, or predicted with the "
    + "regime high_dimensional and fluctuations: true in the spec.");
}
