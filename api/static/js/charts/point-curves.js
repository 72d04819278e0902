// The curves of one point, beside a diagram.
import { formatQuery } from "../common/address.js";
import { $, createElement } from "../common/dom.js";
import { formatExact } from "../common/format.js";
import { formatCoordinates } from "../common/labels.js";
import { getJson } from "../common/rest.js";
import { buildCurveChart } from "./curve-chart.js";
import { drawChart } from "./plotly.js";

let latestRequest = 0;

/** Show the curves at `coordinates`, of all theories; `selection` has further parameters of the request. */
export async function showPointCurves(sweepId, coordinates, selection = {}) {
  latestRequest += 1;
  const request = latestRequest;
  const caption = $("#cell-caption");
  const parameters = { ...selection };
  for (const [name, value] of Object.entries(coordinates)) parameters[name] = formatExact(value);
  try {
    const answer = await getJson(`/v1/sweeps/${sweepId}/curves${formatQuery(parameters)}`);
    if (request !== latestRequest) return;
    await drawChart($("#curves"), () => buildCurveChart(answer));
    const href = `/sweeps/${sweepId}/curves${formatQuery({ ...parameters, by: "none" })}`;
    const link = createElement("a", { href }, "open in Curves");
    caption.replaceChildren(formatCaption(coordinates, answer), link);
  } catch (error) {
    if (request === latestRequest) caption.textContent = error.message;
  }
}

function formatCaption(coordinates, answer) {
  const runs = answer.curves.find((curve) => curve.source === "sgd")?.runs;
  const runsText = runs === undefined ? "" : ` · ${runs} runs of SGD`;
  return `${formatCoordinates(coordinates)}${runsText} · `;
}
