// The overview of a sweep: the map of its points, its parameters and numbers, small pictures, failures.
import { formatQuery } from "./common/address.js";
import { $, createElement, renderFacts } from "./common/dom.js";
import { formatFixed } from "./common/fixed-parameters.js";
import {
  formatBytes, formatDuration, formatExact, formatName, formatNumber, formatTimestamp,
} from "./common/format.js";
import { formatCoordinates, getSymbol } from "./common/labels.js";
import { copyToClipboard } from "./common/notifications.js";
import { getJson } from "./common/rest.js";
import { throttleByDuration } from "./common/timing.js";
import { onSweepUpdate, sweepId } from "./sweep/header.js";
import { MapKeyboard } from "./sweep/map-keyboard.js";
import { listParameters } from "./sweep/parameters.js";
import { drawPreviews, loadPreviews } from "./sweep/previews.js";
import { loadRounds } from "./sweep/rounds.js";
import { formatStatusCounts, STATUSES, StatusMap } from "./sweep/status-map.js";

const FAILURES_PER_PAGE = 20;
const MIN_PAUSE_MILLISECONDS = 500;
const PAUSE_PER_REQUEST_TIME = 5; // a slow map is asked for less often
const PAUSE_PER_PICTURE_TIME = 20;

const MAP_HINT = "Click a point, or press Enter on it, to see its curves; arrow keys move over the map.";

const canvas = $("#map canvas");
const tip = $("#tip");
const statusMap = new StatusMap(canvas);
const keyboard = new MapKeyboard(statusMap, showSelected, openCurvesOf);
let map = null;
let contents = null;
let description = null; // a promise of contents, spec and catalogue

function renderLegend() {
  const items = STATUSES.map((status) => {
    const colour = createElement("i");
    colour.style.background = `var(--${status})`;
    return createElement("li", {}, colour, formatName(status));
  });
  $("#legend").append(...items);
}

/** Load what does not change, once. */
function loadDescription() {
  description ??= Promise.all([
    getJson(`/v1/sweeps/${sweepId}/contents`),
    getJson(`/v1/sweeps/${sweepId}/spec`),
    getJson("/v1/catalogue"),
  ]);
  return description;
}

async function loadMap() {
  try {
    [contents] = await loadDescription();
    map = await getJson(`/v1/sweeps/${sweepId}/map`);
    renderMap();
  } catch (error) {
    description = contents ? description : null; // the next change tries again
    $("#map-about").textContent = error.message;
  }
}

async function loadPictures() {
  await loadDescription().then(([loaded]) => loadPreviews(sweepId, loaded)).catch(() => {});
}

const refreshMap = throttleByDuration(loadMap, MIN_PAUSE_MILLISECONDS, PAUSE_PER_REQUEST_TIME);
const refreshPictures = throttleByDuration(loadPictures, MIN_PAUSE_MILLISECONDS, PAUSE_PER_PICTURE_TIME);

async function renderParameters() {
  const loaded = await loadDescription();
  const [, spec] = loaded;
  renderFacts($("#parameters"), { ...listParameters(...loaded), ...await loadRounds(sweepId, spec) });
}

const refreshParameters = throttleByDuration(
  () => renderParameters().catch(() => {}), MIN_PAUSE_MILLISECONDS, PAUSE_PER_REQUEST_TIME);

function renderMap() {
  statusMap.draw(map, getCoordinates);
  const runs = `${formatNumber(map.runs)} runs each`;
  $("#map-about").textContent = `${describeArrangement()}; ${runs}. ${MAP_HINT}`;
  canvas.setAttribute("aria-label", `Status of ${map.points} points: ${summarizeCounts()}`);
  if (keyboard.point !== null) statusMap.drawFocus(keyboard.point);
}

function describeArrangement() {
  const points = `${formatNumber(map.points)} ${map.points === 1 ? "point" : "points"}`;
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

/** Describe a point by its coordinates and by how many of its runs have each status. */
function describePoint(point, separator) {
  const coordinates = formatCoordinates(getCoordinates(point) ?? { point });
  return `${coordinates}${separator}${formatStatusCounts(map, point)}`;
}

function renderTip(event) {
  const point = statusMap.getPointAt(event);
  const box = canvas.parentElement.getBoundingClientRect();
  showTip(point, event.clientX - box.left, event.clientY - box.top);
}

/** Show the tip of a point near a place within the map, or hide it if there is no point. */
function showTip(point, x, y) {
  tip.hidden = point === null;
  if (point === null) return;
  tip.textContent = describePoint(point, "\n");
  const { clientWidth, clientHeight } = canvas.parentElement;
  tip.style.left = `${Math.max(0, Math.min(x + 14, clientWidth - 190))}px`;
  tip.style.top = `${Math.max(0, Math.min(y + 14, clientHeight - 40))}px`;
}

/** Show the point that the keyboard has selected, and announce it. */
function showSelected(point) {
  if (!map) return;
  renderMap();
  showTip(point, ...(point === null ? [0, 0] : statusMap.getCellCorner(point)));
  $("#map-point").textContent = point === null ? "" : describePoint(point, ": ");
}

function openCurvesOf(point) {
  const coordinates = point === null ? null : getCoordinates(point);
  if (!coordinates) return;
  const entries = Object.entries(coordinates).map(([name, value]) => [name, formatExact(value)]);
  location.assign(`/sweeps/${sweepId}/curves${formatQuery(Object.fromEntries(entries))}`);
}

function redraw() {
  if (map) renderMap();
  drawPreviews();
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
canvas.addEventListener("click", (event) => openCurvesOf(statusMap.getPointAt(event)));
addEventListener("resize", redraw);
addEventListener("theme", redraw);
renderLegend();
renderParameters().catch(() => {}); // the map shows the error
onSweepUpdate((sweep) => {
  renderNumbers(sweep);
  updateFailures(sweep);
  refreshMap();
  refreshPictures();
  refreshParameters();
});
