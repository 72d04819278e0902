// How accurately the seeds of a spec will determine the risk, predicted before any run.
import { $, createElement } from "../common/dom.js";
import { formatNumber, formatPercent } from "../common/format.js";
import { formatCoordinates } from "../common/labels.js";

const ROUNDING = 1e-9; // relative, of a number of seeds that is whole

const panel = $("#accuracy");
const errorInput = $("#wanted-error");
let prediction = null;

/** Mark the last prediction as old until that for the current spec is known. */
export function showPendingAccuracy() {
  panel.setAttribute("aria-busy", "true");
}

/** Show a prediction of `/v1/seeds`. */
export function showAccuracy(answer) {
  prediction = answer;
  const { points, summary, notes, relative_error: relativeError } = answer;
  $("#accuracy-summary").textContent = summary[0] ?? "";
  $("#accuracy-notes").textContent = notes.map(formatSentence).join(" ");
  $("#accuracy-points").hidden = !points.length;
  if (points.length) errorInput.value = formatInput(relativeError);
  renderPoints();
  panel.removeAttribute("aria-busy");
}

/** Show why there is no prediction; an empty text if the errors of the spec are shown elsewhere. */
export function showAccuracyProblem(message) {
  showAccuracy({ points: [], summary: [], notes: message ? [message] : [] });
}

function formatSentence(text) {
  const sentence = text[0].toUpperCase() + text.slice(1);
  return sentence.endsWith(".") ? sentence : `${sentence}.`;
}

function formatInput(share) {
  return String(Number((100 * share).toPrecision(3)));
}

/** Render the errors of all points, and the numbers of seeds for the error that is wanted. */
function renderPoints() {
  const wantedError = Number(errorInput.value) / 100;
  $("#accuracy-noun").textContent = prediction.draws_are ?? "seeds";
  $("#accuracy-points tbody").replaceChildren(...prediction.points.map((point) => createElement("tr", {},
    createElement("td", {}, formatPoint(point)),
    createElement("td", { className: "right" }, formatLastError(point)),
    createElement("td", { className: "right" }, formatNumber(countSeeds(point, wantedError))))));
}

function formatPoint({ at, title }) {
  const parts = [formatCoordinates(at), title].filter(Boolean);
  return parts.join(", ") || "the only point";
}

function formatLastError({ error, nonlinearity }) {
  const isLowerBound = nonlinearity.at(-1) > 0.3;
  return `${isLowerBound ? "≥ " : ""}${formatPercent(error.at(-1))}`;
}

function countSeeds({ scatter }, relativeError) {
  if (!(relativeError > 0)) return null;
  return Math.max(1, Math.ceil((scatter.at(-1) / relativeError) ** 2 * (1 - ROUNDING)));
}

errorInput.addEventListener("input", renderPoints);
