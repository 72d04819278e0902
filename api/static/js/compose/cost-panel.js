// The cost of a spec, and the button that submits it.
import { $, createElement, renderFacts } from "../common/dom.js";
import { formatBytes, formatDuration, formatNumber } from "../common/format.js";
import { formatCoordinates } from "../common/labels.js";

const panel = $("#cost");
const submitButton = $("#submit");

/** Disable the button until the cost of the current spec is known. */
export function showPendingCost() {
  submitButton.disabled = true;
  panel.setAttribute("aria-busy", "true");
}

/** Show an estimate; the button is enabled if the service would accept the spec. */
export function showEstimate(estimate, threads) {
  const { points, runs, core_seconds: coreSeconds, warnings, notes, refused } = estimate;
  const summary = [
    `${formatNumber(points)} points`,
    `${formatNumber(runs)} runs`,
    `${formatDuration(coreSeconds)} of core time`,
  ];
  renderFacts($("#estimate"), getEstimateRows(estimate, threads));
  $("#priced").textContent = summary.join(", ");
  const advice = estimate.alternatives.map(formatAlternative);
  const items = [...advice, ...warnings, ...notes];
  $("#warnings").replaceChildren(...items.map((text) => createElement("li", {}, text)));
  $("#refused").textContent = refused ? `This sweep would be refused: ${refused}` : "";
  submitButton.disabled = Boolean(refused);
  panel.removeAttribute("aria-busy");
}

/** Show why there is no estimate. */
export function showCostError(message) {
  submitButton.disabled = true;
  $("#estimate").replaceChildren();
  $("#priced").textContent = "";
  $("#warnings").replaceChildren();
  $("#refused").textContent = message;
  panel.removeAttribute("aria-busy");
}

function getEstimateRows(estimate, threads) {
  const { core_seconds: longestSeconds, ...longestCoordinates } = estimate.dearest;
  const mostExpensive = `${formatCoordinates(longestCoordinates)}: ${formatDuration(longestSeconds)}`;
  const newRuns = estimate.runs - estimate.reused - estimate.copies;
  return {
    points: formatNumber(estimate.points),
    runs: formatRuns(estimate),
    "SGD steps": formatNumber(estimate.sgd_steps),
    "core time": formatCoreTime(estimate.core_seconds, threads),
    ...formatBreakdown(estimate.breakdown),
    size: `${formatBytes(estimate.bytes + estimate.state_bytes)} at most`,
    "most expensive": newRuns ? mostExpensive : null,
  };
}

function formatBreakdown(breakdown) {
  if (breakdown.length < 2) return {};
  return Object.fromEntries(breakdown.map(({ name, runs, core_seconds: seconds }) => (
    [formatMethod(name), `${formatDuration(seconds)}, ${formatNumber(runs)} runs`]
  )));
}

function formatAlternative(alternative) {
  const { regime, error, run_seconds: seconds, instead_of_run_seconds: otherSeconds } = alternative;
  return `Cheaper: ${regime} instead of ${formatMethod(alternative.instead_of)}, `
    + `${formatDuration(seconds)} instead of ${formatDuration(otherSeconds)} for its costliest run, `
    + `with a predicted error of ${Number(error.toPrecision(2))} R(0)`;
}

const formatMethod = (name) => (name === "sgd" ? "SGD" : name);

function formatRuns({ runs, reused, copies }) {
  const parts = [formatNumber(runs)];
  if (reused) parts.push(`${formatNumber(reused)} already stored`);
  if (copies) parts.push(`${formatNumber(copies)} duplicates of others`);
  return parts.join(", ");
}

function formatCoreTime(coreSeconds, threads) {
  const coreTime = formatDuration(coreSeconds);
  if (threads <= 1) return coreTime;
  return `${coreTime} (about ${formatDuration(coreSeconds / threads)} on ${threads} threads)`;
}
