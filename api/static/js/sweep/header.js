// The header of every page of a sweep: state, progress, remaining time and actions, updated live.
import { $ } from "../common/dom.js";
import { formatDuration, formatNumber, formatRemaining } from "../common/format.js";
import { notify } from "../common/notifications.js";
import { renderActions } from "./actions.js";
import { connectCarryButton } from "./carry-view.js";
import { followSweep, hasEnded } from "./events.js";
import { editNotes, renderNotes } from "./notes.js";
import { RunRate } from "./run-rate.js";

const MIN_RATE_SECONDS = 0.8;
const box = $("#progress");
const listeners = [];
const runRate = new RunRate();
let latestSweep = null;

/** The id of the sweep that this page shows. */
export const sweepId = box.dataset.sweep;

/** Call `listener(sweep)` with every update, and at once if there has been one. */
export function onSweepUpdate(listener) {
  listeners.push(listener);
  if (latestSweep) listener(latestSweep);
}

/** Call `listener()` when the counts of runs differ from those of the update before. */
export function onCountsChange(listener) {
  let counts = null;
  onSweepUpdate((sweep) => {
    const previous = counts;
    counts = JSON.stringify(sweep.counts);
    if (previous !== null && previous !== counts) listener();
  });
}

function renderSweep(sweep) {
  if (sweep === null) {
    location.assign("/");
    return;
  }
  const rate = runRate.measure(sweep, MIN_RATE_SECONDS);
  latestSweep = sweep;
  renderState(sweep);
  renderNotes(sweep);
  $("#bar").value = sweep.progress;
  $("#counts").textContent = formatCounts(sweep.counts);
  $("#rest").textContent = formatProgress(sweep, rate).join(" · ");
  $("#reason").textContent = sweep.reason;
  $("#reason").hidden = !sweep.reason;
  renderActions($("#actions"), sweep, handleAction);
  for (const listener of listeners) listener(sweep);
}

function renderState({ state }) {
  const badge = $("#state");
  badge.textContent = state;
  badge.className = `badge ${state}`;
  box.dataset.state = state;
}

function formatCounts(counts) {
  return Object.entries(counts).map(([status, count]) => `${formatNumber(count)} ${status}`).join(" · ");
}

function formatProgress(sweep, rate) {
  if (hasEnded(sweep.state)) return [`${formatDuration(sweep.core_seconds)} of core time`];
  const parts = [`${Math.floor(100 * sweep.progress)} %`];
  if (sweep.compiling) parts.push("compiling");
  if (rate > 0 && sweep.state === "running") parts.push(`${formatNumber(rate)} runs/s`);
  if (sweep.eta_seconds !== null) parts.push(formatRemaining(sweep));
  return parts;
}

function handleAction(action, answer) {
  if (action === "delete") location.assign("/");
  else if (action === "extend") location.assign(`/sweeps/${answer.id}`);
  else reconnect();
}

function renderConnection(isLost) {
  if (isLost && !box.classList.contains("lost")) {
    notify("The service does not answer. This page resumes when it does.");
  }
  box.classList.toggle("lost", isLost);
  if (isLost) $("#rest").textContent = "the service does not answer";
}

$(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }); // on a narrow screen
$("#rename").addEventListener("click", () => {
  if (latestSweep) editNotes(latestSweep, renderSweep);
});
const carryButton = $("#carry");
if (carryButton) connectCarryButton(carryButton, sweepId, carryButton.dataset.tab);
const reconnect = followSweep(sweepId, renderSweep, renderConnection);
