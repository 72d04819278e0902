// The overview of a sweep: the map of its points, its numbers, its failures.
import { formatQuery } from "./common/address.js";
import { $, createElement, renderFacts } from "./common/dom.js";
import { formatFixed } from "./common/fixed-parameters.js";
import {
  formatBytes, formatDuration, formatExact, formatName, formatNumber, formatTimestamp,
} from "./common/format.js";
import { formatCoordinates, getSymbol } from "./common/labels.js";
import { copyToClipboard } from "./common/notifications.js";
import { getJson } from "./common/rest.js";
import { onSweepUpdate, sweepId } from "./sweep/header.js";
import { formatStatusCounts, STATUSES, StatusMap } from "./sweep/status-map.js";

const FAILURES_PER_PAGE = 20;
const MIN_PAUSE_MILLISECONDS = 500;
const PAUSE_PER_REQUEST_TIME = 5; // a slow map is asked for less often

const canvas = $("#map canvas");
const tip = $("#tip");
const statusMap = new StatusMap(canvas);
let map = null;
let contents = null;

function renderLegend() {
  const items = STATUSES.map((status) => {
    const colour = createElement("i");
    colour.style.background = `var(--${status})`;
    return createElement("li", {}, colour, formatName(status));
  });
  $("#legend").append(...items);
}

let isRefreshing = false;
let isRefreshDue = false;

/** Load and draw the map, one request at a time, each followed by a pause that grows with its duration. */
async function refreshMap() {
  if (isRefreshing) {
    isRefreshDue = true;
    return;
  }
  isRefreshing = true;
  isRefreshDue = false;
  const start = performance.now();
  try {
    contents ??= await getJson(`/v1/sweeps/${sweepId}/contents`);
    map = await getJson(`/v1/sweeps/${sweepId}/map`);
    renderMap();
  } catch (error) {
    $("#map-about").textContent = error.message;
  }
  const pause = PAUSE_PER_REQUEST_TIME * (performance.now() - start);
  setTimeout(endRefresh, Math.max(MIN_PAUSE_MILLISECONDS, pause));
}

function endRefresh() {
  isRefreshing = false;
  if (isRefreshDue) refreshMap();
}

function renderMap() {
  statusMap.draw(map, getCoordinates);
  const runs = `${formatNumber(map.runs)} runs each`;
  $("#map-about").textContent = `${describeArrangement()}; ${runs}. Click a point to see its curves.`;
  canvas.setAttribute("aria-label", `Status of ${map.points} points: ${summarizeCounts()}`);
}

function describeArrangement() {
  const points = `${formatNumber(map.points)} points`;
  const { columnAxis } = statusMap;
  if (columnAxis === null) return `${points}, row by row`;
  const columns = `${getSymbol(map.dims[columnAxis])} from left to right`;
  const rowAxes = map.dims.filter((_, index) => map.shape[index] > 1 && index !== columnAxis);
  const rows = rowAxes.length ? `, ${rowAxes.map(getSymbol).join(", ")} from top to bottom` : "";
  return `${points}: ${columns}${rows}`;
}

function summarizeCounts() {
  return Object.entries(map.counts)
    .map(([status, counts]) => `${counts.reduce((sum, count) => sum + count, 0)} runs ${status}`)
    .join(", ");
}

/** Return the coordinates of a point, or null where the map knows only its number. */
function getCoordinates(point) {
  if (map.dims[0] === "point") return getListedCoordinates(point);
  const indices = unravelIndex(point, map.shape);
  return Object.fromEntries(map.dims.map((name, dim) => {
    const axis = contents.axes.find((candidate) => candidate.name === name);
    return [name, axis?.values[indices[dim]]];
  }));
}

function getListedCoordinates(point) {
  if (!contents.points) return null;
  return Object.fromEntries(contents.axes.map((axis, column) => [axis.name, contents.points[point][column]]));
}

function unravelIndex(flatIndex, shape) {
  const indices = [];
  let rest = flatIndex;
  for (let dim = shape.length - 1; dim >= 0; dim -= 1) {
    indices[dim] = rest % shape[dim];
    rest = Math.floor(rest / shape[dim]);
  }
  return indices;
}

function renderTip(event) {
  const point = statusMap.getPointAt(event);
  tip.hidden = point === null;
  if (point === null) return;
  const coordinates = formatCoordinates(getCoordinates(point) ?? { point });
  tip.textContent = `${coordinates}\n${formatStatusCounts(map, point)}`;
  const box = canvas.parentElement.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - 190)}px`;
  tip.style.top = `${Math.min(event.clientY - box.top + 14, box.height - 40)}px`;
}

function openCurves(event) {
  const point = statusMap.getPointAt(event);
  const coordinates = point === null ? null : getCoordinates(point);
  if (!coordinates) return;
  const entries = Object.entries(coordinates).map(([name, value]) => [name, formatExact(value)]);
  location.assign(`/sweeps/${sweepId}/curves${formatQuery(Object.fromEntries(entries))}`);
}

function redrawMap() {
  if (map) renderMap();
}

function renderNumbers(sweep) {
  const coreTimeLeft = sweep.core_seconds_left
    ? `, ${formatDuration(sweep.core_seconds_left)} predicted to remain`
    : "";
  renderFacts($("#facts"), {
    "same at all points": formatFixed(sweep.fixed),
    runs: formatNumber(sweep.runs),
    "copied from earlier sweeps": sweep.reused ? formatNumber(sweep.reused) : null,
    "core time": `${formatDuration(sweep.core_seconds)}${coreTimeLeft}`,
    "bundles left": sweep.bundles_left ? formatNumber(sweep.bundles_left) : null,
    priority: sweep.priority || null,
    size: sweep.stored_bytes === null ? null : formatBytes(sweep.stored_bytes),
    submitted: formatTimestamp(sweep.created) + (sweep.owner ? ` by ${sweep.owner}` : ""),
    "last state change": formatTimestamp(sweep.updated),
  });
}

/** Load failures, from the start or from a cursor on. */
async function renderFailures(cursor = null) {
  const box = $("#failures");
  const query = formatQuery({ limit: FAILURES_PER_PAGE, cursor });
  const answer = await getJson(`/v1/sweeps/${sweepId}/failures${query}`);
  if (!cursor) $("ul", box).replaceChildren();
  box.hidden = !answer.failures.length && !cursor;
  $("ul", box).append(...answer.failures.map(createFailureItem));
  const moreButton = $("#more");
  moreButton.hidden = !answer.next;
  moreButton.onclick = () => renderFailures(answer.next);
}

function createFailureItem({ kind, number, error, runs, command }) {
  const sharing = runs.length > 1 ? ` (shared by ${runs.length} runs)` : "";
  return createElement("li", {},
    createElement("strong", {}, `${kind}-${number}`),
    ` ${error}${sharing}`,
    createElement("div", { className: "code" },
      createElement("pre", { tabIndex: 0 }, command),
      createElement("button", { type: "button", onclick: () => copyToClipboard(command) }, "Copy")));
}

let latestFailureState = null;

function updateFailures({ state, counts }) {
  const failureState = `${state} ${counts.failed ?? 0}`;
  if (!counts.failed) {
    $("#failures").hidden = true;
  } else if (failureState !== latestFailureState) {
    renderFailures().catch(() => {}); // the next change tries again
  }
  latestFailureState = failureState;
}

canvas.addEventListener("mousemove", renderTip);
canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
canvas.addEventListener("click", openCurves);
addEventListener("resize", redrawMap);
addEventListener("theme", redrawMap);
renderLegend();
onSweepUpdate((sweep) => {
  renderNumbers(sweep);
  updateFailures(sweep);
  refreshMap();
});
